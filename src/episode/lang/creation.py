"""`CREATE TABLE … AS query` and `CREATE TEMP VIEW … AS query`: where the query stands, and what is made of it.

Everything between the name of a table and its query is Spark's, and is handed on as it is written. A view of patterns
is made here: Spark keeps a view as its text, which it could not evaluate. So it must be a temporary one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.cursor import Cursor, describe
from episode.lang.lexer import Token
from episode.lang.streams import WrittenName
from episode.lang.syntax import Source, Span

if TYPE_CHECKING:
    from episode.lang.statement import Statement


QUERIES = ("SELECT", "FROM", "VALUES", "WITH")


@dataclass(frozen=True)
class View:
    """A temporary view to be made. columns: names for those of the query, in order; none: its own. everywhere: for all
    sessions."""

    name: str
    columns: tuple[str, ...]
    replaces: bool
    everywhere: bool


@dataclass(frozen=True)
class Creation:
    """head: the text before the query. word: TABLE or VIEW. named: the index of the token after it."""

    head: Span
    query: Span
    word: Token
    named: int
    replaces: bool = False
    temporary: bool = False
    everywhere: bool = False


def creation(source: str, tokens: Sequence[Token]) -> Creation | None:
    """Parse `CREATE TABLE | VIEW … AS query`; None for any other statement."""
    cursor = Cursor(source, tokens)
    replaces = cursor.accept_words("CREATE", "OR", "REPLACE")
    if not replaces and not cursor.accept_words("CREATE") and not cursor.accept_words("REPLACE"):
        return None
    everywhere = cursor.accept_words("GLOBAL")
    temporary = cursor.accept_words("TEMP") or cursor.accept_words("TEMPORARY")
    word = cursor.advance()
    if word.upper not in ("TABLE", "VIEW"):
        return None
    begin = _query(cursor)
    if begin is None:
        return None
    head, query = Span(tokens[0].start, tokens[begin].start), Span(tokens[begin].start, tokens[-2].end)
    return Creation(head, query, word, cursor.index, replaces, temporary, everywhere)


def view_of(source: str, tokens: Sequence[Token], created: Creation) -> View | None:
    """The temporary view that a creation makes; None where it makes a table. For a view of patterns, or of tables that
    are given to the statement: any other one is Spark's."""
    if created.word.upper != "VIEW":
        return None
    if not created.temporary:
        message = "Spark keeps a permanent view as its text, which it cannot evaluate without episode."
        hint = "Write CREATE TEMP VIEW, which lasts as long as the session; or CREATE TABLE … AS, which keeps the rows."
        raise Source(source).error(EpisodeUnsupportedError, message, created.word.span, hint)
    cursor = Cursor(source, tokens, created.named)
    if cursor.at_words("IF", "NOT", "EXISTS"):
        cursor.fail("A temporary view has no IF NOT EXISTS.", None, "Write CREATE OR REPLACE TEMP VIEW.")
    name = cursor.expect_identifier("the name of the view")
    if cursor.token.is_symbol("."):
        cursor.fail("The name of a temporary view has one part.")
    columns: list[Token] = []
    if cursor.accept_symbol("("):
        columns = cursor.read_list(lambda cursor: cursor.expect_identifier("the name of a column"))
        cursor.expect_symbol(")", "after the columns of the view", "Write their names alone.")
    if cursor.token.upper != "AS":
        hint = "A temporary view of patterns has a name, names for its columns, and a query."
        cursor.fail(f"Expected AS and a query, found {describe(cursor.token)}.", None, hint)
    return View(name.identifier, tuple(one.identifier for one in columns), created.replaces, created.everywhere)


def _query(cursor: Cursor) -> int | None:
    """Return the token at which the query begins: after the first AS outside brackets, or its first word."""
    depth = 0
    for at in range(cursor.index, cursor.end):
        token = cursor.tokens[at]
        depth += token.nesting
        if depth == 0 and token.upper == "AS":
            return at + 1 if at + 1 < cursor.end else None
        if depth == 0 and token.upper in QUERIES and cursor.tokens[at + 1].upper != "SERDEPROPERTIES":
            return at
    return None


INSERTED_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


@dataclass(frozen=True)
class Insertion:
    """overwrite: INSERT OVERWRITE. columns: as listed after the table's name. query: the text after them."""

    table: WrittenName
    columns: tuple[WrittenName, ...]
    query: Span
    overwrite: bool


def insertion(statement: Statement) -> Insertion | None:
    """Parse an INSERT into a table whose name has one part; None for any other statement."""
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
    if not name.is_name or cursor.token.is_symbol("."):
        return None
    columns = _listed_columns(cursor)
    if cursor.token.upper not in INSERTED_QUERIES and not cursor.token.is_symbol("("):
        return None
    return Insertion(WrittenName.of(name), columns, Span(cursor.token.start, statement.body.end), overwrite)


def _listed_columns(cursor: Cursor) -> tuple[WrittenName, ...]:
    """Parse a list of names in brackets; return nothing for a query in brackets."""
    start = cursor.index
    if not cursor.accept_symbol("(") or cursor.token.upper in INSERTED_QUERIES:
        cursor.index = start
        return ()
    names = []
    while cursor.token.is_name:
        names.append(WrittenName.of(cursor.advance()))
        if not cursor.accept_symbol(","):
            break
    if not cursor.accept_symbol(")"):
        cursor.index = start
        return ()
    return tuple(names)
