"""Streams declared USING kafka: the same statements as over the embedded store, with a real broker."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import episode
from episode.api import Options
from episode.plan.options import StreamOptions, Tuning
from tests.kafka.broker import Broker

START = datetime(2026, 11, 1, tzinfo=timezone.utc)
RISES = """
SELECT * FROM {table} MATCH_RECOGNIZE (
  PARTITION BY k {order} MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n
  PATTERN (A B+) WITHIN 40 seconds DEFINE B AS v > PREV(v))
"""
END = "2026-11-02 00:00:00"


def events(first: int, count: int) -> pa.Table:
    """Ticks with microseconds, of five keys."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": [f"k{n * n % 5}" for n in numbers],
            "ts": pa.array([START + timedelta(microseconds=1_000_001 * n) for n in numbers], pa.timestamp("us", "UTC")),
            "v": [n * 31 % 7 / 2 for n in numbers],
        }
    )


def rows(frame: DataFrame) -> Counter[tuple]:
    return Counter(tuple(row) for row in frame.collect())


@pytest.fixture
def ticks(spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A declared stream over a topic of its own."""
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    episode.sql(
        "CREATE STREAM Ticks (k STRING, ts TIMESTAMP, v DOUBLE) TIME ts KEY k DELAY 1 second ARCHIVE AS TicksArchive "
        f"USING kafka OPTIONS (kafka.bootstrap.servers '{broker.address}', topic '{tmp_path.name}', "
        f"kafka.client.id '{tmp_path.name}')",
        spark=spark,
    )
    return "Ticks"


def test_the_same_statements(spark: SparkSession, ticks: str, tmp_path: Path) -> None:
    """Appended in three ways; matched as a stream and as a table; archived twice, with events between and after."""
    assert episode.streams.append(ticks, events(0, 100)) == -1
    spark.createDataFrame(events(100, 50)).createOrReplaceTempView("more")
    episode.sql("INSERT INTO Ticks SELECT * FROM more", spark=spark)
    expected = Counter(map(tuple, (row.values() for row in events(0, 150).to_pylist())))

    def found() -> Counter[tuple]:
        naive = rows(episode.sql("SELECT * FROM TicksArchive", spark=spark))
        return Counter({(k, ts.astimezone(timezone.utc), v): n for (k, ts, v), n in naive.items()})

    assert found() == expected
    assert episode.streams.archive(ticks) == 150
    assert episode.streams.archive(ticks) == 0
    assert found() == expected
    episode.streams.append(ticks, spark.createDataFrame(events(150, 50)))
    expected += Counter(map(tuple, (row.values() for row in events(150, 50).to_pylist())))
    assert found() == expected
    assert episode.streams.count(ticks) == 200
    assert episode.streams.archive(ticks) == 50
    assert found() == expected
    plain = pq.read_table(tmp_path / "catalog" / "ticks" / "archive", partitioning=None)
    assert plain.num_rows == 200

    table = spark.createDataFrame(events(0, 200))
    matches = rows(episode.sql(RISES.format(table="t", order="ORDER BY ts"), t=table))
    assert sum(matches.values()) > 20
    assert rows(episode.sql(RISES.format(table="TicksArchive", order=""), spark=spark)) == matches
    episode.sql(f"INSERT INTO Ticks VALUES ('end', TIMESTAMP '{END}' + INTERVAL 1 HOUR, 0.0)", spark=spark)
    live = episode.sql(
        RISES.format(table="Ticks", order=""),
        spark=spark,
        options=Options(tuning=Tuning(shards=4), stream=StreamOptions(end=END)),
    )
    writer = live.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == matches
    spark.catalog.dropTempView("more")


def test_records_that_are_no_events(spark: SparkSession, ticks: str, broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(episode.EpisodeDataError, match="Row 1 has no event time"):
        episode.streams.append(ticks, [{"k": "a", "v": 1.0}])
    with pytest.raises(episode.EpisodeDataError, match="A row has no event time"):
        episode.sql("INSERT INTO Ticks SELECT 'a', CAST(NULL AS TIMESTAMP), 1.0D", spark=spark)
    episode.streams.append(ticks, events(0, 10))
    wrong = spark.createDataFrame([("no json",)], "value string").write.format("kafka")
    wrong.options(**{"kafka.bootstrap.servers": broker.address, "topic": tmp_path.name}).save()
    with pytest.raises(episode.EpisodeDataError, match="is not an event of Ticks: it has no ts"):
        episode.streams.archive(ticks)
    assert episode.streams.archive(ticks, skip_corrupt=True) == 10
    assert episode.sql("SELECT * FROM TicksArchive", spark=spark).count() == 10
