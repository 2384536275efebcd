"""What a feed costs: steps of the kernel, which do not grow with the rows that are held."""

from __future__ import annotations

from typing import Any

import pytest

from episode.matchers.rows import matcher as row_matcher
from episode.matchers.rows.matcher import RowPatternMatcher
from episode.matchers.running import LocalRun
from tests.support.rows import spec_of, table_in

INCREMENTAL = "INCREMENTAL MATCH "
MODES = ["", "MAXIMAL MATCH ", "ALL MATCHES ", INCREMENTAL]
WAITS = "PARTITION BY k ORDER BY ts MEASURES A.ts AS a {skip}{mode}PATTERN {pattern} WITHIN {within} DEFINE {define}"


def steps_of_feeds(text: str, rows: list[dict[str, Any]], of_spec: Any = spec_of) -> list[int]:
    """Steps of each feed of one row."""
    running = LocalRun(of_spec(text))
    matcher = running.matcher
    assert isinstance(matcher, RowPatternMatcher)
    taken = []
    for row in rows:
        before = matcher.steps
        running.feed(table_in(running.spec, [row]), row["ts"])  # type: ignore[arg-type]
        taken.append(matcher.steps - before)
    return taken


def rows_of(count: int) -> list[dict[str, Any]]:
    return [{"k": 1, "ts": t, "v": 5 + t % 3, "f": 0.0, "s": "a"} for t in range(count)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("pattern", "define"),
    [
        ("(A B*? C)", "C AS C.v < 0"),
        ("(A B* C)", "C AS C.v < 0"),
        ("(A (B | D)* C)", "C AS C.v < 0, D AS D.v = 6"),
        ("(A B* C)", "B AS B.v <= A.v + 9, C AS C.v < A.v - 9"),
        ("(A B* C)", "B AS sum(B.v) > 0, C AS C.v < 0 * count(B.*)"),
        ("(A B+ C+ D)", "B AS B.v > 0, C AS C.v < 0"),
    ],
)
def test_a_start_that_waits_costs_a_few_steps_a_row(pattern: str, define: str, mode: str) -> None:
    """One start row, SKIP PAST LAST ROW, a window that never ends: a row more, however many are held."""
    text = WAITS.format(skip="", mode=mode, pattern=pattern, within=10_000, define=define)
    taken = steps_of_feeds(text, rows_of(400))
    assert max(taken[100:]) <= (8 if mode == INCREMENTAL else 4)  # where ways meet the last row, they look at it twice
    assert sum(taken[300:]) <= 1.5 * sum(taken[100:200]) + 4  # after a while, what failed is remembered: a step more


@pytest.mark.parametrize("skip", ["AFTER MATCH SKIP PAST LAST ROW ", "AFTER MATCH SKIP TO NEXT ROW "])
@pytest.mark.parametrize("within", [" WITHIN 10000", ""])
@pytest.mark.parametrize("mode", ["ALL MATCHES ", INCREMENTAL])
def test_matches_found_so_far_are_not_looked_for_again(mode: str, within: str, skip: str) -> None:
    """Every third row ends a match of the one start row; INCREMENTAL reports it at once, ALL MATCHES at the end."""
    text = WAITS.format(
        skip=skip, mode=mode, pattern="(A B* C)", within=10_000, define="A AS A.ts = 0, B AS B.v >= A.v, C AS C.v = 5"
    ).replace(" WITHIN 10000", within)
    running = LocalRun(spec_of(text))
    taken, found = [], []
    for row in rows_of(400):
        before = running.matcher.steps  # type: ignore[attr-defined]
        found.append(running.feed(table_in(running.spec, [row]), row["ts"]).num_rows)  # type: ignore[arg-type]
        taken.append(running.matcher.steps - before)  # type: ignore[attr-defined]
    assert max(taken[100:]) <= 8
    assert sum(taken[300:]) <= 1.5 * sum(taken[100:200]) + 4  # after a while, what failed is remembered: a step more
    assert sum(found) + running.finish().num_rows == 133
    assert sum(found) == (133 if mode == INCREMENTAL else 0)


@pytest.mark.parametrize("needed", ["C.v < 0", "C.v = 7 AND C.ts < 0"])
def test_many_starts_of_incremental_match_wait_for_a_label(needed: str) -> None:
    """Each row begins a window, and stays where it is until the label comes."""
    text = WAITS.format(
        skip="AFTER MATCH SKIP TO NEXT ROW ", mode=INCREMENTAL, pattern="(A B* C)", within=150, define=f"C AS {needed}"
    )
    assert max(steps_of_feeds(text, rows_of(400))) == 0


@pytest.mark.parametrize("needed", ["C.v < 0", "C.v < A.v - 100", "A.v + 100 <= C.v", "C.v = A.v + 100"])
@pytest.mark.parametrize("pattern", ["(A B*? C)", "(A B* C)", "(A (B | D)* C)"])
@pytest.mark.parametrize("mode", ["", "MAXIMAL MATCH ", "ALL MATCHES "])
def test_windows_of_any_length_cost_the_same(pattern: str, mode: str, needed: str) -> None:
    """Each row begins a window, and a label that every match needs does not come."""
    per_row = []
    for within in (100, 200):
        define = f"C AS {needed}" + (", D AS D.v = 6" if "D" in pattern else "")
        text = WAITS.format(skip="", mode=mode, pattern=pattern, within=within, define=define)
        taken = steps_of_feeds(text, rows_of(within + 30))
        per_row.append(sum(taken[-20:]) / 20)
    assert per_row[1] <= 1.1 * per_row[0]
    assert per_row[1] <= 2 * row_matcher.PATIENCE


def test_starting_over_would_cost_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, where all rows are joined at each feed: the measure sees it."""
    monkeypatch.setattr(row_matcher, "JOIN_FACTOR", -1)
    monkeypatch.setattr(row_matcher, "JOIN_ROWS", -1)
    text = WAITS.format(
        skip="", mode="", pattern="(A B* C)", within=10_000, define="B AS sum(B.v) > 0, C AS C.v < 0 * count(B.*)"
    )
    taken = steps_of_feeds(text, rows_of(300))
    assert taken[-1] > 200
