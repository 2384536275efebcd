"""The way of events to their shards, which batches and streams share: the columns that a query reads, in envelopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.taskcontext import TaskContext

from episode.matchers.envelope import empty_envelope
from episode.plan.schema import quote
from episode.spark.confinement import expr
from episode.spark.expressions import Arguments, select, uses
from episode.spark.startup.workers import prepare_worker
from episode.spark.types import as_events

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Work = Callable[[Iterable[pa.Table]], Iterator[pa.RecordBatch]]
"""Work of a task on the events of its input, or of one or several shards."""
Packer = Callable[..., Iterator[pa.RecordBatch]]
"""Packs tables; partition_index: of the task that reads them. See `envelope.pack`."""


def columns_of(
    frame: DataFrame, columns: tuple[str, ...], derived: tuple[tuple[str, str], ...], arguments: Arguments
) -> DataFrame:
    """The columns that a query reads, those that Spark computes for it included."""
    expressions = {name: text for text, name in derived}
    if uses(arguments, expressions.values()):
        return select(frame, [(expressions.get(c, quote(c)), c) for c in columns], arguments)
    wanted = [expr(expressions[c]).alias(c) if c in expressions else F.col(quote(c)) for c in columns]
    return frame.select(*wanted)


def on_rows(work: Work, schema: pa.Schema) -> Stage:
    """Runs in the workers: the work on rows as Spark sends them."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        yield from work(as_events(batch, schema) for batch in batches)

    return stage


def pack_rows(packer: Packer, schema: pa.Schema) -> Stage:
    """Pack rows as Spark sends them by shard."""
    return on_rows(lambda tables: packer(tables, partition_index=TaskContext.get().partitionId()), schema)


def with_call(envelopes: Iterator[pa.RecordBatch], shard: int | None) -> Iterator[pa.RecordBatch]:
    """The envelopes of a task and, if there are any, an empty one that calls a further shard (None: none)."""
    any_events = False
    for batch in envelopes:
        any_events = True
        yield batch
    if any_events and shard is not None:
        yield empty_envelope(shard)
