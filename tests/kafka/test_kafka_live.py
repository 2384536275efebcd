"""Live tasks from and to Kafka, with a real broker: tasks in this process, and as a Spark job."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import episode
from episode.errors import EpisodeDataError
from episode.live.checkpoint import open_query
from episode.live.inputs import StreamRead
from episode.live.kafka_input import KafkaInputs
from episode.live.kafka_sink import KafkaOutput, KafkaSink
from episode.live.protocol import TaskDescription, TaskOptions
from episode.live.sinks import StreamOutput
from episode.live.task import LiveTask
from episode.matchers.projection import Projection
from episode.matchers.stream_shard import ShardSettings
from episode.plan.options import Options, StreamOptions
from episode.queries.bound_statement import bind_statement
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from episode.queries.local import local_schema
from episode.store.declaration import Declaration, declare
from episode.store.stream import StreamStore
from tests.kafka.broker import Broker
from tests.support.waiting import wait_until

START = datetime(2026, 11, 1, tzinfo=timezone.utc)
END = START + timedelta(hours=1)
PARTITIONS = 4
COLUMNS = "k STRING, ts TIMESTAMP, v DOUBLE"
RISES = """
SELECT * FROM Ticks MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n
  PATTERN (A B+) WITHIN 40 seconds DEFINE B AS v > PREV(v))
