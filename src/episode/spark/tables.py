"""Tables of a statement: keyword tables, and Spark running the text around the row patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeSyntaxError
from episode.spark.lakehouse import open_table
from episode.spark.places import VIEW, Copies
from episode.spark.quiet import without_context_logs
from episode.spark.raised import both


def keyword_table(spark: SparkSession, name: str, table: object) -> DataFrame:
    """The DataFrame after a keyword table: itself, or the Parquet files at a path."""
    if isinstance(table, str):
        lakehouse = open_table(spark, table)
        if lakehouse is not None:
            return lakehouse
        try:
            return spark.read.parquet(table)
        except AnalysisException as error:
            raise EpisodeAnalysisError(
                f"The table {name} cannot be read from {table!r}: {first_line(error)}",
                hint="Keyword tables are DataFrames or paths of Parquet files.",
            ) from None
    if isinstance(table, DataFrame) or (hasattr(table, "schema") and hasattr(table, "mapInArrow")):
        return table
    raise EpisodeAnalysisError(
        f"The table {name} is a {type(table).__name__}.",
        hint="Keyword tables are DataFrames or paths of Parquet files.",
    )


def run_sql(
    spark: SparkSession,
    text: str,
    frames: dict[str, DataFrame],
    arguments: Mapping[str, object],
    copies: Copies | None = None,
) -> DataFrame:
    """`spark.sql` with DataFrames in braces; Spark's complaints come out as ours, which are Spark's, too.

    copies: which parts of the text the user wrote, so that complaints show their place.
    """
    try:
        with without_context_logs():
            bound: dict[str, Any] = {"args": dict(arguments)} if arguments else {}
            plain = text if frames else text.replace("{{", "{").replace("}}", "}")
            frame = spark.sql(plain, **bound, **frames)
            frame.schema  # noqa: B018 - makes Spark Connect analyse now rather than at the action
            return frame
    except (AnalysisException, ParseException) as error:
        ours = spark_error(error)
        place = None if copies is None else copies.place(text, frames, error)
        if copies is not None and place is not None:
            ours = type(ours)(
                ours.message, source=copies.source, position=place[0], length=place[1] - place[0], hint=ours.hint
            )
        raise both(ours, error) from error


def spark_error(error: PySparkException) -> EpisodeError:
    """A Spark complaint about the statement, as one of ours."""
    if isinstance(error, EpisodeError):
        return error
    kind = EpisodeSyntaxError if isinstance(error, ParseException) else EpisodeAnalysisError
    if "DUPLICATED_METRICS_NAME" in str(error):
        return kind(
            "The statement brings together matches of streams whose counters have the same name.",
            hint="Give the patterns names of their own: Options(counters='rises').",
        )
    return kind(f"Spark cannot run this statement: {_without_views(first_line(error))}")


def _without_views(message: str) -> str:
    """A message of Spark without the names that PySpark gives to DataFrames."""
    return re.sub(rf"`?{VIEW.pattern}`?\.?", "", message)


def first_line(error: Exception) -> str:
    """The first paragraph of Spark's message, without the plan below it."""
    lines = []
    for line in str(error).strip().split("\n"):
        if not line.strip() or line.startswith(("'", "+-", "==", "JVM stacktrace")):
            break
        lines.append(line.strip())
    message = " ".join(lines).split(" SQLSTATE:")[0]
    return message or type(error).__name__
