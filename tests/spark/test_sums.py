"""Sums and divisions of decimals on Spark: null where they fail, in Spark's types."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

import episode

pytestmark = pytest.mark.spark


def test_division_of_decimals_by_zero_is_null_in_conditions(spark: SparkSession) -> None:
    rows = [(1, "A", Decimal("3.00"), Decimal("0.00")), (2, "B", Decimal("0.00"), Decimal("2.00")),
            (3, "B", Decimal("1.00"), Decimal("2.00"))]  # fmt: skip
    frame = spark.createDataFrame(rows, "ts BIGINT, type STRING, c DECIMAL(10,2), d DECIMAL(10,2)")
    found = episode.sql(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES ts AS at PATTERN (A) "
        "DEFINE A AS c / d < 1 OR c % d > 5)",
        spark=spark, t=frame,
    )  # fmt: skip
    assert sorted(row.at for row in found.collect()) == [2, 3]
    found = episode.match(
        frame, "PATTERN A; B WHERE A.c / B.c > 1 WITHIN 10 RETURN B.ts AS at", time="ts", type_column="type"
    )
    assert [row.at for row in found.collect()] == [3]


def test_sums_of_decimals_that_do_not_fit(spark: SparkSession) -> None:
    largest = Decimal("99999999999999999999.999999999999999999")
    frame = spark.createDataFrame([(ts, largest) for ts in range(3)], "ts BIGINT, v DECIMAL(38,18)")
    found = episode.sql(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES sum(v) AS total, avg(v) AS mean, count(v) AS n "
        "PATTERN (A+))",
        spark=spark, t=frame,
    )  # fmt: skip
    assert [tuple(row) for row in found.collect()] == [(None, None, 3)]
    assert dict(found.dtypes) == {"total": "decimal(38,18)", "mean": "decimal(38,22)", "n": "bigint"}


BY_LABEL = "CASE WHEN CLASSIFIER() = 'A' THEN {} END"


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_by_label_that_do_not_fit(spark: SparkSession, ansi: str) -> None:
    """As all others: null where they do not fit, never an error, never a part of the sum."""
    largest, most = Decimal("99999999999999999999.999999999999999999"), 2**63 - 1
    values = [(most, largest), (1, largest), (-5, Decimal("-1.5")), (None, None)]
    frame = spark.createDataFrame(
        [(ts, *one) for ts, one in enumerate(values)], "ts BIGINT, v BIGINT, w DECIMAL(38,18)"
    )
    text = ", ".join(
        f"{function}({BY_LABEL.format(column)}) AS {function}_{column}"
        for function in ("sum", "avg")
        for column in "vw"
    )
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        found = episode.sql(
            f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {text} ALL ROWS PER MATCH PATTERN (A+))",
            spark=spark, t=frame,
        )  # fmt: skip
        rows = found.orderBy("ts").collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert [row.sum_v for row in rows] == [most, None, most - 4, most - 4]
    assert [row.sum_w for row in rows] == [largest, None, None, None]
    assert [row.avg_v for row in rows[:2]] == [float(most), (float(most) + 1) / 2]
    assert [row.avg_w for row in rows[1:]] == [None, None, None]
    types = dict(found.dtypes)
    assert (types["sum_v"], types["sum_w"], types["avg_w"]) == ("bigint", "decimal(38,18)", "decimal(38,22)")


def test_sums_of_wide_decimals_in_define_as_spark_compares_them(spark: SparkSession) -> None:
    """A match of three rows where Spark's own sums, averages and comparisons over these rows hold."""
    values = [
        "1.00000000000000000049", "0.33333333333333333333", "-7.00000000000000000001",
        "9999999999.99999999999999999999",
    ]  # fmt: skip
    rows = [(k, ts, Decimal(values[(k * 5 + ts * ts) % 4]), k - 2) for k in range(8) for ts in range(3)]
    frame = spark.createDataFrame(rows, "k INT, ts INT, v DECIMAL(30,20), n BIGINT")
    conditions = [
        "sum({v}) > 1", "sum({v}) <= -5.66666666666666666669", "avg({v}) < 0.5", "sum({v}) > max({n})",
        "max({v}) = max({n})", "min({v}) + 1 < max({v})", "sum({v}) > 1.5e0", "max({v}) - min({v}) > avg({v})",
        "stddev({v}) > 1", "sum({v} + {n}) > 3", "avg({v}) <=> min({v})", "-min({v}) >= 7.00000000000000000001",
    ]  # fmt: skip
    frame.createOrReplaceTempView("numbers")
    for condition in conditions:
        found = episode.sql(
            "SELECT k FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES 1 AS one PATTERN (A A B) "
            f"SUBSET U = (A, B) DEFINE B AS {condition.format(v='U.v', n='U.n')})",
            spark=spark, t=frame,
        )  # fmt: skip
        expected = spark.sql(f"SELECT k FROM numbers GROUP BY k HAVING {condition.format(v='v', n='n')}")
        assert sorted(row.k for row in found.collect()) == sorted(row.k for row in expected.collect()), condition
