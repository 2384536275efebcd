"""Adaptive input over the real kernel: what it counts decides how many batches may wait."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from episode.live.input_source import InputSource, Sizes
from episode.live.protocol import InputBatch, Position
from episode.live.push_limit import PatternCounts, Prediction, counts_of
from episode.matchers.stream_shard import Arrived, ShardSettings, StreamShard
from tests.support.rows import ARROW_TYPES, spec_of

CLAUSE = """
    ORDER BY ts MEASURES count(*) AS n AFTER MATCH SKIP {skip}
    PATTERN (A* B B* C) DEFINE A AS v = 1, B AS v = 2, C AS v = 3
"""
SCHEMA = pa.schema(list(ARROW_TYPES.items()))


class Values:
    """One event for each value, one in a commit."""

    def __init__(self, values: str) -> None:
        self.values = ["XABC".index(value) for value in values]

    def read(self, after: Position, rows: int, until: Position | None = None) -> InputBatch | None:
        begin = after.get("v", 0)
        end = min(len(self.values), begin + rows)
        if begin == end:
            return None
        events = [{"k": 0, "ts": at, "v": self.values[at], "f": 0.0, "s": ""} for at in range(begin, end)]
        return InputBatch(pa.Table.from_pylist(events, SCHEMA), {"v": end}, end - 1, 0.0, np.arange(begin, end) - 1)

    def wait(self, after: Position, seconds: float) -> None: ...

    def unread(self, after: Position) -> int | None: ...

    def close(self) -> None: ...


class Loop:
    """The loop of a task, by hand, with one event in a batch."""

    def __init__(self, values: str, skip: str, future: int = 0) -> None:
        self.shard = StreamShard(spec_of(CLAUSE.format(skip=skip)), ShardSettings(late_by_last_step=True))
        self.prediction = Prediction(self.shard.spec, self.shard.matcher, future)
        self.shard.watched = self.prediction.busiest.note
        self.source = InputSource(Values(values), {}, "adaptive", Sizes(100, 1, 1_000), self.prediction.current_bound)
        self.matches = 0

    def pushed(self) -> int:
        """How many batches wait when the thread stands still."""
        while not self.source._is_paused() and self.source.push():
            pass
        return self.source._waiting_batches

    def step(self) -> None:
        found = self.source.next(0)
        if found is not None:
            tables = self.shard.advance([Arrived(None, found.table, found.reached)], found.watermark)
            self.matches += sum(table.num_rows for table in tables)


def test_before_the_first_match_the_states_are_the_bound() -> None:
    loop = Loop("X" * 50, "PAST LAST ROW")
    loop.step()
    assert loop.prediction.current_bound() == 4
    assert [loop.pushed(), loop.source.mode] == [4 + 1, "pull"]


@pytest.mark.parametrize(("skip", "more"), [("PAST LAST ROW", 1), ("TO NEXT ROW", 0)])
def test_a_bound_by_what_was_counted(skip: str, more: int) -> None:
    """ABC again and again: two singletons, and the first star holds an event, two where a window has just begun."""
    loop = Loop("ABC" * 200, skip)
    loop.step()
    for _ in range(40):
        loop.pushed()
        loop.step()
    assert loop.matches > 20
    keys, states = loop.shard.matcher.current_states  # type: ignore[attr-defined]
    current = int(states[0]) if len(keys) else 0
    found = loop.shard.matcher.selectivities()  # type: ignore[attr-defined]
    in_star = int(np.ceil((found.entered[0] - found.left[0]) / found.left[0]))
    assert in_star in (1, 2)
    expected = [in_star + 1 + 0 + 1, 1 + 0 + 1, 0 + 1, 1][current] + more
    assert loop.prediction.current_bound() == expected
    loop.source._bound = expected
    assert loop.pushed() == expected + 1


def test_matches_that_are_pushed_ahead() -> None:
    """Every window has a match: U more of them, of three events each, may wait."""
    bounds = []
    for future in (0, 1, 10):
        loop = Loop("ABC" * 200, "PAST LAST ROW", future)
        loop.step()
        loop.pushed()
        loop.step()
        bounds.append(loop.prediction.current_bound())
    assert bounds[1] - bounds[0] == 3
    assert bounds[2] - bounds[0] == 30


def test_rare_matches_are_not_pushed_ahead() -> None:
    bounds = []
    for future in (0, 10):
        loop = Loop("ABC" + "XXXXXXXXXX" * 100, "PAST LAST ROW", future)
        for _ in range(10):
            loop.step()
            loop.pushed()
        assert loop.matches == 1
        bounds.append(loop.prediction.current_bound())
    assert bounds[0] == bounds[1]


def test_the_counts_are_those_of_the_model() -> None:
    """The thesis's stream, to the next row: Table 4.2 as the switch sees it."""
    loop = Loop("AABC", "TO NEXT ROW")
    loop.step()
    loop.pushed()
    loop.step()
    found = loop.shard.matcher.selectivities()  # type: ignore[attr-defined]
    counts: PatternCounts = counts_of(found, 0)
    assert [(state.star, state.entered, state.left) for state in counts.states] == [
        (True, 7, 4), (False, 4, 3), (True, 3, 3), (False, 3, 3),
    ]  # fmt: skip
    assert (counts.remaining, counts.expectation, counts.to_match) == (3 / 4, 0.25, 3)
