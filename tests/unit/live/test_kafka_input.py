"""A task's part of a topic, over scripted records and a scripted clock."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.live.inputs import StreamRead
from episode.live.kafka import Records
from episode.live.kafka_input import COUNT_EVERY, IDLE_AFTER, KafkaInput, KafkaInputs
from episode.live.protocol import InputBatch, Position, has_reached
from episode.matchers.stream_shard import NO_WATERMARK
from episode.store.declaration import declare

DELAY = 5
DECLARATION = declare(
    "Ticks",
    "k INT, ts BIGINT",
    time="ts",
    key="k",
    delay=DELAY,
    using="kafka",
    options={"topic": "ticks", "kafka.bootstrap.servers": "h:1"},
)


@dataclass
class Topic:
    """Records by partition; each partition's are there up to an end, and offsets may have gaps."""

    records: list[list[tuple[int, bytes | None]]]
    ends: list[int] = field(default_factory=list)
    now: float = 0.0

    def clock(self) -> float:
        return self.now

    @staticmethod
    def of(*times: Sequence[int | None], gap: int = 1) -> Topic:
        partitions = [
            [(gap * i, json.dumps({"k": number, "ts": time}).encode()) for i, time in enumerate(some)]
            for number, some in enumerate(times)
        ]
        return Topic(partitions, [0] * len(partitions))


class Reader:
    """Hands out records that are there, from the partitions in a random order."""

    def __init__(self, topic: Topic, seed: int = 0) -> None:
        self.topic = topic
        self.draw = random.Random(seed)

    def count(self) -> int:
        return len(self.topic.records)

    def beginning(self, partitions: Sequence[int]) -> Mapping[int, int]:
        return dict.fromkeys(partitions, 0)

    def take(self, at: Mapping[int, int], rows: int) -> Records:
        found: list[tuple[int, int, bytes | None]] = []
        ended = set()
        for number in self.draw.sample(list(at), len(at)):
            there = self.topic.records[number][: self.topic.ends[number]]
            new = [(number, offset, value) for offset, value in there if offset >= at[number]]
            taken = new[: max(0, rows - len(found))]
            found += taken
            if len(taken) == len(new):
                ended.add(number)
        partitions, offsets = (np.array([one[i] for one in found], np.int64) for i in (0, 1))
        return Records([one[2] for one in found], partitions, offsets, 1.0, frozenset(ended))

    def wait(self, at: Mapping[int, int], seconds: float) -> None: ...

    def ends(self, partitions: Sequence[int]) -> Mapping[int, int] | None:
        return {number: self.topic.ends[number] for number in partitions}

    def close(self) -> None: ...


def opened(topic: Topic, seed: int = 0, task: int = 0, tasks: int = 1) -> KafkaInput:
    inputs = KafkaInputs(StreamRead(DECLARATION, ("k", "ts"), delay=DELAY))
    return KafkaInput(inputs, Reader(topic, seed), task, tasks, topic.clock)


def taken(source: KafkaInput, after: Position = {}) -> InputBatch:  # noqa: B006
    found = source.read(after, 100)
    assert found is not None
    return found


def test_where_it_begins_is_kept_first() -> None:
    source = opened(Topic.of([1], [2], [3]), task=1, tasks=2)
    begun = taken(source)
    assert (begun.rows, begun.barrier, begun.watermark) == (0, True, NO_WATERMARK)
    assert begun.after == {"ticks#partitions": 3, "ticks/changes": 1, "ticks/1": 0}


def test_a_record_is_late_by_its_own_partition() -> None:
    topic = Topic.of([10, 20, 14, None, 16], [3, 9, 2], gap=2)
    topic.ends = [5, 3]
    source = opened(topic)
    found = taken(source, taken(source).after)
    reached = dict(zip(found.table.column("ts").to_pylist(), found.reached.tolist(), strict=True))
    assert reached == {10: NO_WATERMARK, 20: 5, 14: 15, None: 15, 16: 15, 3: NO_WATERMARK, 9: -2, 2: 4}
    assert found.watermark == 4
    assert (found.after["ticks/0"], found.after["ticks/1"]) == (9, 5)


def test_broken_records_are_events_without_a_time() -> None:
    topic = Topic([[(0, b"no json"), (1, None), (2, b'{"ts": 7}')]], [3])
    source = opened(topic)
    found = taken(source, taken(source).after)
    assert found.table.column("ts").to_pylist() == [None, None, 7]
    assert found.watermark == 2


