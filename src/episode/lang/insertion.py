"""`INSERT INTO table [(columns)] query`: where rows go, and which query gives them."""

from __future__ import annotations

from dataclasses import dataclass

from episode.lang.cursor import Cursor
from episode.lang.lexer import Kind
from episode.lang.statement import Statement
from episode.lang.streams import Named
from episode.lang.syntax import Span

QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


@dataclass(frozen=True)
class Insertion:
    """overwrite: INSERT OVERWRITE. columns: as listed after the table's name. query: what stands after them."""

    table: Named
    columns: tuple[Named, ...]
    query: Span
    overwrite: bool


def insertion(statement: Statement) -> Insertion | None:
    """The insertion that a statement is, into a table whose name has one part; None where it is anything else."""
    if statement.first_word != "INSERT":
        return None
    cursor = Cursor(statement.source, statement.tokens)
    cursor.advance()
    overwrite = cursor.at_words("OVERWRITE")
    if not overwrite and not cursor.at_words("INTO"):
        return None
    cursor.advance()
    cursor.accept_words("TABLE")
    name = cursor.advance()
    if name.kind not in (Kind.NAME, Kind.QUOTED) or cursor.token.is_symbol("."):
        return None
    columns = _columns(cursor)
    if cursor.token.upper not in QUERIES and not cursor.token.is_symbol("("):
        return None
    return Insertion(
        Named(name.identifier, name.span), columns, Span(cursor.token.start, statement.body.end), overwrite
    )


def _columns(cursor: Cursor) -> tuple[Named, ...]:
    """A list of names in brackets; a query in brackets is none."""
    start = cursor.index
    if not cursor.accept_symbol("(") or cursor.token.upper in QUERIES:
        cursor.index = start
        return ()
    names = []
    while cursor.token.kind in (Kind.NAME, Kind.QUOTED):
        token = cursor.advance()
        names.append(Named(token.identifier, token.span))
        if not cursor.accept_symbol(","):
            break
    if not cursor.accept_symbol(")"):
        cursor.index = start
        return ()
    return tuple(names)
