"""What the tests of both formats share: ticks, a pattern over them, and what it should find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

import episode
from episode.api import Options
from episode.plan.options import StreamOptions, Tuning

JARS = Path(__file__).parent / "jars" / ".".join(pyspark.__version__.split(".")[:2])
RISES = """
SELECT * FROM {table} MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n, sum(v) AS total
  PATTERN (A B+) WITHIN 100 seconds DEFINE B AS v > PREV(v))
"""
COLUMNS = "k STRING, ts TIMESTAMP, v DOUBLE"
DIRECTLY, BY_ROWS = "Parquet read directly", "rows through Spark: "
STREAM = Options(watermark="10 seconds", tuning=Tuning(shards=2), stream=StreamOptions(end="2026-11-02 00:00:00"))


def ticks(spark: SparkSession, first: int = 0, count: int = 400) -> DataFrame:
    """Ticks of eleven keys, one each second."""
    return spark.range(first, first + count, 1, 3).selectExpr(
        "concat('key ', id * id % 11) AS k",
        "timestamp_seconds(1793491200 + id) AS ts",
        "CAST(id * 31 % 7 AS DOUBLE) AS v",
    )


def rows(frame: DataFrame) -> Counter[tuple]:
    return _counted(tuple(row) for row in frame.collect())


def expected(table: DataFrame) -> Counter[tuple]:
    """The matches among rows that Spark reads by itself, found in process."""
    found = episode.sql_local(RISES.format(table="t"), t=table.select("k", "ts", "v").toArrow()).to_pylist()
    assert found
    return _counted(tuple(row.values()) for row in found)


def _counted(found: Iterable[tuple]) -> Counter[tuple]:
    """Rows with times as numbers: with a zone, or in that of this process."""
    return Counter(tuple(v.timestamp() if isinstance(v, datetime) else v for v in row) for row in found)


def matches(spark: SparkSession, table: DataFrame | str) -> tuple[Counter[tuple], str]:
    """The matches in a table, and how its rows were read."""
    query = RISES.format(table="t")
    plan = episode.explain(query, spark=spark, t=table)
    scan = next(line.strip() for line in plan.splitlines() if line.strip().startswith("scan:"))
    return rows(episode.sql(query, spark=spark, t=table)), scan.removeprefix("scan:").strip()


def run_stream(frame: DataFrame, sink: str, place: Path | str, checkpoint: Path) -> None:
    """Until all that is there has been taken."""
    writer = frame.writeStream.format(sink).outputMode("append").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True)
    (query.toTable(place) if isinstance(place, str) else query.start(str(place))).awaitTermination()
