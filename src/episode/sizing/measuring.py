"""What a query costs on given rows: the workers' own functions, in this process, one after the other, on one core."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from episode.matchers.columns import concat, take
from episode.matchers.envelope import Packing, in_groups, pack, unpack
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, order_image
from episode.matchers.protocol import END_OF_TIME, MatcherSpec, Screens
from episode.matchers.running import LocalRun
from episode.sizing.bound import BoundQuery
from episode.sizing.profile import Held, QueryProfile

GROUP_BYTES = 16 * 2**20
"""As many bytes of events are matched together in a batch."""
RUNS = 3
LEAST_ROWS = 1_000
_SHARDS = 4
_PIECES = 8
_BATCH_ROWS = 1 << 20
_WARM_ROWS = 4_096
_MANY_HELD, _MOST_COPIES = 1_000, 4

Value = TypeVar("Value")


@dataclass
class Clock:
    """Seconds of the core by part."""

    seconds: dict[str, float] = field(default_factory=dict)

    def timed(self, part: str, work: Callable[[], Value]) -> Value:
        begin = process_time()
        found = work()
        self.seconds[part] = self.seconds.get(part, 0.0) + process_time() - begin
        return found


@dataclass(frozen=True)
class Passed:
    """One run of a batch's two stages. bytes: of all envelopes; wire: of the same, compressed. moved: rows in them."""

    seconds: dict[str, float]
    bytes: int
    wire: int
    moved: int
    matches: int


def measured(
    query: BoundQuery, language: str, origin: str, window: float | None = None, runs: int = RUNS
) -> QueryProfile:
    """The profile of a query on its table. window: in seconds, where the query does not say WITHIN."""
    _work_like_a_worker()
    table = query.table.combine_chunks()
    rows = table.num_rows
    passed_through(query.spec, table.slice(0, _WARM_ROWS))
    taken = [passed_through(query.spec, table) for _ in range(runs)]
    best = {part: min(one.seconds[part] for one in taken) for part in taken[0].seconds}
    one = taken[0]
    moved = max(1, one.moved)
    within = None if query.within is None or query.time is None else query.within / query.units_per_second
    traits = query.spec.traits
    counts = np.diff(LocalRun(query.spec).events(table).bounds)
    return QueryProfile(
        language=language,
        origin=origin,
        rows=rows,
        row_bytes=table.nbytes / rows,
        scan=_scan_seconds(table, runs) / rows * 1e9,
        pack=best["pack"] / rows * 1e9,
        passing=one.moved / rows,
        envelope_bytes=one.bytes / moved,
        wire_share=one.wire / max(1, one.bytes),
        order=(best["unpack"] + best["order"]) / moved * 1e9,
        match=best["match"] / moved * 1e9,
        matches=one.matches / rows,
        held=held_rows(query, window if within is None else within),
        hottest=float(counts.max()) / rows,
        keys=len(counts),
        keyed=bool(query.spec.input_order.keys),
        bounded=within is not None or traits.longest is not None or traits.within is not None,
        within=within,
    )


def _work_like_a_worker() -> None:
    """Memory is kept for the next batch, as in Spark's workers, which makes a third of a difference."""
    from episode.spark.worker import prepare_worker

    prepare_worker()


