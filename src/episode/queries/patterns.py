"""Event patterns and situation patterns planned on Spark with a query's options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from episode.lang.events.syntax import EventQuery
from episode.lang.situations.syntax import SituationQuery
from episode.plan.situations.plan import EARLIEST
from episode.queries.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.spark.event_pattern import EventOptions, EventSource
    from episode.spark.pattern_query import PatternQuery


def plan_events(
    spark: SparkSession, query: EventQuery, source: EventSource, wanted: EventOptions, options: Options, metrics: str
) -> PatternQuery:
    from episode.spark.event_pattern import plan_events_on_spark

    return plan_events_on_spark(
        spark,
        query,
        source,
        wanted,
        step_budget=options.step_budget,
        shards=options.shards,
        shard_bytes=options.shard_bytes,
        live=options.live(),
        metrics=metrics,
    )


def plan_situations(
    spark: SparkSession,
    query: SituationQuery,
    frame: DataFrame,
    time: str | None,
    keys: tuple[str, ...],
    options: Options,
    metrics: str,
) -> PatternQuery:
    from episode.spark.situation_pattern import SituationOptions, plan_situations_on_spark

    return plan_situations_on_spark(
        spark,
        query,
        frame,
        SituationOptions(time, keys, options.detect == EARLIEST),
        shards=options.shards,
        shard_bytes=options.shard_bytes,
        live=options.live(),
        metrics=metrics,
    )
