"""A live query on a standalone cluster of two workers; the one that runs its task is killed. Every match comes once.

python -m tests.kill.live_cluster
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.support.cluster import Cluster

QUERY = """
SELECT k, last FROM Ticks MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES LAST(ts) AS last PATTERN (A B{2,} C) WITHIN 400
  DEFINE B AS v > PREV(v), C AS v <= PREV(v))
"""
END = 1_000_000
PATIENCE = 180.0


def events(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    columns = {"k": [n * n % 7 for n in numbers], "ts": [10 * n for n in numbers], "v": [n * 31 % 5 for n in numbers]}
    return pa.table(columns)


def session(url: str) -> SparkSession:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.python.daemon.module": "episode.spark.daemon",
    }
    builder = SparkSession.builder.master(url).appName("live tasks on a cluster")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def until(holds: Callable[[], Any], query: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, (query.status, query.lastProgress)
        time.sleep(0.05)


def run(place: Path, cluster: Cluster) -> str:
    os.environ["EPISODE_CATALOG"] = str(place / "catalog")
    import episode
    from episode import streams

    spark = session(cluster.url)
    streams.create("Ticks", "k BIGINT, ts BIGINT, v BIGINT", time="ts", key="k", delay=0)
    query = episode.start(
        QUERY,
        spark=spark,
        into="Alerts",
        tasks=1,
        snapshot_every=0.5,
        options=episode.Options(stream=episode.StreamOptions(end=END)),
    )
    streams.append("Ticks", events(0, 500))
    until(lambda: streams.count("Alerts") > 10, query)
    until(lambda: query.lastProgress is not None, query)
    before = query.lastProgress["tasks"][0]["pid"]
    streams.append("Ticks", events(500, 500))
    cluster.kill_worker_of(before)
    until(lambda: query.lastProgress is not None and query.lastProgress["tasks"][0]["pid"] != before, query)
    streams.append("Ticks", events(1000, 500))
    streams.append("Ticks", pa.table({"k": [0], "ts": [END + 1], "v": [0]}))
    assert query.awaitTermination(PATIENCE), query.status
    found = Counter(map(repr, streams.read("Alerts")[0].to_pylist()))
    right = Counter(map(repr, episode.sql_local(QUERY, Ticks=events(0, 1500)).to_pylist()))
    spark.stop()
    lost, more = sum((right - found).values()), sum((found - right).values())
    return f"{sum(found.values()):,} matches: {lost} lost, {more} unexpected or repeated"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="episode-live-cluster-", ignore_cleanup_errors=True) as place:
        directory = Path(place)
        (directory / "cluster").mkdir()
        cluster = Cluster(directory / "cluster", workers=2)
        try:
            print(run(directory, cluster), flush=True)
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
