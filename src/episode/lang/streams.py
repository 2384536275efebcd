"""Statements of stream stores: CREATE STREAM, DROP STREAM, SHOW STREAMS, DESCRIBE STREAM.

    CREATE STREAM [IF NOT EXISTS] name (column type, …) [TIME column] [KEY column, …] [DELAY duration]
        [ARCHIVE AS name] [RETAIN duration] [LOCATION 'directory'] [USING episode | kafka] [OPTIONS (name 'value', …)]

The clauses after the columns may be in any order, each at most once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Union

from episode.lang.column_types import parse_column_type
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.duration import parse_duration
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.syntax import NOWHERE, Duration, Source, Span

CLAUSES = ("TIME", "KEY", "DELAY", "ARCHIVE", "RETAIN", "LOCATION", "USING", "OPTIONS")
STORES = ("episode", "kafka")
EXAMPLE = "Write CREATE STREAM name (symbol STRING, ts TIMESTAMP, price DOUBLE) TIME ts [KEY symbol] …."
OPTION = "Write OPTIONS (name 'value', …)."


@dataclass(frozen=True)
class WrittenName:
    """A name or a text, and its place in the statement."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


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
        return _drop(cursor)
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


def parse_columns(text: str) -> tuple[StreamColumn, ...]:
    """The columns of a text like `symbol STRING, ts TIMESTAMP`."""
    cursor = Cursor(text, tokenize(text))
    columns = [_column(cursor)]
    while cursor.accept_symbol(","):
        columns.append(_column(cursor))
    if not cursor.at_end:
        cursor.fail(f"Expected ',' between columns, found {describe(cursor.token)}.")
    return tuple(columns)


def _create(cursor: Cursor) -> CreateStream:
    cursor.index += 2
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    name = _name(cursor, "the name of the stream", EXAMPLE)
    cursor.expect_symbol("(", "and the columns after the name of the stream", EXAMPLE)
    columns = [_column(cursor)]
    while cursor.accept_symbol(","):
        columns.append(_column(cursor))
    cursor.expect_symbol(")", "after the columns", EXAMPLE)
    clauses = _Clauses(cursor)
    clauses.read()
    return CreateStream(
        _source(cursor),
        name,
        tuple(columns),
        clauses.time,
        clauses.key,
        clauses.delay,
        clauses.archive,
        clauses.retain,
        clauses.location,
        clauses.using,
        clauses.options,
        if_not_exists,
    )


