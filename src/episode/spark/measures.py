"""Whether Spark can compute what stands around the values of a match."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.plan.output import MeasurePlan, PlannedMeasure
from episode.plan.result import Result
from episode.spark.expressions import Arguments, select
from episode.spark.raised import without_context_logs
from episode.spark.tables import first_line


def check_measures(matched: DataFrame, result: Result, arguments: Arguments) -> None:
    """An error at the first measure that Spark cannot compute. All are analysed at once; if that fails, one by one."""
    planned = result.measures.measures
    with without_context_logs():
        try:
            select(matched, [(one.sql, one.name) for one in planned], arguments).schema  # noqa: B018 - analysis
        except (AnalysisException, ParseException, EpisodeUnsupportedError):
            for measure in planned:
                _check(matched, measure, result, arguments)
            raise


def _check(matched: DataFrame, measure: PlannedMeasure, result: Result, arguments: Arguments) -> None:
    try:
        select(matched, [(measure.sql, measure.name)], arguments).schema  # noqa: B018 - analysis of this measure alone
    except (AnalysisException, ParseException) as error:
        message = _without_atoms(first_line(error), result.measures)
        raise result.source.error(
            EpisodeAnalysisError, f"{result.name_of(measure)} cannot be computed: {message}", measure.span
        ) from None
    except EpisodeUnsupportedError as error:
        raise result.source.error(EpisodeUnsupportedError, error.message, measure.span, error.hint) from None


def _without_atoms(message: str, plan: MeasurePlan) -> str:
    """Spark's message without the names of the matcher's own columns."""
    for name in sorted(plan.atoms.values(), key=len, reverse=True):
        message = message.replace(f"`{name}`", "a value of the match").replace(name, "a value of the match")
    return message
