"""Numbers with a unit in situation patterns: `8m/s2`, `70 mph`, `3.5 km/h`. The unit says what is meant, no more.

A name directly after a number, with or without a blank, is a unit unless it is a word of SQL, is called like a
function or qualifies a column. It goes on with `/name`, `*name` and `^2` where nothing stands between. The suffixes of
Spark's own literals (`5L`, `2.5BD`, `1e3`) stay what they are in Spark.
"""

from __future__ import annotations

import re

from episode.lang.cursor import Cursor
from episode.lang.lexer import Kind, Token

NUMBER = re.compile(r"((?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(\w*)")
LITERAL_SUFFIXES = ("L", "S", "Y", "D", "F", "BD")
NO_UNITS = frozenset(
    [
        "AND", "OR", "NOT", "XOR", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "ESCAPE", "DIV", "MOD",
        "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "AT", "BY", "FROM", "FOR", "TO", "ON", "USING", "COLLATE", "OVER",
        "FILTER", "ASC", "DESC", "NULLS", "NULL", "TRUE", "FALSE", "DISTINCT", "IGNORE", "RESPECT", "WITHIN", "RETURN",
        "DEFINE", "PATTERN", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "SELECT", "INTERVAL",
    ]
)  # fmt: skip
"""Words that may stand after a number in SQL."""


def read_number(cursor: Cursor) -> str | None:
    """Spark's text of the number with a unit at the cursor, which then stands after the unit; else None."""
    token = cursor.token
    parts = NUMBER.fullmatch(token.text) if token.kind is Kind.NUMBER else None
    if parts is None or _is_in_interval(cursor):
        return None
    number, suffix = parts.groups()
    if suffix.upper() in LITERAL_SUFFIXES:
        return None
    if not suffix and not _is_unit(cursor.peek(), cursor.peek(2)):
        return None
    cursor.index += 1 if suffix else 2
    while _goes_on(cursor):
        cursor.index += 2
    return number


def _is_unit(token: Token, after: Token) -> bool:
    if token.kind is not Kind.NAME or token.upper in NO_UNITS:
        return False
    return not (after.is_symbol("(") or (after.is_symbol(".") and after.start == token.end))


def _goes_on(cursor: Cursor) -> bool:
    """`/h`, `*m` or `^2` without a blank."""
    before, sign, part = cursor.peek(-1), cursor.token, cursor.peek()
    if sign.kind is not Kind.SYMBOL or before.end != sign.start or sign.end != part.start:
        return False
    if sign.text == "^":
        return part.kind is Kind.NUMBER
    return sign.text in "/*" and _is_unit(part, cursor.peek(2))


def _is_in_interval(cursor: Cursor) -> bool:
    """Is this a number of `INTERVAL 1 day 2 hours`?"""
    distance = -1
    while cursor.peek(distance).kind is Kind.NAME and cursor.peek(distance - 1).kind in (Kind.NUMBER, Kind.STRING):
        distance -= 2
    return cursor.peek(distance).upper == "INTERVAL"
