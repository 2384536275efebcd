"""Collapsed matches expanded: the events of each collapsed match are one partition, in the task that has it.

The variables of a collapsed match are columns: a struct for a single event, an array of structs for a closure. Spark
makes one row of every event, in place; a stage in Python matches the rows of each collapsed match as they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType

from episode.errors import EpisodeAnalysisError
from episode.matchers.engines import matcher_spec
from episode.matchers.protocol import MatcherSpec
from episode.matchers.running import match_partitions
from episode.plan.options import RunOptions
from episode.plan.pattern import PatternPlan, Source
from episode.plan.schema import CLASS_COLUMN, PARTITION_COLUMN, EventTable, InputSchema, quote
from episode.spark import types as carry
from episode.spark.confinement import expr
from episode.spark.expressions import conventions_of, text_literal
from episode.spark.packing import columns_of, on_rows

EVENT, EVENTS = "e", "events"


@dataclass(frozen=True)
class Expansion:
    """A planned run over collapsed matches."""

    input: DataFrame
    schema: pa.Schema
    spec: MatcherSpec
    is_stream: bool

    @property
    def reasons(self) -> list[str]:
        return ["expanded where the collapsed matches are: each is a separate partition"]

    def frame(self) -> DataFrame:
        """The matches; nothing runs before an action."""
        spec, output = self.spec, self.spec.output_schema

        def work(events: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
            for table in match_partitions(spec, events):
                yield from table.to_batches()

        matched = carry.encode(self.input).mapInArrow(on_rows(work, self.schema), carry.travel_schema(output))
        return carry.decode(matched, output)


def variable_schemas(
    spark: SparkSession, frame: DataFrame, variables: Mapping[str, bool], source: Source
) -> dict[str, InputSchema]:
    """The columns of each variable's events. variables: is it a closure? What is missing is an error."""
    utc, case_sensitive = conventions_of(spark)
    table = InputSchema(dict.fromkeys(frame.columns, ""), case_sensitive=case_sensitive)
    out = {}
    for name, closure in variables.items():
        column = table.find(name)
        wanted = "an array of structs, the events of a closure" if closure else "a struct, an event"
        if column is None:
            whole = ", ".join(f"{other}[]" if many else other for other, many in variables.items())
            raise source.error(
                EpisodeAnalysisError,
                f"The collapsed matches have no column {name}: {wanted}.",
                hint=f"Return it with the others: RETURN COLLAPSED {whole}.",
            )
        kind = frame.schema[column].dataType
        inner = kind.elementType if closure and isinstance(kind, ArrayType) else None if closure else kind
        if not isinstance(inner, StructType):
            raise source.error(
                EpisodeAnalysisError,
                f"The column {column} of the collapsed matches is of type {kind.simpleString()}, not {wanted}.",
                hint="Return whole events: RETURN COLLAPSED without columns, or with the variables alone.",
            )
        columns = {field.name: field.dataType.simpleString() for field in inner.fields}
        out[name] = InputSchema(columns, utc=utc, case_sensitive=case_sensitive)
    return out


def events_of_variables(
    spark: SparkSession,
    frame: DataFrame,
    variables: Mapping[str, bool],
    schemas: Mapping[str, InputSchema],
    tables: Mapping[str, EventTable],
) -> DataFrame:
    """A row for each event of each collapsed match, those of one after the other: its position, its variable, its
    columns."""
    table = InputSchema(dict.fromkeys(frame.columns, ""), case_sensitive=conventions_of(spark)[1])
    types = {
        column: events.widened.get(own, schemas[name].columns[own])
        for name, events in tables.items()
        for own, column in events.columns.items()
    }
    lists = []
    for name, closure in variables.items():
        column = quote(table.find(name) or name)
        own = {stream: field for field, stream in tables[name].columns.items()}
        fields = ", ".join(
            f"{text_literal(stream)}, CAST({f'{EVENT}.{quote(own[stream])}' if stream in own else 'NULL'} AS {type_})"
            for stream, type_ in types.items()
        )
        event = f"{EVENT} -> named_struct({text_literal(CLASS_COLUMN)}, {tables[name].number}, {fields})"
        many = f"coalesce({column}, array())" if closure else f"filter(array({column}), x -> x IS NOT NULL)"
        lists.append(f"transform({many}, {event})")
    listed = frame.select(expr(f"concat({', '.join(lists)})").alias(EVENTS))
    rows = listed.select(F.posexplode(EVENTS).alias(PARTITION_COLUMN, EVENT))
    return rows.select(PARTITION_COLUMN, f"{EVENT}.*")


def plan_expansion(frame: DataFrame, pattern: PatternPlan, run: RunOptions) -> Expansion:
    """A run of a pattern over the rows of `events_of_variables`."""
    selected = columns_of(frame, pattern.input_columns, pattern.derived, run.arguments)
    schema = carry.arrow_schema(selected.schema)
    spec = matcher_spec(pattern, schema)
    carry.check_order(selected.schema, spec.input_order)
    return Expansion(selected, schema, spec, frame.isStreaming)
