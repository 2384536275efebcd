"""What event patterns and situation patterns have in common on Spark: the result of a planned query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.plan.events.returns import KEEP
from episode.plan.output import MeasurePlan
from episode.plan.pattern import Source
from episode.plan.schema import InputSchema
from episode.spark.batch import Batch
from episode.spark.measures import check_measures
from episode.spark.stream import Stream

MATCHES = "episode.matches"
"""In the metadata of a stream's columns: they are matches, and have no watermark that a further pattern could use."""


class Plan(Protocol):
    """What a plan says of its output."""

    @property
    def query(self) -> Any: ...

    @property
    def measures(self) -> MeasurePlan: ...


@dataclass(frozen=True)
class PatternQuery:
    """A planned pattern on its input: lazily a DataFrame, and in words for `explain`.

    explain_reports: what the matchers of a run did, in words, from their reports.
    """

    plan: Plan
    run: Batch | Stream
    explain_reports: Callable[[list[str]], list[str]]

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
        return self.explain_reports(self.run.reports())

    def frame(self) -> DataFrame:
        """RETURN's columns, then the times of the match."""
        matched = self.run.frame()
        check_measures(matched, self.plan.measures, self.plan.query.source, lambda measure: measure.original)
        columns, conditions = [], []
        for measure in self.plan.measures.measures:
            column = F.expr(measure.sql)
            if measure.name.startswith(KEEP):
                conditions.append(column)
            elif isinstance(self.run, Stream):
                columns.append(column.alias(measure.name, metadata={MATCHES: True}))
            else:
                columns.append(column.alias(measure.name))
        for condition in conditions:
            matched = matched.where(condition)
        return matched.select(*columns)


def key_columns(schema: InputSchema, names: tuple[str, ...]) -> tuple[str, ...]:
    """The partition columns of the input that were asked for."""
    keys = []
    for name in names:
        column = schema.find(name)
        if column is None:
            raise EpisodeAnalysisError(
                f"There is no column {name} for the key.", hint=f"Columns of the input: {', '.join(schema.columns)}."
            )
        keys.append(column)
    return tuple(keys)


def refuse_matches(frame: DataFrame, source: Source) -> None:
    """A stream of matches cannot be the input of a pattern in the same query."""
    if any(MATCHES in field.metadata for field in frame.schema.fields):
        raise source.error(
            EpisodeUnsupportedError,
            "One pattern over the matches of another is not possible in one streaming query.",
            source.pattern.beginning,
            "Write the matches of the first to a table or a topic; run the second as a query of its own.",
        )
