"""Directories of lakehouse tables where the session has no package for them: never read as loose Parquet files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import episode
from episode.errors import EpisodeAnalysisError
from episode.spark.scan.lakehouse import format_of
from episode.spark.tables import files, followed_files

QUERY = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES A.id AS id PATTERN (A) DEFINE A AS id > 1)"


@pytest.fixture
def parquet(spark: SparkSession, tmp_path: Path) -> Path:
    """Files of a table; what is written beside them makes it one of a lakehouse."""
    place = tmp_path / "a table"
    spark.range(3).write.parquet(str(place))
    return place


def log_of(place: Path, name: str) -> None:
    log = place / name
    log.parent.mkdir(parents=True)
    log.write_text("{}")


@pytest.mark.parametrize(
    ("log", "name", "package"),
    [
        ("_delta_log/00000000000000000000.json", "Delta", "delta-spark"),
        ("metadata/v1.metadata.json", "Iceberg", "iceberg-spark-runtime"),
    ],
)
def test_tables_of_packages_that_are_not_there(
    spark: SparkSession, parquet: Path, log: str, name: str, package: str
) -> None:
    log_of(parquet, log)
    message = f"is a table of {name}, and this Spark session was started without {name}"
    with pytest.raises(EpisodeAnalysisError, match=message) as raised:
        episode.sql(QUERY, spark=spark, t=str(parquet))
    assert package in str(raised.value) or f"for Spark {spark.version[:3]}" in str(raised.value)
    for read in (files, followed_files):
        with pytest.raises(EpisodeAnalysisError, match=message):
            read(spark, str(parquet), "parquet")


def test_a_directory_in_a_table(spark: SparkSession, parquet: Path) -> None:
    log_of(parquet.parent, "_delta_log/00000000000000000000.json")
    with pytest.raises(EpisodeAnalysisError, match="lies in the Delta table"):
        episode.sql(QUERY, spark=spark, t=str(parquet))


def test_what_is_no_such_table(spark: SparkSession, parquet: Path) -> None:
    """Files are asked for by Spark where they are not seen from here."""
    assert episode.sql(QUERY, spark=spark, t=str(parquet)).collect()[0].id == 2
    assert format_of(spark, f"file:{parquet}") is None
    (parquet / "metadata").mkdir()
    assert format_of(spark, str(parquet)) is None
    log_of(parquet, "_delta_log/00000000000000000000.json")
    assert format_of(spark, f"file:{parquet}") == "delta"
    assert format_of(spark, f"file://{parquet}") == "delta"