class _Clauses:
    """The clauses after the columns."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.seen: dict[str, Token] = {}
        self.time: WrittenName | None = None
        self.key: tuple[WrittenName, ...] = ()
        self.delay: Duration | None = None
        self.archive: WrittenName | None = None
        self.retain: Duration | None = None
        self.location: WrittenName | None = None
        self.using = WrittenName("episode")
        self.options: tuple[tuple[WrittenName, str], ...] = ()

    def read(self) -> None:
        cursor = self.cursor
        while not cursor.at_end:
            token = cursor.token
            word = token.upper
            if word not in CLAUSES:
                self._fail_unknown(token)
            if word in self.seen:
                cursor.fail(f"{word} is there twice.", token, "Write each clause once.")
            self.seen[word] = cursor.advance()
            self._read_clause(word)

    def _read_clause(self, word: str) -> None:
        cursor = self.cursor
        if word == "TIME":
            self.time = _column_name(cursor, "TIME")
        elif word == "KEY":
            self.key = _names(cursor)
        elif word == "DELAY":
            self.delay = parse_duration(cursor)
        elif word == "RETAIN":
            self.retain = parse_duration(cursor)
        elif word == "ARCHIVE":
            cursor.expect_words("AS", after="ARCHIVE", hint="Write ARCHIVE AS name.")
            self.archive = _name(cursor, "the name of the archive", "Write ARCHIVE AS name.")
        elif word == "LOCATION":
            self.location = _text(cursor, "a directory", "Write LOCATION '/data/stocks'.")
        elif word == "USING":
            self.using = _store(cursor)
        else:
            self.options = _options(cursor)

    def _fail_unknown(self, token: Token) -> NoReturn:
        meant = closest(token.upper, CLAUSES) if token.kind is Kind.NAME else None
        guess = f"Did you mean {meant}? " if meant is not None else ""
        hint = f"{guess}After the columns may stand: TIME, KEY, DELAY, ARCHIVE AS, RETAIN, LOCATION, USING, OPTIONS."
        self.cursor.fail(f"Expected a clause of CREATE STREAM, found {describe(token)}.", token, hint)


def _column(cursor: Cursor) -> StreamColumn:
    name = cursor.expect_identifier("the name of a column", EXAMPLE)
    type_ = parse_column_type(cursor)
    if cursor.at_words("NOT", "NULL"):
        hint = "Leave it out: the event time is never null, and other columns may be."
        cursor.fail("NOT NULL is not checked for the columns of a stream.", None, hint)
    return StreamColumn(name.identifier, type_, name.span)


def _names(cursor: Cursor) -> tuple[WrittenName, ...]:
    """One column or several, in brackets or not."""
    in_brackets = cursor.accept_symbol("(")
    names = [_column_name(cursor, "KEY")]
    while cursor.accept_symbol(","):
        names.append(_column_name(cursor, "KEY"))
    if in_brackets:
        cursor.expect_symbol(")", "after the columns of KEY")
    return tuple(names)


def _store(cursor: Cursor) -> WrittenName:
    token = cursor.expect_identifier("episode or kafka after USING", "Write USING episode, or USING kafka.")
    if token.identifier.lower() not in STORES:
        hint = "Write USING episode (files of this machine), or USING kafka."
        cursor.fail(f"There is no store {token.identifier}.", token, hint)
    return WrittenName(token.identifier.lower(), token.span)


def _options(cursor: Cursor) -> tuple[tuple[WrittenName, str], ...]:
    """`(name 'value', …)`: names may have dots, or be quoted; between name and value may stand '='."""
    cursor.expect_symbol("(", "after OPTIONS", OPTION)
    options = [_option(cursor)]
    while cursor.accept_symbol(","):
        options.append(_option(cursor))
    cursor.expect_symbol(")", "after the options", OPTION)
    seen: set[str] = set()
    for name, _ in options:
        if name.text.lower() in seen:
            token = Token(Kind.NAME, name.text, name.span.start, name.span.end)
            cursor.fail(f"The option {name.text} is there twice.", token, "Write each option once.")
        seen.add(name.text.lower())
    return tuple(options)


def _option(cursor: Cursor) -> tuple[WrittenName, str]:
    start = cursor.token
    if start.kind is Kind.STRING:
        cursor.advance()
        name = string_value(start)
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


def _drop(cursor: Cursor) -> DropStream:
    cursor.index += 2
    if_exists = cursor.accept_words("IF", "EXISTS")
    name = _name(cursor, "the name of a stream")
    _expect_end(cursor, "DROP STREAM [IF EXISTS] name")
    return DropStream(_source(cursor), name, if_exists)


def _name(cursor: Cursor, what: str, hint: str | None = None) -> WrittenName:
    """The name of a stream or an archive: of one part."""
    token = cursor.expect_identifier(what, hint)
    if cursor.token.is_symbol("."):
        cursor.fail("The name of a stream has one part.", cursor.token, "Leave the schema before it out.")
    return WrittenName(token.identifier, token.span)


def _column_name(cursor: Cursor, clause: str) -> WrittenName:
    token = cursor.expect_identifier(f"a column after {clause}", f"Write for example {clause} {_LIKE[clause]}.")
    return WrittenName(token.identifier, token.span)


_LIKE = {"TIME": "ts", "KEY": "symbol"}


def _text(cursor: Cursor, what: str, hint: str) -> WrittenName:
    token = cursor.token
    if token.kind is not Kind.STRING:
        cursor.fail(f"Expected {what} in quotes, found {describe(token)}.", token, hint)
    cursor.advance()
    return WrittenName(string_value(token), token.span)


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
