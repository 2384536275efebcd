"""Directories that are tables of a lakehouse: opened as what they are, never as loose Parquet files.

The files in such a directory are not the table: some were replaced, of some a part of the rows is deleted. Only the
format's own log says which rows are there.
"""

from __future__ import annotations

from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from episode.errors import EpisodeAnalysisError

DELTA, ICEBERG = "delta", "iceberg"
_NAMES = {DELTA: "Delta", ICEBERG: "Iceberg"}
_LOGS = {DELTA: "_delta_log/*.json", ICEBERG: "metadata/*.metadata.json"}
_METADATA_FILE = ".metadata.json"
_PACKAGES = {DELTA: "io.delta:delta-spark_{}_2.13", ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-{}_2.13"}
_RELEASES = {DELTA: {"4.0": "4.4.0", "4.1": "4.4.0", "4.2": "4.4.0"}, ICEBERG: {"4.0": "1.11.0", "4.1": "1.12.0"}}
"""By the version of Spark, the newest release that was made for it."""
_SETTINGS = {
    DELTA: {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    ICEBERG: {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}


def open_table(spark: SparkSession, path: str, *, follow: bool = False) -> DataFrame | None:
    """The table that a path is, as of now or as a stream; None where it is none of a lakehouse."""
    kind = format_of(spark, path)
    if kind is None:
        _refuse_parts(path)
        return None
    reader = spark.readStream if follow else spark.read
    try:
        frame = reader.format(kind).load(path)
        frame.schema  # noqa: B018 - a Connect session asks the server now
    except (PySparkException, Py4JError) as error:
        raise _cannot_open(spark, path, kind, error) from None
    return frame


def format_of(spark: SparkSession, path: str) -> str | None:
    """The format of the table that a path is: delta, iceberg; None where it is neither, or not known to be."""
    if path.endswith(_METADATA_FILE):
        return ICEBERG
    place = Path(path.removeprefix("file://"))
    if "://" not in path.removeprefix("file://") and place.exists():
        return _local_format(place)
    return next((kind for kind, log in _LOGS.items() if _is_there(spark, f"{path.rstrip('/')}/{log}")), None)


def _local_format(place: Path) -> str | None:
    return next((kind for kind, log in _LOGS.items() if next(place.glob(log), None) is not None), None)


def _is_there(spark: SparkSession, pattern: str) -> bool:
    """Whether Spark finds files of this pattern, wherever they are. Their contents are not read."""
    try:
        spark.read.format("text").load(pattern).schema  # noqa: B018 - Spark looks for them when it is asked
    except (PySparkException, Py4JError):
        return False
    return True


def _refuse_parts(path: str) -> None:
    """A directory inside a table holds files of many snapshots."""
    place = Path(path.removeprefix("file://"))
    if not place.is_dir():
        return
    for above in place.resolve().parents:
        kind = _local_format(above)
        if kind is not None:
            raise EpisodeAnalysisError(
                f"{path} lies in the {_NAMES[kind]} table {above}: its files alone do not say which rows there are.",
                hint=f"Give the table, {above}, and choose its rows in the query.",
            )


def _cannot_open(spark: SparkSession, path: str, kind: str, error: Exception) -> EpisodeAnalysisError:
    name = _NAMES[kind]
    said = str(error)
    if "DATA_SOURCE_NOT_FOUND" in said or "DELTA_CONFIGURE_SPARK_SESSION" in said:
        return EpisodeAnalysisError(
            f"{path} is a table of {name}, and this Spark session was started without {name}.", hint=_how(spark, kind)
        )
    first = next((line.strip() for line in said.splitlines() if line.strip()), type(error).__name__)
    by_name = " If a catalog has the table, use its name there: FROM catalog.schema.table." if kind == ICEBERG else ""
    return EpisodeAnalysisError(f"The {name} table {path} cannot be opened: {first}", hint=by_name.strip())


def _how(spark: SparkSession, kind: str) -> str:
    """What a session needs to read the format."""
    version = ".".join(spark.version.split(".")[:2])
    release = _RELEASES[kind].get(version)
    if release is None:
        known = " and ".join(_RELEASES[kind])
        return (
            f"Add its package for Spark {version}; when this version of episode was made, there were packages for "
            f"Spark {known}."
        )
    settings = {"spark.jars.packages": f"{_PACKAGES[kind].format(version)}:{release}", **_SETTINGS[kind]}
    lines = "\n".join(f"  {key}={value}" for key, value in settings.items())
    return f"Start the session with these settings:\n{lines}"
