"""One event pattern on Spark: bound to a DataFrame, or to one per class, run by the batch or the stream runtime."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.limits import StateLimit
from episode.plan.clause import EventQuery, Strategy
from episode.plan.event_time import EventTime, time_column
from episode.plan.events.classes import CLASS_COLUMN, EventClasses, EventTable
from episode.plan.events.explain import explain_reports
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.events.tables import one_stream_of
from episode.plan.schema import quote
from episode.spark.batch import plan_batch
from episode.spark.pattern_query import PatternQuery, key_columns, refuse_matches
from episode.spark.row_pattern import input_schema
from episode.spark.stream import LiveOptions, plan_stream


@dataclass(frozen=True)
class EventSource:
    """The input of an event pattern: one frame, with a class column if it was several tables."""

    frame: DataFrame
    tables: dict[str, EventTable]


@dataclass(frozen=True)
class EventOptions:
    """What a caller says beside the query: columns of event time and of partitions, how classes are told, strategy."""

    time: str | None = None
    start: str | None = None
    keys: tuple[str, ...] = ()
    type_column: str | None = None
    strategy: Strategy | None = None


def one_stream(query: EventQuery, tables: dict[str, DataFrame], options: EventOptions) -> EventSource:
    """Tables of classes as one stream of events."""
    if options.type_column is not None:
        span = query.input.type_span if query.input.type_column is not None else query.source.pattern
        raise query.source.error(
            EpisodeAnalysisError,
            f"The type column {options.type_column} has no meaning where each class has its table.",
            span,
            "Leave it out, or give one table of all events: match(df, …), in SQL FROM events.",
        )
    live = {name for name, frame in tables.items() if frame.isStreaming}
    if live and len(live) < len(tables):
        raise query.source.error(
            EpisodeAnalysisError,
            f"{', '.join(sorted(live))} is a stream and {', '.join(sorted(set(tables) - live))} is not.",
            query.source.pattern.beginning,
            "Read all tables of one pattern as streams, or none.",
        )
    schemas = {
        name: input_schema(frame.sparkSession, frame, query.source, query.source.pattern, f"the class {name}")
        for name, frame in tables.items()
    }
    bound = one_stream_of(query, schemas, options.time, options.start, options.keys)
    parts = [_part(frame, bound[name]) for name, frame in tables.items()]
    return EventSource(reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts), bound)


def _part(frame: DataFrame, table: EventTable) -> DataFrame:
    """The events of one table, as part of the stream."""
    columns = []
    for own, name in table.columns.items():
        column = F.col(quote(own))
        columns.append((column.cast(table.widened[own]) if own in table.widened else column).alias(name))
    return frame.select(F.lit(table.number).alias(CLASS_COLUMN), *columns)


def plan_events_on_spark(
    spark: SparkSession,
    query: EventQuery,
    source: EventSource,
    options: EventOptions,
    *,
    step_budget: int,
    shards: int | None,
    shard_bytes: int | None,
    live: LiveOptions,
    metrics: str,
) -> PatternQuery:
    """Bind a query to its events, of tables or of streams."""
    frame = source.frame
    schema = input_schema(spark, frame, query.source, query.source.span, "the event pattern")
    where = "Say time='ts' (in SQL: ORDER BY ts before PATTERN)."
    time = time_column(query.source, schema, options.time, where)
    start = None if options.start is None else time_column(query.source, schema, options.start, where)
    if start is not None and schema.columns[start] != schema.columns[time]:
        raise EpisodeAnalysisError(
            f"{start} is of type {schema.columns[start]} and {time} of type {schema.columns[time]}.",
            hint="Start and end of an event must be of one type: cast one of them.",
        )
    keys = key_columns(schema, options.keys)
    type_column = None
    if options.type_column is not None:
        type_column = schema.find(options.type_column) or options.type_column
    classes = EventClasses(query, schema, type_column, source.tables)
    plan = plan_event_pattern(query, classes, EventTimes(time, start, schema.columns[time]), keys, options.strategy)
    limit = StateLimit(live.max_state_rows, live.gives_up) if frame.isStreaming and live.max_state_rows else None

    def spec_of(arrow: pa.Schema) -> EventPatternSpec:
        return EventPatternSpec(plan, arrow, step_budget, limit)

    if frame.isStreaming:
        refuse_matches(frame, query.source)
        if plan.within is None:
            raise query.source.error(
                EpisodeAnalysisError,
                "An event pattern over a stream needs WITHIN: without it every event is held forever.",
                query.source.pattern,
                "Write for example WITHIN 10 minutes behind the conditions.",
            )
        columns = tuple(dict.fromkeys([*plan.input_columns, *([live.event_id] if live.event_id else [])]))
        event_time = EventTime(time, schema.columns[time])
        stream = plan_stream(
            spark, frame, columns, plan.derived, spec_of, event_time, live, shards=shards, metrics=metrics
        )
        return PatternQuery(plan, stream, explain_reports)
    batch = plan_batch(spark, frame, plan.input_columns, plan.derived, spec_of, shards=shards, shard_bytes=shard_bytes)
    return PatternQuery(plan, batch, explain_reports)
