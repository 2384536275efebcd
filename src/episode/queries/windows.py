"""The text in which columns stand for calls over windows with row patterns.

The rows of FROM and WHERE are given to the windows of a SELECT one after the other. Each hands them on with a column
more for every call over it; the SELECT is then over these rows, and Spark does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from episode.lang.lexer import Kind, Token
from episode.lang.rows.syntax import WindowedSelect
from episode.lang.syntax import Span
from episode.plan.schema import quote
from episode.queries.pairs import escaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOWS = "__windows_"
"""Begins the names of the rows of windows, as DataFrames in the text of the statement."""


def window_replacements(
    select: WindowedSelect, rows: Callable[[], str], text: Callable[[Span], str]
) -> list[tuple[Span, Callable[[], str]]]:
    """What stands in the text of a SELECT: spans, and what gives the text for them.

    rows: gives the name of the rows with the columns of calls. text: of a part of the statement.
    """
    found: list[tuple[Span, Callable[[], str]]] = []
    if select.definitions is not None:
        found.append((select.definitions, lambda: _definitions(select, text)))
    if not select.windows:
        return found
    names = {naming.position: naming.name for naming in select.namings}
    for call in select.calls:
        name = names.pop(call.span.end, None)
        found.append((call.span, _constant(f"{call.column}{'' if name is None else _naming(name)}")))
    found += [(Span(position, position), _constant(_naming(name))) for position, name in names.items()]
    hidden = ", ".join(call.column for call in select.calls)
    for star in select.stars:
        if star.excepted is None:
            found.append((star.span, _constant(f"* EXCEPT ({hidden})")))
        else:
            found.append((Span(star.excepted, star.excepted), _constant(f"{hidden}, ")))
    name = select.alias or select.name
    alias = "" if name is None else f" AS {escaped(quote(name))}"
    found.append((select.from_where, lambda: f"FROM {{{rows()}}}{alias}"))
    return found


def _constant(text: str) -> Callable[[], str]:
    return lambda: text


def _naming(name: str) -> str:
    return f" AS {escaped(quote(name))}"


def _definitions(select: WindowedSelect, text: Callable[[Span], str]) -> str:
    """The WINDOW clause with Spark's windows alone."""
    return f"WINDOW {', '.join(text(span) for span in select.kept)}" if select.kept else ""


def without_unread(frame: DataFrame, select: WindowedSelect, tokens: Sequence[Token]) -> DataFrame:
    """The rows with those columns alone that the SELECT can mean, by their names."""
    columns = frame.columns
    lower = [column.lower() for column in columns]
    if select.stars or len(set(lower)) < len(lower):
        return frame
    inside = [token for token in tokens if select.span.start <= token.start < select.span.end]
    names = {
        token.identifier.lower() for token in inside if token.kind in (Kind.NAME, Kind.QUOTED) or token.is_double_quoted
    }
    read = [column for column in columns if column.lower() in names] or columns[:1]
    return frame if len(read) == len(columns) else frame.select(*(quote(column) for column in read))
