"""Slices of time on Spark: one key, and keys of which one is large, give what one task for each key gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import episode
from episode import EpisodeAnalysisError, EpisodeUnsupportedError, Options, Tuning
from episode.plan.options import RunOptions
from episode.spark.batch import runtime as batch
from episode.spark.batch import slices
from episode.spark.scan import sketch
from episode.store.catalog import Catalog
from episode.store.stream import open_store

pytestmark = pytest.mark.spark

FILES, ROWS, LIGHT_KEYS = 3, 400, 12
LARGE_KEY = "large"
OFF = Options(tuning=Tuning(slices="off"))


def ticks(number: int) -> pa.Table:
    """One of the files: three of four rows have one key; times have ties, and do not come in order."""
    draw = random.Random(number)
    times = [draw.randrange(number * ROWS, (number + 1) * ROWS + 50) // 2 for _ in range(ROWS)]
    return pa.table(
        {
            "k": [LARGE_KEY if draw.random() < 0.75 else f"key {draw.randrange(LIGHT_KEYS)}" for _ in times],
            "ts": pa.array(times, pa.int64()),
            "v": pa.array([draw.randrange(8) for _ in times], pa.int32()),
            "id": pa.array(range(number * ROWS, number * ROWS + ROWS), pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("ticks")
    for number in range(FILES):
        pq.write_table(ticks(number), directory / f"part-{number}.parquet", row_group_size=150)
    return str(directory)


def clause(skip: str = "TO NEXT ROW", *, keyed: bool = True, rows: str = "ONE ROW PER MATCH", within: str = "WITHIN 12",
           measures: str = "FIRST(id) AS first, LAST(id) AS last, count(*) AS n") -> str:  # fmt: skip
    partition = "PARTITION BY k" if keyed else ""
    return f"""SELECT * FROM ticks MATCH_RECOGNIZE (
      {partition} ORDER BY ts, id MEASURES {measures} {rows}
      AFTER MATCH SKIP {skip}
      PATTERN (A B+ C) {within}
      DEFINE B AS v > PREV(v), C AS v < PREV(v, 2))"""


NUMBERED = "MATCH_NUMBER() AS number, FIRST(id) AS first, LAST(id) AS last"
ROW_QUERIES = {
    "of keys": clause(),
    "of one partition": clause(keyed=False),
    "all rows": clause(rows="ALL ROWS PER MATCH", keyed=False),
    "past the last row": clause("PAST LAST ROW", measures=NUMBERED),
    "past the last row, of one partition": clause("PAST LAST ROW", measures=NUMBERED, keyed=False),
    "to a label": clause("TO LAST B", measures=NUMBERED),
    "unmatched rows": clause("PAST LAST ROW", rows="ALL ROWS PER MATCH WITH UNMATCHED ROWS", keyed=False),
    "of few rows": clause(within="", keyed=False).replace("B+", "B{1,3}"),
}


def rows_of(frame: DataFrame) -> list[Any]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def query(spark: SparkSession, text: str, table: Any, options: Options) -> list[Any]:
    return rows_of(episode.sql(text, ticks=table, spark=spark, options=options))


def explained(spark: SparkSession, text: str, table: Any, options: Options | None = None) -> str:
    return episode.explain(text, ticks=table, spark=spark, options=options)


@pytest.mark.parametrize("name", ROW_QUERIES)
def test_row_patterns(spark: SparkSession, path: str, name: str) -> None:
    text = ROW_QUERIES[name]
    assert "slices of time, cut at" in explained(spark, text, path, Options(tuning=Tuning(slices=5)))
    found = query(spark, text, path, OFF)
    assert len(found) > 20
    assert query(spark, text, path, Options(tuning=Tuning(slices=5))) == found


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same rows in order of time."""
    directory = tmp_path_factory.mktemp("ordered")
    whole = pa.concat_tables([ticks(number) for number in range(FILES)]).sort_by([("ts", "ascending")])
    for number in range(FILES):
        part = whole.slice(number * ROWS, ROWS)
        pq.write_table(part, directory / f"part-{number}.parquet", row_group_size=20)
    return str(directory)


@pytest.mark.parametrize("name", [name for name, text in ROW_QUERIES.items() if "PARTITION BY" not in text])
def test_files_in_order_of_time_are_not_shuffled(spark: SparkSession, path: str, in_order: str, name: str) -> None:
    text = ROW_QUERIES[name]
    assert "reading: files are in order of time" in explained(spark, text, in_order, Options(tuning=Tuning(slices=5)))
    assert "reading:" not in explained(spark, text, path, Options(tuning=Tuning(slices=5)))
    assert query(spark, text, in_order, Options(tuning=Tuning(slices=5))) == query(spark, text, in_order, OFF)


