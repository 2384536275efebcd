"""The schema of a DataFrame as the planner sees it."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from episode.errors import EpisodeAnalysisError
from episode.plan.pattern import Source
from episode.plan.rows.subqueries import with_subqueries
from episode.plan.schema import InputSchema
from episode.plan.spark_names import column_name
from episode.spark.expressions import Arguments, select, uses
from episode.spark.parsing import expr
from episode.spark.raised import without_context_logs
from episode.spark.tables import first_line

NO_ARGUMENTS: Arguments = {}
TIME = "episode.time"
"""In a column's metadata: it is declared to be the event time, and events come at most this many milliseconds of
Spark's watermark after later ones."""

UTC_NAMES = ("UTC", "Z", "GMT", "Etc/UTC", "+00:00", "Etc/GMT", "Zulu")


def input_schema(
    spark: SparkSession, frame: DataFrame, source: Source, what: str, arguments: Arguments = NO_ARGUMENTS
) -> InputSchema:
    """The columns of a frame, and Spark to ask for the types of expressions over them.

    source, what: the query, and what its pattern is called in an error.
    """
    fields = frame.schema.fields
    columns = {field.name: field.dataType.simpleString() for field in fields}
    if len({name.lower() for name in columns}) < len(fields):
        names = [field.name for field in fields]
        twice = next(name for name in names if [other.lower() for other in names].count(name.lower()) > 1)
        raise source.error(
            EpisodeAnalysisError,
            f"The input of {what} has two columns named {twice}.",
            hint="Select the columns by name in a subquery.",
        )

    def type_of(expression: str) -> str:
        try:
            with without_context_logs():
                return select(frame, [(expression, "value")], arguments).schema.fields[0].dataType.simpleString()
        except (AnalysisException, ParseException) as error:
            shown = with_subqueries(expression, source.text)
            raise EpisodeAnalysisError(f"Spark cannot evaluate {shown}: {first_line(error)}") from None

    def name_of(expression: str) -> str:
        if uses(arguments, [expression]):
            return column_name(expression)
        try:
            with without_context_logs():
                return frame.select(expr(expression)).columns[0]
        except (AnalysisException, ParseException) as error:
            raise EpisodeAnalysisError(f"Spark cannot evaluate {expression}: {first_line(error)}") from None

    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    times = [field.name for field in fields if TIME in field.metadata]
    return InputSchema(
        columns,
        type_of,
        name_of=name_of,
        utc=zone in UTC_NAMES,
        case_sensitive=case_sensitive,
        arguments=arguments,
        time=times[0] if len(times) == 1 else None,
    )
