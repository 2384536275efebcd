"""Statements that make, change and travel in tables of Delta and Iceberg, with patterns in them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import episode

EVENTS = pa.table({"k": ["a", "a", "a", "b", "b"], "ts": [1, 2, 3, 4, 5], "v": [3, 2, 5, 4, 6]})
RISES = "PARTITION BY k ORDER BY ts MEASURES A.v AS low, B.v AS high PATTERN (A B) DEFINE B AS B.v > A.v"
MATCHED = f"SELECT * FROM t MATCH_RECOGNIZE ({RISES})"


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.parametrize(("table", "kind"), [("merged", "delta"), ("ice.db.merged", "iceberg")])
def test_matches_are_merged_into_a_table(spark: SparkSession, table: str, kind: str) -> None:
    episode.sql(f"CREATE TABLE {table} USING {kind} AS {MATCHED} WHERE k = 'a'", spark=spark, t=EVENTS)
    spark.sql(f"UPDATE {table} SET high = 0")
    merge = f"""
        MERGE INTO {table} AS u USING ({MATCHED}) AS s ON u.k = s.k
        WHEN MATCHED THEN UPDATE SET high = s.high WHEN NOT MATCHED THEN INSERT *
    """
    episode.sql(merge, spark=spark, t=EVENTS)
    assert rows(spark.table(table)) == [("a", 2, 5), ("b", 4, 6)]
    if kind == "iceberg":  # Delta has no subqueries in DELETE
        delete = f"DELETE FROM {table} WHERE k IN (SELECT k FROM ({MATCHED}) WHERE high = 6)"
        episode.sql(delete, spark=spark, t=EVENTS)
        assert rows(spark.table(table)) == [("a", 2, 5)]
    spark.sql(f"DROP TABLE {table}")


def test_a_table_as_it_was(spark: SparkSession) -> None:
    episode.sql("CREATE TABLE was USING delta AS SELECT * FROM t", spark=spark, t=EVENTS)
    episode.sql("INSERT INTO was SELECT 'b', ts + 10, v FROM t WHERE k = 'a'", spark=spark, t=EVENTS)
    was = f"SELECT k, low, high FROM was VERSION AS OF 0 AS x MATCH_RECOGNIZE ({RISES})"
    now = f"SELECT k, low, high FROM was MATCH_RECOGNIZE ({RISES})"
    assert rows(episode.sql(was, spark=spark)) == [("a", 2, 5), ("b", 4, 6)]
    assert rows(episode.sql(now, spark=spark)) == [("a", 2, 5), ("b", 2, 5), ("b", 4, 6)]
    spark.sql("DROP TABLE was")
