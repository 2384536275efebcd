"""Tables of the command line as DataFrames: files and Kafka topics, read once or followed as streams."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from episode.errors import EpisodeAnalysisError
from episode.spark.lakehouse import open_table
from episode.spark.tables import INFERENCE, files, first_line

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_PARTITIONS = "spark.sql.shuffle.partitions"


def followed_files(spark: SparkSession, path: str, kind: str) -> DataFrame:
    """A directory as a stream of files, with the schema of those that are there already; or a lakehouse table."""
    table = open_table(spark, path, follow=True) if kind == "parquet" else None
    if table is not None:
        return table
    try:
        schema = files(spark, path, kind).schema
    except AnalysisException as error:
        raise _without_schema(path, kind, first_line(error)) from None
    if not schema:
        raise _without_schema(path, kind, "no columns were found.")
    return spark.readStream.schema(schema).options(**INFERENCE).format(kind).load(path)


def _without_schema(path: str, kind: str, reason: str) -> EpisodeAnalysisError:
    return EpisodeAnalysisError(
        f"The columns of {path} cannot be read: {reason}",
        hint=f"Put at least one file there first ({kind}): its columns are those of the stream.",
    )


def topic(
    spark: SparkSession, servers: str, name: str, schema: str, options: Mapping[str, str], *, follow: bool
) -> DataFrame:
    """The JSON values of a Kafka topic, as a table of its events so far or as a stream."""
    fields = _fields(schema)
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


def _fields(schema: str) -> StructType:
    try:
        return StructType.fromDDL(schema)
    except ParseException as error:
        raise EpisodeAnalysisError(
            f"The schema {schema!r} of a topic cannot be read: {first_line(error)}",
            hint="Write names and types, as in schema=symbol string, ts timestamp, price double.",
        ) from None


def fit_for_streams(spark: SparkSession) -> None:
    """As many state partitions as there are cores, unless Spark was started with another number.

    Spark's default is made for clusters: on one machine, most of a micro-batch would be the upkeep of empty state.
    """
    context = spark.sparkContext
    if not context.getConf().contains(_PARTITIONS):
        spark.conf.set(_PARTITIONS, str(max(2, context.defaultParallelism)))
