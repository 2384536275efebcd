"""The engines of closures on Spark: each gives the same, over a table and over a stream."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import episode
from episode import Options, StreamOptions, Tuning

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

SCHEMA = "ts BIGINT, type STRING, x INT, k INT"
QUERY = (
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x >= b[i-1].x AND sum(b[].x) > c.x WITHIN 24 "
    "RETURN a.ts AS at, b[].ts AS taken, c.ts AS until"
)
GIVEN: dict[str, Any] = {"time": "ts", "type_column": "type", "key": "k"}


def sorted_rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_all_engines_give_the_same_over_tables_and_streams(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(8)
    rows = [(ts, rng.choice("ABBBCD"), rng.choice([0, 1, 2, 3, None]), ts % 2) for ts in range(60)]
    table = spark.createDataFrame(rows, SCHEMA)
    events = str(tmp_path / "events")
    for part in range(2):
        table.where(f"ts div 30 = {part}").coalesce(1).write.mode("append").parquet(events)
    expected = sorted_rows(episode.match(table, QUERY, options=Options(tuning=Tuning(closure="runs")), **GIVEN))
    assert expected
    for closure in ("postponed", "on the fly"):
        found = episode.match(table, QUERY, options=Options(tuning=Tuning(closure=closure)), **GIVEN)
        assert sorted_rows(found) == expected
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(events)
        options = Options(watermark=0, tuning=Tuning(shards=2, closure=closure), stream=StreamOptions(end=1000))
        writer = episode.match(stream, QUERY, options=options, **GIVEN).writeStream.format("parquet")
        place = str(tmp_path / closure.replace(" ", "-"))
        writer = writer.option("checkpointLocation", f"{place}-state").trigger(availableNow=True)
        writer.start(place).awaitTermination()
        assert sorted_rows(spark.read.parquet(place)) == expected
