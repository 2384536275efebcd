"""Queries in process give the rows and the types that they give on Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.event_listings import DATA, LISTINGS

import episode
from episode.matchers.spark_types import spark_name

pytestmark = pytest.mark.spark

ROWS = {
    "V-shape": """SELECT name, begins, fall * 2 AS twice FROM t MATCH_RECOGNIZE (
        PARTITION BY name ORDER BY ts MEASURES A.ts AS begins, A.price - LAST(D.price) AS fall
        PATTERN (A D+ U+) DEFINE D AS D.price < PREV(D.price), U AS U.price > PREV(U.price))""",
    "types of aggregates": """SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY name ORDER BY ts
        MEASURES sum(volume) AS s, avg(volume) AS a, count(*) AS n, max(price) / 3 AS m, volume % 7 AS r,
            volume div 7 AS d, array_agg(id) AS ids, CLASSIFIER() AS c, stddev(price) AS deviation
        PATTERN (A B{1,3}))""",
    "all rows": """SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY name ORDER BY ts MEASURES FIRST(price) < LAST(price) AS up, MATCH_NUMBER() AS k
        ALL ROWS PER MATCH PATTERN (A B) DEFINE B AS B.volume > A.volume)""",
    "situations": """FROM t PARTITION BY name ORDER BY ts
        DEFINE A AS price > 20, B AS volume > 40 PATTERN A overlaps B WITHIN 50
        RETURN avg(A.price) AS mean, B.end AS be""",
    "whole situations": """SELECT * FROM SITUATIONS (FROM t PARTITION BY name ORDER BY ts
        DEFINE A AS price > 20, B AS volume > 40 PATTERN A overlaps B WITHIN 50)""",
}  # fmt: skip
SHORT = ["ZStream 1", "ZStream 3", "ZStream 7", "ZStream 8", "SASE++ 2", "SASE++ 4"]


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert found.column_names == expected.column_names
    assert [spark_name(field.type) for field in found.schema] == [spark_name(field.type) for field in expected.schema]
    assert rows_of(found) == rows_of(expected)
    assert found.num_rows


def data(spark: SparkSession, name: str) -> tuple[pa.Table, object]:
    rows, schema = DATA[name]
    frame = spark.createDataFrame(rows(), schema)
    return frame.toArrow(), frame


@pytest.mark.parametrize("name", ROWS)
def test_statements(spark: SparkSession, name: str) -> None:
    table, frame = data(spark, "stocks")
    assert_same(episode.sql_local(ROWS[name], t=table), episode.sql(ROWS[name], t=frame).toArrow())


@pytest.mark.parametrize("name", SHORT)
def test_listings(spark: SparkSession, name: str) -> None:
    listing = LISTINGS[name]
    table, frame = data(spark, listing.data)
    found = episode.match_local(table, listing.text, **listing.options)
    assert_same(found, episode.match(frame, listing.text, **listing.options).toArrow())
