"""Tables of a statement: keyword tables, and Spark running the text around the row patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeSyntaxError, EpisodeUnsupportedError, kind_of
from episode.paths import kind_of_files
from episode.spark.lakehouse import open_table
from episode.spark.parsing import ONLY_QUERIES, RefusedStatement, sql
from episode.spark.places import VIEW, Copies
from episode.spark.raised import both, without_context_logs

INFERENCE = {"header": "true", "inferSchema": "true", "inferTimestamp": "true"}
"""How CSV and JSON files are read: with a header, and types that fit the values."""


def keyword_table(spark: SparkSession, name: str, table: DataFrame | str) -> DataFrame:
    """The DataFrame after a table that is given to a query: itself, or what is at a path."""
    return _files(spark, name, table) if isinstance(table, str) else table


def _files(spark: SparkSession, name: str, path: str) -> DataFrame:
    """The files at a path, read by their suffix; or the lakehouse table that is there."""
    kind = kind_of_files(path)
    try:
        frame = files(spark, path, kind)
    except (PySparkException, Py4JJavaError) as error:
        if isinstance(error, EpisodeError):
            raise
        raise EpisodeAnalysisError(
            f"The table {name} cannot be read from {path!r}: {first_line(error)}",
            hint="A path is that of Parquet files, or of CSV or JSON files by its suffix.",
        ) from None
    if kind == "json" and "_corrupt_record" in frame.columns:
        raise EpisodeAnalysisError(
            f"The table {name} cannot be read from {path!r}: it has lines that are no JSON objects.",
            hint="Write an object a line; or give spark.read.option('multiLine', True).json(path).",
        )
    return frame


def files(spark: SparkSession, path: str, kind: str) -> DataFrame:
    """Files of a kind (parquet, csv, json), with the schema that they have or seem to have; or a lakehouse table."""
    table = open_table(spark, path)
    if table is not None:
        return table
    return spark.read.parquet(path) if kind == "parquet" else spark.read.options(**INFERENCE).format(kind).load(path)


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
            frame = sql(spark, text, arguments, frames)
            frame.schema  # noqa: B018 - makes Spark Connect analyse now rather than at the action
            return frame
    except (AnalysisException, ParseException, UnsupportedOperationException) as error:
        ours = spark_error(error)
        place = None if copies is None else copies.place(text, frames, error)
        if copies is not None and place is not None:
            ours = kind_of(ours)(
                ours.message, source=copies.source, position=place[0], length=place[1] - place[0], hint=ours.hint
            )
        raise both(ours, error) from error
    except RefusedStatement as error:
        refusal = error.refusal
        range_ = None if copies is None else copies.place_of(text, frames, refusal.begin, refusal.end)
        if copies is None or range_ is None:
            raise EpisodeUnsupportedError(refusal.message, hint=ONLY_QUERIES) from None
        raise EpisodeUnsupportedError(
            refusal.message,
            source=copies.source,
            position=range_[0],
            length=range_[1] - range_[0],
            hint=ONLY_QUERIES,
        ) from None


def create_view(frame: DataFrame, name: str, columns: Sequence[str], replaces: bool, everywhere: bool) -> DataFrame:
    """Make a temporary view of a DataFrame, which it keeps: the tables and patterns in it need no names.

    columns: names for the DataFrame's, if there are any. everywhere: in all sessions. The result has no rows, as of any
    such statement.
    """
    if columns and len(columns) != len(frame.columns):
        raise EpisodeAnalysisError(
            f"The view {name} has names for {len(columns)} columns, and its query has {len(frame.columns)}.",
            hint=f"Columns of the query: {', '.join(frame.columns)}.",
        )
    shown = frame.toDF(*columns) if columns else frame
    try:
        if everywhere:
            (shown.createOrReplaceGlobalTempView if replaces else shown.createGlobalTempView)(name)
        else:
            (shown.createOrReplaceTempView if replaces else shown.createTempView)(name)
    except (AnalysisException, ParseException) as error:
        raise both(spark_error(error), error) from error
    return frame.sparkSession.createDataFrame([], StructType([]))


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