"""
MATCHES = "k STRING, first TIMESTAMP, last TIMESTAMP, n BIGINT"


def events(count: int, keys: int = 20, seed: int = 3) -> list[dict[str, Any]]:
    """Ticks with microseconds that come up to half a second out of order."""
    draw = random.Random(seed)
    rows = [
        {"k": f"k{draw.randrange(keys)}", "ts": START + timedelta(microseconds=100_001 * n), "v": draw.randrange(8) / 2}
        for n in range(count)
    ]
    return sorted(rows, key=lambda row: row["ts"] + timedelta(seconds=draw.random() / 2))


def expected(rows: list[dict[str, Any]]) -> Counter[tuple]:
    schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.float64())])
    return counted(episode.sql_local(RISES, Ticks=pa.Table.from_pylist(rows, schema)))


def counted(table: pa.Table) -> Counter[tuple]:
    return Counter(tuple(row[name] for name in ("k", "first", "last", "n")) for row in table.to_pylist())


@dataclass
class Live:
    """A topic of ticks and the query over it, whose matches go into a topic or a stream."""

    broker: Broker
    place: Path
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    tasks: int = 2
    idle_after: float = 10.0
    options: TaskOptions = field(default_factory=lambda: TaskOptions(snapshot_every=0.2))

    def __post_init__(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address, "log_level": 0})
        topics = [NewTopic(self.topic("in"), PARTITIONS, 1), NewTopic(self.topic("out"), 2, 1)]
        for made in admin.create_topics(topics).values():
            made.result()
        # Without idempotence a producer may change the order of records when it has to send some again.
        settings = {"partitioner": "murmur2_random", "enable.idempotence": True, "log_level": 0}
        self.producer = Producer({"bootstrap.servers": self.broker.address, **settings})

    def topic(self, which: str) -> str:
        return f"{self.name}-{which}"

    def declared(self, name: str, columns: str, time: str, which: str, delay: str = "1 second") -> Declaration:
        options = {"kafka.bootstrap.servers": self.broker.address, "topic": self.topic(which)}
        return declare(name, columns, time=time, key="k", delay=delay, using="kafka", options=options)

    @property
    def ticks(self) -> Declaration:
        return self.declared("Ticks", COLUMNS, "ts", "in")

    @property
    def alerts(self) -> Declaration:
        return self.declared("Alerts", MATCHES, "last", "out")

    @property
    def stream(self) -> Declaration:
        return replace(declare("Alerts", MATCHES, time="last", key="k", lanes=2), location=str(self.place / "alerts"))

    def produce(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            value = json.dumps({**row, "ts": row["ts"].isoformat()})
            self.producer.produce(self.topic("in"), key=row["k"], value=value)
        self.producer.flush()

    def produce_slowly(self, rows: list[dict[str, Any]], while_: Callable[[], bool], part: int = 50) -> None:
        """In parts, so that time goes on in all partitions; the rest at once."""
        begin = 0
        while begin < len(rows) and while_():
            self.produce(rows[begin : begin + part])
            begin += part
            time.sleep(0.2)
        self.produce(rows[begin:])
        self.finish()

    def finish(self) -> None:
        """An event after the end in every partition: all matches are decided, and the tasks end."""
        for partition in range(PARTITIONS):
            value = json.dumps({"k": "end", "ts": (END + timedelta(hours=1)).isoformat(), "v": 0})
            self.producer.produce(self.topic("in"), value=value, partition=partition)
        self.producer.flush()

    def description(self, task: int, sink: Any) -> TaskDescription:
        query = bind_statement(RISES).patterns[0].query
        language = language_of(query)
        schema = local_schema(self.ticks.schema, language.source(query), {})
        plan = language.bind(query, Input(schema, ("Ticks",)), Given(), Options().run(1, {}))
        spec = language.spec(plan, self.ticks.schema)
        checkpoint = str(self.place / "checkpoint")
        return TaskDescription(
            spec=spec,
            settings=ShardSettings(end=round(END.timestamp() * 1_000_000)),
            finish=Projection.of(plan.result, spec.output_schema),
            input=KafkaInputs(StreamRead(self.ticks, tuple(spec.input_columns)), idle_after=self.idle_after),
            sink=sink,
            checkpoint=checkpoint,
            query=open_query(checkpoint, spec.fingerprint, self.tasks),
            fingerprint=spec.fingerprint,
            task=task,
            tasks=self.tasks,
            options=self.options,
        )

    def run(self, sink: Any) -> list[dict[str, Any]]:
        """All tasks, at the same time."""
        said: dict[int, dict[str, Any]] = {}

        def work(task: int) -> None:
            said[task] = LiveTask(self.description(task, sink)).run()

        threads = [Thread(target=work, args=(task,)) for task in range(self.tasks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [said[task] for task in range(self.tasks)]

    def found(self) -> Counter[tuple]:
        """What a reader of the output sees that reads what is committed alone."""
        rows = list(records(self.broker, self.topic("out")))
        schema = pa.schema([(name, self.alerts.schema.field(name).type) for name in ("k", "first", "last", "n")])
        for row in rows:
            for name in ("first", "last"):
                row[name] = datetime.fromisoformat(row[name])
        return counted(pa.Table.from_pylist(rows, schema))


def records(broker: Broker, topic: str) -> Iterator[dict[str, Any]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < 2:
        message = consumer.poll(1.0)
        assert time.monotonic() < deadline
        if message is None:
            continue
        if message.error() is not None:
            ended.add(message.partition())
            continue
        row = json.loads(message.value())
        assert message.key().decode() == row["k"]
        yield row
    consumer.close()


@pytest.fixture
def live(broker: Broker, tmp_path: Path) -> Live:
    return Live(broker, tmp_path)


@pytest.mark.parametrize("handling", ["pull", "push", "adaptive"])
def test_a_topic_through_tasks_into_a_stream(live: Live, handling: Any) -> None:
    rows = events(2_000)
    live.options = replace(live.options, handling=handling)
    live.produce(rows)
    live.producer.produce(live.topic("in"), value="no json")
    live.finish()
    said = live.run(StreamOutput(live.stream))
    assert [one["late"] for one in said] == [0, 0]
    assert counted(StreamStore(live.stream).table()) == expected(rows)
    assert sum(one["events"] for one in said) == len(rows) + 1 + PARTITIONS
    assert sum(one["null_times"] for one in said) == 1


class Killed(BaseException):
    """A process that is no more."""


@dataclass
class DyingOutput:
    """A sink whose task dies at a write: before it is committed, or after it and before a snapshot."""

    declaration: Declaration
    draw: random.Random
    deaths: int

    def open(self, query: str, task: int) -> KafkaSink:
        sink = KafkaOutput(self.declaration).open(query, task)
        write, produce = sink.write, sink._produce
        left = self.draw.randrange(1, 4)
        before = self.draw.random() < 0.5

        def dying_write(matches: pa.Table, after: Any) -> None:
            nonlocal left
            left -= 1
            write(matches, after)
            if left == 0 and self.deaths:
                self.deaths -= 1
                raise Killed

        def dying_produce(values: pa.Array, keys: pa.Array | None) -> None:
            produce(values, keys)
            if left == 0 and before and self.deaths:
                self.deaths -= 1
                raise Killed

        sink.write = dying_write  # type: ignore[method-assign]
        sink._produce = dying_produce  # type: ignore[method-assign]
        return sink


def test_every_match_once_however_often_a_task_dies(live: Live) -> None:
    """Each attempt opens the sink anew: what the dead one had begun is ended, what it had written is not repeated."""
    rows = events(8_000)
    live.tasks = 1
    live.options = TaskOptions(handling="pull", step_rows=40, snapshot_every=0.3)
    sink = DyingOutput(live.alerts, random.Random(5), deaths=8)
    arrivals = Thread(target=live.produce_slowly, args=(rows, lambda: sink.deaths > 0))
    arrivals.start()
    attempts = 1
    while True:
        try:
            LiveTask(live.description(0, sink)).run()
            break
        except Killed:
            attempts += 1
    arrivals.join()
    assert attempts == 9
    assert live.found() == expected(rows)


def test_an_attempt_that_lives_on_elsewhere_cannot_write(live: Live) -> None:
    table = pa.Table.from_pylist(
        [{"k": "a", "first": START, "last": START, "n": 1}], schema=StreamStore(live.stream).schema
    )
    output = KafkaOutput(live.alerts)
    first = output.open("query", 0)
    first.write(table, {"x": 1})
    second = output.open("query", 0)
    assert second.last_position() == {"x": 1}
    with pytest.raises(EpisodeDataError, match="fenced"):
        first.write(table, {"x": 2})
    second.write(table, {"x": 3})
    other = output.open("query", 1)
    assert other.last_position() is None
    for sink in (first, second, other):
        sink.close()
    assert sum(live.found().values()) == 2


def test_an_idle_partition_holds_up_no_others(live: Live) -> None:
    """One key, so that the other partitions have nothing; the match is out though no time is known of them."""
    live.tasks = 1
    live.idle_after = 0.5
    rows = [{"k": "a", "ts": START + timedelta(seconds=n), "v": v} for n, v in enumerate([1, 2, 0, 0, 0])]
    live.produce(rows)
    task = LiveTask(live.description(0, StreamOutput(live.stream)))
    for said in task.work():
        if said["matches"]:
            (Path(live.place) / "checkpoint" / "stop").touch()
    assert counted(StreamStore(live.stream).table()) == Counter([("a", START, START + timedelta(seconds=1), 2)])


def test_a_killed_worker(spark: SparkSession, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a Spark job, from topic to topic: its worker is killed twice, and is there again."""
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    episode.streams.create(
        "Ticks", COLUMNS, time="ts", key="k", delay="1 second", using="kafka", options=live.ticks.options
    )
    rows = events(8_000)
    kills = 2
    arrivals = Thread(target=live.produce_slowly, args=(rows, lambda: kills > 0))
    query = episode.start(
        RISES,
        spark=spark,
        into={"kafka": live.topic("out")},
        tasks=1,
        options=Options(stream=StreamOptions(end=END.strftime("%Y-%m-%d %H:%M:%S"))),
        snapshot_every=0.5,
    )
    arrivals.start()
    killed: set[int] = set()

    def all_killed() -> bool:
        nonlocal kills
        for task in [] if query.lastProgress is None else query.lastProgress["tasks"]:
            if task["pid"] not in killed and task["matches"] > 10 * len(killed) and task["snapshots"]:
                killed.add(task["pid"])
                os.kill(task["pid"], signal.SIGKILL)
                kills -= 1
        return kills == 0

    wait_until(all_killed, lambda: query.isActive, lambda: query.exception())
    arrivals.join()
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert len(killed) == 2
    assert live.found() == expected(rows)
