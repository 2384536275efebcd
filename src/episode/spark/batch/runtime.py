"""The batch runtime: pack the input into envelopes, shuffle them by shard, match each shard. Lazy throughout.

Sets of rules that group and order rows differently are matched over one input: it is read once, every chunk is packed
for each set, and the same tasks match the shards of one set after those of the other.

See decisions 22 and 32.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from episode.errors import EpisodeError
from episode.matchers.envelope import FLUSH_BYTES, SCHEMA, Packing, group_shards, pack, pack_for_all, unpack
from episode.matchers.protocol import Analyzes, InputOrder, Matcher, MatcherSpec, Reports, Screens
from episode.matchers.running import run
from episode.matchers.screening import Screen
from episode.matchers.shard import DEFAULT_BUDGET, run_shard
from episode.matchers.slices.keys import Sketch, SlicedKeys
from episode.matchers.stage_clock import StageClock
from episode.plan.options import RunOptions
from episode.spark import classic
from episode.spark import types as carry
from episode.spark.batch.slices import (
    PARTS,
    PARTS_ORDER,
    SliceInput,
    SlicePlan,
    Units,
    follow_chain,
    match_alone,
    match_units,
    plan_slices,
)
from episode.spark.packing import Packer, Stage, Work, columns_of, on_rows, pack_rows
from episode.spark.scan.direct import LEAST_TASK_BYTES, ParquetScan, Split, choose_scan, in_waves
from episode.spark.scan.sketch import sketch_of_rows, sketch_of_scan, sketch_of_store
from episode.spark.startup.workers import await_worker, prepare_worker, spill_directory
from episode.spark.stores.catalog import StoreScan, scan_of
from episode.spark.versions import by_number

WorkOf = Callable[[MatcherSpec], Work]

LOGGER = logging.getLogger("episode.spark")
GROUP_BYTES = 16 * 2**20
"""Small shards of a task are matched together up to this size: few feeds, and arrays that stay in the cache."""

ONE_TASK_BYTES = 2**20
"""Inputs up to this size run in one task, without a shuffle: that takes less time than starting another."""

_TASKS_PER_CORE = 2
_ASSUMED_CORES = 8
_MOST_SHARDS = 4096
_MOST_SMALL_SHARDS = 256
_TASK_BYTES = 128 * 2**20
_LEAST_BUDGET = 2**15
_FIRST_ROWS = 64
_NO_KEYS = "no PARTITION BY: all rows are one partition"


@dataclass(frozen=True)
class Batch:
    """A planned batch run: `frame()` is its result, lazily; the reasons are for explain.

    further: more specs with the same output columns, matched over the same input.
    """

    spark: SparkSession
    input: DataFrame
    schema: pa.Schema
    spec: MatcherSpec
    scan: ParquetScan | None
    shards: Shards
    budget_bytes: int
    scan_reason: str
    store: StoreScan | None = None
    slices: SlicePlan | None = None
    further: tuple[ShardedSpec, ...] = ()

    is_stream: ClassVar[bool] = False

    @property
    def reasons(self) -> list[str]:
        """The input, the rows that are moved, the number of shards and its origin, and the sliced keys, for explain."""
        if self.further:
            ways = [f"shards of group {at}: {one.reason}" for at, (_, one) in enumerate(self.groups, start=1)]
            return [f"scan: {self.scan_reason}", *ways]
        slices = [] if self.slices is None else self.slices.reasons
        screened = ["screen: rows that qualify for no variable are not shuffled"] if self.screen is not None else []
        return [f"scan: {self.scan_reason}", *screened, f"shards: {self.shards.reason}", *slices]

    @property
    def groups(self) -> tuple[ShardedSpec, ...]:
        """All specs, each with its shards."""
        return ShardedSpec(self.spec, self.shards), *self.further

    @property
    def screen(self) -> Screen | None:
        """The filter of rows that no match can have, if the pattern allows it."""
        return _screen_of(self.spec)

    @property
    def tasks(self) -> list[tuple[Split, ...]]:
        """The input of each task of a direct scan."""
        return [] if self.scan is None else self.scan.tasks(_TASK_BYTES, self.shards.cores, _TASKS_PER_CORE)

    def frame(self) -> DataFrame:
        """The matches as a DataFrame; nothing runs before an action."""
        LOGGER.info("pattern over a table: %s", "; ".join(self.reasons))
        await_worker(self.spark)
        schema = carry.travel_schema(self.spec.output_schema)
        if self.slices is not None and self.slices.sliced is not None:
            matched = self._slice_matches(self.slices, self.slices.sliced, schema)
        else:
            matched = self._run(partial(_match, budget_bytes=self.budget_bytes), schema)
        return carry.decode(matched, self.spec.output_schema)

    def reports(self) -> list[str]:
        """Run it, drop all matches, and collect the reports of the matchers (as JSON). Keys are not sliced: matchers
        count whole keys."""
        reported = self._run(partial(_report, budget_bytes=self.budget_bytes), "report string")
        return [row.report for row in reported.collect()]

    def _run(self, work_of: WorkOf, schema: StructType | str) -> DataFrame:
        """Run a work on the events of every shard."""
        works = [work_of(spec) for spec, _ in self.groups]
        if not self.shards.together:
            sizes = [min(getattr(spec, "group_bytes", GROUP_BYTES), self.budget_bytes) for spec, _ in self.groups]
            ends = list(accumulate(shards.count for _, shards in self.groups))
            rows = _by_unit(self._envelopes(), max(shards.partitions for _, shards in self.groups))
            return rows.mapInArrow(_work_by_shard(works, sizes, ends), schema)
        work = _work_in_turn(works, [spec.input_columns for spec, _ in self.groups]) if self.further else works[0]
        if self.scan is None:
            rows = carry.encode(self.input).coalesce(1)
            return rows.mapInArrow(on_rows(work, self.schema), schema)
        number = self.spark.range(0, 1, 1, numPartitions=1)
        return number.mapInArrow(_scan_and_work(work, self.scan), schema)

    def _slice_matches(self, plan: SlicePlan, sliced: SlicedKeys, schema: StructType | str) -> DataFrame:
        """The matches of shards and slices; in two stages if slices depend on each other."""
        units = Units(self.spec, sliced, self.budget_bytes, min(GROUP_BYTES, self.budget_bytes))
        if plan.reads is None:
            rows = _by_unit(self._envelopes(sliced), plan.tasks)
        else:
            assert self.scan is not None
            units = replace(units, scan=replace(self.scan, splits=()), reads=plan.reads)
            rows = self.spark.range(0, plan.tasks, 1, numPartitions=plan.tasks)
        if not plan.chained:
            return rows.mapInArrow(match_units(units), schema)
        parts = by_number(rows.mapInArrow(match_alone(units, plan.tasks), PARTS), plan.tasks, "to")
        return parts.sortWithinPartitions(*PARTS_ORDER).mapInArrow(follow_chain(units, plan.tasks), schema)

    def _envelopes(self, sliced: SlicedKeys | None = None) -> DataFrame:
        packings = [
            Packing(spec.input_order, shards.count, shards.flush_bytes, _screen_of(spec), sliced)
            for spec, shards in self.groups
        ]
        if self.store is not None:
            return self.store.envelopes(packings[0])
        packer: Packer = partial(pack, packing=packings[0])
        if self.further:
            columns = [spec.input_columns for spec, _ in self.groups]
            packer = partial(pack_for_all, packings=list(zip(packings, columns, strict=True)))
        if self.scan is None:
            return carry.encode(self.input).mapInArrow(pack_rows(packer, self.schema), SCHEMA)
        tasks = self.tasks
        scan = replace(self.scan, splits=())
        numbers = self.spark.range(0, len(tasks), 1, numPartitions=max(1, len(tasks)))
        return numbers.mapInArrow(_scan_and_pack(scan, tasks, packer), SCHEMA)


def _by_unit(envelopes: DataFrame, tasks: int) -> DataFrame:
    shuffled = by_number(envelopes, tasks, "shard")
    return shuffled.sortWithinPartitions("shard", "origin").select("shard", "blob")


@dataclass(frozen=True)
class Shards:
    """Distribution of keys: shards (sets of keys), and the tasks that match them. together: one task reads and matches
    all events."""

    count: int
    partitions: int
    cores: int
    reason: str
    together: bool = False

    @property
    def flush_bytes(self) -> int:
        """Pack at least 64 KiB for each shard at once, so that envelopes stay large."""
        return max(FLUSH_BYTES, min(self.count * 2**16, 4 * FLUSH_BYTES))


class ShardedSpec(NamedTuple):
    """A spec, and the shards it is matched in."""

    spec: MatcherSpec
    shards: Shards


def _screen_of(spec: MatcherSpec) -> Screen | None:
    return spec.screen if isinstance(spec, Screens) else None


def plan_batch(
    spark: SparkSession,
    frame: DataFrame,
    columns: tuple[str, ...],
    derived: tuple[tuple[str, str], ...],
    spec_of: Callable[[pa.Schema], MatcherSpec],
    run: RunOptions,
) -> Batch:
    """Plan a run over some columns of a frame and columns that Spark derives: (SQL, name) pairs."""
    return plan_batches(spark, frame, columns, derived, lambda schema: (spec_of(schema),), run)


def plan_batches(
    spark: SparkSession,
    frame: DataFrame,
    columns: tuple[str, ...],
    derived: tuple[tuple[str, str], ...],
    specs_of: Callable[[pa.Schema], Sequence[MatcherSpec]],
    run: RunOptions,
) -> Batch:
    """Plan a run of specs with the same output columns, as `plan_batch` plans one. Several are not sliced."""
    selected = columns_of(frame, columns, derived, run.arguments)
    schema = carry.arrow_schema(selected.schema)
    spec, *others = specs_of(schema)
    for one in (spec, *others):
        carry.check_order(selected.schema, one.input_order)
    budget = max(run.tuning.shard_bytes or DEFAULT_BUDGET, _LEAST_BUDGET)
    store = None if derived or others else scan_of(spark, selected)
    estimate = None
    if store is None:
        scan, reason = choose_scan(spark, selected, schema)
        size = scan.bytes if scan is not None else None
        estimate = size if scan is not None else classic.estimated_bytes(selected)
    else:
        scan, reason, size = None, f"envelopes of the stream store {store.name}", store.size(schema)
    cores = classic.parallelism(spark)
    forced = run.tuning.shards is not None or isinstance(run.tuning.slices, int)
    few = not forced and estimate is not None and estimate <= ONE_TASK_BYTES
    plan, *plans = (
        one_shard(one.input_order, cores)
        if few
        else plan_shards(one.input_order, size, cores, budget, run.tuning.shards)
        for one in (spec, *others)
    )
    if others:
        further = tuple(map(ShardedSpec, others, plans))
        return Batch(spark, selected, schema, spec, scan, plan, budget, reason, further=further)
    sample: Callable[[], Sketch | str]
    if store is not None:
        sample = partial(sketch_of_store, store, schema, spec.input_order)
    elif scan is not None:
        sample = partial(sketch_of_scan, scan, spec.input_order)
    else:
        sample = partial(sketch_of_rows, selected, schema, spec.input_order)
    tasks = max(plan.partitions, in_waves(-(-(size or 0) // _TASK_BYTES), plan.cores))  # if keys were many and small
    known, direct = estimate if size is None else size, scan is not None or store is not None
    given = SliceInput(sample, direct, known, scan, plan.count, tasks, plan.cores, budget)
    slices = plan_slices(spec, schema, given, run.tuning.slices)
    return Batch(spark, selected, schema, spec, scan, plan, budget, reason, store, slices)


def one_shard(order: InputOrder, parallelism: int | None) -> Shards:
    """All events in one shard, that of the task which reads them."""
    reason = "few events: one task reads and matches them" if order.keys else _NO_KEYS
    return Shards(1, 1, parallelism or _ASSUMED_CORES, f"1 ({reason})", together=True)


def plan_shards(
    order: InputOrder, size: int | None, parallelism: int | None, budget: int, wanted: int | None = None
) -> Shards:
    """Many more shards than cores, so that one fits its memory budget; one shard without keys."""
    cores = parallelism or _ASSUMED_CORES
    least = cores * _TASKS_PER_CORE
    if not order.keys:
        return Shards(1, 1, cores, f"1 ({_NO_KEYS})")
    if wanted is not None:
        return Shards(wanted, min(wanted, least), cores, f"{wanted:,} (as asked)")
    if size is None:
        count = _round_up(min(max(least, 64), _MOST_SMALL_SHARDS), least)
        return Shards(count, least, cores, f"{count:,} (size of the input not known; {cores} cores)")
    small = min(-(-size // GROUP_BYTES), _MOST_SMALL_SHARDS)
    count = min(max(small, -(-2 * size // budget)), _MOST_SHARDS)
    least = min(least, max(1, size // LEAST_TASK_BYTES))
    partitions = min(in_waves(max(least, -(-size // _TASK_BYTES)), cores), _MOST_SHARDS)
    count = _round_up(max(count, partitions), partitions)
    return Shards(count, partitions, cores, f"{count:,} (about {size / 2**20:,.0f} MiB of events; {cores} cores)")


def _round_up(count: int, unit: int) -> int:
    return -(-count // unit) * unit


# ---- in the workers --------------------------------------------------------------------------------------


def _scan_and_pack(scan: ParquetScan, tasks: list[tuple], packer: Packer) -> Stage:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for task in batch.column(0).to_pylist():  # numbers of tasks, not rows
                yield from packer(scan.read(tasks[task]), partition_index=task)

    return stage


def _scan_and_work(work: Work, scan: ParquetScan) -> Stage:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for _ in batches:  # a single one, which starts the task
            yield from work(scan.read(scan.splits))

    return stage


def _work_in_turn(works: Sequence[Work], columns: Sequence[Sequence[str]]) -> Work:
    """Do one work after the other on the same events, of which each reads some columns."""

    def work(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        kept = list(tables)  # few: see ONE_TASK_BYTES
        for one, names in zip(works, columns, strict=True):
            yield from one([table.select(list(names)) for table in kept])

    return work


def _work_by_shard(works: Sequence[Work], group_bytes: Sequence[int], ends: Sequence[int]) -> Stage:
    """Do the work that each shard is for. ends: the numbers at which the shards of each work end."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for at, envelopes in groupby(unpack(batches), lambda envelope: bisect_right(ends, envelope[0])):
            for tables in group_shards(envelopes, group_bytes[at]):
                yield from works[at](tables)

    return stage


