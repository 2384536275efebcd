"""Expressions in PARTITION BY and ORDER BY on Spark: names, batch, streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.unit.plan.test_spark_names import NAMES

import episode
from episode.errors import EpisodeAnalysisError

ROWS = [(1, 1, 30, "a"), (2, 5, 20, "a"), (3, 11, 25, "b"), (4, 12, 10, "b"), (5, 23, 50, "a")]


@pytest.fixture
def events(spark: SparkSession) -> Any:
    return spark.createDataFrame(ROWS, "id int, ts bigint, price int, k string")


def test_names_are_those_of_spark(spark: SparkSession) -> None:
    columns = "1L AS ts, 1 AS a, 2 AS b, true AS ok, 's' AS s, named_struct('q', 1) AS p"
    frame = spark.sql(f"SELECT {columns}")
    assert [frame.selectExpr(sql).columns[0] for sql, _ in NAMES] == [name for _, name in NAMES]


def test_functions_of_spark(events: Any) -> None:
    text = """
        SELECT * FROM t MATCH_RECOGNIZE (
          PARTITION BY upper(k), ts DIV 10 AS price ORDER BY ts MEASURES max(price) AS m PATTERN (A B)
          DEFINE B AS price < PREV(price))
    """
    found = episode.sql(text, t=events)
    assert found.columns == ["upper(k)", "price", "m"]
    assert sorted(map(tuple, found.collect())) == [("A", 0, 30), ("B", 1, 25)]
    plan = str(episode.explain(text, t=events))
    assert "upper(k)" in plan


def test_event_and_situation_patterns(events: Any) -> None:
    keys = "PARTITION BY upper(k) AS upper, ts DIV 20 AS bucket ORDER BY ts"
    text = f"FROM t {keys} PATTERN SEQ(A a, B b) WHERE a.price > b.price WITHIN 10 RETURN upper(b.k) AS u, b.ts AS ts"
    found = episode.sql(text, t=events).select("u", "ts")
    assert sorted(map(tuple, found.collect())) == [("A", 5), ("B", 12)]
    text = f"FROM t {keys} DEFINE A AS price > 15, B AS price > 25 PATTERN A contains B WITHIN 100"
    assert episode.sql(text, t=events).columns[:2] == ["upper", "bucket"]
    assert "upper(`k`)" in str(episode.explain(text, t=events))


def test_a_stream(spark: SparkSession, rocksdb: None, events: Any, tmp_path: Path) -> None:
    events.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "in"))
    clause = "PARTITION BY ts DIV 10 AS b ORDER BY ts + 1 MEASURES count(*) AS n PATTERN (A A)"
    with pytest.raises(EpisodeAnalysisError, match="is an expression; the event time of a stream is a column"):
        episode.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", t=stream)
    keyed = clause.replace("ORDER BY ts + 1", "ORDER BY ts").replace("(A A)", "(A{2}) WITHIN 10")
    result = episode.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({keyed})", t=stream, options=episode.Options(watermark=0))
    assert (result.isStreaming, result.columns) == (True, ["b", "n"])
