"""A query of any language planned on Spark, over one DataFrame or over one per class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError
from episode.queries.language import Given, Input
from episode.queries.languages import language_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.plan.run_options import RunOptions
    from episode.plan.tables import EventTable
    from episode.spark.query import PlannedQuery


def plan_over(
    spark: SparkSession,
    query: object,
    frame: DataFrame,
    given: Given,
    run: RunOptions,
    *,
    names: tuple[str, ...] = (),
    tables: Mapping[str, EventTable] | None = None,
) -> PlannedQuery:
    """Over one DataFrame of all events. names: of its table. tables: of the classes that it was made of, if it was."""
    from episode.spark.query import plan_query
    from episode.spark.schema import input_schema

    language = language_of(query)
    schema = input_schema(spark, frame, language.source(query), language.called, run.arguments)
    return plan_query(spark, frame, language.bind(query, Input(schema, names, tables or {}), given, run), run)


def plan_over_classes(
    spark: SparkSession, query: object, frames: Mapping[str, DataFrame], given: Given, run: RunOptions
) -> PlannedQuery:
    """Over a DataFrame per class, as one stream of events."""
    from episode.spark.schema import input_schema
    from episode.spark.union import one_stream

    language = language_of(query)
    source = language.source(query)
    live = {name for name, frame in frames.items() if frame.isStreaming}
    if live and len(live) < len(frames):
        raise source.error(
            EpisodeAnalysisError,
            f"{', '.join(sorted(live))} is a stream and {', '.join(sorted(set(frames) - live))} is not.",
            source.span.beginning,
            "Read all tables of one pattern as streams, or none.",
        )
    schemas = {name: input_schema(spark, frame, source, f"the class {name}") for name, frame in frames.items()}
    tables = language.unite(query, schemas, given)
    return plan_over(spark, query, one_stream(frames, tables), given, run, tables=tables)
