"""Statements that make or change tables, with patterns in them; and patterns as methods of DataFrames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import episode
from episode import EpisodeAnalysisError, EpisodeError, EpisodeSyntaxError

pytestmark = pytest.mark.spark

EVENTS = pa.table({"k": ["a", "a", "a", "b", "b"], "ts": [1, 2, 3, 4, 5], "v": [3, 2, 5, 4, 6]})
CLAUSE = "PARTITION BY k ORDER BY ts MEASURES A.v AS low, B.v AS high PATTERN (A B) DEFINE B AS B.v > A.v"
MATCHED = f"SELECT * FROM t MATCH_RECOGNIZE ({CLAUSE})"
FOUND = [("a", 2, 5), ("b", 4, 6)]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The name of a table that is gone after the test."""
    name = f"made_{tmp_path.name}".replace("-", "_")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_tables_of_matches(spark: SparkSession, table: str) -> None:
    statement = f"CREATE TABLE {table} USING parquet COMMENT 'of :rises' AS {MATCHED} WHERE low > :least"
    plan = episode.explain(statement, {"least": 3}, spark=spark, t=EVENTS)
    assert "partitions: k; order: ts" in plan
    assert not spark.catalog.tableExists(table)
    episode.sql(statement, {"least": 3}, spark=spark, t=EVENTS)
    assert rows(spark.table(table)) == FOUND[1:]
    episode.sql(f"INSERT INTO {table} {MATCHED} WHERE k = 'a'", spark=spark, t=EVENTS)
    assert rows(spark.table(table)) == FOUND
    with pytest.raises(EpisodeAnalysisError, match="Spark cannot run this statement"):
        episode.sql(f"CREATE TABLE {table} USING parquet AS {MATCHED}", spark=spark, t=EVENTS)


def test_temporary_views_of_matches(spark: SparkSession) -> None:
    """A view outlives the call, and the tables that were given to it."""
    episode.sql(f"CREATE OR REPLACE TEMP VIEW rises AS {MATCHED}", spark=spark, t=EVENTS)
    assert rows(spark.table("rises")) == FOUND
    assert rows(episode.sql("SELECT high FROM rises WHERE k = 'b'", spark=spark)) == [(6,)]
    episode.sql(f"CREATE OR REPLACE TEMP VIEW rises (x, y, z) AS {MATCHED}", spark=spark, t=EVENTS)
    assert spark.table("rises").columns == ["x", "y", "z"]
    with pytest.raises(EpisodeAnalysisError, match=r"rises.*already exists"):
        episode.sql(f"CREATE TEMP VIEW rises AS {MATCHED}", spark=spark, t=EVENTS)
    with pytest.raises(EpisodeAnalysisError, match="names for 1 columns, and its query has 3"):
        episode.sql(f"CREATE OR REPLACE TEMP VIEW rises (x) AS {MATCHED}", spark=spark, t=EVENTS)
    spark.catalog.dropTempView("rises")
    episode.sql("CREATE TEMP VIEW given AS SELECT k FROM t WHERE v > 5", spark=spark, t=EVENTS)
    assert rows(spark.table("given")) == [("b",)]
    spark.catalog.dropTempView("given")


def test_merge_is_handed_to_spark(spark: SparkSession, table: str) -> None:
    """Spark's own tables cannot be merged into, and Spark says so; everything before that is in order."""
    spark.sql(f"CREATE TABLE {table} (k STRING, low BIGINT, high BIGINT) USING parquet")
    merge = f"MERGE INTO {table} u USING ({MATCHED}) s ON u.k = s.k WHEN NOT MATCHED THEN INSERT *"
    with pytest.raises(EpisodeError, match="does not support MERGE INTO TABLE"):
        episode.sql(merge, spark=spark, t=EVENTS)
    assert "partitions: k; order: ts" in episode.explain(merge, spark=spark, t=EVENTS)


def test_tables_as_of_a_version_are_handed_to_spark(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE {table} (k STRING, ts BIGINT, v BIGINT) USING parquet")
    with pytest.raises(EpisodeError, match="Time travel on the relation"):
        episode.sql(f"SELECT * FROM {table} VERSION AS OF 3 x MATCH_RECOGNIZE ({CLAUSE})", spark=spark)


def test_methods_of_dataframes(spark: SparkSession) -> None:
    episode.install(spark)
    episode.install()
    frame: Any = episode.sql("SELECT * FROM t", spark=spark, t=EVENTS)
    assert rows(frame.match_recognize(CLAUSE)) == FOUND
    assert rows(frame.match_recognize(f"MATCH_RECOGNIZE ({CLAUSE.replace('A.v)', ':x)')})")) == FOUND
    pattern = "PATTERN A; B WHERE A.v = :v AND B.v > 4 RETURN A.k, B.v"
    assert rows(frame.match_events(pattern, {"v": 2}, time="ts").select("k", "v")) == [("a", 5), ("a", 6)]
    assert rows(frame.transform(episode.matching(pattern, {"v": 2}, time="ts", key="k")).select("v")) == [(5,)]
    situations = "DEFINE A AS v < 4, B AS v > 4 PATTERN A meets B RETURN max(A.v) AS most"
    assert rows(frame.match_situations(situations, time="ts", key="k").select("most")) == [(3,)]


def test_errors_of_methods_have_their_places(spark: SparkSession) -> None:
    episode.install()
    frame: Any = episode.sql("SELECT * FROM t", spark=spark, t=EVENTS)
    with pytest.raises(EpisodeSyntaxError) as raised:
        frame.match_recognize("ORDER BY ts\n PATTERN (A B++)")
    assert raised.value.line_and_column == (2, 15)
    with pytest.raises(EpisodeAnalysisError, match="This is a situation pattern") as other:
        frame.match_events("DEFINE A AS v > 1, B AS v < 1 PATTERN A meets B", time="ts")
    assert other.value.hint == "Use match_situations."
    with pytest.raises(EpisodeSyntaxError):
        episode.matching("PATTERN A;;")


def test_methods_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataFrame, "match_events", lambda frame: frame, raising=False)
    with pytest.raises(EpisodeError, match="have a method match_events already"):
        episode.install()