def passed_through(spec: MatcherSpec, table: pa.Table) -> Passed:
    """Pack the rows, then open, order and match them, as the tasks of a batch do; only the compressing is Spark's."""
    screen = spec.screen if isinstance(spec, Screens) else None
    shards = max(_SHARDS, -(-table.nbytes // GROUP_BYTES)) if spec.input_order.keys else 1
    clock = Clock(dict.fromkeys(("pack", "unpack", "order", "match"), 0.0))
    packing = Packing(spec.input_order, shards, screen=screen)
    batches = clock.timed("pack", lambda: list(pack([table], packing, 0)))
    if not batches:
        return Passed(clock.seconds, 0, 0, 0, 0)
    envelopes = pa.Table.from_batches(batches).sort_by([("shard", "ascending"), ("origin", "ascending")])
    moved = matches = 0
    for group in in_groups(unpack(envelopes.to_batches(max_chunksize=1)), GROUP_BYTES):
        tables = clock.timed("unpack", lambda group=group: list(group))  # type: ignore[misc]
        moved += sum(one.num_rows for one in tables)
        matches += clock.timed("match", _matching(spec, tables, clock))
    wire = sum(pa.compress(blob.as_buffer(), codec="lz4").size for blob in envelopes["blob"])
    clock.seconds["match"] -= clock.seconds["order"]
    return Passed(clock.seconds, sum(len(blob.as_buffer()) for blob in envelopes["blob"]), wire, moved, matches)


def _matching(spec: MatcherSpec, tables: list[pa.Table], clock: Clock) -> Callable[[], int]:
    """Order a group of tables, and match it."""

    def work() -> int:
        if not any(table.num_rows for table in tables):
            return 0
        order = spec.input_order
        events = clock.timed("order", lambda: events_of(concat(tables), order, KeyCoder(order.keys)))
        matcher = spec.open()
        found = sum(matches.num_rows for matches in matcher.feed(events, END_OF_TIME))
        return found + sum(matches.num_rows for matches in matcher.finish())

    return work


def _scan_seconds(table: pa.Table, runs: int) -> float:
    """Seconds to read the columns from Parquet, as direct scans do."""
    taken = []
    with TemporaryDirectory(prefix="episode-size-") as place:
        path = Path(place) / "sample.parquet"
        pq.write_table(table, path, row_group_size=min(table.num_rows, _BATCH_ROWS // 4))
        for _ in range(runs):
            begin = process_time()
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for _ in file.iter_batches(_BATCH_ROWS, use_threads=False):
                    pass
            taken.append(process_time() - begin)
    return min(taken)


# ---- state -----------------------------------------------------------------------------------------------


def held_rows(query: BoundQuery, window: float | None) -> Held:
    """What is held of a key: the rows are fed in order of time, once as they are, once with time at half the speed.

    With that, half as many rows come within a window. What then is held says how the state grows with the rate.
    """
    if query.time is None or window is None:
        return Held(0.0, 0.0, 1.0, query.table.nbytes / max(1, query.table.num_rows), measured=False)
    window *= query.units_per_second
    full, keys, in_window, size = _fed(query, window, 1)
    half, _, of_half, _ = _fed(query, window, 2)
    growth = in_window / of_half if of_half else 1.0
    elasticity = math.log(full / half) / math.log(growth) if half and full and growth > 1 else float(full > half)
    return Held(full / keys, in_window / keys, min(1.0, max(0.0, elasticity)), size, measured=True)


def _fed(query: BoundQuery, window: float, slower: int) -> tuple[float, int, float, float]:
    """(rows held, keys, rows within the window, bytes of a held row); the first two are means over the second half."""
    table, time = _slowed(query, slower)
    running = LocalRun(query.spec)
    held: list[int] = []
    within: list[int] = []
    for until in np.linspace(0, len(time), _PIECES + 1).astype(np.int64)[1:]:
        begin = len(time) * len(held) // _PIECES
        piece = table.slice(begin, until - begin)
        for _ in running.matcher.feed(running.events(piece), int(time[until - 1]) - 1):
            pass
        held.append(running.matcher.state_rows)
        within.append(int(until - np.searchsorted(time[:until], time[until - 1] - window)))
    keys = max(1, len(np.unique(running.events(table).key)))
    half = _PIECES // 2
    size = _held_bytes(running, held[-1], table.nbytes / len(time))
    return float(np.mean(held[half:])), keys, float(np.mean(within[half:])), size


def _held_bytes(running: LocalRun, held: int, row: float) -> float:
    """Bytes of a held row in a snapshot, beyond what a matcher without rows has. row: of an event. What is held for a
    few rows says little: then a held row is an event."""
    if held < _MANY_HELD:
        return row
    taken, nothing = (
        sum(len(chunk.data) for chunk in matcher.snapshot().put) for matcher in (running.matcher, running.spec.open())
    )
    return min((taken - nothing) / held, _MOST_COPIES * row)


def _slowed(query: BoundQuery, slower: int) -> tuple[pa.Table, np.ndarray]:
    """The rows in order of time, which runs so many times slower; and the times."""
    order = query.spec.input_order
    table = query.table.filter(pc.is_valid(query.table.column(order.order[0].column)))
    columns = [order.order[0].column, *([order.start] if order.start else [])]
    first = min(_numbers(table, name).min() for name in columns)
    for name in columns:
        slow = pa.array((_numbers(table, name) - first) * slower + first)
        narrow = slow.cast(pa.int32()) if table.schema.field(name).type.bit_width == 32 else slow
        table = table.set_column(table.column_names.index(name), name, narrow.cast(table.schema.field(name).type))
    time = order_image(table.combine_chunks(), order.order[0]).time()
    by_time = np.argsort(time, kind="stable")
    return take(table.combine_chunks(), by_time), time[by_time]


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    column = table.column(name)
    narrow = column.cast(pa.int32()) if pa.types.is_date(column.type) else column
    return narrow.cast(pa.int64()).drop_null().to_numpy()


def snapshot_cost(query: BoundQuery) -> float:
    """Nanoseconds of the core for each byte of a snapshot, of a query that holds many rows."""
    running = LocalRun(query.spec)
    events = running.events(query.table)
    for _ in running.matcher.feed(events, int(events.time.max()) - 1):
        pass
    clock = Clock()
    chunks = clock.timed("snapshot", running.matcher.snapshot).put
    return clock.seconds["snapshot"] / max(1, sum(len(chunk.data) for chunk in chunks)) * 1e9
