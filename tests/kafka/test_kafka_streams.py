"""Row patterns from one Kafka topic into another, with a real broker.

Spark's Kafka sink writes at least once: a micro-batch that fails and is run again may repeat its matches. So matches
are compared one by one where nothing fails, and as a set where the broker goes away in the middle.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from typer.testing import CliRunner

import episode
from episode import cli
from episode.api import Options
from episode.plan.options import StreamOptions
from tests.kafka.broker import Broker
from tests.kafka.conftest import CONNECTOR

SCHEMA = "k int, ts long, v int"
END = 1_000_000
RISING = (
    "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts "
    "MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n PATTERN (A B+) DEFINE B AS v > PREV(v))"
)
MATCHES = "k int, first long, last long, n long"
WATERMARK = 200


def events(count: int = 600, keys: int = 5, seed: int = 11) -> list[dict[str, Any]]:
    """Events that come up to half a watermark out of order."""
    draw = random.Random(seed)
    rows = [{"k": draw.randrange(keys), "ts": 10 * (i + 1), "v": draw.randrange(6)} for i in range(count)]
    return sorted(rows, key=lambda row: row["ts"] + draw.randrange(WATERMARK // 2))


class Topics:
    """A topic of events, the query over it, and the topic of its matches."""

    def __init__(self, spark: SparkSession, broker: Broker, place: Path, name: str) -> None:
        self.spark, self.broker, self.place = spark, broker, place
        self.source, self.sink = f"{name}-events", f"{name}-matches"

    def produce(self, rows: list[dict[str, Any]]) -> None:
        lines = self.spark.createDataFrame([(json.dumps(row),) for row in rows], "value string").coalesce(1)
        # Spark keeps producers by their settings: the name makes this topic's producer its own.
        producer = {"topic": self.source, "kafka.client.id": self.source}
        lines.write.format("kafka").options(**self._server(), **producer).save()

    def finish(self) -> None:
        """An event after the end: it moves the watermark, and all matches are decided."""
        self.produce([{"k": -1, "ts": 2 * END, "v": 0}])

    def start(self) -> StreamingQuery:
        read = self.spark.readStream.format("kafka").options(**self._server(), subscribe=self.source)
        lines = read.option("startingOffsets", "earliest").load()
        stream = lines.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
        matches = episode.sql(
            RISING, events=stream, options=Options(watermark=WATERMARK, stream=StreamOptions(end=END))
        )
        write = matches.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("kafka")
        return (
            write.options(**self._server(), topic=self.sink)
            .option("checkpointLocation", str(self.place / "checkpoint"))
            .start()
        )

    def found(self) -> Counter[tuple]:
        read = self.spark.read.format("kafka").options(**self._server(), subscribe=self.sink)
        value = F.from_json(F.col("value").cast("string"), MATCHES).alias("match")
        return counted(read.load().select(value).select("match.*"))

    def _server(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.broker.address}


def counted(frame: DataFrame) -> Counter[tuple]:
    return Counter(tuple(row) for row in frame.collect())


def in_batch(spark: SparkSession, rows: list[dict[str, Any]]) -> Counter[tuple]:
    table = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    return counted(episode.sql(RISING, events=table))


def total(queries: list[StreamingQuery], counter: str) -> int:
    return sum(p.observedMetrics["episode"][counter] for query in queries for p in query.recentProgress)


@pytest.fixture
def topics(spark: SparkSession, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Topics:
    return Topics(spark, broker, tmp_path, topic_name(request))


def topic_name(request: pytest.FixtureRequest) -> str:
    return request.node.name.replace("_", "-")


def test_a_query_stopped_and_started_again_goes_on(spark: SparkSession, topics: Topics) -> None:
    rows = events()
    topics.produce(rows[:300])
    first = topics.start()
    first.processAllAvailable()
    first.stop()
    before = topics.found()
    topics.produce(rows[300:])
    topics.finish()
    second = topics.start()
    second.processAllAvailable()
    second.stop()
    expected = in_batch(spark, rows)
    assert sum(before.values()) > 0
    assert topics.found() == expected
    assert total([first, second], "events") == len(rows) + 1
    assert total([first, second], "matches") == sum(expected.values())


def test_a_query_outlives_a_restart_of_the_broker(
    spark: SparkSession, broker_of_its_own: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    broker = broker_of_its_own
    topics = Topics(spark, broker, tmp_path, topic_name(request))
    rows = events()
    topics.produce(rows[:200])
    query = topics.start()
    query.processAllAvailable()
    topics.produce(rows[200:400])
    broker.stop()
    assert query.isActive
    broker.start()
    topics.produce(rows[400:])
    topics.finish()
    query.processAllAvailable()
    assert query.isActive
    assert query.exception() is None
    query.stop()
    assert set(topics.found()) == set(in_batch(spark, rows))


def test_a_topic_is_a_table_on_the_command_line(spark: SparkSession, topics: Topics) -> None:
    rows = events()
    topics.produce(rows)
    url = f"kafka://{topics.broker.address}/{topics.source}?schema={SCHEMA}"
    result = CliRunner().invoke(cli.app, ["run", RISING, "--table", f"events={url}", "--format", "json"])
    assert result.exit_code == 0, result.stderr
    found = Counter(tuple(json.loads(line).values()) for line in result.stdout.splitlines())
    assert found == in_batch(spark, rows)


def test_a_topic_is_followed_on_the_command_line(spark: SparkSession, topics: Topics) -> None:
    """A process of its own, interrupted once all matches are there that events before the last ones can give."""
    rows = events(100)
    topics.produce(rows)
    topics.produce([{"k": -1, "ts": END, "v": 0}])
    url = f"kafka://{topics.broker.address}/{topics.source}?schema={SCHEMA}&startingOffsets=earliest"
    closed = RISING.replace("(A B+)", "(A B+ C)").replace("DEFINE", "DEFINE C AS v <= PREV(v),")
    arguments = ["run", closed, "--table", f"events={url}", "--follow", "--watermark", str(WATERMARK)]
    table = spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
    expected = counted(episode.sql(closed, events=table))
    jars = ",".join(sorted(map(str, CONNECTOR.glob("*.jar"))))
    process = subprocess.Popen(
        [sys.executable, "-c", "from episode.cli import main; main()", *arguments, "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"},
    )
    watchdog = Timer(180, process.kill)
    watchdog.start()
    try:
        with process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(sum(expected.values()))]
            os.killpg(process.pid, signal.SIGINT)
            rest, notes = process.communicate()
    finally:
        watchdog.cancel()
    assert (process.returncode, rest) == (0, ""), notes
    assert Counter(tuple(json.loads(line).values()) for line in lines) == expected
