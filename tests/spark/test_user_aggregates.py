"""Aggregates of users on Spark: the functions travel to the workers by value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import episode
from episode.lang.functions import REGISTERED

pytestmark = pytest.mark.spark

DECAY = 0.5


def faded(state: Any, value: Any) -> Any:
    return DECAY * state + value


@pytest.fixture(autouse=True)
def no_traces() -> Iterator[None]:
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def test_in_all_places_of_event_and_row_patterns(spark: SparkSession) -> None:
    episode.aggregate("faded", initial=0.0, step=faded)
    rows = [(1, "A", 1.0), (2, "B", 2.0), (3, "B", 8.0), (4, "C", 0.0)]
    events = spark.createDataFrame(rows, "ts BIGINT, type STRING, v DOUBLE")
    found = episode.match(
        events,
        "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].v > faded(b[..i-1].v) WITHIN 10 RETURN faded(b[].v) AS f",
        time="ts",
        type_column="type",
    )
    assert sorted(row.f for row in found.collect()) == [2.0, 8.0, 9.0]
    found = episode.sql(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES FINAL faded(v) AS f PATTERN (A+) "
        "DEFINE A AS faded(A.v) < 9) AS m",
        spark=spark,
        t=events,
    )
    assert [row.f for row in found.collect()] == [2.5, 4.0]
