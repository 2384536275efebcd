"""Stream stores as Spark reads them: rows, or envelopes that the reader packs itself (no row passes through the JVM).

What one task reads is a few pieces of the store: files of the archive, commits of the log, or some lanes of a large
commit. Pieces are numbered in order of arrival. Positions of a stream are numbers of commits: {"commit": n} is after
the commit n.

See decision 108.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructField, StructType

from episode.errors import EpisodeAnalysisError
from episode.spark.stores.source import ARCHIVED_TO, ENVELOPES, MAX_EVENTS, SKIP_CORRUPT, STARTING, declared_schema
from episode.spark.types import arrow_schema, as_events
from episode.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    arrow_columns,
    check_read_limit,
)
from episode.store.declaration import Declaration
from episode.store.segment import CorruptSegment, Footer
from episode.store.stream import FilePart, LogPart, StreamStore

if TYPE_CHECKING:
    from episode.matchers.envelope import Packing

TASK_EVENTS = 250_000
"""Events that one task reads, about: a smaller one takes longer to start than to run."""

MOST_TASKS = 256
_BATCH_ROWS = 1 << 16
"""Rows that go to Spark at once."""

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True)
class EnvelopeOptions:
    """Settings for packing envelopes. columns: (name in the stream, name in the query). call: the number of the shard
    that is called after the events of a task."""

    columns: tuple[tuple[str, str], ...]
    packing: Packing
    call: int | None = None

    def as_option(self) -> str:
        """Encode as the value of a data source's option."""
        from episode.matchers.envelope import write_packing

        return json.dumps([self.columns, write_packing(self.packing), self.call])

    @staticmethod
    def read(text: str) -> EnvelopeOptions:
        """Parse the value of the option, which anybody may have written."""
        from episode.matchers.envelope import read_packing

        try:
            columns, packing, call = json.loads(text)
            named = tuple((str(theirs), str(ours)) for theirs, ours in columns)
            called = None if call is None else int(call)
        except (ValueError, TypeError, RecursionError):
            named, packing, called = (), "", None
        return EnvelopeOptions(named, read_packing(packing), called)


@dataclass(frozen=True)
class LanePart:
    """Some lanes of one commit of the log."""

    commit: int
    lanes: tuple[int, ...]


Piece = Union[FilePart, LogPart, LanePart]


class StorePartition(InputPartition):
    """Input of one task. index: grows in order of arrival."""

    def __init__(self, index: int, pieces: Sequence[Piece]) -> None:
        self.index, self.pieces = index, tuple(pieces)


