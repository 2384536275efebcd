"""Clients of Kafka in live tasks, and records of some partitions of a topic, in batches, from any offsets on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError, install
from episode.store.declaration import Declaration

# Live tasks use librdkafka (the package confluent-kafka), and Spark uses Kafka's Java client. Options `kafka.…` of a
# declaration are for both; `librdkafka.…` are for live tasks alone, and replace those that only Java knows.

TOPIC = "topic"
PATIENCE = 60.0
"""Seconds that the broker has to answer."""
_BOTH, _OWN = "kafka.", "librdkafka."
_OF_JAVA = frozenset(
    (
        "sasl.jaas.config", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class",
        "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.keystore.type",
    )
)  # fmt: skip


def client_library() -> Any:
    """Return the package confluent_kafka; the error explains how to install it."""
    try:
        import confluent_kafka
    except ModuleNotFoundError:
        raise EpisodeError(
            "A live task reads and writes Kafka with the package confluent-kafka, which is not installed here.",
            hint=f"{install('kafka')}, in the environment of Spark's workers.",
        ) from None
    return confluent_kafka


def settings_of(declaration: Declaration) -> dict[str, Any]:
    """Settings of a client, from the options of the declaration. It writes no errors to the standard error."""
    own = {name[len(_OWN) :]: value for name, value in declaration.options.items() if name.startswith(_OWN)}
    both = {name[len(_BOTH) :]: value for name, value in declaration.options.items() if name.startswith(_BOTH)}
    if own:
        both = {name: value for name, value in both.items() if name not in _OF_JAVA}
    return {"log_level": 2, **both, **own}


def topic_of(declaration: Declaration) -> str:
    return declaration.options[TOPIC]


def open_client(kind: Any, settings: dict[str, Any], declaration: Declaration) -> Any:
    library = client_library()
    try:
        return kind(settings)
    except library.KafkaException as error:
        raise EpisodeAnalysisError(
            f"The options of {declaration.name} are not valid for a live task: {error.args[0].str()}",
            hint="Live tasks use librdkafka. What only Spark's Java client knows has another name there: give it as an "
            "option librdkafka.…, for live tasks alone.",
        ) from None


def call_error(what: str, error: Any) -> EpisodeDataError:
    """Return the error of a call, in words. error: of the library."""
    return EpisodeDataError(f"{what}: {error.str()} ({error.name()}).")


STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy")
_MOST = 1_000_000
_SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 5,
}


@dataclass(frozen=True)
class Records:
    """Values of records in order of arrival, the partition and the offset of each (int32, int64), when the last one was
    appended (seconds of the clock), and the partitions that are read to their end with them."""

    values: Sequence[bytes | None]
    partitions: np.ndarray
    offsets: np.ndarray
    appended: float
    ended: frozenset[int]

    def before(self, limits: Mapping[int, int]) -> Records:
        """The records whose offsets are less than their partition's limit."""
        inside = np.zeros(len(self.offsets), np.bool_)
        for partition in np.unique(self.partitions).tolist():
            inside |= (self.partitions == partition) & (self.offsets < limits[partition])
        kept = np.flatnonzero(inside)
        values = [self.values[i] for i in kept.tolist()]
        return Records(values, self.partitions[kept], self.offsets[kept], self.appended, self.ended)


