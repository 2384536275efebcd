"""Imprecise time in the text of an event pattern: TIME BETWEEN … before PATTERN, and CONFIDENCE after WITHIN."""

from __future__ import annotations

from dataclasses import replace

from episode.lang.clauses import Grammar, read_column
from episode.lang.cursor import Cursor, describe
from episode.lang.duration import parse_window
from episode.lang.events.syntax import Confidence, Interval
from episode.lang.lexer import Kind
from episode.lang.parameters import parameter_at
from episode.lang.syntax import Span

INTERVAL_HINT = "Write TIME BETWEEN lo AND hi, then PROBABILITIES p, GRANULARITY 1 second, WIDTH 20 seconds as needed."
CONFIDENCE_HINT = "Write for example CONFIDENCE >= 0.7."
PARTS = ("PROBABILITIES", "GRANULARITY", "WIDTH")


def read_interval(cursor: Cursor, grammar: Grammar) -> Interval | None:
    """`TIME BETWEEN lo AND hi [PROBABILITIES p] [GRANULARITY d] [WIDTH d]`, the last three in any order."""
    start = cursor.token
    if not cursor.accept_words("TIME"):
        return None
    cursor.expect_words("BETWEEN", after="TIME", hint=INTERVAL_HINT)
    lo = read_column(cursor, "the column of the earliest time", grammar)
    cursor.expect_words("AND", after=f"TIME BETWEEN {lo}", hint=INTERVAL_HINT)
    hi = read_column(cursor, "the column of the latest time", grammar)
    found = Interval(lo, hi)
    seen: set[str] = set()
    while cursor.token.upper in PARTS:
        word = cursor.advance()
        if word.upper in seen:
            cursor.fail(f"{word.upper} is given twice.", word, "Keep one of them.")
        seen.add(word.upper)
        if word.upper == "PROBABILITIES":
            column = read_column(cursor, "the column of the probabilities", grammar)
            found = replace(found, probabilities=column)
        elif word.upper == "GRANULARITY":
            found = replace(found, granularity=parse_window(cursor))
        else:
            found = replace(found, width=parse_window(cursor))
    return replace(found, span=cursor.span_from(start.start))


def read_confidence(cursor: Cursor) -> Confidence:
    """What stands after CONFIDENCE: `>= 0.7`, or `>= :c`."""
    before = cursor.peek(-1)
    if cursor.at_end:
        cursor.fail(f"Expected >= after CONFIDENCE, found {describe(cursor.token)}.", None, CONFIDENCE_HINT)
    if not (cursor.token.is_symbol(">") and cursor.peek().is_symbol("=")):
        cursor.fail(f"Expected >= after CONFIDENCE, found {describe(cursor.token)}.", None, CONFIDENCE_HINT)
    cursor.advance()
    cursor.advance()
    token = cursor.token
    name = parameter_at(cursor.tokens, cursor.index) if not cursor.at_end else None
    if name is not None:
        cursor.advance()
        cursor.advance()
        found = Confidence(0.0, Span(token.start, cursor.span_from(token.start).end), name)
    else:
        if token.kind is not Kind.NUMBER or not _is_number(token.text):
            cursor.fail(f"Expected a number after CONFIDENCE >=, found {describe(token)}.", token, CONFIDENCE_HINT)
        cursor.advance()
        value = float(token.text)
        if cursor.accept_symbol("%"):
            value /= 100
        found = Confidence(value, cursor.span_from(token.start))
        if not 0 <= value <= 1:
            cursor.fail("A confidence is between 0 and 1.", token, CONFIDENCE_HINT)
    if not cursor.at_end:
        cursor.fail(f"Unexpected {describe(cursor.token)} after CONFIDENCE.", None, CONFIDENCE_HINT)
    return replace(found, clause=Span(before.start, found.span.end))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
