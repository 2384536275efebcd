"""Collapsed results through Spark: match, SQL, streams, and expand, which gives what the plain query gives."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import episode
from episode import EpisodeAnalysisError, Options, StreamOptions, Tuning

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

SCHEMA = "ts BIGINT, type STRING, x INT, s STRING, k INT"
QUERY = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x >= b[i-1].x AND c.x < max(b[].x) WITHIN 24"
PLAIN = f"{QUERY} RETURN a.ts, b[].x AS xs, concat(c.s, '!') AS s, sum(b[].x) AS total, b"


def rows() -> list[tuple[Any, ...]]:
    rng = random.Random(5)
    return [
        (ts, rng.choice("ABBBCD"), rng.choice([0, 1, 2, 3, None]), rng.choice(["u", "v", None]), ts % 2)
        for ts in range(60)
    ]


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(rows(), SCHEMA)


def sorted_rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_expanding_gives_what_the_plain_query_gives(events: DataFrame) -> None:
    given = {"time": "ts", "type_column": "type", "key": "k"}
    collapsed = episode.match(events, f"{QUERY} RETURN COLLAPSED", **given)
    assert collapsed.columns == ["a", "b", "c", "match_start", "match_end", "matches"]
    assert collapsed.schema["matches"].dataType.simpleString() == "decimal(38,0)"
    plain = episode.match(events, PLAIN, **given)
    expanded = episode.expand(collapsed, PLAIN, **given)
    assert expanded.schema == plain.schema
    assert sorted_rows(expanded) == sorted_rows(plain) != []
    assert sum(row.matches for row in collapsed.collect()) == Decimal(plain.count())


def test_in_sql(spark: SparkSession, events: DataFrame) -> None:
    text = QUERY.replace("PATTERN", "FROM events PARTITION BY k ORDER BY ts TYPE BY type PATTERN")
    found = episode.sql(
        f"SELECT m.at, m.xs, m.matches * 2 AS twice FROM EVENTS ({text} RETURN COLLAPSED a.ts AS at, b[].x AS xs) AS m "
        "WHERE m.matches > 1",
        events=events,
    )
    whole = episode.match(events, f"{QUERY} RETURN COLLAPSED", time="ts", type_column="type", key="k").collect()
    expected = [(row.a.ts, [b.x for b in row.b], row.matches * 2) for row in whole if row.matches > 1]
    assert sorted(map(repr, (tuple(row) for row in found.collect()))) == sorted(map(repr, expected)) != []


@pytest.mark.parametrize("trailing", [False, True])
def test_a_stream_gives_what_a_table_gives(spark: SparkSession, tmp_path: Path, trailing: bool) -> None:
    query = "PATTERN SEQ(A a, B+ b[]) WHERE b[i].x > a.x WITHIN 6" if trailing else QUERY
    table = spark.createDataFrame(rows(), SCHEMA)
    for part in range(2):
        table.where(f"ts div 30 = {part}").coalesce(1).write.mode("append").parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events"))
    given: dict[str, Any] = {"time": "ts", "type_column": "type"}
    collapsed = episode.match(
        stream,
        f"{query} RETURN COLLAPSED",
        options=Options(watermark=0, tuning=Tuning(shards=2), stream=StreamOptions(end=1000)),
        **given,
    )
    found = {}
    for name, frame in {"collapsed": collapsed, "expanded": episode.expand(collapsed, query, **given)}.items():
        place = str(tmp_path / name)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", place + "-state")
        writer.trigger(availableNow=True).start(place).awaitTermination()
        found[name] = sorted_rows(spark.read.parquet(place))
    assert found["collapsed"] == sorted_rows(episode.match(table, f"{query} RETURN COLLAPSED", **given)) != []
    assert found["expanded"] == sorted_rows(episode.match(table, query, **given)) != []


def test_tables_of_classes(spark: SparkSession) -> None:
    starts = spark.createDataFrame([(1, "one"), (2, "two")], "ts BIGINT, name STRING")
    loads = spark.createDataFrame([(3, 1.5), (4, 2.5), (5, 0.5)], "ts BIGINT, name DOUBLE")
    ends = spark.createDataFrame([(9, "end")], "ts BIGINT, name STRING")
    query = "PATTERN SEQ(Start a, Load+ b[], End c) WHERE b[i].name > 1 WITHIN 9"
    tables = {"Start": starts, "Load": loads, "End": ends}
    collapsed = episode.match(f"{query} RETURN COLLAPSED", time="ts", **tables)
    assert [row.matches for row in collapsed.collect()] == [3, 3]
    plain = episode.match(query, time="ts", **tables)
    expanded = episode.expand(collapsed, query, time="ts")
    assert expanded.schema == plain.schema
    assert sorted_rows(expanded) == sorted_rows(plain)


def test_what_is_missing_is_named(events: DataFrame) -> None:
    given = {"time": "ts", "type_column": "type"}
    few = episode.match(events, f"{QUERY} RETURN COLLAPSED a, b[].x AS b, c", **given)
    with pytest.raises(EpisodeAnalysisError, match=r"column b of the collapsed matches is of type array<int>, not an"):
        episode.expand(few, QUERY, **given)
    whole = episode.match(events, f"{QUERY} RETURN COLLAPSED", **given)
    with pytest.raises(EpisodeAnalysisError, match="have no column c: a struct, an event"):
        episode.expand(whole.drop("c"), QUERY, **given)
    with pytest.raises(EpisodeAnalysisError, match="The events of b have no column y"):
        episode.expand(whole, QUERY.replace("b[i].x", "b[i].y"), **given)


def test_numbers_beyond_decimals(spark: SparkSession) -> None:
    many = [(0, "A", 0, "", 0), *((ts, "B", ts, "", 0) for ts in range(1, 200)), (200, "C", 0, "", 0)]
    events = spark.createDataFrame(many, SCHEMA)
    query = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 500 RETURN COLLAPSED a.ts"
    given = {"time": "ts", "type_column": "type"}
    with pytest.raises(Exception, match=r"about 8e\+59 matches, and DECIMAL\(38, 0\) has 38 digits"):
        episode.match(events, query, **given).collect()
    (row,) = episode.match(events, query, options=Options(tuning=Tuning(counts="double")), **given).collect()
    assert row.matches == pytest.approx(2.0**199)