class TopicReader:
    """Reads a topic of a broker. It commits no offsets and joins no group, though it must name one: the caller keeps
    its positions."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.topic = topic_of(declaration)
        self.library = client_library()
        settings = {**_SETTINGS, "group.id": f"episode-live-{declaration.name}", **settings_of(declaration)}
        self.consumer = open_client(self.library.Consumer, settings, declaration)
        self._at: dict[int, int] = {}
        self._waiting: list[Any] = []

    def count(self) -> int:
        """Number of partitions of the topic."""
        try:
            found = self.consumer.list_topics(self.topic, timeout=PATIENCE).topics[self.topic]
        except self.library.KafkaException as error:
            raise call_error(f"The topic {self.topic} was not found", error.args[0]) from None
        if found.error is not None:
            raise call_error(f"The topic {self.topic} was not found", found.error)
        return len(found.partitions)

    def beginning(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Offsets at which a new reader begins."""
        options = self.declaration.options
        unknown = next((name for name in STARTING if name in options), None)
        if unknown is not None:
            raise EpisodeAnalysisError(
                f"A live task does not begin by the option {unknown} of {self.declaration.name}.",
                hint="Use startingOffsets: earliest, latest, or the offsets of all partitions as JSON.",
            )
        starting = options.get("startingOffsets", "earliest")
        named = {} if starting in ("earliest", "latest") else self._starting_offsets(starting)
        found = {}
        for partition in partitions:
            low, high = self._limits(partition)
            start = named.get(str(partition), -1 if starting == "latest" else -2)
            found[partition] = {-1: high, -2: low}.get(start, start)
        return found

    def _starting_offsets(self, starting: str) -> Mapping[str, int]:
        try:
            found: Mapping[str, int] = json.loads(starting)[self.topic]
        except (ValueError, KeyError, TypeError):
            raise EpisodeAnalysisError(
                f"The option startingOffsets of {self.declaration.name} is {starting!r}.",
                hint=f'It is earliest, latest, or offsets: {{"{self.topic}": {{"0": 100, "1": -2}}}}.',
            ) from None
        return found

    def _limits(self, partition: int) -> tuple[int, int]:
        place = self.library.TopicPartition(self.topic, partition)
        try:
            low, high = self.consumer.get_watermark_offsets(place, timeout=PATIENCE)
        except self.library.KafkaException as error:
            what = f"The offsets of partition {partition} of {self.topic} are not known"
            raise call_error(what, error.args[0]) from None
        return low, high

    def take(self, at: Mapping[int, int], rows: int) -> Records:
        """Return the next available records of partitions from offsets on, at most `rows`."""
        self._assign(at)
        messages, self._waiting = self._waiting, []
        messages += self.consumer.consume(min(max(1, rows - len(messages)), _MOST), 0)
        events = [message for message in messages if message.error() is None]
        ends = self._ends(messages) if len(events) < len(messages) else ()
        partitions = np.fromiter((message.partition() for message in events), np.int32, len(events))
        offsets = np.fromiter((message.offset() for message in events), np.int64, len(events))
        last = {}
        for partition in np.unique(partitions).tolist():
            last[partition] = int(offsets[np.flatnonzero(partitions == partition)[-1]]) + 1
        self._at.update(last)
        ended = frozenset(partition for partition, end in ends if end >= last.get(partition, 0))
        appended = events[0].timestamp()[1] / 1000 if events else 0.0
        return Records([message.value() for message in events], partitions, offsets, appended, ended)

    def _ends(self, messages: Sequence[Any]) -> Sequence[tuple[int, int]]:
        """Partitions that are read to their ends, and those; errors that do not pass are raised."""
        codes, ended = self.library.KafkaError, []
        passing = (codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT, codes._RESOLVE)
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() == codes._PARTITION_EOF:
                ended.append((message.partition(), message.offset()))
            elif error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
                raise EpisodeDataError(
                    f"Partition {message.partition()} of the topic {self.topic} no longer has the records that were to "
                    f"be read next: {error.str()}.",
                    hint="They were removed before they were read. Keep records longer than a query may rest, or begin "
                    "with a new checkpoint.",
                )
            elif error.code() not in passing and not error.retriable():
                raise call_error(f"The topic {self.topic} cannot be read", error)
        return ended

    def wait(self, at: Mapping[int, int], seconds: float) -> None:
        """Return when there is a record, or after `seconds`."""
        if self._waiting and self._at == at:
            return
        self._assign(at)
        message = self.consumer.poll(seconds)
        if message is not None:
            self._waiting.append(message)

    def _assign(self, at: Mapping[int, int]) -> None:
        if self._at != at:
            self._waiting = []
            places = [self.library.TopicPartition(self.topic, partition, offset) for partition, offset in at.items()]
            self.consumer.assign(places)
            self._at = dict(at)

    def ends(self, partitions: Sequence[int]) -> Mapping[int, int] | None:
        """Offsets after the last records, as last reported; None: unknown."""
        found = {}
        for partition in partitions:
            place = self.library.TopicPartition(self.topic, partition)
            found[partition] = self.consumer.get_watermark_offsets(place, cached=True)[1]
        return None if any(end < 0 for end in found.values()) else found

    def close(self) -> None:
        self.consumer.close()
