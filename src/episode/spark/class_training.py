"""Small queries that have Spark load the classes which queries need, in a session that then writes them to an archive.

A program: `python -m episode.spark.class_training ARCHIVE`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.spark.session import JAVA_OPTIONS, local_session, own_settings

_PATIENCE = 120.0
_AT_EXIT = "-XX:ArchiveClassesAtExit={} -Xlog:cds=off -Xlog:cds+dynamic=off"


def train(archive: Path) -> None:
    """Run the queries in a session, end it, and wait until its Java has written the archive."""
    spark = local_session("episode", {**own_settings(), JAVA_OPTIONS: _AT_EXIT.format(archive)})
    with TemporaryDirectory(prefix="episode-classes-") as directory:
        run(spark, Path(directory))
    gateway = SparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # Spark's Java ends when its input does
    gateway.proc.wait(_PATIENCE)


def run(spark: SparkSession, directory: Path) -> None:
    """What queries of episode have Spark do: read files, pass rows to Python, shuffle, show, collect and write."""
    rows = {"k": ["a", "b", "a"], "ts": [1, 2, 3], "v": [1.0, 2.5, 3.0]}
    pq.write_table(pa.table(rows), directory / "events.parquet")
    events = spark.read.parquet(str(directory / "events.parquet"))
    one = spark.range(0, 1, 1, 1).mapInArrow(_passed, "id long").select(F.expr("id + 1").alias("next"))
    moved = events.mapInArrow(_passed, events.schema).repartition(2, "k").sortWithinPartitions("k", "ts")
    for number, frame in enumerate((one, moved.mapInArrow(_passed, events.schema))):
        _act(spark, frame, directory / f"written-{number}")
    csv = str(directory / "csv")
    events.write.csv(csv, header=True)
    spark.read.options(header="true", inferSchema="true").csv(csv).toArrow()


def _act(spark: SparkSession, frame: DataFrame, path: Path) -> None:
    frame.createOrReplaceTempView("matched")
    found = spark.sql("WITH t AS (SELECT * FROM matched) (SELECT count(*) AS n FROM t GROUP BY 1 + 1 ORDER BY n)")
    found.toArrow()
    frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    frame.toArrow()
    frame.limit(20).collect()
    frame._jdf.showString(20, 20, False)
    frame.write.parquet(str(path))
    spark.catalog.dropTempView("matched")


def _passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    train(Path(sys.argv[1]))
