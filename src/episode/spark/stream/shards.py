"""Shards of a stream in Spark's workers: their steps, and their state in Spark's state store."""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from episode.errors import EpisodeDataError
from episode.matchers.columns import from_bytes, plain, to_bytes
from episode.matchers.envelope import open_envelope
from episode.matchers.protocol import MatcherSpec, Snapshot, StateChunk
from episode.matchers.state import fingerprint
from episode.matchers.stream_shard import NO_WATERMARK, Counters, ShardSettings, StreamShard
from episode.spark.startup.workers import prepare_worker
from episode.spark.stream.chain import WatermarkClock
from episode.spark.stream.packed_processor import declare_state

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, MapState, TimerValues, ValueState


# Every call of the state store goes to the JVM and back. So while the chunks of a shard are small they are all kept in
# one value, rewritten with every step; later each is an entry of a map, and a step writes the changed ones.

SMALL = 1 << 16
"""Bytes of chunks up to which they are kept in one value."""


@dataclass
class ShardChunks:
    """The state of a shard. small: all chunks by name; None: they are in Spark's map of (name) by (version, data), for
    good."""

    small: dict[str, StateChunk] | None

    @staticmethod
    def read(small: bytes, large: MapState) -> tuple[ShardChunks, list[StateChunk]]:
        """The chunks that were written last. small: what `change` gave."""
        if not small:
            return ShardChunks(None), [StateChunk(name, v, bytes(data)) for (name,), (v, data) in large.iterator()]
        chunks = [StateChunk(**row) for row in from_bytes(bytes(small)).to_pylist()]
        return ShardChunks({chunk.name: chunk for chunk in chunks}), chunks

    def change(self, changes: Snapshot, large: MapState) -> bytes:
        """Write the changes; returns the chunks to keep in the one value, if any."""
        if self.small is not None:
            changes.apply(self.small)
            if sum(len(chunk.data) for chunk in self.small.values()) <= SMALL:
                columns = [[getattr(chunk, name) for chunk in self.small.values()] for name in _CHUNKS.names]
                return to_bytes(pa.Table.from_arrays(columns, schema=_CHUNKS))
            changes, self.small = Snapshot(tuple(self.small.values()), ()), None
        for name in changes.removed:
            large.removeKey((name,))
        for chunk in changes.put:
            large.updateValue((chunk.name,), (chunk.version, chunk.data))
        return b""


_CHUNKS = pa.schema([("name", pa.string()), ("version", pa.int32()), ("data", pa.binary())])

ROLL_CALL = -1
"""Number of a pseudo-shard whose state records the query and the number of shards of the checkpoint."""

HEAD_VERSION = 2
COUNTERS = tuple(Counters().as_dict())
OUTPUT = "shard int, blob binary, " + ", ".join(f"{name} long" for name in COUNTERS)
_NO_TIMER = -1
_BLOB_ROWS = 1 << 17
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class StreamSettings:
    """Settings of a stream.

    clock: event time by Spark's watermark.
    late_path: directory for late events, as Parquet.
    name: what tells the pattern from others of its streaming query: the name of its counters.
    arguments: the values of the query's parameters, shown: a checkpoint belongs to a query with its values.
    time_unit: the unit of whole numbers of event time, if declared: a checkpoint keeps Spark's clock.
    """

    shard: ShardSettings
    clock: WatermarkClock
    shards: int
    late_path: str | None = None
    name: str = ""
    arguments: str = ""
    time_unit: str = ""


