"""Row patterns in windows through `episode.sql`: the cases that need Spark, some of the others, and what is around."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.conformance.cases import Case, all_cases
from tests.spark.test_conformance_on_spark import check, frame_of

import episode
from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError

pytestmark = pytest.mark.spark

FIRST_CASES = 2
SEEN: dict[str, int] = {}


def chosen(case: Case) -> bool:
    """All that need Spark, and the first of the others; in process all of them run."""
    SEEN[case.file] = SEEN.get(case.file, 0) + 1
    return "process" not in case.runs_on or SEEN[case.file] <= FIRST_CASES or case.error is not None


CASES = [case for case in all_cases("windows") if chosen(case)]
FALLS = """
    WINDOW w AS (
      PARTITION BY k ORDER BY id MEASURES LAST(v) AS low ROWS BETWEEN CURRENT ROW AND :n FOLLOWING
      PATTERN (A B+) DEFINE B AS v < PREV(v)
    )
"""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_over_dataframes(spark: SparkSession, case: Case) -> None:
    check(spark, case, {table.name: frame_of(spark, table) for table in case.used_tables()})


def test_over_parquet_with_parameters(spark: SparkSession, tmp_path: Path) -> None:
    """Files are read directly, and the end of the frame is a parameter."""
    rows = "SELECT id % 3 AS k, id, cast(30 - id AS int) AS v, 'x' AS unread FROM range(30)"
    spark.sql(rows).coalesce(1).write.parquet(str(tmp_path / "rows"))
    query = f"SELECT k, id, low OVER w, count(*) OVER w AS n FROM events {FALLS}"
    plan = episode.explain(query, spark=spark, args={"n": 4}, events=str(tmp_path / "rows"))
    assert "ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING" in plan
    assert "unread" not in plan
    assert "Parquet read directly" in plan
    found = episode.sql(query, spark=spark, args={"n": 4}, events=str(tmp_path / "rows")).toPandas()
    matched = found[found.n > 0].sort_values(["k", "id"])
    assert matched.n.tolist() == [5, 5] * 3
    assert (30 - matched.id - 12).tolist() == matched.low.tolist()
    assert len(found) == 30


def test_a_parameter_that_is_no_number_of_rows(spark: SparkSession) -> None:
    frame = spark.sql("SELECT id AS k, id, id AS v FROM range(3)")
    with pytest.raises(EpisodeAnalysisError, match="must be a number of rows, the same for all rows: not :n"):
        episode.sql(f"SELECT low OVER w FROM events {FALLS}", spark=spark, args={"n": -1}, events=frame)


def test_a_stream_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS k", "timestamp AS id", "value AS v")
    with pytest.raises(EpisodeUnsupportedError, match="over tables \\(batch\\), not over streams") as raised:
        episode.sql(f"SELECT low OVER w FROM events {FALLS}", spark=spark, args={"n": 1}, events=stream)
    assert raised.value.position is not None


def test_a_large_partition_comes_in_pieces(spark: SparkSession) -> None:
    """A partition beyond the memory of a shard gives the same rows."""
    frame = spark.sql("SELECT id, cast(id % 10 AS int) AS v FROM range(200000)")
    query = """
        SELECT id, count(*) OVER w AS n FROM events
        WINDOW w AS (
          ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
          PATTERN (A B+) DEFINE B AS v > PREV(v)
        )
    """
    options = episode.Options(tuning=episode.Tuning(shard_bytes=2**16))
    found = episode.sql(query, spark=spark, options=options, events=frame).groupBy("n").count().collect()
    assert {row.n: row["count"] for row in found} == {10: 20000, 0: 180000}
