"""The input of a live task from a Kafka topic: some of its partitions, each with its own watermark.

A task takes the partitions whose numbers are its own, modulo the number of tasks. The topic is keyed by the key of the
stream: the producer must put all events of a key into one partition, in order. A partition's watermark is the greatest
event time read from it minus the delay; an event is late by the watermark that its own partition had reached before
it. So lateness, and the matches of a key, do not depend on how partitions were interleaved. The task's watermark is
the least over its partitions, except idle ones.

A partition is idle when it has been read to its end and nothing has arrived for a while. That depends on the clock, so
each change is a separate batch, after which a snapshot is kept: a partition that turns idle; and one that wakes up,
which from then on has at least the watermark that the task had reached meanwhile. The position has all of this:
offsets, greatest times, idle partitions.

A topic that gets further partitions while a query runs is an error: most producers then move keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.live.inputs import StreamRead
from episode.live.kafka import PATIENCE, Records, TopicReader, topic_of
from episode.live.protocol import InputBatch, Position
from episode.matchers.columns import ALL_VALID
from episode.matchers.json_columns import JsonColumns
from episode.matchers.ordering import order_image
from episode.matchers.protocol import OrderKey
from episode.matchers.stream_shard import NO_WATERMARK

IDLE_AFTER = 10.0
COUNT_EVERY = 30.0
"""Seconds between two checks of the number of partitions."""
CHANGES = "/changes"
GAP = 1.0
"""Seconds between two reads after which the silence of partitions is measured anew."""


@dataclass(frozen=True)
class KafkaInputs:
    """A stream USING kafka as the input of a query.

    zone: of times in records that name none: the time zone of Spark's session.
    idle_after: seconds without a record after which a partition no longer delays the others.
    """

    stream: StreamRead
    zone: str = "UTC"
    idle_after: float = IDLE_AFTER

    def open(self, task: int, tasks: int) -> KafkaInput:
        return KafkaInput(self, TopicReader(self.stream.declaration), task, tasks)


@dataclass(frozen=True)
class Partition:
    """The progress in one partition.

    next: the next offset. greatest: the greatest event time so far. floor: its least watermark, since it was idle.
    """

    next: int
    greatest: int | None = None
    floor: int | None = None
    idle: bool = False

    def watermark(self, delay: int) -> int:
        read = NO_WATERMARK if self.greatest is None else max(self.greatest - delay, int(NO_WATERMARK))
        return int(read if self.floor is None else max(read, self.floor))


@dataclass(frozen=True)
class TopicPosition:
    """A position in a topic, with all that further reading depends on.

    count: the number of partitions of the topic. changes: number of changes made by the clock, the start included. They
        count when positions are compared, so that a change whose matches were emitted is not made again after a
        failure.
    """

    topic: str
    count: int
    changes: int
    partitions: Mapping[int, Partition]

    def watermark(self, delay: int) -> int:
        """The least of the partitions that are awake; if all are idle, the greatest."""
        awake = [one.watermark(delay) for one in self.partitions.values() if not one.idle]
        every = (one.watermark(delay) for one in self.partitions.values())
        return min(awake) if awake else max(every, default=int(NO_WATERMARK))

    @property
    def offsets(self) -> dict[int, int]:
        return {number: one.next for number, one in self.partitions.items()}

    def position(self) -> Position:
        found = {f"{self.topic}#partitions": self.count, f"{self.topic}{CHANGES}": self.changes}
        for number, one in self.partitions.items():
            part = f"{self.topic}/{number}"
            found[part] = one.next
            if one.greatest is not None:
                found[f"{part}#greatest"] = one.greatest
            if one.floor is not None:
                found[f"{part}#floor"] = one.floor
            if one.idle:
                found[f"{part}#idle"] = 1
        return found

    @staticmethod
    def of(position: Position, topic: str) -> TopicPosition | None:
        """Parse a position; None: it is the beginning."""
        if f"{topic}#partitions" not in position:
            return None
        partitions = {}
        for part, offset in position.items():
            if part.startswith(f"{topic}/") and part[len(topic) + 1 :].isdecimal():
                partitions[int(part[len(topic) + 1 :])] = Partition(
                    offset, position.get(f"{part}#greatest"), position.get(f"{part}#floor"), f"{part}#idle" in position
                )
        return TopicPosition(topic, position[f"{topic}#partitions"], position[f"{topic}{CHANGES}"], partitions)


class KafkaInput:
    """The input of one task from a topic."""

    def __init__(
        self,
        inputs: KafkaInputs,
        reader: TopicReader,
        task: int,
        tasks: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        stream = inputs.stream
        declaration = stream.declaration
        self.inputs, self.stream, self.reader, self.clock = inputs, stream, reader, clock
        self.task, self.tasks = task, tasks
        self.topic = topic_of(declaration)
        self.delay = stream.behind
        names = list(dict.fromkeys([*stream.columns, declaration.time]))
        self.columns = JsonColumns(pa.schema([declaration.schema.field(name) for name in names]), inputs.zone)
        self._held: tuple[Position, Records] | None = None
        self._ended: set[int] = set()
        self._heard: dict[int, float] = {}
        self._read_at = self._counted_at = float("-inf")

    def read(self, after: Position, rows: int, until: Position | None = None) -> InputBatch | None:
        place = TopicPosition.of(after, self.topic)
        if place is None:
            return self._begin()
        self._check_count(place)
        if until is not None:
            goal = TopicPosition.of(until, self.topic)
            if goal is not None:
                return self._read_again(place, rows, goal)
        if self._held is not None and self._held[0] == after:
            records, self._held = self._held[1], None
            return self._batch(place, records)
        self._held = None
        records = self.reader.take(place.offsets, rows)
        changed = self._update_idle(place, records)
        if changed is not None:
            position = changed.position()
            self._held = (position, records) if len(records.values) else None
            return self._empty(changed)
        return self._batch(place, records) if len(records.values) else None

    def _begin(self) -> InputBatch:
        """Return the starting offsets as an empty batch, so that they are kept before anything is read."""
        count = self.reader.count()
        mine = [number for number in range(count) if number % self.tasks == self.task]
        offsets = self.reader.beginning(mine)
        return self._empty(TopicPosition(self.topic, count, 1, {number: Partition(offsets[number]) for number in mine}))

    def _read_again(self, place: TopicPosition, rows: int, goal: TopicPosition) -> InputBatch | None:
        """Read as before, up to a position that was reached then."""
        limits = goal.offsets
        behind = {number: offset for number, offset in place.offsets.items() if offset < limits[number]}
        if not behind:
            return self._empty(goal) if place != goal else None
        deadline = self.clock() + PATIENCE
        while True:  # the records exist, but the broker may need a moment
            records = self.reader.take(behind, rows).before(limits)
            if len(records.values):
                return self._batch(place, records)
            if self.clock() >= deadline:
                return None
            self.reader.wait(behind, GAP / 2)

    def _empty(self, place: TopicPosition) -> InputBatch:
        nothing = self._prepare(self.columns.schema.empty_table())
        watermark = place.watermark(self.delay)
        return InputBatch(nothing, place.position(), watermark, time.time(), np.zeros(0, np.int64), barrier=True)

    def _batch(self, place: TopicPosition, records: Records) -> InputBatch:
        table = self.columns.read(records.values)
        image = order_image(table, OrderKey(self.stream.declaration.time))
        known = image.values
        if image.valid is not ALL_VALID:
            known = np.where(image.valid, image.values, NO_WATERMARK)
        reached = np.empty(len(known), np.int64)
        partitions = dict(place.partitions)
        for number in np.unique(records.partitions).tolist():
            rows = np.flatnonzero(records.partitions == number)
            before = partitions[number]
            first = NO_WATERMARK if before.greatest is None else before.greatest
            greatest = np.maximum.accumulate(np.concatenate(([first], known[rows])))
            limited = np.maximum(greatest[:-1], NO_WATERMARK + self.delay) - self.delay
            reached[rows] = limited if before.floor is None else np.maximum(limited, before.floor)
            last = None if greatest[-1] == NO_WATERMARK else int(greatest[-1])
            partitions[number] = replace(before, next=int(records.offsets[rows[-1]]) + 1, greatest=last)
        there = replace(place, partitions=partitions)
        return InputBatch(
            self._prepare(table), there.position(), there.watermark(self.delay), records.appended, reached
        )

    def _prepare(self, table: pa.Table) -> pa.Table:
        chosen = table.select(list(self.stream.columns))
        return chosen if self.stream.prepare is None else self.stream.prepare(chosen)

    def _update_idle(self, place: TopicPosition, records: Records) -> TopicPosition | None:
        """Update which partitions are idle; None if nothing changed."""
        now = self.clock()
        if now - self._read_at > GAP:
            self._heard = {}
        self._read_at = now
        speaking = set(np.unique(records.partitions).tolist())
        self._ended = (self._ended - speaking) | records.ended
        for number in place.partitions:
            if number in speaking or number not in self._heard:
                self._heard[number] = now
        silent = {
            number
            for number, one in place.partitions.items()
            if not one.idle
            and number not in speaking
            and number in self._ended
            and now - self._heard[number] >= self.inputs.idle_after
        }
        waking = {number for number in speaking if place.partitions[number].idle}
        if not silent and not waking:
            return None
        watermark, partitions = place.watermark(self.delay), dict(place.partitions)
        for number in waking:
            floor = None if watermark == NO_WATERMARK else watermark
            partitions[number] = replace(partitions[number], idle=False, floor=floor)
        for number in silent:
            partitions[number] = replace(partitions[number], idle=True)
        return replace(place, partitions=partitions, changes=place.changes + 1)

    def _check_count(self, place: TopicPosition) -> None:
        now = self.clock()
        if now - self._counted_at < COUNT_EVERY:
            return
        self._counted_at = now
        count = self.reader.count()
        if count != place.count:
            raise EpisodeDataError(
                f"The topic {self.topic} has {count} partitions, and had {place.count} when the query began.",
                hint="Keys may be in other partitions now than before. Start the query with a new checkpoint.",
            )

    def wait(self, after: Position, seconds: float) -> None:
        """Wait for a record, not for long: a partition may turn idle meanwhile."""
        place = TopicPosition.of(after, self.topic)
        if place is not None and not (self._held is not None and self._held[0] == after):
            self.reader.wait(place.offsets, min(seconds, GAP / 2))

    def unread(self, after: Position) -> int | None:
        """Count unread records by the ends that the broker last reported."""
        place = TopicPosition.of(after, self.topic)
        if place is None:
            return None
        ends = self.reader.ends(list(place.partitions))
        counts = place.partitions.items()
        return None if ends is None else sum(max(0, ends[number] - one.next) for number, one in counts)

    def close(self) -> None:
        self.reader.close()
