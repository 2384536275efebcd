"""A condition holds where the same expression is true as a measure: DEFINE follows Spark, which computes MEASURES.

Under ALL MATCHES every pair of rows is a start and an end, and `X Y+ Z` labels the rows between in one way only. So the
matches with a condition on Z are those without it whose measure at the last row is true. The session's zone changes to
summer time among the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import episode

pytestmark = pytest.mark.spark

ZONE = "Europe/Berlin"
FIRST_SECOND = 1774737000  # 2026-03-28 23:30 in Berlin; clocks change at 02:00
TEXTS = ["xa", "b", None, "Xab", "a", "xx ", " b", "ABC", "xa"]
LABELS = [
    "min(lower(CLASSIFIER())) = 'x'", "max(lower(CLASSIFIER())) = 'z'", "count_if(CLASSIFIER() = 'Y' AND v > 2) > 1",
    "sum(CASE CLASSIFIER() WHEN 'X' THEN 1 WHEN 'Y' THEN v ELSE 0 END) > 4", "max(concat(CLASSIFIER(), s)) > 'Yx'",
    "count(nullif(CLASSIFIER(), 'Y')) = 2", "min(length(CLASSIFIER()) + v) = 1", "max(CLASSIFIER() || '1') = 'Z1'",
    "array_agg(lower(CLASSIFIER())) = array('x', 'y', 'z')", "lower(CLASSIFIER(U)) = 'y'", "CLASSIFIER(U) LIKE 'Y%'",
    "lower(PREV(CLASSIFIER())) = 'y'", "concat(CLASSIFIER(U), U.s) = 'Yb'", "LAST(lower(CLASSIFIER(Y))) = 'y'",
    "FIRST(concat(CLASSIFIER(), s)) = 'Xxa'",
]  # fmt: skip
ONE_ROW = [
    "LAST(Y.s) LIKE 'x%'", "NOT LAST(Y.s) LIKE 'x%'", "PREV(s) IN ('a', 'b')", "LAST(Y.s) RLIKE '^x'",
    "lower(LAST(Y.s, 1)) = 'b'", "coalesce(lower(LAST(Y.s, 1)), 'none') = 'none'", "trim(LAST(Y.s)) = trim(X.s)",
    "lower(FIRST(concat(Y.s, '!'))) = 'xab!'", "coalesce(upper(LAST(coalesce(Y.s, 'q'), 1)), 'none') = 'none'",
    "first_value(Y.s) LIKE '%b'", "lower(max_by(s, v)) = 'b'", "lower(min(s)) = 'xab'", "min(s) LIKE 'X%'",
    "coalesce(upper(max(Y.s)), 'none') = 'none'", "upper(max(Y.s)) = upper(min(Y.s))", "max(Y.s) IN ('b', 'xa')",
]  # fmt: skip
AGGREGATES = [
    "CASE WHEN count(Y.*) > 2 THEN sum(Y.v) ELSE 0 END > 5", "coalesce(sum(Y.v), 0) > 2", "array_agg(Y.v)[0] = 1",
    "CASE count(Y.*) WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END = 'two'", "array_agg(Y.v) = array(3, 1)",
    "v IS DISTINCT FROM X.v", "nullif(X.s, s) IS NULL",
]  # fmt: skip
TIMES = [
    "ts - X.ts <= INTERVAL 75 MINUTES", "ts - X.ts = INTERVAL 110 MINUTES", "ts - LAST(Y.ts) > INTERVAL 1 HOUR",
    "timestampdiff(MINUTE, X.ts, ts) > 60", "timestampdiff(HOUR, X.ts, ts) = 1",
    "max(ts) - min(ts) > INTERVAL 100 MINUTES",
    "ts - coalesce(LAST(Y.ts, 3), X.ts) > INTERVAL 100 MINUTES", "(ts + INTERVAL 1 HOUR) - X.ts > INTERVAL 3 HOURS",
    "LAST(Y.ts + INTERVAL 1 HOUR) - X.ts > INTERVAL 2 HOURS", "te - X.te > INTERVAL 1 DAY", "d - ts > INTERVAL 1 DAY",
    "timestampdiff(DAY, X.te, te) = 1", "ts - X.d > INTERVAL 30 HOURS", "X.d - ts > INTERVAL 0 SECONDS",
    "ts - X.tn > INTERVAL 1 HOUR", "max(te - ts) > INTERVAL 1 DAY", "ts > X.ts + INTERVAL 50 MINUTES",
    "te > X.ts + INTERVAL 1 DAY", "tn - X.tn > INTERVAL 5 HOURS", "unix_timestamp(ts) - unix_timestamp(X.ts) > 3000",
]  # fmt: skip
CLAUSE = """PARTITION BY k ORDER BY id MEASURES {number} AS number, FIRST(id) AS first_id, LAST(id) AS last_id{measures}
  AFTER MATCH SKIP TO NEXT ROW ALL MATCHES PATTERN (X Y+ Z) SUBSET U = (X, Y)"""


@pytest.fixture
def rows(spark: SparkSession) -> Iterator[None]:
    settings = {"spark.sql.session.timeZone": ZONE, "spark.sql.ansi.enabled": "false"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    values = [(1, i, None if i == 4 else i * 3 % 5, text, FIRST_SECOND + i * 1500) for i, text in enumerate(TEXTS)]
    frame = spark.createDataFrame(values, "k int, id int, v int, s string, seconds bigint").selectExpr(
        "k", "id", "v", "s", "timestamp_seconds(seconds) AS ts",
        "timestamp_seconds(seconds) + make_dt_interval(id % 3, 0, id * 7) AS te",
        "CAST(timestamp_seconds(seconds + id * id * 3600) AS timestamp_ntz) AS tn",
        "date_add(DATE '2026-03-27', id) AS d",
    )  # fmt: skip
    frame.createOrReplaceTempView("conditions_rows")
    yield
    spark.catalog.dropTempView("conditions_rows")
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.parametrize("conditions", [LABELS, ONE_ROW, AGGREGATES, TIMES], ids=["labels", "one row", "sums", "times"])
def test_a_condition_holds_where_the_measure_is_true(rows: None, conditions: list[str]) -> None:
    measures = "".join(f", {text} AS c{number}" for number, text in enumerate(conditions))
    clause = CLAUSE.format(number=0, measures=measures)
    measured = episode.sql(f"SELECT * FROM conditions_rows MATCH_RECOGNIZE ({clause})").collect()
    defined = episode.sql(
        " UNION ALL ".join(
            f"SELECT * FROM conditions_rows MATCH_RECOGNIZE ({CLAUSE.format(number=number, measures='')} "
            f"DEFINE Z AS {text})"
            for number, text in enumerate(conditions)
        )
    ).collect()
    holding = 0
    for number, text in enumerate(conditions):
        expected = sorted((row.first_id, row.last_id) for row in measured if row[f"c{number}"])
        assert sorted((row.first_id, row.last_id) for row in defined if row.number == number) == expected, text
        holding += bool(expected)
    assert holding > 0.8 * len(conditions)
