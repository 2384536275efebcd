"""What the states of a pattern let through: Lau's Table 4.2, and other patterns."""

from __future__ import annotations

from typing import Any

import pytest

from episode.matchers.protocol import Selective
from episode.matchers.rows.matcher import RowPatternMatcher
from episode.matchers.rows.selectivity import States
from episode.matchers.running import LocalRun
from tests.support.rows import spec_of, table_in

A, B, C = 0, 1, 2
TABLE = (
    "ORDER BY ts MEASURES count(*) AS n AFTER MATCH SKIP {skip} PATTERN (A* B B* C) "
    "DEFINE A AS A.v = 0, B AS B.v = 1, C AS C.v = 2"
)


def counted(text: str, values: list[int], pieces: int = 1) -> tuple[RowPatternMatcher, LocalRun]:
    """A matcher that has counted rows of these values, one unit of time apart."""
    running = LocalRun(spec_of(text))
    matcher = running.matcher
    assert isinstance(matcher, RowPatternMatcher)
    matcher.counting = True
    rows: list[dict[str, Any]] = [{"k": 1, "ts": t, "v": v, "f": 0.0, "s": "a"} for t, v in enumerate(values)]
    for begin in range(0, len(rows), pieces):
        piece = rows[begin : begin + pieces]
        running.feed(table_in(running.spec, piece), piece[-1]["ts"])  # type: ignore[arg-type]
    return matcher, running


def fractions(matcher: RowPatternMatcher) -> list[tuple[int, int]]:
    found = matcher.selectivities()
    return list(zip(found.left.tolist(), found.entered.tolist(), strict=True))


@pytest.mark.parametrize("pieces", [1, 2, 4])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (1, [(0, 1), (0, 0), (0, 0), (0, 0)]),  # A1
        (2, [(0, 2), (0, 0), (0, 0), (0, 0)]),  # A1:A2
        (3, [(1, 3), (1, 1), (0, 0), (0, 0)]),  # A1:A2:B1
        (4, [(4, 7), (3, 4), (3, 3), (3, 3)]),  # C1: steps 4 to 10
    ],
)
def test_table_4_2(rows: int, expected: list[tuple[int, int]], pieces: int) -> None:
    matcher, _ = counted(TABLE.format(skip="TO NEXT ROW"), [A, A, B, C][:rows], pieces)
    assert fractions(matcher) == expected
    found = matcher.selectivities()
    assert found.labels == ("A", "B", "B", "C")
    assert found.star.tolist() == [True, False, True, False]
    if rows == 4:
        assert (found.windows, found.matches) == (4, 3)


def test_a_tumbling_window_is_done_with_the_match() -> None:
    """Steps 1 to 4 alone."""
    matcher, _ = counted(TABLE.format(skip="PAST LAST ROW"), [A, A, B, C])
    assert fractions(matcher) == [(1, 3), (1, 1), (1, 1), (1, 1)]
    assert (matcher.selectivities().windows, matcher.selectivities().matches) == (1, 1)


def test_the_example_of_two_singletons() -> None:
    """(A, B) over A1, A2, B1, B2 with a tumbling window: sel_A is 2/3, sel_B 1/2."""
    text = "ORDER BY ts MEASURES count(*) AS n PATTERN (A B) DEFINE A AS A.v = 0, B AS B.v = 1"
    matcher, _ = counted(text, [A, A, B, B], 4)
    assert fractions(matcher) == [(2, 3), (1, 2)]
    assert (matcher.selectivities().windows, matcher.selectivities().matches) == (3, 1)


def test_the_current_state_of_a_key() -> None:
    text = TABLE.format(skip="PAST LAST ROW")
    assert [counted(text, [A, A, B, B, C][:n])[0].current_states[1].tolist() for n in range(1, 6)] == [
        [0], [0], [2], [2], [],
    ]  # fmt: skip
    plus = "ORDER BY ts MEASURES count(*) AS n PATTERN (A B+ C) DEFINE A AS A.v = 0, B AS B.v = 1, C AS C.v = 2"
    states = [counted(plus, [A, B, B, C][:n])[0].current_states[1].tolist() for n in range(1, 5)]
    assert states == [[1], [2], [2], []]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(A B+ C)", "A B B* C"),
        ("(A B*? C)", "A B* C"),
        ("(A B? C)", "A B* C"),
        ("(A B{2,4} C)", "A B B B* B* C"),
        ("(A B{2,} C)", "A B B B* C"),
        ("(A | B C)", "A B C"),
    ],
)
def test_states_of_patterns(pattern: str, expected: str) -> None:
    states = States.of(spec_of(f"ORDER BY ts MEASURES count(*) AS n PATTERN {pattern}").plan.program)
    assert (
        " ".join(f"{label}{'*' if star else ''}" for label, star in zip(states.labels, states.star, strict=True))
        == expected
    )


def test_matches_are_the_same_while_counting() -> None:
    text = TABLE.format(skip="TO NEXT ROW")
    values = [0, 0, 1, 1, 2, 0, 1, 2, 2, 1, 0, 1, 1, 1, 2, 0]
    spec = spec_of(text)
    assert isinstance(spec.open(), Selective)
    rows = [{"k": 1, "ts": t, "v": v, "f": 0.0, "s": "a"} for t, v in enumerate(values)]
    results = []
    for counting in (False, True):
        running = LocalRun(spec)
        assert isinstance(running.matcher, RowPatternMatcher)
        running.matcher.counting = counting
        tables = [running.feed(table_in(spec, [row]), row["ts"]) for row in rows]
        results.append([one for table in [*tables, running.finish()] for one in table.to_pylist()])
    assert results[0] == results[1]
