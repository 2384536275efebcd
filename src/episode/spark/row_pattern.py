"""One MATCH_RECOGNIZE on Spark: bound to a DataFrame, run by the batch runtime, its measures finished by Spark."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError
from episode.matchers.limits import StateLimit
from episode.matchers.rows.spec import RowPatternSpec
from episode.plan.clause import MatchRecognize, Span
from episode.plan.output import TIMED_OUT_COLUMN
from episode.plan.pattern import Source
from episode.plan.rows.plan import RowPatternPlan, for_workers, plan_row_pattern
from episode.plan.rows.stream import event_time_of, warn_if_unbounded, with_match_times
from episode.plan.schema import InputSchema, quote
from episode.spark.batch import Batch, plan_batch
from episode.spark.measures import check_measures
from episode.spark.stream import LiveOptions, Stream, plan_stream
from episode.spark.tables import first_line

UTC_NAMES = ("UTC", "Z", "GMT", "Etc/UTC", "+00:00", "Etc/GMT", "Zulu")


@dataclass(frozen=True)
class RowPatternQuery:
    """A planned clause on its input: lazily a DataFrame, and in words for `explain`."""

    plan: RowPatternPlan
    run: Batch | Stream

    @property
    def reasons(self) -> list[str]:
        return self.run.reasons

    def frame(self) -> DataFrame:
        """The output of the clause: its own columns, then or around them the measures, computed by Spark."""
        plan = self.plan
        matched = self.run.frame()
        columns = [F.col(quote(name)) for name in plan.outputs]
        check_measures(matched, plan.measures, plan.clause.source, lambda measure: f"The measure {measure.name}")
        measures = [F.expr(measure.sql).alias(measure.name) for measure in plan.measures.measures]
        flag = [F.col(TIMED_OUT_COLUMN)] if plan.clause.timed_out is not None else []
        return matched.select(*columns[: plan.before], *measures, *columns[plan.before :], *flag)


def plan_on_spark(
    spark: SparkSession,
    frame: DataFrame,
    clause: MatchRecognize,
    table_names: tuple[str, ...],
    *,
    step_budget: int,
    shards: int | None,
    shard_bytes: int | None,
    live: LiveOptions,
    match_times: bool,
    metrics: str,
) -> RowPatternQuery:
    """Bind a clause to a DataFrame, of a table or of a stream."""
    schema = input_schema(spark, frame, clause.source, clause.source.span, "MATCH_RECOGNIZE")
    if match_times:
        clause = with_match_times(clause, schema.columns)
    plan = plan_row_pattern(clause, schema, table_names)

    limit = StateLimit(live.max_state_rows, live.gives_up) if frame.isStreaming and live.max_state_rows else None

    def spec_of(input_schema: pa.Schema) -> RowPatternSpec:
        return RowPatternSpec(for_workers(plan), input_schema, step_budget, limit)

    if frame.isStreaming:
        time = event_time_of(plan, schema.columns)
        warn_if_unbounded(plan, live.max_state_rows is not None)
        columns = tuple(dict.fromkeys([*plan.input_columns, *([live.event_id] if live.event_id else [])]))
        stream = plan_stream(spark, frame, columns, plan.derived, spec_of, time, live, shards=shards, metrics=metrics)
        return RowPatternQuery(plan, stream)
    batch = plan_batch(spark, frame, plan.input_columns, plan.derived, spec_of, shards=shards, shard_bytes=shard_bytes)
    return RowPatternQuery(plan, batch)


def input_schema(spark: SparkSession, frame: DataFrame, source: Source, place: Span, what: str) -> InputSchema:
    """The columns of a frame, and Spark to ask for the types of expressions over them."""
    fields = frame.schema.fields
    columns = {field.name: field.dataType.simpleString() for field in fields}
    if len({name.lower() for name in columns}) < len(fields):
        names = [field.name for field in fields]
        twice = next(name for name in names if [other.lower() for other in names].count(name.lower()) > 1)
        raise source.error(
            EpisodeAnalysisError,
            f"The input of {what} has two columns named {twice}.",
            place.beginning,
            "Select the columns by name in a subquery.",
        )

    def type_of(expression: str) -> str:
        try:
            return frame.select(F.expr(expression)).schema.fields[0].dataType.simpleString()
        except (AnalysisException, ParseException) as error:
            raise EpisodeAnalysisError(f"Spark cannot evaluate {expression}: {first_line(error)}") from None

    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    return InputSchema(columns, type_of, utc=zone in UTC_NAMES, case_sensitive=case_sensitive)
