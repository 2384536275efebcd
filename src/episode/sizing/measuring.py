"""Measures the cost of a query on given rows: runs the functions of Spark's workers here, in turn, on one core."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from episode.errors import EpisodeAnalysisError
from episode.matchers.columns import concat, take
from episode.matchers.envelope import Packing, group_shards, pack, unpack
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, order_image
from episode.matchers.protocol import END_OF_TIME, MatcherSpec, Screens
from episode.matchers.running import LocalRun
from episode.queries.bound_statement import StatementPattern
from episode.queries.language import Given
from episode.sizing.answer import Demand
from episode.sizing.constants import Constants
from episode.sizing.profile import ROWS, BoundSample, HeldPerKey, QueryProfile, assumed_profile, bind_to, read_pattern
from episode.sizing.samples import MOST_ROWS, generate_rows, read_columns, read_sample

GROUP_BYTES = 16 * 2**20
"""Bytes of events that are matched together in a batch."""
RUNS = 3
LEAST_ROWS = 1_000
_SHARDS = 4
_PIECES = 8
_BATCH_ROWS = 1 << 20
_WARM_ROWS = 4_096
_MANY_HELD, _MOST_COPIES = 1_000, 4

Value = TypeVar("Value")


@dataclass
class PartTimer:
    """Seconds of the core by part."""

    seconds: dict[str, float] = field(default_factory=dict)

    def measure(self, part: str, work: Callable[[], Value]) -> Value:
        begin = process_time()
        found = work()
        self.seconds[part] = self.seconds.get(part, 0.0) + process_time() - begin
        return found


@dataclass(frozen=True)
class StageCosts:
    """Costs of one run of a batch's two stages. bytes: of all envelopes; wire: of the same, compressed. moved: rows."""

    seconds: dict[str, float]
    bytes: int
    wire: int
    moved: int
    matches: int


def measure_query(
    query: BoundSample, language: str, origin: str, window: float | None = None, runs: int = RUNS
) -> QueryProfile:
    """Measure a query on its table. window: in seconds, if the query has no WITHIN."""
    from episode.spark.startup.workers import prepare_worker

    prepare_worker()  # keeps memory for the next batch, as Spark's workers do: it makes a third of a difference
    table = query.table.combine_chunks()
    rows = table.num_rows
    run_stages(query.spec, table.slice(0, _WARM_ROWS))
    taken = [run_stages(query.spec, table) for _ in range(runs)]
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


def run_stages(spec: MatcherSpec, table: pa.Table) -> StageCosts:
    """Pack the rows, then open, order and match them, as the tasks of a batch do. Only the compressing is Spark's."""
    screen = spec.screen if isinstance(spec, Screens) else None
    shards = max(_SHARDS, -(-table.nbytes // GROUP_BYTES)) if spec.input_order.keys else 1
    clock = PartTimer(dict.fromkeys(("pack", "unpack", "order", "match"), 0.0))
    packing = Packing(spec.input_order, shards, screen=screen)
    batches = clock.measure("pack", lambda: list(pack([table], packing, 0)))
    if not batches:
        return StageCosts(clock.seconds, 0, 0, 0, 0)
    envelopes = pa.Table.from_batches(batches).sort_by([("shard", "ascending"), ("origin", "ascending")])
    moved = matches = 0
    for group in group_shards(unpack(envelopes.to_batches(max_chunksize=1)), GROUP_BYTES):
        tables = clock.measure("unpack", lambda group=group: list(group))  # type: ignore[misc]
        moved += sum(one.num_rows for one in tables)
        matches += clock.measure("match", partial(_count_matches, spec, tables, clock))
    wire = sum(pa.compress(blob.as_buffer(), codec="lz4").size for blob in envelopes["blob"])
    clock.seconds["match"] -= clock.seconds["order"]
    return StageCosts(clock.seconds, sum(len(blob.as_buffer()) for blob in envelopes["blob"]), wire, moved, matches)


def _count_matches(spec: MatcherSpec, tables: list[pa.Table], clock: PartTimer) -> int:
    """Order a group of tables and match it."""
    if not any(table.num_rows for table in tables):
        return 0
    order = spec.input_order
    events = clock.measure("order", lambda: events_of(concat(tables), order, KeyCoder(order.keys)))
    matcher = spec.open()
    found = sum(matches.num_rows for matches in matcher.feed(events, END_OF_TIME))
    return found + sum(matches.num_rows for matches in matcher.finish())


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


def held_rows(query: BoundSample, window: float | None) -> HeldPerKey:
    """Measure the rows held per key: feed the rows in order of time, once unchanged, once with time at half the speed.

    Then half as many rows fall into a window. The difference shows how the state grows with the rate.
    """
    if query.time is None or window is None:
        return HeldPerKey(0.0, 0.0, 1.0, query.table.nbytes / max(1, query.table.num_rows), measured=False)
    window *= query.units_per_second
    full, keys, in_window, size = _feed(query, window, 1)
    half, _, of_half, _ = _feed(query, window, 2)
    growth = in_window / of_half if of_half else 1.0
    elasticity = math.log(full / half) / math.log(growth) if half and full and growth > 1 else float(full > half)
    return HeldPerKey(full / keys, in_window / keys, min(1.0, max(0.0, elasticity)), size, measured=True)


def _feed(query: BoundSample, window: float, slower: int) -> tuple[float, int, float, float]:
    """(rows held, keys, rows within the window, bytes of a held row); the first two are means over the second half."""
    table, time = _slow_down(query, slower)
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
    """Bytes of a held row in a snapshot, beyond those of an empty matcher. row: bytes of an event, used if too few rows
    are held to measure."""
    if held < _MANY_HELD:
        return row
    taken, nothing = (
        sum(len(chunk.data) for chunk in matcher.snapshot().put) for matcher in (running.matcher, running.spec.open())
    )
    return min((taken - nothing) / held, _MOST_COPIES * row)


def _slow_down(query: BoundSample, slower: int) -> tuple[pa.Table, np.ndarray]:
    """Return the rows in order of time, which runs `slower` times slower, and the times."""
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


def snapshot_cost(query: BoundSample) -> float:
    """Nanoseconds of the core for each byte of a snapshot, of a query that holds many rows."""
    running = LocalRun(query.spec)
    events = running.events(query.table)
    for _ in running.matcher.feed(events, int(events.time.max()) - 1):
        pass
    clock = PartTimer()
    chunks = clock.measure("snapshot", running.matcher.snapshot).put
    return clock.seconds["snapshot"] / max(1, sum(len(chunk.data) for chunk in chunks)) * 1e9


# Calibration: the same work in process on this machine and on that of the constants, in some seconds.


CALIBRATION_ROWS = 400_000
QUERY = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY key ORDER BY ts
  MEASURES A.price AS init_price, LAST(D.price) AS max_price
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A B+ C* D+)
  DEFINE B AS B.price < PREV(B.price),
         C AS C.price >= PREV(C.price) AND C.price <= A.price,
         D AS D.price > PREV(D.price) AND D.price > A.price)"""
COLUMNS = "key int, ts timestamp, price double"
PARTS = ("reference_scan", "reference_pack", "reference_order", "reference_match")
"""Costs of the work below on the machine of the constants; stored with them, though the model does not need them."""


def reference(rows: int = CALIBRATION_ROWS) -> QueryProfile:
    table = generate_rows(read_columns(COLUMNS), QUERY, ("key",), 10_000.0, 1_000.0, rows)
    return measure_query(bind_to(read_pattern(QUERY), table, Given()), ROWS, "made-up ticks")


def part_costs(profile: QueryProfile) -> dict[str, float]:
    """The parts by which machines are compared, in ns per row."""
    return dict(zip(PARTS, (profile.scan, profile.pack, profile.order, profile.match), strict=True))


def calibrate_constants(constants: Constants) -> Constants:
    """Scale the constants to this machine: by the geometric mean of its parts' ratios."""
    here = part_costs(reference())
    logs = [math.log(here[part] / constants[part]) for part in PARTS]
    return constants.scaled_by(math.exp(sum(logs) / len(logs)), contention(), machine_name(), date.today().isoformat())


