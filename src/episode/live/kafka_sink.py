"""Matches of a live task into a Kafka topic, in transactions: a reader with isolation.level=read_committed sees every
match once.

A write is one transaction: the matches, and the input position after them, which is committed as an offset (its number
counts the writes, its metadata is the position) of the task's own consumer group. So a restarted task finds the
position of its last write without reading the topic. The transactional id is made of query and task: opening the sink
aborts what an earlier attempt had begun, and an attempt that still runs elsewhere can no longer write.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.live.kafka import PATIENCE, call_error, client_library, open_client, settings_of, topic_of
from episode.live.protocol import Position
from episode.matchers.json_text import JsonForm, json_objects, key_texts
from episode.store.conforming import conform
from episode.store.declaration import Declaration

MOST_METADATA = 4096
"""Bytes that a broker keeps with an offset, unless it is configured otherwise."""
RECOMMIT_S = 3600.0
"""Seconds after which the last position is committed again."""
RETRY_S = 0.05
"""Seconds between two calls of a broker that is not ready."""
_PACKED = "zlib:"
_FORM = JsonForm(nulls=False)  # as Spark writes to topics
_SETTINGS: dict[str, Any] = {"partitioner": "murmur2_random", "linger.ms": 0, "enable.idempotence": True}
_OF_WRITERS = {"isolation.level", "group.id", "auto.offset.reset"}


@dataclass(frozen=True)
class KafkaOutput:
    """The topic of a declared stream as the output of a query."""

    declaration: Declaration

    def open(self, query: str, task: int) -> KafkaSink:
        return KafkaSink(self.declaration, f"episode-{query}-{task}")


class KafkaSink:
    """Writes the matches of one task."""

    def __init__(self, declaration: Declaration, name: str) -> None:
        self.declaration, self.name = declaration, name
        self.topic = topic_of(declaration)
        self.library = client_library()
        given = settings_of(declaration)
        written = {setting: value for setting, value in given.items() if setting not in _OF_WRITERS}
        written = {**_SETTINGS, **written, "transactional.id": name}
        self.producer = open_client(self.library.Producer, written, declaration)
        read = {**given, "group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        self.consumer = open_client(self.library.Consumer, read, declaration)
        self._call("The transactions of the task cannot begin", lambda: self.producer.init_transactions(PATIENCE))
        self._place = self.library.TopicPartition(self.topic, 0)
        self._writes, self._committed = self._last_write()
        self._written_at = time.monotonic()

    def _last_write(self) -> tuple[int, Position | None]:
        """Return the number of writes so far, and the position of the last."""
        what = f"The last write to {self.topic} is not known"
        (place,) = self._call(what, lambda: self.consumer.committed([self._place], timeout=PATIENCE))
        if place.error is not None:
            raise call_error(what, place.error)
        if place.offset < 0 or not place.metadata:
            return 0, None
        return place.offset, unpack_position(place.metadata)

    def last_position(self) -> Position | None:
        return self._committed

    def write(self, matches: pa.Table, after: Position) -> None:
        if not matches.num_rows:
            return
        table = conform(matches, self.declaration)
        values = json_objects(table.column_names, table.columns, table.num_rows, _FORM)
        names = self.declaration.key
        keys = key_texts([table.column(name) for name in names]) if names else None
        self._transaction(lambda: self._produce(values, keys), after)

    def _transaction(self, produce: Callable[[], None], after: Position) -> None:
        place = self.library.TopicPartition(self.topic, 0, self._writes + 1, pack_position(after))
        self.producer.begin_transaction()
        try:
            produce()
            group = self.consumer.consumer_group_metadata()
            what = "The position of the input cannot be kept"
            self._call(what, lambda: self.producer.send_offsets_to_transaction([place], group, PATIENCE))
            self._call("The matches are not committed", lambda: self.producer.commit_transaction(PATIENCE))
        except EpisodeDataError:
            with suppress(self.library.KafkaException):  # then the next attempt of the task aborts the write
                self.producer.abort_transaction(PATIENCE)
            raise
        self._writes += 1
        self._committed = after
        self._written_at = time.monotonic()

    def _produce(self, values: pa.Array, keys: pa.Array | None) -> None:
        """Send matches, and wait until the brokers have them all."""
        refused: list[Any] = []

        def on_delivery(error: Any, _message: Any) -> None:
            if error is not None:
                refused.append(error)

        what = f"The topic {self.topic} does not take matches of this task"
        for row in range(len(values)):
            key = None if keys is None else keys[row].as_py()
            self._call(what, partial(self._put, values[row].as_py(), key, on_delivery))
        self._call(what, lambda: self.producer.flush(PATIENCE))
        if refused:
            raise call_error(what, refused[0])

    def _put(self, value: str, key: str | None, on_delivery: Callable[[Any, Any], None]) -> None:
        while True:
            try:
                self.producer.produce(self.topic, value=value, key=key, on_delivery=on_delivery)
                return
            except BufferError:  # the client's queue is full
                self.producer.poll(0.1)

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        """Call the broker, and repeat the call while its error is temporary: it may just have started."""
        codes = self.library.KafkaError
        passing = (
            codes.NOT_COORDINATOR,
            codes.COORDINATOR_NOT_AVAILABLE,
            codes.COORDINATOR_LOAD_IN_PROGRESS,
            codes.UNSTABLE_OFFSET_COMMIT,
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return call()
            except self.library.KafkaException as error:
                passes = error.args[0].retriable() or error.args[0].code() in passing
                if not passes or time.monotonic() > deadline:
                    raise call_error(what, error.args[0]) from None
                time.sleep(RETRY_S)

    def flush(self, after: Position) -> None:
        """Do nothing, since `write` commits. But brokers forget offsets that are not committed for days: if there were
        no matches for long, commit the last position again."""
        if self._committed is not None and time.monotonic() - self._written_at > RECOMMIT_S:
            self._transaction(lambda: None, self._committed)

    def close(self) -> None:
        self.consumer.close()


def pack_position(position: Position) -> str:
    text = json.dumps(dict(position), separators=(",", ":"))
    if len(text) > MOST_METADATA:
        text = _PACKED + base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    if len(text) > MOST_METADATA:
        raise EpisodeDataError(
            "The task reads too many partitions for its position to be kept in Kafka.",
            hint="Start the query with more tasks.",
        )
    return text


def unpack_position(metadata: str) -> Position:
    if metadata.startswith(_PACKED):
        metadata = zlib.decompress(base64.b64decode(metadata[len(_PACKED) :])).decode()
    found: Position = json.loads(metadata)
    return found
