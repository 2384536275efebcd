"""Durations: every spelling, and exact amounts."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeSyntaxError
from episode.lang.cursor import Cursor
from episode.lang.duration import MICROSECONDS, parse_duration
from episode.lang.lexer import tokenize

SECOND = 1_000_000


def parse(text: str) -> tuple[int, str | None]:
    duration = parse_duration(Cursor(text, tokenize(text)))
    return duration.amount, duration.unit


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10 seconds", 10 * SECOND),
        ("10 SECS", 10 * SECOND),
        ("5s", 5 * SECOND),
        ("100ms", SECOND // 10),
        ("5 MINUTES", 300 * SECOND),
        ("1 day", 86_400 * SECOND),
        ("2w", 14 * 86_400 * SECOND),
        ("1.5 hours", 5_400 * SECOND),
        (".5s", SECOND // 2),
        ("0.000001 s", 1),
        ("1 hour 30 minutes", 5_400 * SECOND),
        ("1h 30m 5s", 5_405 * SECOND),
        ("0 seconds", 0),
        ("INTERVAL '10' SECOND", 10 * SECOND),
        ("INTERVAL 10 SECONDS", 10 * SECOND),
        ("interval '10 seconds'", 10 * SECOND),
        ('INTERVAL "2" DAY', 2 * 86_400 * SECOND),
    ],
)
def test_calendar_units(text: str, microseconds: int) -> None:
    assert parse(text) == (microseconds, "microseconds")


@pytest.mark.parametrize("unit", MICROSECONDS)
def test_every_unit(unit: str) -> None:
    assert parse(f"3 {unit}") == parse(f"3{unit.upper()}") == (3 * MICROSECONDS[unit], "microseconds")


@pytest.mark.parametrize("text", ["200", "200 units", "200 UNIT", "200.0"])
def test_plain_numbers(text: str) -> None:
    assert parse(text) == (200, None)


def test_the_longest() -> None:
    assert parse("9223372036854775807") == (2**63 - 1, None)
    assert parse("9223372036854775807 us") == (2**63 - 1, "microseconds")


def test_what_follows_is_left_alone() -> None:
    text = "5 AND"
    cursor = Cursor(text, tokenize(text))
    duration = parse_duration(cursor)
    assert (duration.amount, duration.span.end, cursor.token.upper) == (5, 1, "AND")


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1 s", "INTERVAL '-1' DAY", "1 month", "INTERVAL 2 YEARS", "1q", "1.5", "0.5 us", "1 hour 30",
     "'5 seconds'", "INTERVAL '10'", "INTERVAL '1 10' DAY TO HOUR", "INTERVAL 1 DAY TO SECOND",
     "9223372036854775808", "9999999999999 weeks", "٣ s", "1e3 s", "INTERVAL"],
)  # fmt: skip
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(EpisodeSyntaxError) as raised:
        parse(text)
    assert raised.value.hint