def test_an_idle_partition_holds_up_no_others() -> None:
    topic = Topic.of([10, 20, 30, 40], [12, 22, 32])
    topic.ends = [2, 1]
    source = opened(topic)
    after = taken(source, taken(source).after).after
    topic.ends[0] = 3
    first = taken(source, after)
    assert first.watermark == 7  # held by partition 1
    for _ in range(20):
        topic.now += 0.9
        topic.ends[0] = 4
        found = source.read(first.after, 1)
        if found is not None and found.barrier:
            break
        assert found is None or found.watermark == 7
        first = found or first
    assert found is not None
    assert (found.barrier, found.rows, topic.now >= IDLE_AFTER) == (True, 0, True)
    assert found.watermark == 35
    topic.ends[1] = 3
    waking = taken(source, found.after)
    assert (waking.barrier, waking.rows, waking.watermark) == (True, 0, 35)
    late = taken(source, waking.after)
    assert late.table.column("ts").to_pylist() == [22, 32]
    assert late.reached.tolist() == [35, 35]


def test_one_that_is_not_read_to_its_end_is_not_idle() -> None:
    """Nor is one of which nothing was heard because nobody listened."""
    topic = Topic.of([10], [12])
    topic.ends = [1, 1]
    source = opened(topic)
    after = taken(source, taken(source).after).after
    topic.now += 100 * IDLE_AFTER
    assert source.read(after, 10) is None
    for _ in range(12):
        topic.now += 0.9
        found = source.read(after, 10)
    assert found is not None
    assert found.barrier
    assert found.watermark == 7  # of all, where all are idle


def test_further_partitions_are_an_error() -> None:
    topic = Topic.of([10])
    source = opened(topic)
    after = taken(source).after
    assert source.read(after, 1) is None
    topic.records.append([])
    topic.now += COUNT_EVERY
    with pytest.raises(EpisodeDataError, match="has 2 partitions, and had 1"):
        source.read(after, 1)


TIMES = st.lists(st.none() | st.integers(0, 60), max_size=12)


@given(st.lists(TIMES, min_size=1, max_size=3), st.integers(1, 3), st.randoms(use_true_random=False))
def test_what_is_read_again_is_judged_alike(times: list[list[int | None]], gap: int, draw: random.Random) -> None:
    """Killed at any moment, and read again from the last snapshot in other batches: events are late or not as they were
    the first time, and the watermark comes to the same."""
    topic = Topic.of(*times, gap=gap)
    judged: dict[tuple[int, int], bool] = {}
    source = opened(topic, draw.random())
    position: Position = {}
    kept: tuple[Position, int] = ({}, int(NO_WATERMARK))
    watermark, until = int(NO_WATERMARK), None
    goal = watermark
    for _ in range(60):
        topic.now += draw.choice([0.0, 0.5, 0.9])
        grown = draw.randrange(len(topic.ends))
        if draw.random() < 0.3:
            topic.ends[grown] = min(len(topic.records[grown]), topic.ends[grown] + draw.randrange(4))
        if until is not None and has_reached(position, until):
            assert (position, watermark) == (until, goal)
            until = None
        found = source.read(position, draw.randrange(1, 6), until)
        if found is None:
            assert until is None
            continue
        assert found.watermark >= watermark
        where = offsets_between(topic, position, found.after)
        events = zip(found.table.column("k").to_pylist(), found.table.column("ts").to_pylist(), found.reached.tolist())
        for number, time, reached in events:
            if number is not None:
                late = time is not None and time <= max(reached, watermark)
                assert judged.setdefault((number, where[number].pop(0)), late) == late
        position, watermark = found.after, found.watermark
        if until is None and kept[0] and draw.random() < 0.15:  # killed after a write, before a snapshot
            source = opened(topic, draw.random())
            until, goal = position, watermark
            position, watermark = kept
        elif found.barrier or draw.random() < 0.2:
            kept = (position, watermark)


def offsets_between(topic: Topic, before: Position, after: Position) -> dict[int, list[int]]:
    return {
        number: [
            offset
            for offset, _ in records
            if before.get(f"ticks/{number}", 0) <= offset < after.get(f"ticks/{number}", 0)
        ]
        for number, records in enumerate(topic.records)
    }
