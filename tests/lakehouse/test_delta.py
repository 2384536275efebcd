"""Delta tables: opened by their paths, read directly where that is the same, and as streams."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import episode
from episode.errors import EpisodeAnalysisError
from episode.spark.tables import files, followed_files
from tests.lakehouse.tables import BY_ROWS, DIRECTLY, RISES, STREAM, expected, matches, rows, run_stream, ticks


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Path:
    """Where a table is that was written twice and overwritten: most of its files are no longer in it."""
    path = tmp_path / "a table"
    ticks(spark, 0, 50).write.format("delta").save(str(path))
    ticks(spark, 0, 300).write.format("delta").mode("overwrite").save(str(path))
    ticks(spark, 300, 100).write.format("delta").mode("append").save(str(path))
    return path


def test_a_snapshot_is_read_directly(spark: SparkSession, place: Path) -> None:
    found, scan = matches(spark, str(place))
    assert scan.startswith(DIRECTLY)
    assert "400 rows" in scan
    assert found == expected(ticks(spark))


def test_an_earlier_version(spark: SparkSession, place: Path) -> None:
    for version, table in enumerate((ticks(spark, 0, 50), ticks(spark, 0, 300), ticks(spark))):
        found, scan = matches(spark, spark.read.format("delta").option("versionAsOf", version).load(str(place)))
        assert scan.startswith(DIRECTLY)
        assert found == expected(table)


def test_a_table_by_its_name(spark: SparkSession) -> None:
    ticks(spark).write.format("delta").saveAsTable("ticks_delta")
    assert rows(episode.sql(RISES.format(table="ticks_delta"), spark=spark)) == expected(ticks(spark))
    spark.sql("DROP TABLE ticks_delta")


def test_deletion_vectors(spark: SparkSession, place: Path) -> None:
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    assert matches(spark, str(place))[1].startswith(DIRECTLY)  # there are none yet
    spark.sql(f"DELETE FROM delta.`{place}` WHERE second(ts) % 9 = 4")
    found, scan = matches(spark, str(place))
    assert scan == BY_ROWS + "rows of the Delta table's files are deleted (deletion vectors)"
    assert found == expected(spark.read.format("delta").load(str(place)))
    assert found != expected(ticks(spark))


def test_deleted_rows_without_deletion_vectors(spark: SparkSession, place: Path) -> None:
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = false)")
    spark.sql(f"DELETE FROM delta.`{place}` WHERE second(ts) % 9 = 4")
    found, scan = matches(spark, str(place))
    assert scan.startswith(DIRECTLY)
    assert found == expected(spark.read.format("delta").load(str(place)))


def test_column_mapping(spark: SparkSession, place: Path) -> None:
    """A column that has changed its name, and another one that has taken it."""
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE delta.`{place}` RENAME COLUMN v TO was")
    spark.sql(f"ALTER TABLE delta.`{place}` ADD COLUMN v DOUBLE")
    spark.sql(f"UPDATE delta.`{place}` SET v = 9 - was")
    found, scan = matches(spark, str(place))
    assert scan == BY_ROWS + "the columns of the Delta table have other names in its files (column mapping)"
    assert found == expected(ticks(spark).selectExpr("k", "ts", "9 - v AS v"))


def test_a_partitioned_table(spark: SparkSession, tmp_path: Path) -> None:
    """The values of its partition columns are in its log alone."""
    ticks(spark).write.format("delta").partitionBy("k").save(str(tmp_path / "t"))
    found, scan = matches(spark, str(tmp_path / "t"))
    assert scan.startswith(DIRECTLY)
    assert found == expected(ticks(spark))
    few = "k IN ('key 1', 'key 4')"
    query = RISES.format(table=f"(SELECT * FROM t WHERE {few})")
    assert rows(episode.sql(query, spark=spark, t=str(tmp_path / "t"))) == expected(ticks(spark).where(few))
    with pytest.raises(EpisodeAnalysisError, match="lies in the Delta table"):
        matches(spark, str(next((tmp_path / "t").glob("k=*"))))


def test_columns_that_were_added(spark: SparkSession, place: Path) -> None:
    """Files from before have none: null."""
    more = ticks(spark, 400, 50).selectExpr("*", "1 AS w")
    more.write.format("delta").mode("append").option("mergeSchema", "true").save(str(place))
    query = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES sum(w) AS w, count(*) AS n PATTERN (A+))"
    assert "Parquet read directly" in episode.explain(query, spark=spark, t=str(place))
    assert [tuple(row) for row in episode.sql(query, spark=spark, t=str(place)).collect()] == [(50, 450)]


def test_rows_chosen_before_the_pattern(spark: SparkSession, place: Path) -> None:
    late = "ts >= timestamp_seconds(1793491300)"
    query = RISES.format(table=f"(SELECT * FROM t WHERE {late})")
    assert "Parquet read directly" in episode.explain(query, spark=spark, t=str(place))
    found = rows(episode.sql(query, spark=spark, t=str(place)))
    assert found == expected(ticks(spark).where(late))


def test_a_stream_from_a_table_to_a_table(spark: SparkSession, tmp_path: Path) -> None:
    source, sink, checkpoint = (tmp_path / name for name in ("source", "sink", "checkpoint"))

    def run() -> None:
        live = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(source))
        found = episode.sql(RISES.format(table="live"), spark=spark, live=live, options=STREAM)
        run_stream(found, "delta", sink, checkpoint)

    ticks(spark, 0, 200).coalesce(1).write.format("delta").save(str(source))
    run()
    ticks(spark, 200, 200).coalesce(1).write.format("delta").mode("append").save(str(source))
    end = spark.sql("SELECT 'end' AS k, timestamp'2026-11-03 00:00:00' AS ts, 0D AS v")
    end.write.format("delta").mode("append").save(str(source))
    run()
    assert rows(spark.read.format("delta").load(str(sink))) == expected(ticks(spark))


def test_the_command_line_follows_a_table(spark: SparkSession, place: Path) -> None:
    assert followed_files(spark, str(place), "parquet").isStreaming
    assert files(spark, str(place), "parquet").count() == 400
