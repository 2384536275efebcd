"""Pattern correlation in process, by strategies of our choice: what the experiments after DejaVu's evaluation share.

Streams have one tuple at every unit of time, as in the paper. Timed is feeding events in memory to the matcher, on one
core: both patterns, the join, and what is held for the next feed. The clock counts the seconds that the core worked.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from bench.feeding import Fed, batches_of, feeds_of, median_parts, told_medians
from episode import streams
from episode.lang.rows.parser import parse_clause
from episode.matchers.correlation.spec import CorrelationSpec, SidePlan
from episode.matchers.protocol import EventBatch, OrderKey
from episode.matchers.running import run as matches_of
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from episode.plan.event_time import plain_values
from episode.plan.options import RunOptions
from episode.plan.output import MATCH_END, MATCH_START
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.queries.languages.rows import RowPatterns
from episode.store.history import StoreHistory

TYPES = {"symbol": "int", "ts": "bigint", "price": "double", "volume": "double"}
SCHEMA = pa.schema([("symbol", pa.int32()), ("ts", pa.int64()), ("price", pa.float64()), ("volume", pa.float64())])
FEED = 20_000
"""Rows of one feed."""

CLAUSE = """
    PARTITION BY symbol ORDER BY ts
    MEASURES A.price AS init_price, LAST(price) AS last_price
    ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW {mode} MATCH
    PATTERN ({pattern}) DEFINE {define}
"""
FALL = ("A B+", "B AS B.price < PREV(B.price)")
RISE = ("A D+", "D AS D.price > PREV(D.price)")
TICK = (
    "A B+ C* D+",
    "B AS B.price < PREV(B.price), C AS C.price >= PREV(C.price) AND C.price <= A.price, "
    "D AS D.price > PREV(D.price) AND D.price > A.price",
)
"""The patterns of the paper's Q1 (FALL, TICK) and Q2 (FALL, RISE)."""


@dataclass(frozen=True)
class Correlation:
    """Two row patterns over one stream: (pattern, conditions) of each, and the recency."""

    live: tuple[str, str]
    archive: tuple[str, str]
    recency: int

    def spec(self, plan: CorrelationPlan, history: StoreHistory | None = None) -> CorrelationSpec:
        return CorrelationSpec(
            live=_side(self.live, "INCREMENTAL"),
            archive=_side(self.archive, "MAXIMAL"),
            recency=self.recency,
            keys=("symbol",),
            order=(OrderKey("ts"),),
            input_schema=SCHEMA,
            plan=plan,
            history=history,
        )


def _side(pattern: tuple[str, str], mode: str) -> SidePlan:
    clause = CLAUSE.format(mode=mode, pattern=pattern[0], define=pattern[1])
    plan = RowPatterns().bind(parse_clause(clause), Input(InputSchema(TYPES)), Given(), RunOptions(match_times=True))
    measures = plan.measures
    times = {name: measures.atoms[atom] for name, atom in plain_values(measures)}
    columns = tuple((name, name) for name in plan.input_columns)
    return SidePlan(RowPatterns().spec(plan, SCHEMA), columns, times[MATCH_START], times[MATCH_END])


# ---- ways to run ------------------------------------------------------------------------------------------

EAGER = "eager"
LIVE, LIVE_CACHED = "live first", "live first, cache"
ARCHIVE, ARCHIVE_CACHED = "archive first", "archive first, cache"
CHOSEN = "chosen"
PLANS = {
    EAGER: CorrelationPlan(CorrelationStrategy.EAGER),
    LIVE: CorrelationPlan(CorrelationStrategy.LIVE_FIRST, result_cache=False),
    LIVE_CACHED: CorrelationPlan(CorrelationStrategy.LIVE_FIRST),
    ARCHIVE: CorrelationPlan(CorrelationStrategy.ARCHIVE_FIRST, result_cache=False),
    ARCHIVE_CACHED: CorrelationPlan(CorrelationStrategy.ARCHIVE_FIRST),
    CHOSEN: CorrelationPlan(),
}


@dataclass(frozen=True)
class Run(Fed):
    """buffer, cache: the most rows in the recent buffer, and entries in the query result cache, after a round."""

    buffer: int
    cache: int


def run(spec: CorrelationSpec, batches: Sequence[EventBatch]) -> Run:
    """Feed the batches one after the other."""
    matcher = spec.open()
    parts, matches = [], 0
    for events, until in feeds_of(batches):
        gc.collect()
        begin = time.process_time()
        matches += sum(table.num_rows for table in matcher.feed(events, until))
        parts.append(time.process_time() - begin)
    begin = time.process_time()
    matches += sum(table.num_rows for table in matcher.finish())
    parts[-1] += time.process_time() - begin
    report = matcher.report()
    return Run(tuple(parts), tuple(len(batch) for batch in batches), matches, report.buffered, report.cached)


