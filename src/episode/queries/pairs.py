"""The text in which a reference to the pairs of a correlation stands for two patterns of FROM.

Both patterns keep their names: each is a lateral subquery over the same row of the pairs, which Spark turns into a
projection, in batches as in streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from episode.lang.lexer import Kind, Token
from episode.plan.schema import OWN, quote

PAIRS = f"{OWN}pairs"
"""The name of the pairs in the statement."""


def lateral(columns: Sequence[str], prefix: str, naming: str) -> str:
    """One of the two patterns: those columns of the pairs that have its prefix, without it. naming: its alias."""
    own = [name for name in columns if name.startswith(prefix)]
    items = ", ".join(f"{_column(name)} AS {escaped(quote(name.removeprefix(prefix)))}" for name in own)
    return f"LATERAL (SELECT {items}) {naming}".rstrip()


def tables_text(reference: str, first: str, second: str, conditions: Iterable[str]) -> str:
    """FROM's tables and WHERE. first, second: the lateral subqueries, in the order in which the patterns stood."""
    held = " AND ".join(f"({condition})" for condition in conditions)
    return f"{{{reference}}} AS {PAIRS}, {first}, {second}" + (f" WHERE {held}" if held else "")


def hidden_columns(columns: Sequence[str]) -> str:
    """The columns of the pairs themselves, which no `*` means."""
    return ", ".join(_column(name) for name in columns)


def mentioned_names(tokens: Sequence[Token]) -> frozenset[str] | None:
    """The names among the tokens around the patterns, in small letters. None: some word means columns that it does not
    name, such as `*`."""
    if any(token.upper in _OF_ALL_COLUMNS for token in tokens):
        return None
    if any(token.is_symbol("*") and not _is_no_star(tokens[max(0, at - 2) : at]) for at, token in enumerate(tokens)):
        return None
    names = [token for token in tokens if token.kind in (Kind.NAME, Kind.QUOTED) or token.is_double_quoted]
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


def escaped(text: str) -> str:
    """Braces stand for DataFrames in `spark.sql`; those of the text are doubled."""
    return text.replace("{", "{{").replace("}", "}}")


def _column(name: str) -> str:
    return f"{PAIRS}.{escaped(quote(name))}"
