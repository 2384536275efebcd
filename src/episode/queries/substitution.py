"""Text for Spark in place of correlated patterns, calls over windows, and subqueries of a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError
from episode.lang.lexer import Kind, Token
from episode.lang.rows.scalar import EXISTS, LIST, VALUE, Subquery, subqueries_of
from episode.lang.rows.syntax import WindowedSelect
from episode.lang.syntax import Source, Span
from episode.plan.parameters import SubqueryRows
from episode.plan.schema import OWN, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# ---- correlated patterns -----------------------------------------------------------------------------
#
# A reference to the pairs replaces two patterns of FROM. Both keep their names: each is a lateral subquery over the
# same row of the pairs, which Spark turns into a projection, in batches and in streams.


PAIRS = f"{OWN}pairs"
"""The name of the pairs in the statement."""


def lateral(columns: Sequence[str], prefix: str, naming: str) -> str:
    """One of the two patterns: those columns of the pairs that have its prefix, without it. naming: its alias."""
    own = [name for name in columns if name.startswith(prefix)]
    items = ", ".join(f"{_column(name)} AS {escape_braces(quote(name.removeprefix(prefix)))}" for name in own)
    return f"LATERAL (SELECT {items}) {naming}".rstrip()


def tables_text(reference: str, first: str, second: str, conditions: Iterable[str]) -> str:
    """FROM's tables and WHERE. first, second: the lateral subqueries, in the order in which the patterns stood."""
    held = " AND ".join(f"({condition})" for condition in conditions)
    return f"{{{reference}}} AS {PAIRS}, {first}, {second}" + (f" WHERE {held}" if held else "")


def hidden_columns(columns: Sequence[str]) -> str:
    """The columns of the pairs themselves, which no `*` means."""
    return ", ".join(_column(name) for name in columns)


def mentioned_names(tokens: Sequence[Token]) -> frozenset[str] | None:
    """The names among the tokens around the patterns, lower-cased. None: some word means columns that it does not
    name, such as `*`."""
    if any(token.upper in _OF_ALL_COLUMNS for token in tokens):
        return None
    if any(token.is_symbol("*") and not _is_no_star(tokens[max(0, at - 2) : at]) for at, token in enumerate(tokens)):
        return None
    names = [token for token in tokens if token.is_identifier]
    return frozenset(token.identifier.lower() for token in names)


_OF_ALL_COLUMNS = frozenset(("NATURAL", "PIVOT", "UNPIVOT", "TABLE", "EXCEPT", "MINUS", "INTERSECT", "UNION"))
"""Words of clauses that take the columns of a table as they are."""
_OPERANDS = frozenset((")", "]"))
_LISTED = frozenset(("SELECT", "DISTINCT", "ALL"))


def _is_no_star(before: Sequence[Token]) -> bool:
    """Is a `*` after these two tokens a product, or that of COUNT(*)?"""
    if not before:
        return False
    last = before[-1]
    if last.is_symbol("("):
        return len(before) == 2 and before[0].upper == "COUNT"
    if last.kind is Kind.SYMBOL:
        return last.text in _OPERANDS
    return last.upper not in _LISTED


def escape_braces(text: str) -> str:
    """Double the braces of a text: in `spark.sql` they enclose references to DataFrames."""
    return text.replace("{", "{{").replace("}", "}}")


def _column(name: str) -> str:
    return f"{PAIRS}.{escape_braces(quote(name))}"


# ---- row patterns in windows -------------------------------------------------------------------------
#
# The rows of FROM and WHERE go through the windows of a SELECT one after the other. Each window adds a column for every
# call over it; the SELECT is then over these rows, and Spark does the rest.


WINDOWS = "__windows_"
"""Begins the names of the rows of windows, as DataFrames in the text of the statement."""


def window_replacements(
    select: WindowedSelect, rows: Callable[[], str], text: Callable[[Span], str]
) -> list[tuple[Span, Callable[[], str]]]:
    """Replacements in the text of a SELECT: spans, and functions that give the text for them.

    rows: gives the name of the rows with the columns of calls. text: of a part of the statement.
    """
    found: list[tuple[Span, Callable[[], str]]] = []
    if select.definitions is not None:
        kept = select.kept  # Spark's windows alone
        found.append((select.definitions, lambda: f"WINDOW {', '.join(map(text, kept))}" if kept else ""))
    if not select.windows:
        return found
    names = {naming.position: naming.name for naming in select.namings}
    for call in select.calls:
        name = names.pop(call.span.end, None)
        found.append((call.span, _constant(f"{call.column}{'' if name is None else _naming(name)}")))
    found += [(Span(position, position), _constant(_naming(name))) for position, name in names.items()]
    hidden = ", ".join(call.column for call in select.calls)
    found += [(star.place, _constant(star.without(hidden))) for star in select.stars]
    name = select.alias or select.name
    alias = "" if name is None else _naming(name)
    found.append((select.from_where, lambda: f"FROM {{{rows()}}}{alias}"))
    return found


def _constant(text: str) -> Callable[[], str]:
    return lambda: text


def _naming(name: str) -> str:
    return f" AS {escape_braces(quote(name))}"


def without_unread(frame: DataFrame, select: WindowedSelect, tokens: Sequence[Token]) -> DataFrame:
    """The rows with those columns alone that the SELECT can mean, by their names."""
    columns = frame.columns
    lower = [column.lower() for column in columns]
    if select.stars or len(set(lower)) < len(lower):
        return frame
    inside = [token for token in tokens if select.span.start <= token.start < select.span.end]
    names = {token.identifier.lower() for token in inside if token.is_identifier}
    read = [column for column in columns if column.lower() in names] or columns[:1]
    return frame if len(read) == len(columns) else frame.select(*(quote(column) for column in read))


# ---- subqueries in MEASURES and DEFINE of row patterns -----------------------------------------------


READ_AS = {VALUE: "(SELECT * FROM {rows})", LIST: "SELECT * FROM {rows}", EXISTS: "EXISTS (SELECT * FROM {rows})"}
UNCORRELATED = "A subquery of a row pattern cannot use columns or labels of the pattern: it is evaluated once."


def subquery_rows(query: object, source: Source, run: Callable[[Subquery], DataFrame]) -> dict[str, SubqueryRows]:
    """The values of the parameters in place of a pattern's subqueries. run: makes a DataFrame of a subquery."""
    return {one.name: _rows(one, source, run) for one in subqueries_of(query)}


def _rows(subquery: Subquery, source: Source, run: Callable[[Subquery], DataFrame]) -> SubqueryRows:
    span = subquery.span
    try:
        frame = run(subquery)
    except EpisodeAnalysisError as error:
        error.hint = error.hint or UNCORRELATED
        raise
    if frame.isStreaming:
        message = "A subquery of a row pattern is over tables, not over a stream."
        raise source.error(EpisodeAnalysisError, message, span, "Write what it computes to a table.")
    if subquery.form == VALUE and len(frame.columns) != 1:
        message = f"A subquery has one column here, not {len(frame.columns)}."
        raise source.error(EpisodeAnalysisError, message, span, "Select one value.")
    return SubqueryRows(source.text[span.start : span.end], READ_AS[subquery.form], subquery.form == LIST, frame)
