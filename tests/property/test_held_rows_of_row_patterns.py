"""A row pattern holds its rows in two ways, and each takes over from the other at any feed: the matches are the same.

Rows that a feed brings are joined with all held ones, or go into the arena after those of their keys (`open_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.protocol import StateChunk
from episode.matchers.rows import matcher as row_matcher
from episode.matchers.running import BEFORE_ALL_TIME, LocalRun
from tests.property.test_row_pattern_laws import SETTINGS, canonical, expectation, finished, planned
from tests.reference.generate import clauses, tables
from tests.support.rows import run_whole, table_in

JOINED, APART = (-1, -1), (0, 1 << 40)


@contextmanager
def held(way: tuple[int, int]) -> Iterator[None]:
    before = row_matcher.MANY, row_matcher.FEW
    row_matcher.MANY, row_matcher.FEW = way
    try:
        yield
    finally:
        row_matcher.MANY, row_matcher.FEW = before


def in_order(text: str, rows: list[dict[str, Any]]) -> tuple[Any, list[dict[str, Any]]]:
    """A pattern whose rows can come in pieces."""
    spec = planned(text)
    order = spec.plan.order
    assume(not order or (len(order) == 1 and order[0].column == "ts" and order[0].ascending))
    return spec, sorted(rows, key=lambda row: row["ts"]) if order else rows


def fed(spec: Any, rows: list[dict[str, Any]], draw: Any, ways: list[tuple[int, int]]) -> pa.Table:
    """The matches, the rows coming in random pieces, each held in one of the ways, with restarts between them."""
    running = LocalRun(spec)
    chunks: dict[str, StateChunk] = {}
    found = []
    begin = 0
    while begin < len(rows):
        end = begin + draw(st.integers(0, 3)) if draw(st.booleans()) else begin + 1
        while spec.plan.order and begin < end < len(rows) and rows[end]["ts"] == rows[end - 1]["ts"]:
            end += 1
        piece = rows[begin:end]
        until = BEFORE_ALL_TIME if not spec.plan.order or end == 0 else rows[min(end, len(rows)) - 1]["ts"]
        with held(draw(st.sampled_from(ways))):
            found.append(running.feed(table_in(spec, piece), until))
        begin = max(end, begin)
        if draw(st.integers(0, 4)) == 0:
            running.matcher.snapshot().apply(chunks)
            if draw(st.booleans()):
                running.matcher = spec.open()
                running.matcher.restore(list(chunks.values()))
    found.append(running.finish())
    return pa.concat_tables(found)


@pytest.mark.parametrize("ways", [[APART], [JOINED, APART]], ids=["apart", "either"])
@SETTINGS
@given(clauses(), tables(max_rows=16), st.data())
def test_the_way_does_not_matter(
    ways: list[tuple[int, int]], text: str, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    spec, rows = in_order(text, rows)
    expected = expectation(text, rows)
    if expected is EpisodeDataError:
        with pytest.raises(EpisodeDataError):
            fed(spec, rows, data.draw, ways)
        return
    actual = canonical(finished(spec, fed(spec, rows, data.draw, ways)))
    assert actual == canonical(finished(spec, run_whole(spec, rows))) == canonical(expected)
