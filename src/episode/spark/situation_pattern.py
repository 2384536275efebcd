"""One situation pattern on Spark: bound to a DataFrame, run by the batch or the stream runtime."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from episode.errors import EpisodeAnalysisError, EpisodeWarning
from episode.matchers.limits import StateLimit
from episode.matchers.situations.spec import SituationPatternSpec
from episode.plan.clause import SituationQuery
from episode.plan.event_time import EventTime, time_column
from episode.plan.situations.explain import explain_searches
from episode.plan.situations.plan import plan_situation_pattern
from episode.spark.batch import plan_batch
from episode.spark.pattern_query import PatternQuery, key_columns, refuse_matches
from episode.spark.row_pattern import input_schema
from episode.spark.stream import LiveOptions, plan_stream


@dataclass(frozen=True)
class SituationOptions:
    """What a caller says beside the query. eager: tell matches at the earliest moment, not when they are complete."""

    time: str | None = None
    keys: tuple[str, ...] = ()
    eager: bool = True


def plan_situations_on_spark(
    spark: SparkSession,
    query: SituationQuery,
    frame: DataFrame,
    options: SituationOptions,
    *,
    shards: int | None,
    shard_bytes: int | None,
    live: LiveOptions,
    metrics: str,
) -> PatternQuery:
    """Bind a query to its events, of a table or of a stream."""
    schema = input_schema(spark, frame, query.source, query.source.span, "the situation pattern")
    time = time_column(query.source, schema, options.time, "Say time='ts' (in SQL: ORDER BY ts before DEFINE).")
    plan = plan_situation_pattern(query, schema, time, key_columns(schema, options.keys), options.eager)
    limit = StateLimit(live.max_state_rows, live.gives_up) if frame.isStreaming and live.max_state_rows else None

    def spec_of(arrow: pa.Schema) -> SituationPatternSpec:
        return SituationPatternSpec(plan, arrow, limit)

    if frame.isStreaming:
        refuse_matches(frame, query.source)
        if plan.within is None:
            _check_unbounded(query, limit is not None)
        columns = tuple(dict.fromkeys([*plan.input_columns, *([live.event_id] if live.event_id else [])]))
        event_time = EventTime(time, plan.time_type)
        stream = plan_stream(
            spark, frame, columns, plan.derived, spec_of, event_time, live, shards=shards, metrics=metrics
        )
        return PatternQuery(plan, stream, explain_searches)
    batch = plan_batch(spark, frame, plan.input_columns, plan.derived, spec_of, shards=shards, shard_bytes=shard_bytes)
    return PatternQuery(plan, batch, explain_searches)


def _check_unbounded(query: SituationQuery, limited: bool) -> None:
    """Without WITHIN every finished situation is held: refused where situations are not even related."""
    parts = query.components()
    if len(parts) > 1:
        groups = " and ".join("{" + ", ".join(part) + "}" for part in parts)
        raise query.source.error(
            EpisodeAnalysisError,
            f"The pattern is not connected ({groups}), and over a stream it needs WITHIN: without it every situation "
            "is paired with all that come after it.",
            query.source.pattern,
            "Write for example WITHIN 10 minutes behind the pattern, or relate the situations.",
        )
    if not limited:
        warnings.warn(
            "The state of this stream is not bounded: every finished situation is held. "
            "Add WITHIN, or set Options(max_state_rows=…).",
            EpisodeWarning,
            stacklevel=2,
        )
