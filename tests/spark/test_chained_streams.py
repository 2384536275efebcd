"""Patterns over the matches of other patterns in one streaming query: the same matches as over tables."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.streams import Files, counters

import episode
from episode import EpisodeAnalysisError, Options, StreamOptions, Tuning

SCHEMA = "k int, ts long, v int"
ARROW = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.int32())])
END = 1_000_000
BEYOND = 10 * END
"""After everything: moves the watermark."""

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

Query = Callable[[DataFrame, Options], DataFrame]

ROWS = """(SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
  MEASURES FIRST(ts) AS u, LAST(ts) AS t, CAST(count(*) AS INT) AS n
  PATTERN (A B+) WITHIN 300 DEFINE B AS v > PREV(v)))"""
EVENTS = """(SELECT k, match_start AS u, match_end AS t, n FROM EVENTS (FROM events PARTITION BY k ORDER BY ts
  PATTERN a; b WHERE a.v = 0 AND b.v = 5 WITHIN 100 RETURN a.k AS k, CAST(b.ts - a.ts AS INT) AS n))"""
SITUATIONS = """(SELECT k, match_start AS u, detected_at AS t, n FROM SITUATIONS (FROM events PARTITION BY k ORDER BY ts
  DEFINE low AS v < 2, high AS v > 3 PATTERN low before high WITHIN 200
  RETURN first(low.k) AS k, CAST(count(low) AS INT) AS n))"""
OVER_ROWS = """SELECT * FROM {input} MATCH_RECOGNIZE (PARTITION BY k ORDER BY t, n
  MEASURES FIRST(t) AS a, LAST(t) AS b, sum(n) AS c PATTERN (X Y+) WITHIN 500 DEFINE Y AS n >= PREV(n))"""
OVER_EVENTS = """WITH m AS {input} SELECT * FROM EVENTS (FROM m PARTITION BY k ORDER BY t
  PATTERN a; b WHERE a.n < b.n WITHIN 150 RETURN a.k AS k, a.t AS a, b.t AS b)"""
OVER_SITUATIONS = """WITH m AS {input} SELECT * FROM SITUATIONS (FROM m PARTITION BY k ORDER BY t
  DEFINE few AS n % 4 < 2, many AS n % 4 >= 2 PATTERN few meets many WITHIN 900 RETURN first(few.k) AS k)"""


def table_of(count: int = 300, keys: int = 3, seed: int = 11) -> pa.Table:
    """Events of different times, all of the last key early: it is idle from then on."""
    draw = random.Random(seed)
    rows = [{"k": draw.randrange(keys), "ts": 10 * (i + 1), "v": draw.randrange(6)} for i in range(count)]
    rows += [{"k": keys, "ts": 10 * i + 5, "v": draw.randrange(6)} for i in range(20)]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["ts"]), schema=ARROW)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def marker(ts: int = BEYOND) -> pa.Table:
    return pa.Table.from_pylist([{"k": -1, "ts": ts, "v": 0}], schema=ARROW)


def check(
    spark: SparkSession, place: Path, query: Query, *, options: Options | None = None, restart: bool = False
) -> None:
    """A query over a stream gives what it gives over the table. restart: it is stopped once and goes on."""
    table = table_of()
    options = options or Options(watermark=30, tuning=Tuning(shards=2), stream=StreamOptions(end=END))
    files = Files(spark, place, SCHEMA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", episode.EpisodeWarning)
        files.add(table.slice(0, 200))
        if restart:
            files.run(query(files.stream(), options))
        files.add(table.slice(200))
        files.add(marker())
        files.run(query(files.stream(), options))
        past = table if options.stream.end is not None else pa.concat_tables([table, marker()])
        expected = rows_of(query(spark.createDataFrame(past.to_pandas(), SCHEMA), Options()))
    assert len(expected) > 0
    assert rows_of(files.matches()) == expected


def statement(text: str) -> Query:
    return lambda events, options: episode.sql(text, events=events, options=options)


def test_row_patterns_in_one_statement(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, statement(OVER_ROWS.format(input=ROWS)), restart=True)


@pytest.mark.live
def test_three_levels_through_dataframes_without_an_end(spark: SparkSession, tmp_path: Path) -> None:
    """A filter, a computed column and a renamed time between the levels; windows end by the watermark alone."""

    def query(events: DataFrame, options: Options) -> DataFrame:
        rises = episode.sql(f"SELECT * FROM {ROWS}", events=events, options=options)
        some = rises.where("n > 1").selectExpr("k", "t AS time", "n + 0 AS m", "u")
        pairs = episode.match(
            some, "PATTERN a; b WHERE a.m <= b.m WITHIN 150 RETURN a.k AS k, b.m AS m", time="time", key="k"
        )
        text = """SELECT * FROM pairs MATCH_RECOGNIZE (PARTITION BY k ORDER BY match_end, match_start
          MEASURES FIRST(match_end) AS a, LAST(match_end) AS b, count(*) AS n
          PATTERN (X Y*) WITHIN 200 DEFINE Y AS m >= PREV(m))"""
        return episode.sql(text, pairs=pairs)

    check(spark, tmp_path, query, options=Options(watermark=30, tuning=Tuning(shards=2)))


@pytest.mark.live
def test_a_union_of_two(spark: SparkSession, tmp_path: Path) -> None:
    both = f"(SELECT k, t, n FROM {EVENTS} UNION ALL SELECT k, t, n FROM {SITUATIONS})"
    check(spark, tmp_path, statement(OVER_ROWS.format(input=both)))


@pytest.mark.live
@pytest.mark.parametrize("inner", [ROWS, EVENTS, SITUATIONS])
@pytest.mark.parametrize("outer", [OVER_ROWS, OVER_EVENTS, OVER_SITUATIONS])
@pytest.mark.parametrize("by", ["t", "u"])
def test_each_over_each(spark: SparkSession, tmp_path: Path, inner: str, outer: str, by: str) -> None:
    ordered = outer.replace("ORDER BY t, n", f"ORDER BY {by}, n, t, u").replace("ORDER BY t\n", f"ORDER BY {by}\n")
    check(spark, tmp_path, statement(ordered.format(input=inner)))


def test_counters_have_names_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    files.add(table_of())
    files.add(marker())
    first = episode.match(
        files.stream(), "PATTERN a; b WHERE a.v < b.v WITHIN 50 RETURN a.k AS k", time="ts", key="k",
        options=Options(watermark=30, tuning=Tuning(shards=2)),
    )  # fmt: skip
    second = episode.match(first, "PATTERN a; b WITHIN 90 RETURN a.k AS k", time="match_end", key="k")
    query = files.run(second)
    one, two = counters(query), counters(query, "episode_2")
    assert one["matches"] == two["events"] > 0
    assert two["late"] == two["null_times"] == 0
    assert two["matches"] == files.matches().count() > 0


# ---- what cannot be done, at plan time -----------------------------------------------------------------------------


def matches(spark: SparkSession, place: Path, text: str = ROWS) -> DataFrame:
    stream = Files(spark, place, SCHEMA).stream()
    return episode.sql(f"SELECT * FROM {text}", events=stream, options=Options(watermark=30))


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["k", "t + 1 AS t"], "t is not one of their times"),
        (["k", "n AS t"], "t is not one of their times"),
        (["k", "CAST(t AS INT) AS t"], "t is not one of their times"),
    ],
)
def test_times_that_are_computed(spark: SparkSession, tmp_path: Path, columns: list[str], complaint: str) -> None:
    frame = matches(spark, tmp_path).selectExpr(*columns)
    with pytest.raises(EpisodeAnalysisError, match=complaint):
        episode.match(frame, "PATTERN a; b WITHIN 9", time="t", key="k")
    assert episode.match(frame, "PATTERN a; b WITHIN 9", time="t", key="k", options=Options(watermark=400)).isStreaming


def test_patterns_whose_matches_may_come_at_any_time(spark: SparkSession, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", episode.EpisodeWarning)
        frame = matches(spark, tmp_path, ROWS.replace("WITHIN 300", ""))
    with pytest.raises(EpisodeAnalysisError, match="nothing bounds how long a match stays open") as raised:
        episode.match(frame, "PATTERN a; b WITHIN 9", time="t", key="k")
    assert "Add WITHIN to that pattern" in str(raised.value)
    fixed = matches(spark, tmp_path / "fixed", ROWS.replace("WITHIN 300", "").replace("B+", "B"))
    assert episode.match(fixed, "PATTERN a; b WITHIN 9", time="t", key="k").isStreaming
    with pytest.raises(EpisodeAnalysisError, match="nothing bounds how long a match stays open"):
        episode.match(fixed, "PATTERN a; b WITHIN 9", time="u", key="k")


def test_watermarks_of_matches(spark: SparkSession, tmp_path: Path) -> None:
    stream = Files(spark, tmp_path, "k int, ts timestamp, v int").stream()
    text = "PATTERN a; b WHERE a.v < b.v WITHIN 1 minute RETURN a.k AS k"
    frame = episode.match(stream, text, time="ts", options=Options(watermark="1 second"))
    again = "PATTERN a; b WITHIN 1 minute"
    for other in (
        frame.withWatermark("match_end", "1 second"),
        frame.withWatermark("match_end", "1 second").select("match_start"),
    ):
        with pytest.raises(EpisodeAnalysisError, match="cannot have a second watermark"):
            episode.match(other, again, time="match_start")
    with pytest.raises(EpisodeAnalysisError, match="come with its watermark"):
        episode.match(frame, again, time="match_end", options=Options(watermark="1 second"))
    nested = """SELECT * FROM (SELECT n + 0 AS n, t + 0 AS t FROM {})
      MATCH_RECOGNIZE (ORDER BY t MEASURES t AS e PATTERN (A B))"""
    files = Files(spark, tmp_path / "nested", SCHEMA)
    with pytest.raises(EpisodeAnalysisError, match="make two calls"):
        episode.sql(nested.format(ROWS), events=files.stream(), options=Options(watermark=5))


def test_two_results_with_one_name_of_counters(spark: SparkSession, tmp_path: Path) -> None:
    one, two = matches(spark, tmp_path / "one"), matches(spark, tmp_path / "two")
    with pytest.raises(EpisodeAnalysisError, match="counters have the same name"):
        episode.match("PATTERN A; B WITHIN 9", time="t", A=one, B=two)
