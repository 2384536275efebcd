"""What event patterns and situation patterns have in common on Spark: the result of a planned query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.plan.clause import Span
from episode.plan.event_returns import KEEP
from episode.plan.measures import MeasurePlan
from episode.plan.schema import InputSchema
from episode.spark.batch import Batch
from episode.spark.stream import Stream
from episode.spark.tables import first_line

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


def _without_atoms(message: str, plan: Plan) -> str:
    """Spark's message without the names of the matcher's own columns."""
    for name in sorted(plan.measures.atoms.values(), key=len, reverse=True):
        message = message.replace(f"`{name}`", "a value of the match").replace(name, "a value of the match")
    return message


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


def refuse_matches(frame: DataFrame, source: str, span: Span) -> None:
    """A stream of matches cannot be the input of a pattern in the same query."""
    if any(MATCHES in field.metadata for field in frame.schema.fields):
        raise EpisodeUnsupportedError(
            "One pattern over the matches of another is not possible in one streaming query.",
            source=source,
            position=span.start,
            hint="Write the matches of the first to a table or a topic; run the second as a query of its own.",
        )
