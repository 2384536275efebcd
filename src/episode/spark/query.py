"""One planned query on Spark, of whichever language: matched by the batch or the stream runtime, finished by Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from episode.errors import EpisodeAnalysisError
from episode.matchers.engines import matcher_spec
from episode.matchers.protocol import MatcherSpec, StateLimit
from episode.plan.correlation.pairs import PairPlan
from episode.plan.options import RunOptions
from episode.plan.pattern import PatternPlan
from episode.plan.schema import quote
from episode.spark import types as carry
from episode.spark.batch.expanding import Expansion
from episode.spark.batch.runtime import Batch, plan_batch
from episode.spark.confinement import expr
from episode.spark.expressions import check_measures, select, uses, where
from episode.spark.stream.runtime import Stream, plan_stream


@dataclass(frozen=True)
class Analysis:
    """The result of a run for `explain`: the reports of its matchers (JSON), and its duration in seconds."""

    reports: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Planned(ABC):
    """A planned pattern on its input: lazily a DataFrame."""

    pattern: PatternPlan | PairPlan
    run: Batch | Stream | Expansion
    arguments: Mapping[str, object] = field(default_factory=dict)

    @abstractmethod
    def frame(self) -> DataFrame:
        """The columns of the output."""

    @property
    def is_stream(self) -> bool:
        return self.run.is_stream

    @property
    def takes_watermark(self) -> bool:
        return isinstance(self.run, Stream) and self.run.takes_watermark

    @property
    def over_matches(self) -> bool:
        return isinstance(self.run, Stream) and self.run.over_matches

    @property
    def counters(self) -> str | None:
        """The name of a stream's counters."""
        return self.run.metrics if isinstance(self.run, Stream) else None

    @property
    def reasons(self) -> list[str]:
        """Why it runs as it does."""
        return self.run.reasons

    def analyze(self) -> Analysis:
        """Run it over its table, keeping no match, and ask the matchers what they did."""
        if isinstance(self.run, Stream):
            raise EpisodeAnalysisError(
                "analyze=True runs a pattern over a table; this is a stream.",
                hint="Watch a running stream by its counters, or analyze a table of its past events.",
            )
        assert isinstance(self.run, Batch)  # expand has no explain
        begun = perf_counter()
        reports = tuple(self.run.reports())
        return Analysis(reports, perf_counter() - begun)

    def _column(self, column: Column, name: str) -> Column:
        """A column of the result, with what a further pattern over a stream must know of it."""
        metadata = self.run.metadata(name) if isinstance(self.run, Stream) else None
        return column.alias(name) if metadata is None else column.alias(name, metadata=metadata)


@dataclass(frozen=True)
class PlannedQuery(Planned):
    """One pattern on its input."""

    pattern: PatternPlan

    def frame(self) -> DataFrame:
        """The columns of the output: those of the matcher, and around them what Spark computes from its values."""
        result = self.pattern.result
        matched = self.run.frame()
        check_measures(matched, result, self.arguments)
        for condition in result.conditions:
            matched = where(matched, condition.sql, self.arguments)
        columns = [(one.sql, one.name) for one in result.outputs]
        if uses(self.arguments, (sql for sql, _ in columns)):
            matched = select(matched, columns, self.arguments)
            columns = [(quote(name), name) for _, name in columns]
        return matched.select(*(self._column(expr(sql), name) for sql, name in columns))


def plan_query(spark: SparkSession, frame: DataFrame, pattern: PatternPlan, run: RunOptions) -> PlannedQuery:
    """Plan a run of a pattern over the DataFrame that it was bound to: of a table, or of a stream."""
    if not frame.isStreaming:
        spec = partial(matcher_spec, pattern)
        batch = plan_batch(spark, frame, pattern.input_columns, pattern.derived, spec, run)
        return PlannedQuery(pattern, batch, run.arguments)
    limit = StateLimit.of(run.stream)
    time, spec = pattern.event_time(limit is not None), partial(matcher_spec, pattern, limit=limit)
    stream = plan_stream(spark, frame, pattern.input_columns, pattern.derived, spec, time, pattern.delays(), run)
    return PlannedQuery(pattern, stream, run.arguments)


# A planned pattern without its run: no rows in, no rows out, only the columns. Used to check a query while it is being
# written: nothing is read, compiled or sent to workers.


@dataclass(frozen=True)
class Rehearsal:
    """Replaces a run over a table."""

    spark: SparkSession
    spec: MatcherSpec

    is_stream: ClassVar[bool] = False
    reasons: ClassVar[list[str]] = []

    def frame(self) -> DataFrame:
        """The columns of the matcher's output, without rows."""
        schema = self.spec.output_schema
        return carry.decode(empty_frame(self.spark, carry.travel_schema(schema)), schema)


def output_columns(planned: Planned) -> DataFrame:
    """The columns of a planned pattern's output, without rows."""
    run = planned.run
    spark = getattr(run, "spark", None)
    if spark is None:  # a stream, or an expansion: planned as they are
        return planned.frame()
    return replace(planned, run=Rehearsal(spark, run.spec)).frame()  # type: ignore[arg-type]  # in the place of a run


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A table of these columns without rows. A classic session makes it of nothing but its schema, which is quick."""
    if not hasattr(spark, "_jsparkSession"):
        return spark.createDataFrame([], schema)
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    session = spark._jsparkSession
    columns = session.parseDataType(schema.json())
    return ClassicFrame(session.createDataFrame(spark._jvm.java.util.ArrayList(), columns), spark)