def contention() -> float:
    """Measure how much longer the same work takes if all cores do it at once."""
    cores = os.cpu_count() or 1
    if cores == 1:
        return 1.0
    alone = _mean_seconds(1)
    return max(1.0, _mean_seconds(cores) / alone)


def _mean_seconds(processes: int) -> float:
    """The mean time of several processes that work at the same time."""
    command = [sys.executable, "-m", "episode.sizing.measuring"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(processes)]
    found = [float(one.communicate()[0]) for one in running]
    return sum(found) / len(found)


def machine_name() -> str:
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        name = models[0] if models else name
    return f"{name}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.stdout.write(f"{sum(part_costs(reference()).values())}\n")


NOT_GIVEN = "no query: the constants of the tick query (A B+ C* D+ from every row)"
NOT_MEASURED = "not measured: the constants of its language's example"


@dataclass(frozen=True)
class SizingRequest:
    """A query to size, and the data to measure it on.

    text: of the query, if given. sample: a path of data. columns: of generated data. rows: the most that are measured.
    arguments: the values of parameters.
    """

    text: str | None = None
    sample: str | None = None
    columns: str | None = None
    rows: int = MOST_ROWS
    given: Given = field(default_factory=Given)
    arguments: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.sample is not None and self.columns is not None:
            raise EpisodeAnalysisError("--columns is for made-up rows, --sample for given ones: give one of them.")
        if self.text is None and (self.sample is not None or self.columns is not None):
            option = "--sample" if self.sample is not None else "--columns"
            raise EpisodeAnalysisError(f"{option} is to measure a query: give it with --query.")

    def profile(self, demand: Demand, constants: Constants) -> QueryProfile:
        """Measure the query if there are data for it, else use stored constants."""
        if self.text is None:
            return assumed_profile(ROWS, constants, NOT_GIVEN)
        query = read_pattern(self.text)
        if self.sample is not None:
            return self._measure(query, read_sample(self.sample, self.rows), self.sample, demand)
        if self.columns is not None:
            return self._measure(query, self._generate(query, self.columns, demand), "made-up rows", demand)
        return assumed_profile(query.language.name, constants, NOT_MEASURED)

    def _measure(self, query: StatementPattern, table: pa.Table, origin: str, demand: Demand) -> QueryProfile:
        if table.num_rows < LEAST_ROWS:
            raise EpisodeAnalysisError(
                f"{origin} has {table.num_rows:,} rows: too few to measure a query on.",
                hint=f"Give at least {LEAST_ROWS:,} rows; some hundred thousand are better.",
            )
        bound = bind_to(query, table, self.given, self.arguments)
        return measure_query(
            bound, query.language.name, f"measured on {table.num_rows:,} rows ({origin})", demand.window
        )

    def _generate(self, query: StatementPattern, columns: str, demand: Demand) -> pa.Table:
        """Generate rows for the query; planning over an empty table finds the columns that are keys."""
        schema = read_columns(columns)
        spec = bind_to(query, schema.empty_table(), self.given, self.arguments).spec
        # a sample has fewer keys than the demand, each with the same rate of events
        keys = max(1.0, min(demand.keys, self.rows / 100))
        rate = max(1.0, demand.rate * keys / demand.keys)
        return generate_rows(schema, self.text or "", spec.input_order.keys, rate, keys, self.rows)