class ShardProcessor(StatefulProcessor):
    """Steps of the shards of one task, with their state in Spark's state store."""

    def __init__(self, spec: MatcherSpec, settings: StreamSettings) -> None:
        self.spec = spec
        self.settings = settings

    @property
    def fingerprint(self) -> str:
        """Identifies the owner of the state: the query, the values of its parameters, and its time unit."""
        unit = self.settings.time_unit and f"in {self.settings.time_unit}"
        further = [one for one in (self.settings.arguments, unit) if one]
        return fingerprint(self.spec.fingerprint, *further) if further else self.spec.fingerprint

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.use(handle, *declare_state(handle))

    def use(self, handle: StatefulProcessorHandle, head: ValueState, chunks: MapState) -> None:
        """Use state that is declared already."""
        self.handle, self.head, self.chunks = handle, head, chunks

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        if key[0] == ROLL_CALL:  # the checkpoint belongs to this query, as its first micro-batch recorded
            head = self._head()
            if not head.steps:
                self.head.update(astuple(replace(head, steps=1)))
            return
        frames = list(rows)
        blobs = [bytes(blob) for frame in frames for blob in frame["blob"]]
        if len(blobs) > 1:
            origins = np.concatenate([frame["origin"].to_numpy() for frame in frames])
            blobs = [blobs[at] for at in np.argsort(origins, kind="stable")]
        yield from self._step(key[0], blobs, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._step(key[0], [], timerValues, fired=True)

    def close(self) -> None:
        pass

    def _head(self) -> _Head:
        known = self.head.get()
        head = _Head(*known) if known else _Head(shards=self.settings.shards, query=self.fingerprint)
        self._check(head)
        return head

    def _step(self, number: int, blobs: list[bytes], times: TimerValues, fired: bool = False) -> Iterator[pd.DataFrame]:
        prepare_worker()
        head = self._head()
        shard, chunks = self._shard(number, head)
        milliseconds = times.getCurrentWatermarkInMs()
        for matches in shard.advance([(blob, open_envelope(blob)) for blob in blobs], self._watermark(times)):
            yield from _blobs(number, matches)
        if shard.late is not None and self.settings.late_path is not None:
            name = late_file(query_id(), self.settings.name, self.fingerprint, number, head.steps)
            _write_late(plain(shard.late), self.settings.late_path, name)
        self._after_step(number, shard)
        self._save(number, shard, chunks, head, milliseconds, fired)
        yield pd.DataFrame([{"shard": number, "blob": None, **shard.counters.as_dict()}])

    def _watermark(self, times: TimerValues) -> int:
        """In units of event time."""
        milliseconds = times.getCurrentWatermarkInMs()
        return self.settings.clock.watermark(milliseconds) if milliseconds > 0 else NO_WATERMARK

    def _after_step(self, number: int, shard: StreamShard) -> None:
        """Called after all matches of a step are emitted, before its state is written."""

    def _check(self, head: _Head) -> None:
        if head.format != HEAD_VERSION:
            raise EpisodeDataError(
                f"The checkpoint has state of format {head.format}; this version reads format {HEAD_VERSION}.",
                hint="Run it with the version that wrote it, or start anew with another checkpoint.",
            )
        if head.shards != self.settings.shards:
            raise EpisodeDataError(
                f"The checkpoint was written with {head.shards} shards, this query has {self.settings.shards}.",
                hint=f"Use Tuning(shards={head.shards}), or start anew with another checkpoint.",
            )
        if head.query != self.fingerprint:
            raise EpisodeDataError(
                "The checkpoint belongs to another query: pattern, conditions, measures or input columns differ.",
                hint="Start the changed query with a new checkpoint.",
            )

    def _shard(self, number: int, head: _Head) -> tuple[StreamShard, ShardChunks]:
        warm = _warm.pop(self._place(number), None)
        if warm is not None and warm.token == head.token:
            return warm.shard, warm.chunks
        shard, chunks = StreamShard(self.spec, self.settings.shard), ShardChunks({})
        if head.token:
            chunks, state = ShardChunks.read(head.small, self.chunks)
            shard.restore(state, head.watermark, head.ended)
        return shard, chunks

    def _place(self, number: int) -> tuple[str, ...]:
        """Identifies a shard among those of other patterns and queries."""
        return _task_query() or "", self.settings.name, self.fingerprint, str(number)

    def _save(
        self, number: int, shard: StreamShard, chunks: ShardChunks, head: _Head, milliseconds: int, fired: bool
    ) -> None:
        small = chunks.change(shard.snapshot(), self.chunks)
        wakes_at = shard.wakes_at
        timer = _NO_TIMER if wakes_at is None else max(self.settings.clock.reaches(wakes_at), milliseconds + 1)
        if head.timer not in (_NO_TIMER, timer) and not fired:
            self.handle.deleteTimer(head.timer)
        if timer not in (_NO_TIMER, head.timer):
            self.handle.registerTimer(timer)
        token, steps = uuid.uuid4().hex, head.steps + 1
        after = replace(head, token=token, watermark=shard.watermark, ended=shard.ended, timer=timer, steps=steps)
        self.head.update(astuple(replace(after, small=small)))
        _warm[self._place(number)] = _Warm(token, shard, chunks)
        while len(_warm) > _MOST_WARM:
            _warm.popitem(last=False)


class _Warm(NamedTuple):
    """A shard as this process left it, and the token of the state that it wrote."""

    token: str
    shard: StreamShard
    chunks: ShardChunks


_warm: OrderedDict[tuple[str, ...], _Warm] = OrderedDict()
"""Shards as this process left them, reusable if the state store has the same token. A shard that another process has
advanced, or whose step was not committed, has another token: it is dropped, so that a process has each shard once,
however often its workers take turns."""

_MOST_WARM = 2048


@dataclass(frozen=True)
class _Head:
    """The small state of a shard. small: all of its chunks, unless they are in the map."""

    format: int = HEAD_VERSION
    token: str = ""
    watermark: int = NO_WATERMARK
    ended: bool = False
    timer: int = _NO_TIMER
    steps: int = 0
    shards: int = 0
    query: str = ""
    small: bytes = b""


def _blobs(number: int, matches: pa.Table) -> Iterator[pd.DataFrame]:
    """Matches as rows of the output, then the counters of the step."""
    for begin in range(0, matches.num_rows, _BLOB_ROWS):
        blob = to_bytes(matches.slice(begin, _BLOB_ROWS))
        yield pd.DataFrame([{"shard": number, "blob": blob, **dict.fromkeys(COUNTERS, 0)}])


def late_file(query: str, pattern: str, fingerprint: str, shard: int, step: int) -> str:
    """The name of the file with the late events of a step.

    query: Spark's id of the streaming query, which the checkpoint keeps: a step that is run again writes the same file
    again, and another checkpoint writes others. A query may have the same pattern twice, over two streams: so its name
    counts as well as its fingerprint.
    """
    which = hashlib.sha256(f"{pattern}\n{fingerprint}".encode()).hexdigest()[:12]
    return f"late-{query}-{which}-{shard:05d}-{step:012d}.parquet"


def query_id() -> str:
    """Spark's id of the streaming query that this task belongs to."""
    query = _task_query()
    if query is None:
        raise EpisodeDataError(
            "Spark does not tell to which query this task belongs: late events of two queries would be mixed.",
            hint="Without StreamOptions(late_path=…), late events are counted and dropped.",
        )
    return query


def _task_query() -> str | None:
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty(_QUERY_ID)


def _write_late(table: pa.Table, path: str, name: str) -> None:
    """Write the late events of a step in one file, whole or not at all."""
    files, place = FileSystem.from_uri(path) if "://" in path else (LocalFileSystem(), path)
    files.create_dir(place, recursive=True)
    unfinished = f"{place}/_{uuid.uuid4().hex}"
    pq.write_table(table, unfinished, filesystem=files)
    files.move(unfinished, f"{place}/{name}")


def open_matches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(0):
            if blob.is_valid:
                yield from pa.ipc.open_stream(blob.as_buffer())
