"""Live queries on Spark: started, stopped, killed and started again; every match once, whatever happened between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.conformance.cases import comparable
from tests.conformance.test_conformance_live import lives
from tests.support.waiting import wait_until

import episode
from episode import Options, StreamOptions, streams
from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.spark.live import LiveQuery

pytestmark = [pytest.mark.spark]

RISES = """
SELECT k, first, last, n * 2 AS twice FROM Ticks MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n
  PATTERN (A B+ C) WITHIN 400 DEFINE B AS v > PREV(v), C AS v <= PREV(v))
"""
END = 1_000_000
PATIENCE = 120.0


def events(first: int, count: int) -> pa.Table:
    """Events a little out of order, of seven keys."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array([n * n % 7 for n in numbers], pa.int32()),
            "ts": [10 * n + n * 37 % 50 for n in numbers],
            "v": pa.array([n * 31 % 5 for n in numbers], pa.int32()),
        }
    )


MARKER = pa.table({"k": pa.array([0], pa.int32()), "ts": [END + 1000], "v": pa.array([0], pa.int32())})
"""An event with which the watermark passes the end."""


@pytest.fixture
def ticks(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A declared stream without events, in a catalog of its own; the place of the catalog."""
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    streams.create("Ticks", "k INT, ts BIGINT, v INT", time="ts", key="k", delay=100, archive="OldTicks")
    return str(tmp_path / "catalog")


@pytest.fixture
def started(spark: SparkSession) -> Iterator[Callable[..., LiveQuery]]:
    """Starts live queries, and stops those that a test has left."""
    running: list[LiveQuery] = []

    def start(text: str = RISES, **given: Any) -> LiveQuery:
        running.append(episode.start(text, spark=spark, **{"into": "Alerts", "snapshot_every": 0.2, **given}))
        return running[-1]

    yield start
    for query in running:
        query.stop()


def expected(text: str = RISES) -> Counter[tuple]:
    """The matches of all events as a table, but the marker."""
    table, _ = streams.read("Ticks")
    found = episode.sql_local(text, Ticks=table.filter(pa.array([time < END for time in table["ts"].to_pylist()])))
    return Counter(tuple(row.values()) for row in found.to_pylist())


def reported(name: str = "Alerts") -> Counter[tuple]:
    table, _ = streams.read(name)
    return Counter(tuple(row.values()) for row in table.to_pylist())


def until(holds: Callable[[], Any], query: LiveQuery) -> None:
    """Wait for something, as long as the query runs."""
    wait_until(holds, lambda: query.isActive, lambda: query.exception() or query.status)


def has_read(query: LiveQuery, count: int) -> Callable[[], bool]:
    return lambda: (query.lastProgress or {"events": 0})["events"] >= count


def ended(query: LiveQuery) -> None:
    """Let the stream end, and wait for the query's end."""
    streams.append("Ticks", MARKER)
    assert query.awaitTermination(PATIENCE)


WITH_END = Options(stream=StreamOptions(end=END))


def test_a_match_is_readable_while_the_query_runs(ticks: str, started: Callable[..., LiveQuery]) -> None:
    query = started(name="rises", metrics_port=0)
    assert query.isActive
    streams.append("Ticks", events(0, 200))
    until(lambda: streams.count("Alerts") > 20, query)
    made = streams.describe("Alerts")
    assert made.columns == (("k", "int"), ("first", "bigint"), ("last", "bigint"), ("twice", "bigint"))
    assert (made.time, made.key, made.delay) == ("last", ("k",), 500)
    until(lambda: query.status["message"] == "Waiting for events" and query.lastProgress["latency"]["p50"], query)
    last = query.lastProgress
    assert last is not None
    assert json.loads(json.dumps(last)) == last
    assert (last["name"], last["events"], last["late"], last["unread"], last["unprocessed"]) == ("rises", 200, 0, 0, 0)
    assert last["mode"] in ("push", "pull")
    assert len(last["last_matches"]) == 10
    until(lambda: query.recentProgress, query)
    text = urllib.request.urlopen(f"http://127.0.0.1:{query.metricsPort}/metrics").read().decode()
    assert 'episode_live_events_total{query="rises"} 200' in text
    assert query.awaitTermination(0.01) is False
    with pytest.raises(EpisodeAnalysisError, match="runs already"):
        started()
    query.stop()
    assert (query.isActive, query.exception(), query.status["message"]) == (False, None, "Stopped")
    assert query.lastProgress["snapshots"] > 0


def test_stopped_and_started_again(ticks: str, started: Callable[..., LiveQuery]) -> None:
    for part in range(3):
        query = started(options=WITH_END, tasks=2)
        streams.append("Ticks", events(200 * part, 200))
        if part < 2:
            until(has_read(query, 200 * part + 100), query)
            query.stop()
    ended(query)
    assert reported() == expected()
    assert sum(reported().values()) > 50


@pytest.mark.parametrize("handling", ["pull", "push", "adaptive"])
def test_every_input_handling_gives_the_same(ticks: str, started: Callable[..., LiveQuery], handling: str) -> None:
    query = started(options=WITH_END, input=handling, max_unprocessed=64)
    for part in range(20):
        streams.append("Ticks", events(50 * part, 50))
    ended(query)
    assert reported() == expected()


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.live
def test_micro_batches_give_the_same(
    spark: SparkSession, ticks: str, started: Callable[..., LiveQuery], tmp_path: Path
) -> None:
    for part in range(5):
        streams.append("Ticks", events(100 * part, 100))
    streams.append("Ticks", MARKER)
    frame = episode.sql(RISES, spark=spark, options=WITH_END)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "state"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    query = started(options=WITH_END)
    assert query.awaitTermination(PATIENCE)
    assert reported() == Counter(tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect())


def test_a_worker_that_is_killed(ticks: str, started: Callable[..., LiveQuery]) -> None:
    query = started(options=WITH_END, tasks=2)
    for part in range(2):
        streams.append("Ticks", events(300 * part, 300))
        until(has_read(query, 300 * part + 200), query)
        until(lambda: len(pids(query)) == 2, query)
        before = pids(query)
        os.kill(before[part], signal.SIGKILL)
        until(lambda before=before: not set(before) & set(pids(query)), query)
    assert query.lastProgress["restarts"] == 2
    streams.append("Ticks", events(600, 300))
    ended(query)
    assert reported() == expected()


def pids(query: LiveQuery) -> list[int]:
    return [one["pid"] for one in query.lastProgress["tasks"]]


DRIVER = """
import sys
import episode
from episode.spark.startup.session import local_session
local_session("doomed", {"spark.driver.memory": "1g", "spark.log.level": "OFF"}, cores=2)
options = episode.Options(stream=episode.StreamOptions(end=int(sys.argv[3])))
query = episode.start(sys.argv[1], into="Alerts", checkpoint=sys.argv[2], options=options, snapshot_every=0.2)
query.awaitTermination()
"""


def test_a_driver_that_is_killed(ticks: str, started: Callable[..., LiveQuery], tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    command = [sys.executable, "-c", DRIVER, RISES, checkpoint, str(END)]
    streams.append("Ticks", events(0, 300))
    driver = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    wait_until(lambda: "Alerts" in streams.names() and streams.count("Alerts") >= 10, lambda: driver.poll() is None)
    streams.append("Ticks", events(300, 300))
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    query = started(options=WITH_END, checkpoint=checkpoint)
    streams.append("Ticks", events(600, 300))
    ended(query)
    assert reported() == expected()


@pytest.mark.live
@pytest.mark.filterwarnings("ignore:The state of this stream is not bounded")
@pytest.mark.parametrize("part", range(6))
def test_cases_of_the_conformance_suite(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """A few of each language; `tests/conformance/test_conformance_live.py` has all of them without Spark."""
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    language = ("rows", "rows", "rows", "events", "situations", "situations")[part]
    of_language = [live for live in lives() if live.case.language == language]
    live = of_language[(part + 1) * len(of_language) // 8]
    arriving, delay = live.arriving(not live.has_ties)
    _, store, _ = live.plan(tmp_path / "catalog", delay, 1)
    try:
        options = replace(live.case.options, stream=StreamOptions(end=live.end))
        query = episode.start(
            live.case.query, spark=spark, into=str(tmp_path / "out") + "/", tasks=2 if live.keys else 1, options=options
        )
        for begin in range(0, arriving.num_rows, 3):
            store.append(arriving.slice(begin, 3))
        store.append(live.marker(store.schema, delay))
        assert query.awaitTermination(PATIENCE), query.status
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    found = pq.read_table(tmp_path / "out").to_pylist() if (tmp_path / "out").exists() else []
    assert comparable(found, live.case.types, False) == live.case.expected(False), live.case.id


# ---- other outputs -----------------------------------------------------------------------------------


def test_into_files(ticks: str, started: Callable[..., LiveQuery], tmp_path: Path) -> None:
    query = started(options=WITH_END, into=str(tmp_path / "found") + "/")
    streams.append("Ticks", events(0, 300))
    ended(query)
    assert Counter(tuple(row.values()) for row in pq.read_table(tmp_path / "found").to_pylist()) == expected()


def test_into_a_function(ticks: str, started: Callable[..., LiveQuery]) -> None:
    got: list[pa.Table] = []
    text = RISES.replace("first, last, n", "n")  # no column is a time
    for part in range(2):
        query = started(text, options=WITH_END, into=got.append, checkpoint=Path(ticks) / "state")
        streams.append("Ticks", events(300 * part, 300))
        if not part:
            until(lambda: sum(table.num_rows for table in got) > 10, query)
            query.stop()
    ended(query)
    assert got[0].column_names == ["k", "twice"]
    assert Counter(tuple(row.values()) for table in got for row in table.to_pylist()) == expected(text)


def test_a_function_that_fails_ends_the_query(ticks: str, started: Callable[..., LiveQuery]) -> None:
    def fail(_: pa.Table) -> None:
        raise RuntimeError("no more")

    query = started(into=fail)
    streams.append("Ticks", events(0, 300))
    with pytest.raises(RuntimeError, match="no more"):
        query.awaitTermination(PATIENCE)
    assert not query.isActive
    assert "no more" in query.status["message"]


def test_matches_are_the_events_of_a_further_query(ticks: str, started: Callable[..., LiveQuery]) -> None:
    first = started(options=WITH_END)
    pairs = "PARTITION BY k PATTERN Alerts a; Alerts b WHERE a.twice < b.twice WITHIN 300 RETURN a.k, b.last AS at"
    second = started(pairs, into="Pairs")
    streams.append("Ticks", events(0, 400))
    ended(first)
    until(lambda: streams.count("Pairs") > 5, second)


# ---- errors ------------------------------------------------------------------------------------------


def test_an_error_of_a_task(ticks: str, started: Callable[..., LiveQuery]) -> None:
    query = started(options=Options(stream=StreamOptions(max_state_rows=2)))
    streams.append("Ticks", events(0, 300))
    with pytest.raises(EpisodeDataError, match="max_state_rows"):
        query.awaitTermination(PATIENCE)
    assert isinstance(query.exception(), EpisodeDataError)
    assert query.lastProgress is None or query.lastProgress["restarts"] == 0


def test_another_number_of_tasks(ticks: str, started: Callable[..., LiveQuery]) -> None:
    started(tasks=1).stop()
    with pytest.raises(EpisodeAnalysisError, match="Use tasks=1"):
        started(tasks=2)


def test_another_query_with_the_same_checkpoint(ticks: str, started: Callable[..., LiveQuery], tmp_path: Path) -> None:
    started(checkpoint=tmp_path / "state").stop()
    with pytest.raises(EpisodeAnalysisError, match="belongs to another query"):
        started(RISES.replace("400", "500"), checkpoint=tmp_path / "state", into="Others")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input": "shove"}, "'pull', 'push', 'adaptive'"),
        ({"max_unprocessed": 0}, "max_unprocessed=0"),
        ({"snapshot_every": -1}, "snapshot_every=-1"),
        ({"snapshot_every": "5 apples"}, "5 apples"),
        ({"tasks": 3}, "Spark has 2 slots"),
        ({"checkpoint": "s3://bucket/state"}, "directory that all workers reach"),
    ],
)
def test_wrong_arguments(ticks: str, started: Callable[..., LiveQuery], given: dict[str, Any], message: str) -> None:
    with pytest.raises(EpisodeAnalysisError) as raised:
        started(**given)
    assert message in str(raised.value)
    assert "Alerts" not in streams.names()
