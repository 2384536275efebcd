"""The process that is killed: follows a directory of events and appends matches to files, until it is stopped.

python -m tests.kill.follower DIRECTORY [--to-the-end]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import episode
from episode.api import Options

SCHEMA = "k int, ts long, v int"
QUERY = """
SELECT * FROM events MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts
  MEASURES MATCH_NUMBER() AS number, FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n, sum(B.v) AS total
  PATTERN (A B+ C?) WITHIN 400
  DEFINE B AS v > PREV(v), C AS v = 0)
"""
END = 1_000_000_000
DELAY = 100


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    builder = SparkSession.builder.master("local[2]").appName("episode-kill-test")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    place = Path(sys.argv[1])
    spark = session()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 5).parquet(str(place / "in"))
    matches = episode.sql(QUERY, events=events, options=Options(watermark=DELAY, end=END, shards=4))
    writer = (
        matches.writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
    )
    if "--to-the-end" in sys.argv:
        writer.trigger(availableNow=True).start().awaitTermination()
    else:
        print("following", flush=True)
        writer.trigger(processingTime="0 seconds").start().awaitTermination()


if __name__ == "__main__":
    main()
