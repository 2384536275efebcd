"""Whether Spark can compute what stands around the values of a match."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError
from episode.plan.output import MeasurePlan, PlannedMeasure
from episode.plan.pattern import Source
from episode.spark.tables import first_line


def check_measures(
    matched: DataFrame, plan: MeasurePlan, source: Source, name_of: Callable[[PlannedMeasure], str]
) -> None:
    """An error at the first measure that Spark cannot compute. All are analysed at once; if that fails, one by one.

    name_of: what a measure is called in the message.
    """
    try:
        matched.select(*(F.expr(one.sql).alias(one.name) for one in plan.measures)).schema  # noqa: B018 - analysis
    except (AnalysisException, ParseException):
        for measure in plan.measures:
            _check(matched, measure, plan, source, name_of(measure))
        raise


def _check(matched: DataFrame, measure: PlannedMeasure, plan: MeasurePlan, source: Source, name: str) -> None:
    try:
        matched.select(F.expr(measure.sql)).schema  # noqa: B018 - analysis of this measure alone
    except (AnalysisException, ParseException) as error:
        raise source.error(
            EpisodeAnalysisError, f"{name} cannot be computed: {_without_atoms(first_line(error), plan)}", measure.span
        ) from None


def _without_atoms(message: str, plan: MeasurePlan) -> str:
    """Spark's message without the names of the matcher's own columns."""
    for name in sorted(plan.atoms.values(), key=len, reverse=True):
        message = message.replace(f"`{name}`", "a value of the match").replace(name, "a value of the match")
    return message
