"""Imprecise time on Spark: tables, SQL, a table per class, and a stream that gives what the table gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.streams import Files, counters

import episode
from episode import Options, StreamOptions, Tuning

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

SCHEMA = "kind STRING, lo BIGINT, hi BIGINT, x BIGINT, p ARRAY<DOUBLE>"
ROWS = [
    ("A", 1, 2, 7, [0.5, 0.5]),
    ("B", 2, 3, 10, [0.5, 0.5]),
    ("B", 2, 5, 20, [0.25, 0.25, 0.25, 0.25]),
    ("C", 4, 5, 9, [0.5, 0.5]),
]
TEXT = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 9 RETURN b[].x AS b"
EXPECTED = [([10], 1, 5, 0.75), ([10, 20], 1, 5, 0.40625), ([20], 1, 5, 0.5)]


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_a_table(spark: SparkSession) -> None:
    events = spark.createDataFrame(ROWS, SCHEMA)
    found = episode.match(events, TEXT, time=("lo", "hi"), type_column="kind")
    assert found.dtypes[-1] == ("confidence", "double")
    assert rows_of(found) == EXPECTED
    given = episode.match(events, TEXT, time=("lo", "hi"), type_column="kind", probabilities="p")
    assert rows_of(given) == EXPECTED


def test_timestamps_in_sql(spark: SparkSession) -> None:
    events = spark.createDataFrame(ROWS, SCHEMA).selectExpr(
        "kind", "x", "timestamp_seconds(lo) AS lo", "timestamp_seconds(hi) AS hi"
    )
    found = episode.sql(
        "SELECT b, confidence FROM EVENTS (FROM t TIME BETWEEN lo AND hi GRANULARITY 1 second TYPE BY kind "
        "PATTERN SEQ(A a, B+ b[], C c) WITHIN 9 seconds CONFIDENCE >= 0.5 RETURN b[].x AS b)",
        spark=spark,
        t=events,
    )
    assert rows_of(found) == [([10], 0.75), ([20], 0.5)]


def test_a_table_per_class(spark: SparkSession) -> None:
    events = spark.createDataFrame(ROWS, SCHEMA)
    tables = {kind: events.where(f"kind = '{kind}'").select("lo", "hi", "x") for kind in "ABC"}
    assert rows_of(episode.match(TEXT, time=("lo", "hi"), spark=spark, **tables)) == EXPECTED


def test_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """With an event that is wider than it may be, and one whose earliest time is after its latest."""
    files = Files(spark, tmp_path, SCHEMA)
    table = pa.table(
        {
            "kind": [*(row[0] for row in ROWS), "B", "B"],
            "lo": [*(row[1] for row in ROWS), 0, 6],
            "hi": [*(row[2] for row in ROWS), 30, 5],
            "x": [*(row[3] for row in ROWS), 1, 1],
            "p": [*(row[4] for row in ROWS), [1.0], [1.0]],
        }
    )
    files.add_in_pieces(table, 3)
    matches = episode.match(
        files.stream(),
        TEXT,
        time=("lo", "hi"),
        type_column="kind",
        probabilities="p",
        interval_width=10,
        options=Options(watermark=10, tuning=Tuning(shards=1), stream=StreamOptions(end=100)),
    )
    files.add(pa.table({"kind": ["Z"], "lo": [500], "hi": [500], "x": [0], "p": [[1.0]]}))
    query = files.run(matches)
    assert rows_of(files.matches()) == EXPECTED
    assert counters(query)["null_times"] == 2


def test_a_stream_without_a_width_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(episode.EpisodeAnalysisError, match="needs WIDTH"):
        episode.match(
            stream, "PATTERN A a; B b WITHIN 5 seconds", time=("timestamp", "timestamp"), granularity="1 second"
        )
