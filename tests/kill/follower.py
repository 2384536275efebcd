"""The process that is killed: follows a directory of events and appends matches to files, until it is stopped.

python -m tests.kill.follower DIRECTORY [--to-the-end]
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import episode
from episode.api import Options
from episode.plan.options import StreamOptions, Tuning
from episode.spark.startup.session import ROCKSDB, STATE_STORE, local_session

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
    settings = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2", STATE_STORE: ROCKSDB}
    return local_session("episode-kill-test", settings, cores=2)


def main() -> None:
    place = Path(sys.argv[1])
    spark = session()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 5).parquet(str(place / "in"))
    matches = episode.sql(
        QUERY, events=events, options=Options(watermark=DELAY, tuning=Tuning(shards=4), stream=StreamOptions(end=END))
    )
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
