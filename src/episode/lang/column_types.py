"""Types of columns as they are declared: Spark's type names, read into the simple names that Spark prints."""

from __future__ import annotations

import re

from episode.errors import EpisodeUnsupportedError
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.lexer import Kind, Token

SIMPLE = {
    "BOOLEAN": "boolean", "TINYINT": "tinyint", "BYTE": "tinyint", "SMALLINT": "smallint", "SHORT": "smallint",
    "INT": "int", "INTEGER": "int", "BIGINT": "bigint", "LONG": "bigint", "FLOAT": "float", "REAL": "float",
    "DOUBLE": "double", "STRING": "string", "BINARY": "binary", "DATE": "date", "TIMESTAMP": "timestamp",
    "TIMESTAMP_LTZ": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz",
}  # fmt: skip
DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
NESTED = ("ARRAY", "MAP", "STRUCT")
KNOWN = (
    "Types: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, VARCHAR(n), BINARY, DATE, "
    "TIMESTAMP, TIMESTAMP_NTZ, ARRAY<…>, MAP<…, …>, STRUCT<…>."
)
LIMITED = ("VARCHAR", "CHAR", "CHARACTER")
NOT_KEPT = {
    **dict.fromkeys(LIMITED, "Inside of other types, write STRING: lengths are not checked there."),
    "INTERVAL": "Write BIGINT, and keep the length of time as a number.",
    "TIME": "Write BIGINT, and keep the time of day as a number.",
    "VARIANT": "Write STRING, and keep the value as JSON.",
    "VOID": "Write the type that its values will have.",
}
"""Spark's types that columns of a stream cannot have (or values inside of others), and what to write."""

SHOWN_WIDTH = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT")
"""Types whose parameter is the width in which MySQL shows values: it limits nothing, and is not kept."""

WIDEST_DECIMAL = 38


def parse_column_type(cursor: Cursor) -> str:
    """The type of a column: as `parse_type`, or `varchar(n)`, or INT(11) and the like, which is int."""
    token, opened = cursor.token, cursor.peek().is_symbol("(")
    if token.kind is not Kind.NAME or token.upper not in (*LIMITED, *SHOWN_WIDTH):
        return parse_type(cursor)
    if token.upper in SHOWN_WIDTH and not opened:
        return parse_type(cursor)
    word = cursor.advance().upper
    cursor.expect_symbol("(", f"and a length after {word}", f"Write for example {word}(8), or STRING.")
    length = _whole(cursor, f"{word}(8)")
    cursor.expect_symbol(")", f"after the length of {word}")
    if length == 0:
        cursor.fail(f"There is no type {word}(0).", token, f"Write for example {word}(8).")
    return SIMPLE.get(word, f"varchar({length})")


def parse_type(cursor: Cursor) -> str:
    """The type at the cursor, as Spark's simple name of it: `bigint`, `decimal(10,2)`, `struct<a:int,b:string>`."""
    token = cursor.token
    if token.kind is not Kind.NAME:
        cursor.fail(f"Expected a type, found {describe(token)}.", None, KNOWN)
    word = token.upper
    if word in SIMPLE:
        cursor.advance()
        if cursor.token.is_symbol("("):
            cursor.fail(f"{word} has no parameters.", None, KNOWN)
        return SIMPLE[word]
    if word in DECIMALS:
        return _decimal(cursor)
    if word in NESTED:
        return _parse_nested_type(cursor)
    if word in NOT_KEPT:
        message = f"A column of a stream cannot be of type {word}."
        cursor.fail(message, token.span, NOT_KEPT[word], EpisodeUnsupportedError)
    meant = closest(word, [*SIMPLE, *DECIMALS, *NESTED])
    guess = f"Did you mean {meant}? " if meant is not None else ""
    return cursor.fail(f"There is no type {token.text}.", token, f"{guess}{KNOWN}")


def _decimal(cursor: Cursor) -> str:
    """DECIMAL, DECIMAL(p) or DECIMAL(p, s); Spark's default is (10, 0)."""
    start = cursor.advance()
    precision, scale = 10, 0
    if cursor.accept_symbol("("):
        precision = _whole(cursor)
        if cursor.accept_symbol(","):
            scale = _whole(cursor)
        cursor.expect_symbol(")", "after the digits of a decimal")
    if not (1 <= precision <= WIDEST_DECIMAL and scale <= precision):
        limits = f"A decimal has 1 to {WIDEST_DECIMAL} digits, and no more of them after the point."
        cursor.fail(f"There is no type DECIMAL({precision}, {scale}).", start, limits)
    return f"decimal({precision},{scale})"


def _whole(cursor: Cursor, example: str = "DECIMAL(10, 2)") -> int:
    token = cursor.token
    if token.kind is not Kind.NUMBER or not token.text.isdecimal():
        cursor.fail(f"Expected a number of digits, found {describe(token)}.", None, f"Write for example {example}.")
    return int(cursor.advance().text)


def _parse_nested_type(cursor: Cursor) -> str:
    start = cursor.advance()
    word = start.upper
    cursor.expect_symbol("<", f"after {word}", f"Write for example {_EXAMPLES[word]}.")
    if word == "STRUCT":
        inside = ",".join(cursor.read_list(_field))
    else:
        inside = parse_type(cursor)
        if word == "MAP":
            cursor.expect_symbol(",", "between the types of keys and values", f"Write for example {_EXAMPLES[word]}.")
            inside = f"{inside},{parse_type(cursor)}"
    cursor.expect_symbol(">", f"at the end of {word}", f"Write for example {_EXAMPLES[word]}.")
    return f"{word.lower()}<{inside}>"


_EXAMPLES = {"ARRAY": "ARRAY<DOUBLE>", "MAP": "MAP<STRING, DOUBLE>", "STRUCT": "STRUCT<lat: DOUBLE, lon: DOUBLE>"}


def _field(cursor: Cursor) -> str:
    name = cursor.expect_identifier("the name of a field", f"Write for example {_EXAMPLES['STRUCT']}.")
    cursor.accept_symbol(":")
    return f"{written_name(name)}:{parse_type(cursor)}"


def written_name(token: Token) -> str:
    """A name as Spark reads it in a type: quoted, unless it is plain."""
    name = token.identifier
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"
