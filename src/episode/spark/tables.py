"""Tables of a statement as DataFrames: given as keywords, values or files."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeSyntaxError, EpisodeUnsupportedError, kind_of
from episode.paths import kind_of_files
from episode.spark.classic import is_local
from episode.spark.confinement import ONLY_QUERIES, RefusedStatement, sql
from episode.spark.errors import VIEW, Copies, both, without_context_logs
from episode.spark.scan.lakehouse import open_table

# Tables of a statement: keyword tables, and Spark running the text around the row patterns.

INFERENCE = {"header": "true", "inferSchema": "true", "inferTimestamp": "true"}
"""Options for CSV and JSON files: with a header, and types that fit the values."""


def keyword_table(spark: SparkSession, name: str, table: DataFrame | str) -> DataFrame:
    """The DataFrame after a table that is given to a query: itself, or the files or the lakehouse table at a path."""
    if not isinstance(table, str):
        return table
    kind, problem = kind_of_files(table), f"The table {name} cannot be read from {table!r}"
    try:
        frame = files(spark, table, kind)
    except (PySparkException, Py4JJavaError) as error:
        if isinstance(error, EpisodeError):
            raise
        hint = "A path is that of Parquet files, or of CSV or JSON files by its suffix."
        raise EpisodeAnalysisError(f"{problem}: {first_line(error)}", hint=hint) from None
    if kind == "json" and "_corrupt_record" in frame.columns:
        hint = "Write an object a line; or give spark.read.option('multiLine', True).json(path)."
        raise EpisodeAnalysisError(f"{problem}: it has lines that are not JSON objects.", hint=hint)
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
    """Run `spark.sql` with DataFrames in braces; errors of Spark are raised as EpisodeErrors that are also Spark's.

    copies: which parts of the text the user wrote, so that complaints show their place.
    """
    try:
        with without_context_logs():
            frame = sql(spark, text, arguments, frames)
            frame.schema  # noqa: B018 - makes Spark Connect analyse now rather than at the action
            return frame
    except (AnalysisException, ParseException, UnsupportedOperationException) as error:
        place = None if copies is None else copies.place(text, frames, error)
        raise both(_with_place(spark_error(error), copies, place), error) from error
    except RefusedStatement as error:
        refusal = error.refusal
        place = None if copies is None else copies.place_of(text, frames, refusal.begin, refusal.end)
        raise _with_place(EpisodeUnsupportedError(refusal.message, hint=ONLY_QUERIES), copies, place) from None


def _with_place(error: EpisodeError, copies: Copies | None, place: tuple[int, int] | None) -> EpisodeError:
    """The error with its place in the statement, if it is known."""
    if copies is None or place is None:
        return error
    begin, end = place
    return kind_of(error)(error.message, source=copies.source, position=begin, length=end - begin, hint=error.hint)


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
            hint="Give each pattern its own name: StreamOptions(counters='rises').",
        )
    if "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION" in str(error):
        return kind(
            "A pattern is planned over the columns of its table, and functions of a pipeline may not ask for them.",
            hint="Run the statement outside of the function, and return its DataFrame there.",
        )
    message = re.sub(rf"`?{VIEW.pattern}`?\.?", "", first_line(error))  # without PySpark's names of DataFrames
    return kind(f"Spark cannot run this statement: {message}")


def first_line(error: Exception) -> str:
    """The first paragraph of Spark's message, without the plan below it."""
    lines = []
    for line in str(error).strip().split("\n"):
        if not line.strip() or line.startswith(("'", "+-", "==", "JVM stacktrace")):
            break
        lines.append(line.strip())
    message = " ".join(lines).split(" SQLSTATE:")[0]
    return message or type(error).__name__


# Tables given as values: Arrow tables as DataFrames.
#
# On one machine they become Parquet files among Spark's temporary ones, which the direct scan reads: several times as
# fast as `createDataFrame`, whose rows go through the JVM. A lazy DataFrame may be used at any later time, so the files
# stay until Spark ends; so that they cannot fill the disk, there is a limit to what all of them take. Beyond it, for
# types that files do not have as Spark has them, and on a cluster, whose workers do not see the driver's files, it is
# `createDataFrame`.