def test_more_slices_than_cores_and_shards(spark: SparkSession, path: str) -> None:
    for name in ("of keys", "past the last row"):
        found = query(spark, ROW_QUERIES[name], path, OFF)
        assert query(spark, ROW_QUERIES[name], path, Options(tuning=Tuning(slices=23, shards=3))) == found


@pytest.mark.parametrize("name", ROW_QUERIES)
def test_slices_that_are_larger_than_their_memory(
    spark: SparkSession, path: str, in_order: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of slices is taken at its word: tasks spill, and cut slices of a chain further by themselves."""
    monkeypatch.setattr(batch, "_LEAST_BUDGET", 1)
    text, small = ROW_QUERIES[name], Options(tuning=Tuning(slices=3, shard_bytes=1_500))
    chained = "NEXT ROW" not in text or "MATCH_NUMBER" in text
    for table in (path, in_order):
        plan = explained(spark, text, table, small)
        assert "in 3 slices of time" in plan
        assert f"it is spilled, and {'cut further by its task' if chained else 'matched piece by piece'}" in plan
        assert query(spark, text, table, small) == query(spark, text, table, OFF)
    assert "memory:" not in explained(spark, text, path, Options(tuning=Tuning(slices=3)))


def test_a_small_memory_asks_for_more_slices(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from episode.matchers.slices import keys as slice_choice

    monkeypatch.setattr(batch, "_LEAST_BUDGET", 1)
    monkeypatch.setattr(slices, "LEAST_BYTES", 1)
    monkeypatch.setattr(slice_choice, "LEAST_SAMPLED", 1)
    text = clause("PAST LAST ROW", measures=NUMBERED, keyed=False, within="WITHIN 4")
    assert "slices: none" in explained(spark, text, path)
    assert "memory:" not in (plan := explained(spark, text, path, Options(tuning=Tuning(shard_bytes=8_000))))
    assert "all rows in 6 slices" in plan, "twice 1,200 rows of 20 bytes, by 8,000"
    assert query(spark, text, path, Options(tuning=Tuning(shard_bytes=8_000))) == query(spark, text, path, OFF)


EVENTS = """PATTERN SEQ(T a, T b, T c) WHERE a.v < b.v AND b.v > c.v AND a.v = 1 WITHIN 6
  RETURN a.id, b.id AS b, c.id AS c"""
SITUATIONS = """DEFINE High AS v > 5, Low AS v < 3
  PATTERN Low before High; Low meets High WITHIN 10 RETURN first(Low.id) AS low, first(High.id) AS high"""


@pytest.mark.parametrize("pattern", [EVENTS, SITUATIONS], ids=["events", "situations"])
@pytest.mark.parametrize("key", [(), ("k",)], ids=["of one partition", "of keys"])
def test_event_and_situation_patterns(
    spark: SparkSession, path: str, in_order: str, pattern: str, key: tuple[str, ...]
) -> None:
    events = spark.read.parquet(path)
    strategy = {"strategy": "skip-till-next-match"} if pattern == EVENTS else {}

    def found(options: Options) -> list[Any]:
        return rows_of(episode.match(events, pattern, time="ts", key=key, options=options, **strategy))

    whole = found(OFF)
    assert len(whole) > 10
    assert found(Options(tuning=Tuning(slices=6))) == whole
    events = spark.read.parquet(in_order)
    assert found(Options(tuning=Tuning(slices=6))) == found(OFF)


def test_rows_through_spark(spark: SparkSession, path: str) -> None:
    rows = spark.read.parquet(path).withColumn("v", F.col("v") + 1)
    text = ROW_QUERIES["of keys"]
    plan = explained(spark, text, rows, Options(tuning=Tuning(slices=4)))
    assert "k = 'large' (about 7" in plan
    assert "4 slices" in plan
    assert "were counted" in plan
    assert query(spark, text, rows, Options(tuning=Tuning(slices=4))) == query(spark, text, rows, OFF)


def test_rows_through_spark_are_not_looked_at_unasked(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "LEAST_BYTES", 1)
    rows = spark.read.parquet(path).withColumn("v", F.col("v") + 1)
    assert "slices: none (rows through Spark are not sampled" in explained(spark, ROW_QUERIES["of keys"], rows)


def test_stream_stores(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    episode.sql("CREATE STREAM S (k STRING, ts BIGINT, v INT, id BIGINT) TIME ts KEY k ARCHIVE AS A", spark=spark)
    store = open_store(Catalog(tmp_path / "catalog").find("s"))
    store.append(ticks(0))
    store.append(ticks(1))
    store.archive()
    store.append(ticks(2))
    text = ROW_QUERIES["of keys"].replace("FROM ticks", "FROM A")
    plan = episode.explain(text, spark=spark, options=Options(tuning=Tuning(slices=4)))
    assert "envelopes of the stream store" in plan
    assert "k = 'large'" in plan
    found = rows_of(episode.sql(text, spark=spark, options=OFF))
    assert found == rows_of(episode.sql(text, spark=spark, options=Options(tuning=Tuning(slices=4))))
    assert len(found) > 20


def test_large_files_are_sliced_unasked(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their first rows and their statistics, as files are that are too large to be read whole."""
    from episode.matchers.slices import keys as slice_choice

    monkeypatch.setattr(slices, "LEAST_BYTES", 1)
    monkeypatch.setattr(slice_choice, "LEAST_SLICE_BYTES", 1)
    monkeypatch.setattr(slice_choice, "LEAST_SAMPLED", 1)
    monkeypatch.setattr(sketch, "READ_WHOLE", 1)
    monkeypatch.setattr(sketch, "MOST_ROWS", 200)
    text = ROW_QUERIES["of keys"]
    plan = explained(spark, text, path)
    assert "k = 'large'" in plan
    assert "slices of time, cut at" in plan
    assert "overlap: a slice is matched with 2 rows before it, 12 after it" in plan
    assert query(spark, text, path, Options()) == query(spark, text, path, OFF)


def test_what_is_not_sliced_and_why(spark: SparkSession, path: str, tmp_path: Path) -> None:
    of_keys, unbounded = ROW_QUERIES["of keys"], clause(within="")
    assert "slices: none (the input is small)" in explained(spark, of_keys, path)
    assert "slices: none (switched off" in explained(spark, of_keys, path, OFF)
    assert "slices: none (nothing bounds a match" in explained(spark, unbounded, path)
    with pytest.raises(EpisodeUnsupportedError, match="nothing bounds a match"):
        explained(spark, unbounded, path, Options(tuning=Tuning(slices=4)))
    pq.write_table(ticks(0).slice(0, 0), tmp_path / "empty.parquet")
    assert "slices: none (there are no rows)" in explained(
        spark, of_keys, str(tmp_path), Options(tuning=Tuning(slices=4))
    )
    assert query(spark, of_keys, str(tmp_path), Options(tuning=Tuning(slices=4))) == []
    even = of_keys.replace("PARTITION BY k", "PARTITION BY id")
    assert "slices: none (no key is large" in explained(spark, even, path, Options(tuning=Tuning(slices=4)))


def test_streams_are_not_sliced(spark: SparkSession, path: str, rocksdb: None) -> None:
    stream = spark.readStream.schema(spark.read.parquet(path).schema).parquet(path)
    with pytest.raises(EpisodeAnalysisError, match="slices of time are for tables"):
        explained(spark, ROW_QUERIES["of keys"], stream, Options(watermark=10, tuning=Tuning(slices=4)))
    plan = explained(spark, ROW_QUERIES["of one partition"], stream, Options(watermark=10))
    assert "slices: none (the events of a stream are matched as they come" in plan


@pytest.mark.parametrize("wrong", [1, 0, True, "on", 2.5])
def test_wrong_numbers(wrong: Any) -> None:
    with pytest.raises(EpisodeAnalysisError, match="'auto', 'off' or a whole number of at least 2"):
        Options(tuning=Tuning(slices=wrong))


def test_an_analysis_is_of_whole_keys(spark: SparkSession, path: str) -> None:
    text = ROW_QUERIES["of keys"]
    plans = [
        episode.explain(text, ticks=path, spark=spark, analyze=True, options=options)
        for options in (OFF, Options(tuning=Tuning(slices=4)))
    ]
    attempts = [next(line for line in plan.splitlines() if "attempts" in line) for plan in plans]
    assert attempts[0].split(",")[0] == attempts[1].split(",")[0]


def test_a_key_that_is_constant_in_files_and_a_condition(spark: SparkSession, tmp_path: Path, path: str) -> None:
    spark.read.parquet(path).write.partitionBy("k").parquet(str(tmp_path / "by key"))
    rows = spark.read.parquet(str(tmp_path / "by key")).where("v < 7").select("k", "ts", "v", "id")
    text = ROW_QUERIES["past the last row"]
    plan = explained(spark, text, rows, Options(tuning=Tuning(slices=4)))
    assert "Parquet read directly" in plan
    assert "k = 'large'" in plan
    assert query(spark, text, rows, Options(tuning=Tuning(slices=4))) == query(spark, text, rows, OFF)


def test_the_default_is_auto() -> None:
    assert RunOptions().tuning.slices == Options().tuning.slices == "auto"
