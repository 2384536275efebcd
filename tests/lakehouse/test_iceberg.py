"""Iceberg tables: by path and by name, read directly where that is the same, and as streams."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import episode
from episode.errors import EpisodeAnalysisError
from tests.lakehouse.tables import (
    BY_ROWS,
    COLUMNS,
    DIRECTLY,
    JARS,
    RISES,
    STREAM,
    expected,
    matches,
    rows,
    run_stream,
    ticks,
)

pytestmark = pytest.mark.skipif(not (JARS / "iceberg").is_dir(), reason="Iceberg has no release for this Spark")
TABLE = "ice.db.ticks"
DELETED = BY_ROWS + "rows of the Iceberg table's files are deleted (position or equality deletes)"


@pytest.fixture
def table(spark: SparkSession) -> str:
    """A table that was written twice and overwritten: most of its files are no longer in it."""
    return created(spark)


def created(spark: SparkSession, properties: str = "", partitions: str = "") -> str:
    spark.sql(f"DROP TABLE IF EXISTS {TABLE} PURGE")
    spark.sql(f"CREATE TABLE {TABLE} ({COLUMNS}) USING iceberg {partitions} TBLPROPERTIES ('a' = 'b' {properties})")
    ticks(spark, 0, 50).writeTo(TABLE).append()
    ticks(spark, 0, 300).writeTo(TABLE).overwrite(F.lit(True))
    ticks(spark, 300, 100).writeTo(TABLE).append()
    return TABLE


def path_of(spark: SparkSession) -> str:
    return spark.conf.get("spark.sql.catalog.ice.warehouse") + "/db/ticks"


def test_a_snapshot_is_read_directly(spark: SparkSession, table: str) -> None:
    """By name, and by the path of the directory."""
    for given in (spark.table(table), path_of(spark), f"file://{path_of(spark)}"):
        found, scan = matches(spark, given)
        assert scan.startswith(DIRECTLY)
        assert "400 rows" in scan
        assert found == expected(ticks(spark))
    assert rows(episode.sql(RISES.format(table=table), spark=spark)) == expected(ticks(spark))


def test_an_earlier_snapshot(spark: SparkSession, table: str) -> None:
    history = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at")
    ids = [row.snapshot_id for row in history.collect()]
    for number, earlier in zip(ids, (ticks(spark, 0, 50), ticks(spark, 0, 300), ticks(spark)), strict=True):
        found, scan = matches(spark, spark.read.option("versionAsOf", number).table(table))
        assert scan.startswith(DIRECTLY)
        assert found == expected(earlier)


def test_position_deletes(spark: SparkSession) -> None:
    for version in (2, 3):  # files of positions, deletion vectors
        table = created(spark, f", 'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read'")
        spark.sql(f"DELETE FROM {table} WHERE second(ts) % 9 = 4")
        found, scan = matches(spark, spark.table(table))
        assert scan == DELETED
        assert found == expected(spark.table(table))
        assert found != expected(ticks(spark))


def test_deletes_that_write_files_anew(spark: SparkSession) -> None:
    table = created(spark, ", 'write.delete.mode' = 'copy-on-write'")
    spark.sql(f"DELETE FROM {table} WHERE second(ts) % 9 = 4")
    found, scan = matches(spark, spark.table(table))
    assert scan.startswith(DIRECTLY)
    assert found == expected(spark.table(table))


def test_columns_under_other_names(spark: SparkSession, table: str) -> None:
    """A column that has changed its name, and another one that has taken it."""
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN v TO was")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN v DOUBLE")
    query = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES sum({}) AS s, count({}) AS n PATTERN (A+))"
    for column, found in (("v", (None, 0)), ("was", (1197.0, 400))):
        text = query.format(column, column)
        assert "is another one, or none, in" in episode.explain(text, spark=spark, t=spark.table(table))
        assert [tuple(row) for row in episode.sql(text, spark=spark, t=spark.table(table)).collect()] == [found]


@pytest.mark.parametrize("partitions", ["PARTITIONED BY (k)", "PARTITIONED BY (bucket(4, k), hours(ts))"])
def test_partitioned_tables(spark: SparkSession, partitions: str) -> None:
    """Their files have all columns."""
    table = created(spark, partitions=partitions)
    found, scan = matches(spark, spark.table(table))
    assert scan.startswith(DIRECTLY)
    assert found == expected(ticks(spark))
    one = "k = 'key 4'"
    query = RISES.format(table=f"(SELECT * FROM t WHERE {one})")
    assert rows(episode.sql(query, spark=spark, t=spark.table(table))) == expected(ticks(spark).where(one))


def test_other_files(spark: SparkSession) -> None:
    table = created(spark, ", 'write.format.default' = 'orc'")
    found, scan = matches(spark, spark.table(table))
    assert scan == BY_ROWS + "the Iceberg table has files of ORC, not Parquet"
    assert found == expected(ticks(spark))


def test_a_stream_from_a_table_to_a_table(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = "ice.db.live", "ice.db.matches"
    for name in (source, sink):
        spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")
    spark.sql(f"CREATE TABLE {source} ({COLUMNS}) USING iceberg")
    spark.sql(f"CREATE TABLE {sink} (k STRING, first TIMESTAMP, last TIMESTAMP, n BIGINT, total DOUBLE) USING iceberg")

    def run() -> None:
        live = spark.readStream.format("iceberg").load(source)
        found = episode.sql(RISES.format(table="live"), spark=spark, live=live, options=STREAM)
        run_stream(found, "iceberg", sink, tmp_path / "checkpoint")

    ticks(spark, 0, 200).writeTo(source).append()
    run()
    ticks(spark, 200, 200).writeTo(source).append()
    spark.sql(f"INSERT INTO {source} VALUES ('end', timestamp'2026-11-03 00:00:00', 0D)")
    run()
    assert rows(spark.table(sink)) == expected(ticks(spark))


def test_tables_that_only_a_catalog_knows(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """A directory with metadata that is not numbered: which of them is the table's, its catalog knows."""
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "00001-2f.metadata.json").write_text("{}")
    with pytest.raises(EpisodeAnalysisError, match=r"The Iceberg table .* cannot be opened") as raised:
        matches(spark, str(tmp_path))
    assert "FROM catalog.schema.table" in str(raised.value)
    metadata = max(Path(path_of(spark), "metadata").glob("*.metadata.json"))
    assert matches(spark, str(metadata))[0] == expected(ticks(spark))
