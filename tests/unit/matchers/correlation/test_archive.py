"""Archived events from before those that are fed, and an archive that is a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from episode.matchers.correlation.archive import History
from episode.matchers.running import LocalRun, run
from episode.plan.correlation.pairs import ARCHIVE_ROW, ROW_OF_BOTH
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from tests.support.correlation import FALL, RISE, TICK, correlation, pairs_of

PAST_LAST = TICK.replace("TO NEXT ROW", "PAST LAST ROW")
SINGLE = """
    PARTITION BY symbol ORDER BY ts MEASURES A.price AS init, A.price AS least
    AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A) DEFINE A AS A.price < PREV(A.price)
"""
LOOKS_BACK = RISE.replace("DEFINE B", "DEFINE A AS A.price < PREV(A.price, 2), B")


@dataclass(frozen=True)
class TableHistory:
    """A table as a history. Events of other keys come along."""

    table: pa.Table

    def read(self, keys: pa.Table | None, lo: int, hi: int, columns: Sequence[str]) -> pa.Table:
        time = self.table.column("ts")
        wanted = pc.and_(pc.greater_equal(time, lo), pc.less_equal(time, hi))
        return self.table.filter(wanted).select(list(columns))

    def earliest(self) -> int | None:
        return pc.min(self.table.column("ts")).as_py()

    def latest(self) -> int | None:
        return pc.max(self.table.column("ts")).as_py()


def ticks(rows: int, seed: int) -> pa.Table:
    """Prices of three symbols that wander; some times are equal."""
    draw = np.random.default_rng(seed)
    time = np.sort(draw.integers(0, rows, rows))
    symbols = pa.array(["x", "y", None]).take(pa.array(draw.integers(0, 3, rows)))
    return pa.table({"symbol": symbols, "ts": time, "price": np.cumsum(draw.integers(-2, 3, rows)).astype(float)})


SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]


def test_it_is_a_history() -> None:
    assert isinstance(TableHistory(ticks(3, 1)), History)


@pytest.mark.parametrize("strategy", [None, *CorrelationStrategy])
@pytest.mark.parametrize("archive", [TICK, RISE, LOOKS_BACK, PAST_LAST])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_stream_begins_where_the_archive_is_long(
    archive: str, strategy: CorrelationStrategy | None, seed: int
) -> None:
    table = ticks(150, seed)
    if archive is PAST_LAST and strategy is CorrelationStrategy.LIVE_FIRST:
        pytest.skip("the archive pattern must be evaluated as a whole")
    first = table.column("ts")[70].as_py()
    later = pc.greater_equal(table.column("ts"), first)
    whole = correlation(FALL, archive, 25, side="side")
    sides = pc.if_else(later, pa.scalar(ROW_OF_BOTH, pa.int8()), pa.scalar(ARCHIVE_ROW, pa.int8()))
    expected = sorted(pairs_of(whole, run(whole, table.append_column("side", sides))))
    spec = correlation(FALL, archive, 25, plan=CorrelationPlan(strategy), history=TableHistory(table))
    output = run(spec, cut(table.filter(later)), restore=seed % 2 == 0)
    assert sorted(pairs_of(spec, output)) == expected


def cut(table: pa.Table, pieces: int = 12) -> list[pa.Table]:
    """Pieces of 13 units of time; some of them are empty."""
    return [table.filter(pc.equal(pc.divide(table.column("ts"), 13), i)) for i in range(pieces)]


@pytest.mark.parametrize("rows", [None, 0, 3])
@pytest.mark.parametrize("archive", [TICK, RISE, LOOKS_BACK])
@pytest.mark.parametrize("live", [FALL, SINGLE])
@pytest.mark.parametrize("seed", SEEDS)
def test_strategies_change_over_a_long_archive(live: str, archive: str, rows: int | None, seed: int) -> None:
    table = ticks(200, seed)
    draw = np.random.default_rng(seed)
    later = pc.greater_equal(table.column("ts"), table.column("ts")[70].as_py())
    whole = correlation(live, archive, 25, side="side")
    sides = pc.if_else(later, pa.scalar(ROW_OF_BOTH, pa.int8()), pa.scalar(ARCHIVE_ROW, pa.int8()))
    expected = sorted(pairs_of(whole, run(whole, table.append_column("side", sides))))
    plan = CorrelationPlan(recent_buffer=rows)
    spec = correlation(live, archive, 25, plan=plan, history=TableHistory(table))
    running = LocalRun(spec)
    outputs = []
    for piece in cut(table.filter(later), 18):
        if draw.integers(2):
            running.move()
        running.matcher.adaptation.strategy = list(CorrelationStrategy)[draw.integers(3)]  # type: ignore[attr-defined]
        outputs.append(running.feed(piece, max(piece.column("ts").to_pylist(), default=-1)))
    assert sorted(pairs_of(spec, pa.concat_tables([*outputs, running.finish()]))) == expected


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("archive", [TICK, LOOKS_BACK])
@pytest.mark.parametrize("seed", range(2))
def test_a_small_buffer_reads_the_older_part(archive: str, cache: bool, rows: int, seed: int) -> None:
    table = ticks(200, seed)
    whole = correlation(FALL, archive, 25)
    expected = sorted(pairs_of(whole, run(whole, table)))
    plan = CorrelationPlan(CorrelationStrategy.LIVE_FIRST, cache, rows)
    spec = correlation(FALL, archive, 25, plan=plan, history=TableHistory(table))
    running = LocalRun(spec)
    outputs, read = [], 0
    for piece in cut(table, 18):
        running.move()
        outputs.append(running.feed(piece, max(piece.column("ts").to_pylist(), default=-1)))
        read += running.matcher.report().read  # type: ignore[attr-defined]
        held = running.matcher.archive.recent  # type: ignore[attr-defined]
        assert (held.row_to - held.row_from).max(initial=0) <= rows
    output = pa.concat_tables([*outputs, running.finish()])
    assert sorted(pairs_of(spec, output)) == expected
    assert read > 0


@pytest.mark.parametrize("strategy", [None, CorrelationStrategy.EAGER, CorrelationStrategy.ARCHIVE_FIRST])
@pytest.mark.parametrize("archive", [TICK, RISE, LOOKS_BACK, PAST_LAST])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_archive_is_a_table(archive: str, strategy: CorrelationStrategy | None, seed: int) -> None:
    live, past = ticks(80, seed), ticks(60, seed + 50)
    whole = correlation(FALL, archive, 25, side="side")
    both = pa.concat_tables(
        [
            live.append_column("side", pa.array([1] * len(live), pa.int8())),
            past.append_column("side", pa.array([2] * len(past), pa.int8())),
        ]
    )
    expected = sorted(pairs_of(whole, run(whole, both)))
    plan = CorrelationPlan(strategy)
    spec = correlation(FALL, archive, 25, plan=plan, side="side", history=TableHistory(past), closed=True)
    fed = both.filter(pc.equal(both.column("side"), 1))
    assert sorted(pairs_of(spec, run(spec, cut(fed), restore=seed % 2 == 0))) == expected