def side_by_side(
    specs: dict[str, CorrelationSpec], table: pa.Table, runs: int, setting: str, feed: int = FEED
) -> dict[str, Run]:
    """All ways in turns over a stream, one run of each not counted; they must find as many pairs."""
    pieces = [table.slice(begin, feed) for begin in range(0, table.num_rows, feed)]
    batches = batches_of(next(iter(specs.values())), pieces)
    taken: dict[str, list[Run]] = {name: [] for name in specs}
    for turn in range(runs + 1):
        for name, spec in specs.items():
            one = run(spec, batches)
            if turn:
                taken[name].append(one)
    found = {several[0].matches for several in taken.values()}
    assert len(found) == 1, f"{setting}: the ways find different numbers of pairs: {found}"
    return told_medians(setting, taken, _medians)


def _medians(several: list[Run]) -> Run:
    return replace(several[0], parts=median_parts(several))


# ---- streams ------------------------------------------------------------------------------------------


def stream_of(price: np.ndarray, volume: np.ndarray | None = None) -> pa.Table:
    """One symbol, a tuple at every unit of time."""
    count = len(price)
    columns = [
        np.zeros(count, np.int32), np.arange(count), price, np.zeros(count) if volume is None else volume,
    ]  # fmt: skip
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


def shapes(rows: int, period: int) -> pa.Table:
    """A tick shape in every period: flat, a fall, a rise above where it began; one match of either pattern of Q1."""
    moves = np.zeros(rows)
    moves[period - 2 :: period] = -1
    moves[period - 1 :: period] = 2
    return stream_of(1_000 + np.cumsum(moves))


def costly_shapes(rows: int, period: int, run_length: int) -> pa.Table:
    """As `shapes`, with small rises that cut the flat part into runs of a length; the last run has one row."""
    moves = np.zeros(rows)
    at = np.arange(rows) % period
    flat = at < period - 2
    moves[flat & (at % run_length == 0)] = 0.001
    moves[at == period - 3] = 0.001
    moves[at == period - 2] = -1
    moves[at == period - 1] = 2
    return stream_of(1_000 + np.cumsum(moves))


def mixed(rows: int, falls: int, rises: int) -> pa.Table:
    """A fall every so many rows and a rise every so many rows, else flat."""
    moves = np.zeros(rows)
    moves[falls // 2 :: falls] = -1
    at = np.arange(rises - 1, rows, rises)
    moves[at] = np.where(moves[at] == 0, 1, moves[at])
    return stream_of(1_000_000 + np.cumsum(moves))


def walk(rows: int, seed: int = 7) -> pa.Table:
    """The price of a busy stock: a random walk in cents, as in `bench/ticks.py`."""
    moves = np.random.default_rng(seed).choice([-2, -1, 0, 1, 2], rows, p=[0.1, 0.25, 0.3, 0.25, 0.1])
    return stream_of(np.abs(5_000 + np.cumsum(moves)) / 100)


def archived(table: pa.Table, catalog: str) -> StoreHistory:
    """The tuples in a stream store of their own, all of them archived."""
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    declared = streams.create("ticks", columns, time="ts", key="symbol", archive="past", catalog=catalog)
    streams.append("ticks", table, catalog=catalog)
    streams.archive("ticks", catalog=catalog)
    return StoreHistory(declared)


# ---- the baseline of section 3.1 ------------------------------------------------------------------------

GATHERED = 2_000_000
"""Rows of windows that are in memory at one time."""


def window_first(query: Correlation, table: pa.Table) -> Fed:
    """Windows first (section 3.1): a window of the recency's size ends at every tuple, and both patterns are evaluated
    anew in every window. Archive matches are cut short at the end of a window, so that the pairs are not quite those of
    the definition."""
    live, archive = _side(query.live, "INCREMENTAL"), _side(query.archive, "MAXIMAL")
    rows, width = table.num_rows, query.recency + 1
    at_once = max(1, GATHERED // width)
    seconds, pairs = 0.0, 0
    for first in range(0, rows, at_once):
        begin = time.process_time()
        ends = np.arange(first, min(first + at_once, rows))
        pairs += _pairs_in_windows(live, archive, table, ends, width)
        seconds += time.process_time() - begin
    return Fed((seconds,), (rows,), pairs)


def _pairs_in_windows(live: SidePlan, archive: SidePlan, table: pa.Table, ends: np.ndarray, width: int) -> int:
    begins = np.maximum(ends - width + 1, 0)
    counts = ends + 1 - begins
    which = np.repeat(np.arange(len(ends)), counts)
    rows = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begins, counts)
    windows = table.take(pa.array(rows)).set_column(0, SCHEMA.field(0), pa.array(which.astype(np.int32)))
    lw, ls, le = _matches(live, windows)
    aw, as_, ae = _matches(archive, windows)
    complete = le == ends[lw]
    lw, ls, le = lw[complete], ls[complete], le[complete]
    of_window = np.full(len(ends), -1)
    of_window[lw] = np.arange(len(lw))
    mine = of_window[aw]
    found = (mine >= 0) & (as_ < ls[mine]) & (ae < le[mine]) if len(lw) else np.zeros(0, np.bool_)
    return int(np.count_nonzero(found))


def _matches(side: SidePlan, table: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Window, start and end of every match."""
    found = matches_of(side.spec, table.select(list(side.spec.input_columns)))
    return tuple(found.column(name).to_numpy().astype(np.int64) for name in ("symbol", side.start, side.end))
