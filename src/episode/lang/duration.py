"""Durations: `10 seconds`, `5s`, `100ms`, `1 day`, `INTERVAL '10' SECOND`, or a plain number for integer time."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NoReturn

from episode.lang.cursor import Cursor, describe
from episode.lang.lexer import Kind, Token, parameter_at, words_of
from episode.lang.syntax import Duration, Span

MICROSECONDS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000_000),
}
PLAIN_UNITS = ("unit", "units")
VARIABLE_UNITS = ("month", "months", "year", "years", "quarter", "quarters")
MAXIMUM = 2**63 - 1
UNITS = "Units: microseconds (us), milliseconds (ms), seconds (s), minutes (m), hours (h), days (d), weeks (w)."
EXAMPLES = "Write for example 10 seconds, 5s, 1 day, INTERVAL '10' SECOND, or 200 where time is an integer."


def parse_duration(cursor: Cursor) -> Duration:
    """One duration at the cursor; `1 hour 30 minutes` adds up."""
    start = cursor.token
    interval = cursor.accept_words("INTERVAL")
    total = parts = 0
    unit: str | None = "microseconds"
    while parts == 0 or (unit is not None and cursor.token.kind is Kind.NUMBER):
        amount, unit_name, unit_token = _amount_and_unit(cursor, interval)
        if unit_name is None or unit_name in PLAIN_UNITS:
            if interval:
                cursor.fail("An INTERVAL needs a unit.", unit_token, EXAMPLES)
            if parts:
                cursor.fail("This part of the duration also needs a unit.", unit_token, "Write 1 hour 30 minutes.")
            if amount != int(amount):
                cursor.fail("A duration without a unit must be a whole number.", unit_token, EXAMPLES)
            total += int(amount)
            unit = None
        else:
            total += _microseconds(cursor, amount, unit_name, unit_token)
        parts += 1
    if cursor.at_words("TO"):
        _fail_compound(cursor, cursor.token)
    if total > MAXIMUM:
        longest = "The longest is 2^63 microseconds, about 292,000 years."
        cursor.fail("This duration is too long.", start, longest if unit else f"The longest is {MAXIMUM}.")
    return Duration(total, unit, cursor.span_from(start.start))


def parse_window(cursor: Cursor) -> Duration:
    """The duration of WITHIN, or of a limit: written out, or a parameter."""
    name = parameter_at(cursor.tokens, cursor.index)
    if name is None:
        return parse_duration(cursor)
    start = cursor.advance()
    return Duration(0, None, Span(start.start, cursor.advance().end), name)


def _fail_compound(cursor: Cursor, token: Token) -> NoReturn:
    cursor.fail("Compound intervals such as DAY TO SECOND are not read here.", token, "Write 1 day 10 hours.")


def _amount_and_unit(cursor: Cursor, interval: bool) -> tuple[Decimal, str | None, Token]:
    token = cursor.token
    if token.is_symbol("-"):
        cursor.fail("A duration cannot be negative.", token, EXAMPLES)
    if token.kind is Kind.NUMBER:
        text = token.text
    elif interval and token.kind is Kind.STRING and token.text[0] in "'\"":
        text = token.text[1:-1].strip()
        if text.startswith("-"):
            cursor.fail("A duration cannot be negative.", token, EXAMPLES)
    else:
        cursor.fail(f"Expected a duration, found {describe(token)}.", token, EXAMPLES)
    cursor.advance()
    parsed = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)", text, re.ASCII)
    if parsed is None:
        if interval and cursor.peek().upper == "TO":
            _fail_compound(cursor, token)
        cursor.fail(f"{describe(token)} is not a duration.", token, EXAMPLES)
    amount = Decimal(parsed.group(1))
    if parsed.group(2):
        return amount, parsed.group(2).lower(), token
    word = cursor.token.text.lower() if cursor.token.kind is Kind.NAME else ""
    if word in MICROSECONDS or word in PLAIN_UNITS or word in VARIABLE_UNITS:
        return amount, word, cursor.advance()
    return amount, None, token


def _microseconds(cursor: Cursor, amount: Decimal, unit: str, token: Token) -> int:
    if unit in VARIABLE_UNITS:
        cursor.fail(f"A {unit.rstrip('s')} has no fixed length.", token, "Use days or smaller units.")
    if unit not in MICROSECONDS:
        cursor.fail(f"'{unit}' is not a unit of time.", token, UNITS)
    exact = amount * MICROSECONDS[unit]
    if exact != int(exact):
        cursor.fail("A duration cannot be finer than a microsecond.", token, "Use a whole number of microseconds.")
    return int(exact)


# Numbers with a unit in situation patterns: `8m/s2`, `70 mph`, `3.5 km/h`. The unit documents the number, no more.
#
# A name directly after a number, with or without a blank, is a unit unless it is a word of SQL, is called like a
# function or qualifies a column. It continues with `/name`, `*name` and `^2` if no blank comes between. The suffixes
# of Spark's own literals (`5L`, `2.5BD`, `1e3`) keep their meaning in Spark.


NUMBER = re.compile(r"((?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(\w*)")
LITERAL_SUFFIXES = ("L", "S", "Y", "D", "F", "BD")
NO_UNITS = words_of("""
    AND OR NOT XOR IS IN LIKE ILIKE RLIKE REGEXP BETWEEN ESCAPE DIV MOD CASE WHEN THEN ELSE END AS AT BY FROM FOR TO ON
    USING COLLATE OVER FILTER ASC DESC NULLS NULL TRUE FALSE DISTINCT IGNORE RESPECT WITHIN RETURN DEFINE PATTERN WHERE
    GROUP ORDER HAVING LIMIT UNION SELECT INTERVAL
""")
"""Words that may follow a number in SQL."""


def read_number(cursor: Cursor) -> str | None:
    """Read the number with a unit at the cursor as Spark's text; None without a unit."""
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
