"""Row patterns over streams, through Structured Streaming: as over a table, whatever the micro-batches."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.streams import Files, counters

import episode
from episode.api import Options
from episode.plan.options import StreamOptions, Tuning

SCHEMA = "k int, ts long, v int, s string"
ARROW = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.int32()), ("s", pa.string())])
END = 1_000_000
RISING = (
    "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts "
    "MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n PATTERN (A B+) DEFINE B AS v > PREV(v))"
)


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]


def events(count: int = 400, keys: int = 5, seed: int = 7) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [{"k": draw.randrange(keys), "ts": 10 * (i + 1), "v": draw.randrange(6), "s": f"e{i}"} for i in range(count)]


def marker(ts: int = 2 * END) -> dict[str, Any]:
    """Moves the watermark; it does not belong to the stream itself."""
    return {"k": -1, "ts": ts, "v": 0, "s": "marker"}


def rows_of(frame: DataFrame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def frame_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)


def in_batch(
    spark: SparkSession, query: str, rows: list[dict[str, Any]], options: Options | None = None
) -> list[tuple]:
    return rows_of(episode.sql(query, events=frame_of(spark, rows), options=options))


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=ARROW)


def found(files: Files) -> list[tuple]:
    return rows_of(files.matches())


def streamed(
    spark: SparkSession, place: Path, text: str, rows: list[dict[str, Any]], pieces: int, options: Options
) -> tuple[list[tuple], dict[str, int]]:
    """Matches of a query over a stream of rows in so many micro-batches, and its counters."""
    files = Files(spark, place, SCHEMA)
    files.add_in_pieces(table_of(rows), pieces)
    files.add(table_of([marker()]))
    query = files.run(episode.sql(text, events=files.stream(), options=options))
    return found(files), counters(query)


def shuffled(rows: list[dict[str, Any]], by: int, seed: int = 1) -> list[dict[str, Any]]:
    """In an order in which no event is more than `by` after a later one."""
    draw = random.Random(seed)
    return sorted(rows, key=lambda row: row["ts"] + draw.randrange(by))


LONG_WAYS = [pytest.param(7, 0, marks=pytest.mark.slow), pytest.param(20, 90, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("pieces", "disorder"), [(1, 0), (7, 200), *LONG_WAYS])
def test_a_stream_gives_what_a_table_gives(spark: SparkSession, tmp_path: Path, pieces: int, disorder: int) -> None:
    rows = events()
    coming = shuffled(rows, disorder) if disorder else rows
    matches, totals = streamed(
        spark, tmp_path, RISING, coming, pieces, Options(watermark=disorder, stream=StreamOptions(end=END))
    )
    assert matches == in_batch(spark, RISING, rows)
    assert (totals["events"], totals["late"], totals["after_end"]) == (len(rows) + 1, 0, 1)
    assert totals["matches"] == len(matches)


def test_a_restart_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    rows = events()
    files = Files(spark, tmp_path, SCHEMA)
    options = Options(watermark=50, stream=StreamOptions(end=END))
    for begin in range(0, len(rows), 100):
        files.add_in_pieces(table_of(rows[begin : begin + 100]), 2)
        files.run(episode.sql(RISING, events=files.stream(), options=options))
    files.add(table_of([marker()]))
    files.run(episode.sql(RISING, events=files.stream(), options=options))
    assert found(files) == in_batch(spark, RISING, rows)


def test_late_events_are_dropped_counted_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    rows = events(100)
    late = [{"k": 1, "ts": 15, "v": 9, "s": "late 1"}, {"k": 2, "ts": 25, "v": 9, "s": "late 2"}]
    files.add(table_of(rows))
    files.add(table_of([*late, {"k": 1, "ts": 2_000, "v": 0, "s": "in time"}]))
    files.add(table_of([marker()]))
    options = Options(watermark=100, stream=StreamOptions(end=END, late_path=str(tmp_path / "late")))
    query = files.run(episode.sql(RISING, events=files.stream(), options=options))
    assert found(files) == in_batch(spark, RISING, [*rows, {"k": 1, "ts": 2_000, "v": 0, "s": "in time"}])
    assert counters(query)["late"] == 2
    kept = spark.read.parquet(str(tmp_path / "late")).collect()
    assert sorted((row.k, row.ts, row.v) for row in kept) == [(1, 15, 9), (2, 25, 9)]


@pytest.mark.live
def test_late_events_of_several_patterns_and_runs_in_one_directory(spark: SparkSession, tmp_path: Path) -> None:
    """The same pattern over two streams, in two runs; and the micro-batch with late events once more."""
    late = [{"k": 1, "ts": 15, "v": 9, "s": "late"}, {"k": 1, "ts": 25, "v": 9, "s": "late"}]
    streams = {"events": Files(spark, tmp_path / "events", SCHEMA), "others": Files(spark, tmp_path / "others", SCHEMA)}
    for files, event in zip(streams.values(), late, strict=True):
        files.add(table_of([marker(2_000)]))
        files.add(table_of([event]))
    bounded = RISING.replace("DEFINE", "WITHIN 50 DEFINE")
    text = f"{bounded} UNION ALL {bounded.replace('events', 'others')}"
    options = Options(watermark=100, tuning=Tuning(shards=1), stream=StreamOptions(late_path=str(tmp_path / "late")))

    def run(checkpoint: Path) -> list[int]:
        frames = {name: files.stream() for name, files in streams.items()}
        writer = episode.sql(text, options=options, **frames).writeStream.foreachBatch(lambda batch, _: batch.collect())
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return sorted(row.ts for row in spark.read.parquet(str(tmp_path / "late")).collect())

    assert run(tmp_path / "first") == [15, 25]
    assert run(tmp_path / "second") == [15, 15, 25, 25]
    for commit in (tmp_path / "second" / "commits").iterdir():
        if not commit.name.lstrip(".").startswith("0"):
            commit.unlink()
    before = {file.name: file.stat().st_ino for file in (tmp_path / "late").iterdir()}
    assert run(tmp_path / "second") == [15, 15, 25, 25]
    after = {file.name: file.stat().st_ino for file in (tmp_path / "late").iterdir()}
    assert before.keys() == after.keys()
    assert sum(before[name] != after[name] for name in before) == 2


def test_repeated_events_and_null_times(spark: SparkSession, tmp_path: Path) -> None:
    rows = events(200)
    files = Files(spark, tmp_path, SCHEMA)
    files.add(table_of([*rows[:100], *rows[40:60], {"k": 1, "ts": None, "v": 1, "s": "when?"}]))
    files.add(table_of([*rows[90:200], rows[150]]))
    files.add(table_of([marker()]))
    options = Options(watermark=500, stream=StreamOptions(end=END, event_id="s"))
    query = files.run(episode.sql(RISING, events=files.stream(), options=options))
    assert found(files) == in_batch(spark, RISING, rows)
    totals = counters(query)
    assert (totals["duplicates"], totals["null_times"]) == (31, 1)


def test_timestamps_with_the_streams_own_watermark(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY at MEASURES FIRST(at) AS first, "
        "count(*) AS n, LAST(s) AS s PATTERN (A B+) WITHIN 1 minute DEFINE B AS v > PREV(v))"
    )
    rows = events()
    files = Files(spark, tmp_path, SCHEMA)
    files.add_in_pieces(table_of(rows), 3)
    files.add(table_of([marker(100_000)]))
    stream = files.stream().withColumn("at", F.timestamp_seconds(F.col("ts"))).withWatermark("at", "1 second")
    expected = rows_of(
        episode.sql(text, events=frame_of(spark, rows).withColumn("at", F.timestamp_seconds(F.col("ts"))))
    )
    files.run(episode.sql(text, events=stream, options=Options(stream=StreamOptions(end="1970-01-01 12:00:00"))))
    assert found(files) == expected
    assert "the stream's own" in episode.explain(text, events=stream)


def test_around_the_pattern_is_spark(spark: SparkSession, tmp_path: Path) -> None:
    text = f"SELECT k, n * 2 AS twice FROM ({RISING}) WHERE n > 2"
    rows = events()
    matches, _ = streamed(spark, tmp_path, text, rows, 2, Options(watermark=0, stream=StreamOptions(end=END)))
    assert matches == in_batch(spark, text, rows)


def test_time_outs_and_match_times(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES MATCH_NUMBER() AS number, "
        "count(*) AS n PATTERN (A B C) WITHIN 100 EMIT TIMED OUT MATCHES DEFINE A AS v < 2, C AS v > 3)"
    )
    rows = events()
    expected = in_batch(spark, text, rows, Options(match_times=True))
    assert {row[-1] for row in expected} == {True, False}
    options = Options(watermark=0, match_times=True, stream=StreamOptions(end=END))
    assert streamed(spark, tmp_path, text, rows, 4, options)[0] == expected
    assert all(start <= end for *_, start, end, _ in expected)


# ---- what cannot be ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "options", "complaint"),
    [
        (RISING, Options(), "has no watermark on its event time ts"),
        (RISING.replace("ORDER BY ts ", ""), Options(watermark=1), "needs an ORDER BY"),
        (RISING.replace("ORDER BY ts", "ORDER BY ts DESC"), Options(watermark=1), "do not come ordered by ts DESC"),
        (RISING.replace("ORDER BY ts", "ORDER BY s"), Options(watermark=1), "cannot be the event time"),
        (RISING, Options(watermark="10 seconds"), "does not fit the event time ts of type bigint"),
        (RISING, Options(watermark=1, stream=StreamOptions(end="tomorrow")), "is a whole number"),
        (RISING, Options(watermark=1, stream=StreamOptions(event_id="id")), "has no such column"),
    ],
)
def test_queries_that_streams_cannot_run(
    spark: SparkSession, tmp_path: Path, query: str, options: Options, complaint: str
) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    with pytest.raises(episode.EpisodeError, match=complaint):
        episode.sql(query, events=files.stream(), options=options)


def test_options_of_streams_without_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    table, stream = frame_of(spark, events(10)), Files(spark, tmp_path, SCHEMA).stream()
    options = Options(watermark=1, stream=StreamOptions(event_id="s"))
    complaint = r"Options\(watermark=1\), StreamOptions\(event_id='s'\): for patterns over streams"
    with pytest.raises(episode.EpisodeAnalysisError, match=complaint):
        episode.sql(RISING, events=table, options=options)
    with pytest.raises(episode.EpisodeAnalysisError, match=complaint):
        episode.explain("SELECT * FROM events", events=table, options=options)
    events_query = "PATTERN a; b WHERE a.v < b.v WITHIN 50 RETURN a.v"
    with pytest.raises(episode.EpisodeAnalysisError, match=complaint):
        episode.sql(f"FROM events ORDER BY ts {events_query}", events=table, options=options)
    situations = "DEFINE A AS v > 3, B AS v < 2 PATTERN A before B WITHIN 50"
    for text in (events_query, situations):
        with pytest.raises(episode.EpisodeAnalysisError, match=complaint):
            episode.match(table, text, time="ts", options=options)
        with pytest.raises(episode.EpisodeAnalysisError, match=complaint):
            episode.query(text, episode.Events(table, time="ts"), options=options).explain()
    bounded = RISING.replace("DEFINE", "WITHIN 5 DEFINE")
    both = f"{bounded} UNION ALL {bounded.replace('events', 'past')}"
    assert episode.sql(both, events=stream, past=table, options=options).isStreaming
    assert episode.sql("SELECT * FROM events", events=stream, options=options).isStreaming
    with pytest.raises(episode.EpisodeAnalysisError, match=complaint):
        episode.sql(
            f"SELECT events.k FROM events JOIN ({bounded.replace('events', 'past')}) AS m ON events.k = m.k",
            events=stream,
            past=table,
            options=options,
        )


def test_a_state_without_a_bound_is_told(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    with pytest.warns(episode.EpisodeWarning, match="not bounded"):
        episode.sql(RISING, events=files.stream(), options=Options(watermark=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        episode.sql(RISING.replace("DEFINE", "WITHIN 5 DEFINE"), events=files.stream(), options=Options(watermark=1))
        episode.sql(
            RISING, events=files.stream(), options=Options(watermark=1, stream=StreamOptions(max_state_rows=100))
        )


def test_the_state_store_must_be_rocksdb(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    with pytest.raises(episode.EpisodeError, match="RocksDB"):
        episode.sql(RISING, events=files.stream(), options=Options(watermark=1))


@pytest.mark.parametrize(
    ("query", "shards", "complaint"),
    [
        (RISING, 8, "was written with 32 shards, this query has 8"),
        (RISING.replace("v > PREV(v)", "v >= PREV(v)"), None, "belongs to another query"),
    ],
)
def test_a_checkpoint_of_something_else(
    spark: SparkSession, tmp_path: Path, query: str, shards: int | None, complaint: str
) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    files.add(table_of(events(50)))
    files.run(episode.sql(RISING, events=files.stream(), options=Options(watermark=1)))
    files.add(table_of(events(50, seed=3)))
    with pytest.raises(Exception, match=complaint):
        files.run(episode.sql(query, events=files.stream(), options=Options(watermark=1, tuning=Tuning(shards=shards))))


def test_another_number_of_shuffle_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps the number that a checkpoint began with; the query goes on."""
    rows = events()
    files = Files(spark, tmp_path, SCHEMA)
    files.add(table_of(rows[:200]))
    options = Options(watermark=50, stream=StreamOptions(end=END))
    files.run(episode.sql(RISING, events=files.stream(), options=options))
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    files.add(table_of(rows[200:]))
    files.add(table_of([marker()]))
    files.run(episode.sql(RISING, events=files.stream(), options=options))
    assert found(files) == in_batch(spark, RISING, rows)
