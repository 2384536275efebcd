"""A row pattern holds its rows in two ways, and each takes over from the other at any feed: the matches are the same.

Rows that a feed brings are joined with all held ones, or go into the arena after those of their keys (`open_rows`),
where attempts that wait go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.protocol import StateChunk
from episode.matchers.rows import matcher as row_matcher
from episode.matchers.rows import waiting_attempts
from episode.matchers.running import LocalRun
from episode.matchers.times import NEVER
from tests.property.test_row_pattern_laws import SETTINGS, canonical, expectation, finished, planned
from tests.reference.generate import clauses, tables
from tests.support.rows import run_whole, table_in

JOINED, APART = (-1, -1), (0, 1 << 40)
MODES = ["", "MAXIMAL MATCH ", "INCREMENTAL MATCH ", "ALL MATCHES "]
SKIPS = ["PAST LAST ROW", "TO NEXT ROW", "TO LAST B"]
PATTERNS = [
    "(A B*? C)", "(A B* C)", "(A B+ C)", "(A (B | C)+ D)", "(A B*? C B+ D)", "(A+ B+ C+)", "((A B)+ C)", "(A B? C+ D)",
    "((A | B)* C)", "((A+ | B+)+ D)", "(A B C | A B* D)", "(^ A B* C)", "(A B* $)", "(A B{2,} C)",
    "(PERMUTE(A, B, C) D)",
]  # fmt: skip
CONDITIONS = [
    {"B": "B.v > 1", "C": "C.v < 2", "D": "D.v = 3"},
    {"A": "A.v < 3", "B": "B.v >= A.v", "C": "C.v < LAST(B.v)", "D": "D.v = 1"},
    {"B": "B.v > PREV(B.v)", "C": "C.v < NEXT(C.v)", "D": "D.v > 2"},
    {"B": "sum(B.v) < 7", "C": "C.v > avg(B.v) OR C.v = FIRST(A.v)", "D": "D.v = 0"},
    {"A": "A.v < 4", "B": "B.v >= 0", "C": "C.v < A.v - 1", "D": "D.v = A.v"},
    {"C": "A.v + 1 <= C.v", "D": "D.f > 2 * A.f AND D.v < 3"},
    {"B": "B.v > 0", "C": "C.v = A.v + 2", "D": "A.v <> D.v"},
    {"B": "max_by(B.v, B.f) < 3", "C": "C.v = 4", "D": "D.v = 4 AND count(B.*) > 1"},
    {"B": "B.v + A.v > 1", "C": "C.v < LAST(B.v, 1) OR CLASSIFIER(A) = 'A'", "D": "D.v >= count(B.*)"},
    {"B": "NOT array_contains(array_agg(C.v), B.v)", "C": "size(array_agg(B.v)) < 4", "D": "D.v = 1"},
]  # fmt: skip


@st.composite
def waiting_clauses(draw: Any) -> str:
    """Patterns whose start rows wait for rows to come, in every mode."""
    pattern = draw(st.sampled_from(PATTERNS))
    given = draw(st.sampled_from(CONDITIONS))
    conditions = ", ".join(f"{label} AS {given[label]}" for label in given if label in pattern)
    skip = draw(st.sampled_from(SKIPS if "B" in pattern and "B?" not in pattern else SKIPS[:2]))
    within = draw(st.sampled_from(["", " WITHIN 3", " WITHIN 8", " WITHIN 30"]))
    rows = draw(st.sampled_from(["", "ALL ROWS PER MATCH ", "ALL ROWS PER MATCH WITH UNMATCHED ROWS "]))
    return (
        f"PARTITION BY k ORDER BY ts MEASURES MATCH_NUMBER() AS number, FIRST(ts) AS first, LAST(ts) AS last, "
        f"count(*) AS n {rows}AFTER MATCH SKIP {skip} {draw(st.sampled_from(MODES))}PATTERN {pattern}{within} "
        f"DEFINE {conditions or 'A AS A.v >= 0'}"
    )


@contextmanager
def held(way: tuple[int, int]) -> Iterator[None]:
    before = row_matcher.JOIN_FACTOR, row_matcher.JOIN_ROWS
    row_matcher.JOIN_FACTOR, row_matcher.JOIN_ROWS = way
    try:
        yield
    finally:
        row_matcher.JOIN_FACTOR, row_matcher.JOIN_ROWS = before


def opened(spec: Any, patience: int) -> Any:
    """A matcher that parks start rows sooner or later."""
    matcher = spec.open()
    matcher.settings = matcher.settings._replace(patience=patience)
    return matcher


def in_order(text: str, rows: list[dict[str, Any]]) -> tuple[Any, list[dict[str, Any]]]:
    """A pattern whose rows can come in pieces."""
    spec = planned(text)
    order = spec.plan.order
    assume(not order or (len(order) == 1 and order[0].column == "ts" and order[0].ascending))
    return spec, sorted(rows, key=lambda row: row["ts"]) if order else rows


def fed(spec: Any, rows: list[dict[str, Any]], draw: Any, ways: list[tuple[int, int]]) -> pa.Table:
    """The matches, the rows coming in random pieces, each held in one of the ways, with restarts between them."""
    running = LocalRun(spec)
    patience = draw(st.sampled_from([0, 1, 4, 64]))
    running.matcher = opened(spec, patience)
    chunks: dict[str, StateChunk] = {}
    found = []
    begin = 0
    while begin < len(rows):
        end = begin + draw(st.integers(0, 3)) if draw(st.booleans()) else begin + 1
        while spec.plan.order and begin < end < len(rows) and rows[end]["ts"] == rows[end - 1]["ts"]:
            end += 1
        piece = rows[begin:end]
        until = NEVER if not spec.plan.order or end == 0 else rows[min(end, len(rows)) - 1]["ts"]
        with held(draw(st.sampled_from(ways))):
            found.append(running.feed(table_in(spec, piece), until))
        begin = max(end, begin)
        if draw(st.integers(0, 4)) == 0:
            running.matcher.snapshot().apply(chunks)
            if draw(st.booleans()):
                running.matcher = opened(spec, patience)
                running.matcher.restore(list(chunks.values()))
    found.append(running.finish())
    return pa.concat_tables(found)


def check(text: str, rows: list[dict[str, Any]], draw: Any, ways: list[tuple[int, int]]) -> None:
    """In any pieces and ways, the matches are those of one feed, and the oracle's."""
    spec, rows = in_order(text, rows)
    expected = expectation(text, rows)
    if expected is EpisodeDataError:
        with pytest.raises(EpisodeDataError):
            fed(spec, rows, draw, ways)
        return
    actual = canonical(finished(spec, fed(spec, rows, draw, ways)))
    assert actual == canonical(finished(spec, run_whole(spec, rows))) == canonical(expected)


