"""Rules over one table on Spark: read once, packed for every way in which rules group and order its rows, matched.

One group of rules is a batch as any other. Several are packed from the same chunks, and their shards are matched one
after the other in the same tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from episode.matchers.envelope import SCHEMA, Packing, in_groups, pack_for_all, unpack
from episode.matchers.protocol import Reports
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.spec import RuleSetSpec
from episode.matchers.shard import DEFAULT_BUDGET, run_shard
from episode.plan.run_options import RunOptions
from episode.spark import carry, classic
from episode.spark.batch import ONE_TASK_BYTES, Batch, Shards, one_shard, plan_batch, plan_shards, tasks_of
from episode.spark.packing import Stage, as_events, columns_of
from episode.spark.scan import ParquetScan, Split, choose_scan
from episode.spark.versions import by_number
from episode.spark.warming import await_worker
from episode.spark.worker import prepare_worker, spill_directory

Specs = Callable[[pa.Schema], tuple[RuleSetSpec, ...]]
Packings = Sequence[tuple[Packing, tuple[str, ...]]]
"""How events are packed for each group of rules, and the columns that it reads."""


def plan_rules(
    spark: SparkSession,
    frame: DataFrame,
    columns: tuple[str, ...],
    derived: tuple[tuple[str, str], ...],
    groups_over: Specs,
    run: RunOptions,
) -> Batch | GroupedBatch:
    """Plan a run of rules over some columns of a frame and columns that Spark derives."""
    selected = columns_of(frame, columns, derived, run.arguments)
    schema = carry.arrow_schema(selected.schema)
    groups = groups_over(schema)
    if len(groups) == 1:
        return plan_batch(spark, frame, columns, derived, lambda schema: groups_over(schema)[0], run)
    for group in groups:
        carry.check_order(selected.schema, group.input_order)
    scan, reason = choose_scan(spark, selected, schema)
    size = None if scan is None else scan.bytes
    estimate = size if scan is not None else classic.estimated_bytes(selected)
    cores = classic.parallelism(spark)
    few = run.shards is None and estimate is not None and estimate <= ONE_TASK_BYTES
    budget = run.shard_bytes or DEFAULT_BUDGET
    shards = tuple(
        one_shard(group.input_order, cores) if few else plan_shards(group.input_order, size, cores, budget, run.shards)
        for group in groups
    )
    return GroupedBatch(spark, selected, schema, groups, scan, shards, budget, reason)


@dataclass(frozen=True)
class GroupedBatch:
    """A planned run of several groups of rules; the fields are those of `Batch`."""

    spark: SparkSession
    input: DataFrame
    schema: pa.Schema
    groups: tuple[RuleSetSpec, ...]
    scan: ParquetScan | None
    shards: tuple[Shards, ...]
    budget_bytes: int
    scan_reason: str

    @property
    def reasons(self) -> list[str]:
        """How the rows are read, and the number of shards of each group."""
        ways = [f"shards of group {at}: {one.reason}" for at, one in enumerate(self.shards, start=1)]
        return [f"scan: {self.scan_reason}", *ways]

    def frame(self) -> DataFrame:
        """The matches of all rules, in the columns of their pool."""
        await_worker(self.spark)
        pool = self.groups[0].pool
        return carry.decode(self._worked(_matching(self.budget_bytes), carry.travel_schema(pool)), pool)

    def reports(self) -> list[str]:
        """Run it, keep no match, and ask every matcher what was shared (as JSON)."""
        return [row.report for row in self._worked(_reporting(self.budget_bytes), "report string").collect()]

    def _worked(self, work: Work, schema: StructType | str) -> DataFrame:
        if all(one.together for one in self.shards):
            rows = carry.encode(self.input).coalesce(1)
            return rows.mapInArrow(_work_on_rows(self.groups, work, self.schema), schema)
        partitions = max(one.partitions for one in self.shards)
        shuffled = by_number(self._envelopes(), partitions, "shard")
        sorted_ = shuffled.sortWithinPartitions("shard", "origin").select("shard", "blob")
        first = (0, *accumulate(one.count for one in self.shards))
        stage = _work(self.groups, first, work, self.budget_bytes)
        return sorted_.mapInArrow(stage, schema)

    def _envelopes(self) -> DataFrame:
        packings: Packings = [
            (Packing(group.input_order, shards.count, shards.flush_bytes, group.screen), group.input_columns)
            for group, shards in zip(self.groups, self.shards, strict=True)
        ]
        if self.scan is None:
            return carry.encode(self.input).mapInArrow(_pack_rows(packings, self.schema), SCHEMA)
        keyed = max(self.shards, key=lambda one: one.count)
        tasks = tasks_of(self.scan, keyed)
        scan = replace(self.scan, splits=())
        numbers = self.spark.range(0, len(tasks), 1, numPartitions=max(1, len(tasks)))
        return numbers.mapInArrow(_scan_and_pack(scan, tasks, packings), SCHEMA)


# ---- what runs in the workers ----------------------------------------------------------------------------

Work = Callable[[RuleSetSpec, Iterable[pa.Table]], Iterator[pa.RecordBatch]]


def _pack_rows(packings: Packings, schema: pa.Schema) -> Stage:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        tables = (as_events(batch, schema) for batch in batches)
        yield from pack_for_all(tables, packings, TaskContext.get().partitionId())

    return stage


def _scan_and_pack(scan: ParquetScan, tasks: list[tuple[Split, ...]], packings: Packings) -> Stage:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for task in batch.column(0).to_pylist():  # numbers of tasks, not rows
                yield from pack_for_all(scan.read(tasks[task]), packings, task)

    return stage


def _work_on_rows(groups: tuple[RuleSetSpec, ...], work: Work, schema: pa.Schema) -> Stage:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        tables = [as_events(batch, schema) for batch in batches]  # few: see ONE_TASK_BYTES
        for group in groups:
            yield from work(group, [table.select(list(group.input_columns)) for table in tables])

    return stage


def _work(groups: tuple[RuleSetSpec, ...], first: tuple[int, ...], work: Work, budget_bytes: int) -> Stage:
    """first: where the shards of each group begin."""

    def group_of(envelope: tuple[int, pa.Table]) -> int:
        return next(at for at in range(len(groups)) if envelope[0] < first[at + 1])

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for at, envelopes in groupby(unpack(batches), group_of):
            for tables in in_groups(envelopes, min(groups[at].group_bytes, budget_bytes)):
                yield from work(groups[at], tables)

    return stage


def _matching(budget_bytes: int) -> Work:
    def work(group: RuleSetSpec, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        yield from run_shard(group, tables, budget_bytes, spill_directory=spill_directory())

    return work


def _reporting(budget_bytes: int) -> Work:
    def work(group: RuleSetSpec, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        opened = _Remembered(group)
        for _ in run_shard(opened, tables, budget_bytes, spill_directory=spill_directory()):
            pass
        reports = [matcher.report().to_json() for matcher in opened.matchers if isinstance(matcher, Reports)]
        yield pa.RecordBatch.from_pydict({"report": pa.array(reports, pa.string())})

    return work


class _Remembered(RuleSetSpec):
    """A group that remembers the matchers it has opened."""

    matchers: list[RuleSetMatcher]

    def __init__(self, group: RuleSetSpec) -> None:
        super().__init__(group.members, group.input_schema, group.pool)
        object.__setattr__(self, "matchers", [])

    def open(self) -> RuleSetMatcher:
        self.matchers.append(super().open())
        return self.matchers[-1]
