"""Named parameters through Spark: in conditions, windows and results of every language, and in the SQL around them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import episode
from episode import Options

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]
VALUES = [3.0, 7.0, 1.0, 9.0, 2.0, 8.0]


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    start = datetime(2026, 11, 1, tzinfo=timezone.utc)
    rows = [(1, start + timedelta(minutes=i), v, f"e{i}") for i, v in enumerate(VALUES)]
    return spark.createDataFrame(rows, "k int, ts timestamp, v double, s string")


def rows_of(frame: DataFrame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def test_row_patterns(events: DataFrame) -> None:
    """Natively, by Spark before matching (regexp_like), in measures, in the window and around the clause."""
    text = """
        SELECT a, b, word, :name AS name FROM t MATCH_RECOGNIZE (
            ORDER BY ts MEASURES A.v AS a, B.v + {plus} AS b, concat(B.s, {word}) AS word
            AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) WITHIN :window
            DEFINE A AS A.v < :low, B AS B.v > A.v + :low AND regexp_like(B.s, :like)
        ) WHERE a > :least
    """
    args = {"low": 3, "least": Decimal("1.5"), "like": "^e[35]$", "name": "it's {x}", "window": timedelta(minutes=1)}
    found = episode.sql(text.format(plus=":plus", word=":word"), {**args, "plus": 10, "word": "'); --"}, t=events)
    assert rows_of(found) == [(2.0, 18.0, "e5'); --", "it's {x}")]
    everything = {**args, "least": None, "plus": 10, "word": "!"}
    assert rows_of(episode.sql(text.format(plus=":plus", word=":word"), everything, t=events)) == []


def test_event_patterns(events: DataFrame) -> None:
    text = """PATTERN A; B WHERE A.v > :x AND B.v < A.v - :x AND date_format(A.ts, :unit) = :minute
        WITHIN :w RETURN A.v AS a, B.v * :factor AS b"""
    args = {"x": 4, "unit": "mm", "minute": "03", "w": "1 minute", "factor": 2}
    found = episode.match(events, text, args, time="ts").drop("match_start", "match_end")
    assert rows_of(found) == [(9.0, 4.0)]


def test_situation_patterns(events: DataFrame) -> None:
    text = """DEFINE A AS v > :x, B AS v < :x AND s LIKE :like PATTERN A meets B WITHIN :w
        RETURN max(A.v) + :plus AS a"""
    args = {"x": 5.0, "like": "e%", "w": timedelta(hours=1), "plus": 1}
    found = episode.match(events, text, args, time="ts")
    assert rows_of(found.select("a")) == [(8.0,), (10.0,)]


def test_statements_without_a_pattern_and_what_is_missing(events: DataFrame) -> None:
    assert rows_of(episode.sql("SELECT v FROM t WHERE v > :x", {"x": 8}, t=events)) == [(9.0,)]
    with pytest.raises(episode.EpisodeAnalysisError, match="no value for the parameter :x"):
        episode.sql("SELECT v FROM t WHERE v > :x", t=events)
    with pytest.raises(episode.EpisodeAnalysisError, match="no parameter :y"):
        episode.match(events, "PATTERN A; B WITHIN 1 minute", {"y": 1}, time="ts")
    shown = episode.explain("FROM t ORDER BY ts PATTERN A; B WHERE A.v > :x WITHIN :w", {"x": 8, "w": "1 s"}, t=events)
    assert "window" in shown.lower()


def test_streams(events: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    """Values are part of what a checkpoint belongs to."""
    place, checkpoint, output = (str(tmp_path / name) for name in ("events", "checkpoint", "output"))
    events.coalesce(1).write.parquet(place)
    stream = spark.readStream.schema(events.schema).parquet(place)
    text = "PATTERN A; B WHERE A.v > :x AND upper(B.s) <> :s AND B.v < A.v - :x WITHIN 1 minute RETURN B.v + :x AS b"

    def run(x: int) -> None:
        found = episode.match(stream, text, {"x": x, "s": "?"}, time="ts", options=Options(watermark="1 second"))
        query = found.writeStream.format("parquet").option("path", output).option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()

    run(4)
    assert rows_of(spark.read.parquet(output).select("b")) == [(5.0,), (6.0,)]
    events.coalesce(1).write.mode("append").parquet(place)
    with pytest.raises(StreamingQueryException, match="belongs to another query"):
        run(5)
