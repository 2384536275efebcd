"""One event pattern on Spark: bound to a DataFrame, or to one per class, run by the batch or the stream runtime."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.matchers.event_pattern import EventPatternSpec
from episode.matchers.row_pattern import StateLimit
from episode.plan.clause import EventQuery, Strategy
from episode.plan.event_classes import CLASS_COLUMN, EventClasses, EventTable
from episode.plan.event_pattern import EventPlan, plan_event_pattern, time_column
from episode.plan.event_returns import KEEP, EventTimes
from episode.plan.explain_events import explain_reports
from episode.plan.schema import quote
from episode.plan.stream import EventTime
from episode.spark.batch import Batch, plan_batch
from episode.spark.row_pattern import input_schema
from episode.spark.stream import LiveOptions, Stream, plan_stream
from episode.spark.tables import first_line

MATCHES = "episode.matches"
"""In the metadata of a stream's columns: they are matches, and have no watermark that a further pattern could use."""


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


@dataclass(frozen=True)
class EventPatternQuery:
    """A planned event pattern on its input: lazily a DataFrame, and in words for `explain`."""

    plan: EventPlan
    run: Batch | Stream

    @property
    def reasons(self) -> list[str]:
        return self.run.reasons

    def analysis(self) -> list[str]:
        """Run it over its table, and tell what the plans of the shards did."""
        if isinstance(self.run, Stream):
            raise EpisodeAnalysisError(
                "analyze=True runs a pattern over a table; this is a stream.",
                hint="Watch a running stream by its counters, or analyze a table of its past events.",
            )
        return explain_reports(self.run.reports())

    def frame(self) -> DataFrame:
        """RETURN's columns, then match_start and match_end."""
        matched = self.run.frame()
        columns, conditions = [], []
        for measure in self.plan.measures.measures:
            column = F.expr(measure.sql)
            try:
                matched.select(column).schema  # noqa: B018 - analysis of this column alone
            except (AnalysisException, ParseException) as error:
                raise EpisodeAnalysisError(
                    f"{measure.original} cannot be computed: {_without_atoms(first_line(error), self.plan)}",
                    source=self.plan.query.source,
                    position=measure.span.start,
                    length=measure.span.end - measure.span.start,
                ) from None
            if measure.name.startswith(KEEP):
                conditions.append(column)
            elif isinstance(self.run, Stream):
                columns.append(column.alias(measure.name, metadata={MATCHES: True}))
            else:
                columns.append(column.alias(measure.name))
        for condition in conditions:
            matched = matched.where(condition)
        return matched.select(*columns)


def _without_atoms(message: str, plan: EventPlan) -> str:
    """Spark's message without the names of the matcher's own columns."""
    for name in sorted(plan.measures.atoms.values(), key=len, reverse=True):
        message = message.replace(f"`{name}`", "a value of the match").replace(name, "a value of the match")
    return message


def one_stream(query: EventQuery, tables: dict[str, DataFrame]) -> EventSource:
    """Tables of classes as one stream of events. Columns of the same name and type are one; others are told apart."""
    live = {name for name, frame in tables.items() if frame.isStreaming}
    if live and len(live) < len(tables):
        raise EpisodeAnalysisError(
            f"{', '.join(sorted(live))} is a stream and {', '.join(sorted(set(tables) - live))} is not.",
            source=query.source,
            position=query.pattern_span.start,
            hint="Read all tables of one pattern as streams, or none.",
        )
    types: dict[str, set[str]] = {}
    for frame in tables.values():
        for field in frame.schema.fields:
            types.setdefault(field.name, set()).add(field.dataType.simpleString())
    union: DataFrame | None = None
    bound: dict[str, EventTable] = {}
    for number, (name, frame) in enumerate(tables.items()):
        own = {
            field.name: field.name if len(types[field.name]) == 1 else f"{field.name}__{number}"
            for field in frame.schema.fields
        }
        bound[name] = EventTable(number, own)
        columns = [F.col(quote(column)).alias(new) for column, new in own.items()]
        part = frame.select(F.lit(number).alias(CLASS_COLUMN), *columns)
        union = part if union is None else union.unionByName(part, allowMissingColumns=True)
    assert union is not None
    return EventSource(union, bound)


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
) -> EventPatternQuery:
    """Bind a query to its events, of tables or of streams."""
    frame = source.frame
    schema = input_schema(spark, frame, query.source, query.span.start, "the event pattern")
    where = "Say time='ts' (in SQL: ORDER BY ts before PATTERN)."
    time = time_column(query, schema, options.time, where)
    start = None if options.start is None else time_column(query, schema, options.start, where)
    if start is not None and schema.columns[start] != schema.columns[time]:
        raise EpisodeAnalysisError(f"{start} and {time} must be of one type to be start and end of an event.")
    keys = []
    for name in options.keys:
        column = schema.find(name)
        if column is None:
            raise EpisodeAnalysisError(
                f"There is no column {name} for the key.", hint=f"Columns of the input: {', '.join(schema.columns)}."
            )
        keys.append(column)
    type_column = None
    if options.type_column is not None:
        type_column = schema.find(options.type_column) or options.type_column
    classes = EventClasses(query, schema, type_column, source.tables)
    plan = plan_event_pattern(
        query, classes, EventTimes(time, start, schema.columns[time]), tuple(keys), options.strategy
    )
    limit = StateLimit(live.max_state_rows, live.gives_up) if frame.isStreaming and live.max_state_rows else None

    def spec_of(arrow: pa.Schema) -> EventPatternSpec:
        return EventPatternSpec(plan, arrow, step_budget, limit)

    if frame.isStreaming:
        if any(MATCHES in field.metadata for field in frame.schema.fields):
            raise EpisodeUnsupportedError(
                "One pattern over the matches of another is not possible in one streaming query.",
                source=query.source,
                position=query.pattern_span.start,
                hint="Write the matches of the first to a table or a topic; run the second as a query of its own.",
            )
        if plan.within is None:
            raise EpisodeAnalysisError(
                "An event pattern over a stream needs WITHIN: without it every event is held forever.",
                source=query.source,
                position=query.pattern_span.start,
                length=query.pattern_span.end - query.pattern_span.start,
                hint="Write for example WITHIN 10 minutes behind the conditions.",
            )
        columns = tuple(dict.fromkeys([*plan.input_columns, *([live.event_id] if live.event_id else [])]))
        event_time = EventTime(time, schema.columns[time])
        stream = plan_stream(
            spark, frame, columns, plan.derived, spec_of, event_time, live, shards=shards, metrics=metrics
        )
        return EventPatternQuery(plan, stream)
    batch = plan_batch(spark, frame, plan.input_columns, plan.derived, spec_of, shards=shards, shard_bytes=shard_bytes)
    return EventPatternQuery(plan, batch)
