"""Aggregates of expressions with CLASSIFIER() and MATCH_NUMBER(): values and types are those of Spark's aggregates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import episode

pytestmark = pytest.mark.spark

COLUMNS = {
    "i": "int",
    "b": "bigint",
    "f": "float",
    "d": "double",
    "m": "decimal(8,2)",
    "w": "decimal(30,10)",
    "z": "decimal(38,18)",
    "t": "interval day to second",
    "y": "interval year to month",
}
NUMBERS = ("sum", "avg", "stddev", "stddev_pop", "variance", "var_pop")
BY_LABEL = "CASE WHEN CLASSIFIER() = 'A' THEN {} END"
EXPRESSIONS = {
    **{
        f"{function}_{column}": f"{function}({BY_LABEL.format(column)})" for function in NUMBERS for column in "ibfdmwz"
    },
    **{
        f"{function}_{column}": f"{function}({BY_LABEL.format(column)})"
        for function in ("sum", "avg")
        for column in "ty"
    },
    **{
        f"{function}_{column}": f"{function}({BY_LABEL.format(column)})"
        for function in ("min", "max")
        for column in "imty"
    },
    **{f"list_{column}": f"sort_array(array_agg({BY_LABEL.format(column)}))" for column in "imty"},
    "set_s": "sort_array(collect_set(CLASSIFIER() || s))",
    "number": "sum(i * MATCH_NUMBER())",
    "only_number": "avg(MATCH_NUMBER())",
    "weighted": "sum(m * MATCH_NUMBER())",
    "spread": "stddev(length(CLASSIFIER()) + d)",
    "largest": "max_by(concat(CLASSIFIER(), s), i)",
    "smallest": "min_by(i, concat(CLASSIFIER(), s))",
    "both": "max_by(CLASSIFIER(), CASE WHEN CLASSIFIER() = 'B' THEN i END)",
    "how_many": "count(nullif(CLASSIFIER(), 'A'))",
    "how_many_if": "count_if(CLASSIFIER() = 'A' AND i > 2)",
    "all_of": "bool_and(CLASSIFIER() = 'A' OR i > 1)",
    "one_of": "bool_or(CLASSIFIER() = 'A' AND i IS NULL)",
}
CLAUSE = (
    "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES {} {} "
    "PATTERN ((A | B){{1,4}}) DEFINE A AS id % 3 <> 0)"
)


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> Iterator[DataFrame]:
    values = ", ".join(
        f"CAST({text} AS {COLUMNS[column]}) AS {column}"
        for column, text in {
            "i": "CASE WHEN id % 5 <> 0 THEN id % 7 END",
            "b": "id * 1000000007",
            "f": "id / 7",
            "d": "CASE WHEN id % 4 <> 0 THEN sqrt(id) END",
            "m": "CASE WHEN id % 6 <> 0 THEN id * 1.37 - 20 END",
            "w": "id * 12345678901.2345678901",
            "z": "id * -1234567.123456789012345678",
            "t": "make_dt_interval(0, 0, CAST(id AS int), 0.5)",
            "y": "make_ym_interval(0, CAST(id AS int))",
        }.items()
    )
    frame = spark.sql(f"SELECT id % 2 AS k, id, CAST(id % 10 AS string) AS s, {values} FROM range(40)")
    frame = frame.cache()
    yield frame
    frame.unpersist()


@pytest.fixture(scope="module")
def expected(spark: SparkSession, events: DataFrame) -> DataFrame:
    """The rows of all matches with their labels, grouped by Spark."""
    rows = episode.sql(
        CLAUSE.format("CLASSIFIER() AS label, MATCH_NUMBER() AS number", "ALL ROWS PER MATCH"), events=events
    )
    rows.createOrReplaceTempView("rows_of_matches")
    texts = ", ".join(
        f"{text.replace('CLASSIFIER()', 'label').replace('MATCH_NUMBER()', 'number')} AS {name}"
        for name, text in EXPRESSIONS.items()
    )
    return spark.sql(f"SELECT k, number AS match, {texts} FROM rows_of_matches GROUP BY k, number ORDER BY k, number")


def printable(frame: DataFrame) -> DataFrame:
    """Python has no year-month intervals."""
    months = [name for name, type_ in frame.dtypes if "year" in type_]
    return frame.withColumns({name: frame[name].cast("string") for name in months})


def test_they_are_those_of_spark(events: DataFrame, expected: DataFrame) -> None:
    texts = ", ".join(f"{text} AS {name}" for name, text in EXPRESSIONS.items())
    found = episode.sql(CLAUSE.format(f"MATCH_NUMBER() AS match, {texts}", "ONE ROW PER MATCH"), events=events)
    assert dict(found.dtypes) == dict(expected.dtypes)
    rows = printable(found.orderBy("k", "match")).collect()
    assert len(rows) == 10
    for row, other in zip(rows, printable(expected).collect(), strict=True):
        for name, value in row.asDict().items():
            assert value == (pytest.approx(other[name]) if isinstance(value, float) else other[name]), name
