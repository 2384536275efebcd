"""Law 4: a matcher holds only rows that a future match can still need."""

from __future__ import annotations

from typing import Any

import pytest

from episode.matchers.running import LocalRun
from tests.support.rows import spec_of, table_in

KEYS = 3
FEEDS = 60
ROWS_PER_FEED = 20


def rows_of_feed(number: int) -> list[dict[str, Any]]:
    """Twenty rows of each feed, one per unit of time, spread over three keys; v repeats 0 .. 6."""
    first = number * ROWS_PER_FEED
    return [{"k": t % KEYS, "ts": t, "v": t % 7, "f": 0.0, "s": "a"} for t in range(first, first + ROWS_PER_FEED)]


def held_rows(clause: str) -> list[int]:
    """Rows held after each of many feeds."""
    spec = spec_of(clause)
    running = LocalRun(spec)
    held = []
    for number in range(FEEDS):
        rows = rows_of_feed(number)
        running.feed(table_in(spec, rows), rows[-1]["ts"])
        held.append(running.matcher.state_rows)
    return held


@pytest.mark.parametrize(
    ("clause", "most"),
    [
        # At most two rows of a started `A B C` wait for the third.
        ("PARTITION BY k ORDER BY ts MEASURES A.v AS a PATTERN (A B C)", 2 * KEYS),
        # PREV keeps one more row of each key.
        ("PARTITION BY k ORDER BY ts MEASURES A.v AS a PATTERN (A B C) DEFINE B AS PREV(B.v, 2) > 0", 4 * KEYS),
        # Rows of the last 30 units of time, all keys together.
        ("PARTITION BY k ORDER BY ts MEASURES A.v AS a PATTERN (A B* C) WITHIN 30 DEFINE C AS C.v > 99", 31),
        # No row can start a match: nothing waits.
        ("PARTITION BY k ORDER BY ts MEASURES A.v AS a PATTERN (A B+) DEFINE A AS A.v > 99", 0),
        # A match is reported when it is certain; the rows after it go.
        ("ORDER BY ts MEASURES A.v AS a PATTERN (A+ B) DEFINE A AS A.v < 6, B AS B.v = 6", 7),
    ],
)
def test_state_stays_within_its_bound(clause: str, most: int) -> None:
    held = held_rows(clause)
    assert max(held) <= most


def test_an_unbounded_pattern_holds_what_it_must() -> None:
    held = held_rows("ORDER BY ts MEASURES A.v AS a PATTERN (A+ B) DEFINE B AS B.v > 99")
    assert held[-1] == FEEDS * ROWS_PER_FEED