def _match(spec: MatcherSpec, budget_bytes: int) -> Work:
    def work(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        yield from run_shard(spec, tables, budget_bytes, spill_directory=spill_directory())

    return work


def _report(spec: MatcherSpec, budget_bytes: int) -> Work:
    def work(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        opened = _Opened(spec)
        read = opened.warm_up(opened.clock.reading(tables))
        for _ in run_shard(opened, read, budget_bytes, spill_directory=spill_directory()):
            pass
        reports = [matcher.report().to_json() for matcher in opened.matchers if isinstance(matcher, Reports)]
        yield pa.RecordBatch.from_pydict({"report": pa.array(reports, pa.string())})

    return work


class _Opened:
    """A spec that keeps the matchers it has opened and times them, if they support it."""

    def __init__(self, spec: MatcherSpec) -> None:
        self.spec = spec
        self.clock = StageClock()
        self.matchers: list[Matcher] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spec, name)

    def warm_up(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Pass the tables on, after matching a few rows of the first, which compiles or loads the code of the query:
        that is not measured. An error is raised again where it counts."""
        for number, table in enumerate(tables):
            if number == 0 and isinstance(self.spec, Analyzes):
                before = self.clock.enter(None)
                with suppress(EpisodeError):
                    run(self.spec, table.slice(0, _FIRST_ROWS))
                self.clock.enter(before)
            yield table

    def open(self) -> Matcher:
        spec = self.spec
        self.matchers.append(spec.open_analyzed(self.clock) if isinstance(spec, Analyzes) else spec.open())
        return self.matchers[-1]