MOST_BYTES = 4 * 2**30
"""Bytes that all files of one Spark may take, as Arrow tables."""

_ROW_GROUP = 1 << 18
_IN_FILES = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)
_written: dict[str, int] = {}
"""Bytes by directory."""


def frame_of_value(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """An Arrow table, in types of Spark, as a DataFrame. Timestamps without a zone are timestamp_ntz. name: of the
    table, in errors."""
    # Spark's temporary files of this process are gone when Spark ends; its workers see them on this machine.
    directory = getattr(spark.sparkContext, "_temp_dir", None) if is_local(spark) else None
    plain = bool(table.schema) and all(any(test(field.type) for test in _IN_FILES) for field in table.schema)
    try:
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        if not (plain and isinstance(directory, str) and os.path.isdir(directory)):
            return spark.createDataFrame(table, schema)
        written = _written.get(directory, 0) + table.nbytes
        if written > MOST_BYTES:
            return spark.createDataFrame(table, schema)
        path = os.path.join(directory, f"episode-{uuid.uuid4().hex}.parquet")
        texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
        pq.write_table(table, path, row_group_size=_ROW_GROUP, use_dictionary=texts)
        _written[directory] = written
        return spark.read.schema(schema).parquet(path)
    except PySparkException as error:
        raise EpisodeUnsupportedError(f"Spark cannot take the table {name}: {first_line(error)}") from None


# Tables of the command line as DataFrames: files and Kafka topics, read once or followed as streams.

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_PARTITIONS = "spark.sql.shuffle.partitions"


def followed_files(spark: SparkSession, path: str, kind: str) -> DataFrame:
    """A directory as a stream of files, with the schema of those that are there already; or a lakehouse table."""
    table = open_table(spark, path, follow=True) if kind == "parquet" else None
    if table is not None:
        return table
    try:
        schema, reason = files(spark, path, kind).schema, "no columns were found."
    except AnalysisException as error:
        schema, reason = StructType(), first_line(error)
    if not schema:
        raise EpisodeAnalysisError(
            f"The columns of {path} cannot be read: {reason}",
            hint=f"Put at least one file there first ({kind}): its columns are those of the stream.",
        )
    return spark.readStream.schema(schema).options(**INFERENCE).format(kind).load(path)


def topic(
    spark: SparkSession, servers: str, name: str, schema: str, options: Mapping[str, str], *, follow: bool
) -> DataFrame:
    """The JSON values of a Kafka topic, as a table of its events so far or as a stream."""
    try:
        fields = StructType.fromDDL(schema)
    except ParseException as error:
        raise EpisodeAnalysisError(
            f"The schema {schema!r} of a topic cannot be read: {first_line(error)}",
            hint="Write names and types, as in schema=symbol string, ts timestamp, price double.",
        ) from None
    reader = spark.readStream if follow else spark.read
    settings = {"kafka.bootstrap.servers": servers, "subscribe": name, **options}
    try:
        records = reader.format("kafka").options(**settings).load()
    except AnalysisException as error:
        raise no_connector(error, name, spark) or error from None
    event = F.from_json(F.col("value").cast("string"), fields).alias("event")
    return records.select(event).select("event.*")


def no_connector(error: AnalysisException, topic: str, spark: SparkSession) -> EpisodeAnalysisError | None:
    """The error of a session without Spark's Kafka connector, if that is what Spark complains of."""
    if error.getCondition() != "KAFKA_DATA_SOURCE_NOT_ENABLED":
        return None
    return EpisodeAnalysisError(
        f"The topic {topic} cannot be read: Spark's Kafka connector is not on its class path.",
        hint=f"Set spark.jars.packages to {_CONNECTOR}:{spark.version} (or the nearest version there is) in "
        "Spark's configuration;\n"
        f"  on the command line: --package {_CONNECTOR}:{spark.version}.",
    )


def fit_for_streams(spark: SparkSession) -> None:
    """Set one state partition per core, unless Spark was started with another number.

    Spark's default is made for clusters: on one machine, most of a micro-batch would be the upkeep of empty state.
    """
    context = spark.sparkContext
    if not context.getConf().contains(_PARTITIONS):
        spark.conf.set(_PARTITIONS, str(max(2, context.defaultParallelism)))
