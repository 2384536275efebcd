"""Subqueries in MEASURES and DEFINE beside what the cases of conformance have: streams, parameters, what else reads a
query. And decimals in process against Spark's own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import episode
from episode import Options, StreamOptions
from episode.matchers.spark_types import spark_name
from episode.queries.checking import check_plan

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]
VALUES = [5, 1, 7, 3, 9, 2]


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(at, v) for at, v in enumerate(VALUES)], "ts long, v long")


@pytest.fixture
def limits(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1,), (7,), (None,)], "j long")


BOTH = """SELECT * FROM t MATCH_RECOGNIZE (
    ORDER BY ts MEASURES A.v AS a, B.v + (SELECT max(j) FROM q) AS b, EXISTS (SELECT * FROM q WHERE j > 7) AS e
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)
    DEFINE A AS v > (SELECT avg(j) FROM q), B AS B.v < A.v - (SELECT min(j) FROM q) AND EXISTS (SELECT * FROM q))"""
EXPECTED = [(5, 8, False), (7, 10, False), (9, 9, False)]


def rows_of(frame: DataFrame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def as_stream(spark: SparkSession, events: DataFrame, place: Path) -> DataFrame:
    events.coalesce(1).write.parquet(str(place))
    return spark.readStream.schema(events.schema).parquet(str(place))


def test_over_files_and_over_a_stream(
    spark: SparkSession, events: DataFrame, limits: DataFrame, tmp_path: Path
) -> None:
    stream = as_stream(spark, events, tmp_path / "in")
    assert rows_of(episode.sql(BOTH, t=str(tmp_path / "in"), q=limits)) == EXPECTED
    found = episode.sql(BOTH, options=Options(watermark=0, stream=StreamOptions(end=1000)), t=stream, q=limits)
    query = found.writeStream.format("memory").queryName("found").trigger(availableNow=True).start()
    query.awaitTermination()
    assert rows_of(spark.table("found")) == EXPECTED


def test_a_list_in_a_stream(spark: SparkSession, events: DataFrame, limits: DataFrame, tmp_path: Path) -> None:
    stream = as_stream(spark, events, tmp_path / "in")
    text = (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS a PATTERN (A) DEFINE A AS v IN (SELECT j FROM q))"
    )
    found = episode.sql(text, options=Options(watermark=0, stream=StreamOptions(end=1000)), t=stream, q=limits)
    query = found.writeStream.format("memory").queryName("listed").trigger(availableNow=True).start()
    query.awaitTermination()
    assert rows_of(spark.table("listed")) == [(1,), (7,)]


def test_a_stream_in_a_subquery(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    stream = as_stream(spark, events, tmp_path / "in")
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES (SELECT max(v) FROM t) AS a PATTERN (A))"
    with pytest.raises(episode.EpisodeAnalysisError, match="over tables, not over a stream"):
        episode.sql(text, t=stream)


def test_parameters_inside(events: DataFrame, limits: DataFrame) -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts
        MEASURES A.v AS a, :p + (SELECT min(j) FROM q WHERE j > :p) AS b PATTERN (A) DEFINE A AS v > (SELECT :p + 4))"""
    assert rows_of(episode.sql(text, {"p": 2}, t=events, q=limits)) == [(7, 9), (9, 9)]


def test_who_may_read_what(spark: SparkSession, events: DataFrame, limits: DataFrame, tmp_path: Path) -> None:
    """A query that may read given tables only has subqueries over these only."""
    limits.write.parquet(str(tmp_path / "secret"))
    found = episode.sql(BOTH, t=events, q=limits)
    check_plan(found, [events, limits])
    for clause in (
        "MEASURES (SELECT max(j) FROM {}) AS m PATTERN (A)",
        "MEASURES 1 AS m PATTERN (A) DEFINE A AS v > (SELECT max(j) FROM {})",
    ):
        text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts {clause})".format(f"parquet.`{tmp_path / 'secret'}`")
        with pytest.raises(episode.EpisodeUnsupportedError, match="more than the tables that were given"):
            check_plan(episode.sql(text, t=events), [events])


def test_in_words(events: DataFrame, limits: DataFrame) -> None:
    shown = str(episode.explain(BOTH, t=events, q=limits))
    assert "(SELECT avg(j) FROM q)" in shown
    assert "__episode" not in shown


EXPRESSIONS = [
    "1.5 * x", "x * -0.05", "x + 0.5", "0.5 - x", "x - 9223372036854775807.5", "x * 3.14159 + n", "x / 3.0", "1.0 / x",
    "m / n", "m / m", "w * 0.001", "w + x", "x * 1.0 / n", "n * 1.25", "n / 7.0", "(x + 0.1) * (n + 0.01)",
    "m * m * 2.5", "x / 0.3", "w / x", "x * -1.5", "abs(x - 0.5)", "1.5 * x > x + 0.5", "x = x * 1.0",
    "x / 2.0 >= 0.5 * x",
]  # fmt: skip


def test_decimals_in_process_are_those_of_spark(spark: SparkSession) -> None:
    from tests.property.test_exact_decimals import TABLE

    table = TABLE.filter(pa.compute.is_valid(TABLE["x"]))
    columns = [f"{sql} AS r{at}" for at, sql in enumerate(EXPRESSIONS)]
    guarded = [one.replace("1.0 / x", "try_divide(1.0, x)") for one in columns]
    guarded = [
        one.replace(" / n", " / nullif(n, 0)").replace("/ m", "/ nullif(m, 0)").replace("/ x", "/ nullif(x, 0)")
        for one in guarded
    ]
    expected = spark.createDataFrame(table).selectExpr("i", *guarded).orderBy("i").toArrow()
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES i AS i, {', '.join(columns)} PATTERN (A))"
    found = episode.sql_local(text, t=table)
    assert {field.name: spark_name(field.type) for field in found.schema} == {
        field.name: spark_name(field.type) for field in expected.schema
    }
    for name in expected.column_names:
        assert found.column(name).to_pylist() == expected.column(name).to_pylist(), name