class _Reading:
    """Common part of the readers of tables and streams. It is sent to the workers."""

    def __init__(self, declaration: Declaration, given: Mapping[str, str], schema: StructType) -> None:
        self.declaration = declaration
        self.skip_corrupt = _truth(given, SKIP_CORRUPT)
        self.envelopes = given.get(ENVELOPES)
        self.archived_to = _number(given, ARCHIVED_TO)
        self.schema = schema

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "store"}

    @cached_property
    def store(self) -> StreamStore:
        return StreamStore(self.declaration)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition, as rows for Spark or packed."""
        assert isinstance(partition, StorePartition)
        return self._rows(partition) if self.envelopes is None else self._envelopes(partition)

    def _rows(self, partition: StorePartition) -> Iterator[pa.RecordBatch]:
        schema = arrow_columns(self.schema)
        for batch in self._events(partition, schema.names):
            # cast to the types that Spark takes: they differ in the field names inside arrays and maps
            yield from as_events(batch, schema).to_batches(_BATCH_ROWS)

    def _envelopes(self, partition: StorePartition) -> Iterator[pa.RecordBatch]:
        from episode.matchers.envelope import pack
        from episode.spark.packing import with_call
        from episode.spark.startup.workers import prepare_worker

        assert self.envelopes is not None
        how = EnvelopeOptions.read(self.envelopes)
        prepare_worker()
        declared = declared_schema(self.declaration)
        fields = [StructField(ours, declared[theirs].dataType) for theirs, ours in how.columns]
        schema = arrow_schema(StructType(fields))  # in which matchers see the rows
        events = self._events(partition, [theirs for theirs, _ in how.columns])
        tables = (as_events(batch, schema) for batch in events)
        yield from with_call(pack(tables, how.packing, partition.index), how.call)

    def _events(self, partition: StorePartition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for piece in partition.pieces:
            if isinstance(piece, LanePart):
                after, until, skip = piece.commit - 1, piece.commit, self.skip_corrupt
                for _, batches in self.store.pages(after, until, lanes=piece.lanes, columns=columns, skip_corrupt=skip):
                    yield from batches
            elif isinstance(piece, FilePart) and self.archived_to is not None:
                table = self.store.archived.read(piece.file, columns, 0, self.archived_to)
                yield from table.select(columns).to_batches()
            else:
                yield from self.store.read_part(piece, columns, skip_corrupt=self.skip_corrupt)


class StoreReader(_Reading, DataSourceReader):
    """A stream with its archive as a table: all events at the moment of planning."""

    def partitions(self) -> list[InputPartition]:
        snapshot = self.store.snapshot()
        if self.archived_to is not None:
            files = tuple(file for file in snapshot.files if file.first <= self.archived_to)
            return _partitions([(FilePart(file), file.rows) for file in files])
        pieces: list[tuple[Piece, int]] = [(FilePart(file), file.rows) for file in snapshot.files]
        return _partitions([*pieces, *_log_pieces(self.store, snapshot.archived_to, snapshot.head)])


class StoreStreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream from a position on; whole commits, in micro-batches of a limited size if requested."""

    def __init__(self, declaration: Declaration, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(declaration, given, schema)
        self.limit = _number(given, MAX_EVENTS)
        if self.limit is not None:
            check_read_limit(MAX_EVENTS)
        self.starting = given.get(STARTING.lower(), EARLIEST).lower()
        if self.starting not in (EARLIEST, LATEST) and not self.starting.isdecimal():
            raise EpisodeAnalysisError(
                f"{STARTING} is earliest, latest or the number of a commit, not {self.starting}.",
                hint="The stream is read after that commit.",
            )
        self.target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        if self.starting == LATEST:
            return {"commit": self.store.head()}
        return {"commit": 0 if self.starting == EARLIEST else int(self.starting)}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.limit is None else ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.store.head()

    def reportLatestOffset(self) -> dict[str, int]:
        head = self.store.head()
        return {"commit": head if self.target is None else min(head, self.target)}

    def latestOffset(self, start: dict[str, int] | None = None, limit: ReadLimit | None = None) -> dict[str, int]:
        """The end of the next micro-batch. start, limit: not given before Spark 4.2."""
        if start is None:
            return self.reportLatestOffset()
        after, head = start["commit"], self.reportLatestOffset()["commit"]
        self.store.check(after)
        if isinstance(limit, ReadMaxRows) and head > after:
            head = min(head, self.store.advance(after, limit.max_rows))
        return {"commit": max(after, head)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self.store.check(start["commit"])
        if start["commit"] >= end["commit"]:
            return []
        return _partitions(_log_pieces(self.store, start["commit"], end["commit"]))


# ---- partitions --------------------------------------------------------------------------------------


def _log_pieces(store: StreamStore, after: int, until: int) -> Iterator[tuple[Piece, int]]:
    """Commits after a position, with their approximate rows: small ones together, lanes of large ones apart."""
    position = after
    while position < until:
        end = min(until, store.advance(position, TASK_EVENTS))
        footer = None
        if end == position + 1:
            with suppress(FileNotFoundError, CorruptSegment):  # it has moved to the archive, or is corrupt
                footer = store.log.footer(end)
        if footer is None:
            yield LogPart(position, end), TASK_EVENTS
        elif footer.rows <= TASK_EVENTS + TASK_EVENTS // 2:
            yield LogPart(position, end), footer.rows
        else:
            yield from _lane_parts(footer)
        position = end


def _lane_parts(footer: Footer) -> list[tuple[LanePart, int]]:
    """The lanes of a large commit, in groups."""
    rows: dict[int, int] = {}
    for block in footer.blocks:
        rows[block.lane] = rows.get(block.lane, 0) + block.rows
    parts: list[tuple[LanePart, int]] = []
    for lane in sorted(rows):
        if parts and parts[-1][1] + rows[lane] // 2 < TASK_EVENTS:
            last, taken = parts[-1]
            parts[-1] = LanePart(footer.commit, (*last.lanes, lane)), taken + rows[lane]
        else:
            parts.append((LanePart(footer.commit, (lane,)), rows[lane]))
    return parts


def _partitions(pieces: Iterator[tuple[Piece, int]] | Sequence[tuple[Piece, int]]) -> list[InputPartition]:
    """Group neighbouring small pieces into partitions."""
    every = list(pieces)
    limit = max(TASK_EVENTS, -(-sum(rows for _, rows in every) // MOST_TASKS))
    tasks: list[list[Piece]] = []
    size = limit
    for piece, rows in every:
        if size + rows // 2 >= limit:
            tasks.append([])
            size = 0
        tasks[-1].append(piece)
        size += rows
    return [StorePartition(index, task) for index, task in enumerate(tasks)] or [StorePartition(0, ())]


def _truth(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name.lower(), "false").lower()
    if value not in ("true", "false"):
        raise EpisodeAnalysisError(f"The option {name} is true or false, not {value}.")
    return value == "true"


def _number(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name.lower())
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise EpisodeAnalysisError(f"The option {name} is a number of at least 1, not {value}.")
    return int(value)
