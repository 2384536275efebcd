"""Columns whose names have dots and backticks, over tables, files and streams."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import episode
from episode import Options

pytestmark = pytest.mark.spark

ROWS = (
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY `k.a` ORDER BY `t``s` MEASURES B.`a.b` AS `x.y`, "
    "sum(A.`a.b`) AS `to``tal`, upper(B.`a``b`) AS u {} PATTERN (A B) "
    "DEFINE B AS B.`a.b` > A.`a.b` AND hash(B.`a``b`) <> 5)"
)
EVENTS = "PATTERN A; B WHERE A.`a.b` = 0 AND B.`a.b` = 2 AND B.`a``b` = 'x' WITHIN 2 RETURN A.`a.b` AS p, B.`t``s` AS q"
SITUATIONS = "DEFINE A AS `a.b` = 0, B AS `a.b` = 1 PATTERN A meets B WITHIN 2 RETURN sum(A.`a.b`) AS p, B.start AS q"


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    rows = [(1, ts, ts % 3, "x") for ts in range(6)]
    return spark.createDataFrame(rows, "k INT, t BIGINT, v INT, s STRING").toDF("k.a", "t`s", "a.b", "a`b")


def test_tables(spark: SparkSession, frame: DataFrame) -> None:
    found = episode.sql(ROWS.format(""), spark=spark, t=frame)
    assert found.columns == ["k.a", "x.y", "to`tal", "u"]
    assert sorted(map(tuple, found.collect())) == [(1, 1, 0, "X"), (1, 1, 0, "X")]
    found = episode.sql(ROWS.format("ALL ROWS PER MATCH"), spark=spark, t=frame)
    assert set(found.columns) == {"k.a", "t`s", "a.b", "a`b", "x.y", "to`tal", "u"}
    assert found.count() == 4
    found = episode.match(frame, EVENTS, time="t`s", key="k.a")
    assert sorted((row.p, row.q) for row in found.collect()) == [(0, 2), (0, 5)]
    found = episode.match(frame, SITUATIONS, time="t`s", key="k.a")
    assert sorted((row.p, row.q) for row in found.collect()) == [(0, 1), (0, 4)]


@pytest.mark.usefixtures("rocksdb")
def test_files_and_streams(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    frame.coalesce(1).write.parquet(f"{tmp_path}/events")
    found = episode.sql(ROWS.format(""), spark=spark, t=spark.read.parquet(f"{tmp_path}/events"))
    assert sorted(map(tuple, found.collect())) == [(1, 1, 0, "X"), (1, 1, 0, "X")]
    stream = spark.readStream.schema(frame.schema).parquet(f"{tmp_path}/events")
    found = episode.sql(ROWS.format(""), spark=spark, t=stream, options=Options(watermark="0"))
    query = (
        found.writeStream.format("memory").queryName("names").outputMode("append").trigger(availableNow=True)
        .option("checkpointLocation", f"{tmp_path}/checkpoint").start()
    )  # fmt: skip
    query.awaitTermination()
    assert [tuple(row) for row in spark.table("names").collect()][:1] == [(1, 1, 0, "X")]
