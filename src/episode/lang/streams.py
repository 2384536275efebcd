"""Statements of stream stores: CREATE STREAM, DROP STREAM, SHOW STREAMS, DESCRIBE STREAM.

    CREATE STREAM [IF NOT EXISTS] name (column type, …) [TIME column] [KEY column, …] [DELAY duration]
        [ARCHIVE AS name] [RETAIN duration] [LOCATION 'directory'] [USING episode | kafka] [OPTIONS (name 'value', …)]

The clauses after the columns may be in any order, each at most once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from episode.lang.column_types import parse_column_type
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.duration import parse_duration
from episode.lang.lexer import Kind, Token
from episode.lang.syntax import NOWHERE, Duration, Source, Span

STORES = ("episode", "kafka")
EXAMPLE = "Write CREATE STREAM name (symbol STRING, ts TIMESTAMP, price DOUBLE) TIME ts [KEY symbol] …."
OPTION = "Write OPTIONS (name 'value', …)."


@dataclass(frozen=True)
class WrittenName:
    """A name or a text, and its place in the statement."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)

    @classmethod
    def of(cls, token: Token) -> WrittenName:
        return cls(token.identifier, token.span)


@dataclass(frozen=True)
class StreamColumn:
    """type: Spark's simple name, or `varchar(n)`."""

    name: str
    type: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class CreateStream:
    """A stream store as it is declared; `plan.streams` checks it. time: None if the columns leave no choice."""

    source: Source
    name: WrittenName
    columns: tuple[StreamColumn, ...]
    time: WrittenName | None = None
    key: tuple[WrittenName, ...] = ()
    delay: Duration | None = None
    archive: WrittenName | None = None
    retain: Duration | None = None
    location: WrittenName | None = None
    using: WrittenName = WrittenName("episode")
    options: tuple[tuple[WrittenName, str], ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropStream:
    source: Source
    name: WrittenName
    if_exists: bool


@dataclass(frozen=True)
class ShowStreams:
    source: Source


@dataclass(frozen=True)
class DescribeStream:
    source: Source
    name: WrittenName


StreamStatement = Union[CreateStream, DropStream, ShowStreams, DescribeStream]


def stream_statement(text: str, tokens: Sequence[Token]) -> StreamStatement | None:
    """Parse a statement of stream stores; None for any other text."""
    cursor = Cursor(text, tokens)
    first, second = cursor.token.upper, cursor.peek().upper
    if first == "CREATE" and second == "STREAM":
        return _create(cursor)
    if first == "CREATE" and cursor.at_words("CREATE", "OR", "REPLACE", "STREAM"):
        cursor.index += 1
        hint = "Write CREATE STREAM IF NOT EXISTS …, or DROP STREAM first."
        cursor.fail("A stream is not replaced: its events would be lost.", None, hint)
    if first == "DROP" and second == "STREAM":
        cursor.index += 2
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = _name(cursor, "the name of a stream")
        _expect_end(cursor, "DROP STREAM [IF EXISTS] name")
        return DropStream(_source(cursor), name, if_exists)
    if first == "SHOW" and second == "STREAMS":
        cursor.index += 2
        _expect_end(cursor, "SHOW STREAMS")
        return ShowStreams(_source(cursor))
    if first in ("DESCRIBE", "DESC") and second == "STREAM" and cursor.peek(2).kind is not Kind.END:
        cursor.index += 2
        name = _name(cursor, "the name of a stream")
        _expect_end(cursor, "DESCRIBE STREAM name")
        return DescribeStream(_source(cursor), name)
    return None


def _create(cursor: Cursor) -> CreateStream:
    cursor.index += 2
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    name = _name(cursor, "the name of the stream", EXAMPLE)
    cursor.expect_symbol("(", "and the columns after the name of the stream", EXAMPLE)
    columns = cursor.read_list(_column)
    cursor.expect_symbol(")", "after the columns", EXAMPLE)
    clauses: dict[str, Any] = {}
    while not cursor.at_end:
        token, word = cursor.token, cursor.token.upper
        if word not in CLAUSES:
            meant = closest(word, CLAUSES) if token.kind is Kind.NAME else None
            guess = f"Did you mean {meant}? " if meant is not None else ""
            hint = (
                f"{guess}After the columns may stand: TIME, KEY, DELAY, ARCHIVE AS, RETAIN, LOCATION, USING, OPTIONS."
            )
            cursor.fail(f"Expected a clause of CREATE STREAM, found {describe(token)}.", token, hint)
        if word.lower() in clauses:
            cursor.fail(f"{word} is there twice.", token, "Write each clause once.")
        cursor.advance()
        clauses[word.lower()] = CLAUSES[word](cursor)
    return CreateStream(_source(cursor), name, tuple(columns), if_not_exists=if_not_exists, **clauses)


def _column(cursor: Cursor) -> StreamColumn:
    name = cursor.expect_identifier("the name of a column", EXAMPLE)
    type_ = parse_column_type(cursor)
    if cursor.at_words("NOT", "NULL"):
        hint = "Leave it out: the event time is never null, and other columns may be."
        cursor.fail("NOT NULL is not checked for the columns of a stream.", None, hint)
    return StreamColumn(name.identifier, type_, name.span)


def _time(cursor: Cursor) -> WrittenName:
    return WrittenName.of(cursor.expect_identifier("a column after TIME", "Write for example TIME ts."))


def _keys(cursor: Cursor) -> tuple[WrittenName, ...]:
    """One column or several, in brackets or not."""
    hint = "Write for example KEY symbol."
    in_brackets = cursor.accept_symbol("(")
    names = cursor.read_list(lambda cursor: WrittenName.of(cursor.expect_identifier("a column after KEY", hint)))
    if in_brackets:
        cursor.expect_symbol(")", "after the columns of KEY")
    return tuple(names)


def _archive(cursor: Cursor) -> WrittenName:
    cursor.expect_words("AS", after="ARCHIVE", hint="Write ARCHIVE AS name.")
    return _name(cursor, "the name of the archive", "Write ARCHIVE AS name.")


def _location(cursor: Cursor) -> WrittenName:
    token = cursor.token
    if token.kind is not Kind.STRING:
        hint = "Write LOCATION '/data/stocks'."
        cursor.fail(f"Expected a directory in quotes, found {describe(token)}.", token, hint)
    return WrittenName(string_value(cursor.advance()), token.span)


def _store(cursor: Cursor) -> WrittenName:
    token = cursor.expect_identifier("episode or kafka after USING", "Write USING episode, or USING kafka.")
    if token.identifier.lower() not in STORES:
        hint = "Write USING episode (files of this machine), or USING kafka."
        cursor.fail(f"There is no store {token.identifier}.", token, hint)
    return WrittenName(token.identifier.lower(), token.span)


def _options(cursor: Cursor) -> tuple[tuple[WrittenName, str], ...]:
    """`(name 'value', …)`: names may have dots, or be quoted; between name and value may stand '='."""
    cursor.expect_symbol("(", "after OPTIONS", OPTION)
    options = cursor.read_list(_option)
    cursor.expect_symbol(")", "after the options", OPTION)
    seen: set[str] = set()
    for name, _ in options:
        if name.text.lower() in seen:
            cursor.fail(f"The option {name.text} is there twice.", name.span, "Write each option once.")
        seen.add(name.text.lower())
    return tuple(options)


def _option(cursor: Cursor) -> tuple[WrittenName, str]:
    start = cursor.token
    if start.kind is Kind.STRING:
        name = string_value(cursor.advance())
    else:
        name = cursor.expect_identifier("the name of an option", OPTION).identifier
        while cursor.accept_symbol("."):
            name += f".{cursor.expect_identifier('a part of the name of an option', OPTION).identifier}"
    named = WrittenName(name, cursor.span_from(start.start))
    cursor.accept_symbol("=")
    value = cursor.token
    if value.kind is Kind.STRING:
        return named, string_value(cursor.advance())
    if value.kind is Kind.NUMBER or value.upper in ("TRUE", "FALSE"):
        return named, cursor.advance().text.lower()
    return cursor.fail(f"Expected the value of the option {name}, found {describe(value)}.", value, OPTION)


CLAUSES: dict[str, Callable[[Cursor], Any]] = {
    "TIME": _time,
    "KEY": _keys,
    "DELAY": parse_duration,
    "ARCHIVE": _archive,
    "RETAIN": parse_duration,
    "LOCATION": _location,
    "USING": _store,
    "OPTIONS": _options,
}
"""The functions that read the clauses after the columns."""


def _name(cursor: Cursor, what: str, hint: str | None = None) -> WrittenName:
    """The name of a stream or an archive: of one part."""
    token = cursor.expect_identifier(what, hint)
    if cursor.token.is_symbol("."):
        cursor.fail("The name of a stream has one part.", cursor.token, "Leave the schema before it out.")
    return WrittenName.of(token)


def string_value(token: Token) -> str:
    """Return the value of a string literal; a backslash quotes the next character, except in raw strings."""
    text = token.text
    if text[0] in "rR":
        return text[2:-1]
    quote, inside = text[0], text[1:-1]
    found, at = "", 0
    while at < len(inside):
        if inside[at] == "\\" or inside[at : at + 2] == quote * 2:
            at += 1
        found += inside[at : at + 1]
        at += 1
    return found


def _expect_end(cursor: Cursor, form: str) -> None:
    if not cursor.at_end:
        cursor.fail(f"Expected the end of the statement, found {describe(cursor.token)}.", None, f"Write {form}.")


def _source(cursor: Cursor) -> Source:
    return Source(cursor.source, Span(cursor.tokens[0].start, cursor.tokens[cursor.end].start))