@pytest.mark.parametrize("ways", [[APART], [JOINED, APART]], ids=["apart", "either"])
@SETTINGS
@given(clauses(), tables(max_rows=16), st.data())
def test_the_way_does_not_matter(
    ways: list[tuple[int, int]], text: str, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    check(text, rows, data.draw, ways)


@SETTINGS
@given(waiting_clauses(), tables(max_rows=24), st.data())
def test_attempts_that_wait_go_on(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    check(text, rows, data.draw, [APART])


@SETTINGS
@given(waiting_clauses(), tables(max_rows=24), st.data())
def test_searches_that_are_too_large_to_keep_start_over(
    text: str, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    """With hardly any room for ways and turns, some keys go on and others do not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting_attempts, "WAYS_PER_ROW", 0)
        patch.setattr(waiting_attempts, "TURNS_PER_ROW", 0)
        patch.setattr(waiting_attempts, "_LEAST_STACKS", data.draw(st.integers(1, 8)))
        check(text, rows, data.draw, [APART])


@pytest.mark.slow
@settings(SETTINGS, max_examples=2_000)
@given(waiting_clauses(), tables(max_rows=30), st.data())
def test_attempts_that_wait_go_on_at_length(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    check(text, rows, data.draw, [APART, APART, APART, JOINED])


@pytest.mark.parametrize("way", [JOINED, APART], ids=["joined", "apart"])
@pytest.mark.parametrize("pattern", ["(A B | B $)", "(A B $ | A B)"])
def test_an_end_row_is_reported_once_whatever_waits_for_the_end_of_input(pattern: str, way: tuple[int, int]) -> None:
    """Feeds without rows ask again what `$` holds back, and not what has been reported."""
    text = (
        "ORDER BY ts MEASURES FIRST(ts) AS first, LAST(ts) AS last AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH "
        f"PATTERN {pattern} DEFINE A AS A.v = 1, B AS B.v = 2"
    )
    spec = planned(text)
    rows = [{"k": 1, "ts": ts, "v": 1 + ts % 2, "f": 0.0, "s": ""} for ts in range(4)]
    running = LocalRun(spec)
    with held(way):
        found = [running.feed(table_in(spec, piece), 3) for piece in (rows, [], [])]
        found.append(running.finish())
    assert canonical(finished(spec, pa.concat_tables(found))) == canonical(expectation(text, rows))
