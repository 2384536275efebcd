"""Spark's Python data source `episode`: stream stores as tables and streams, to read and to append to.

    spark.read.format("episode").load("StockArchive")        every event so far, archived or not, once
    spark.readStream.format("episode").load("StockLive")     as they are appended
    df.write.format("episode").mode("append").save("StockLive")
    df.writeStream.format("episode").option("checkpointLocation", …).start("StockLive")

Spark makes these objects in separate processes that only plan: heavy modules are imported where rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.spark.expressions import TIME
from episode.spark.versions import DataSourceStreamArrowWriter, check_read_limit
from episode.store.catalog import Catalog
from episode.store.declaration import Declaration
from episode.store.log import Origin, Staged
from episode.store.stream import open_store

if TYPE_CHECKING:
    from episode.spark.stores.reading import StoreReader, StoreStreamReader


# Appends from Spark: tasks stage their rows, and the driver commits them all at once.
#
# A micro-batch that is run again after a crash is not stored again: the store remembers the last batch of each query.

STAGE_BYTES = 64 * 2**20
"""Bytes per staged file of a task, about."""

_QUERY_ID = "sql.streaming.queryId"


class StagedRows(WriterCommitMessage):
    """Rows that a task has staged. query: Spark's id of a streaming query, which the checkpoint keeps."""

    def __init__(self, staged: Sequence[Staged], query: str | None) -> None:
        self.staged, self.query = tuple(staged), query


def stage(declaration: Declaration, batches: Iterator[pa.RecordBatch], query: str | None) -> StagedRows:
    """Check the rows of a task, and stage them."""
    store = open_store(declaration)
    staged: list[Staged] = []
    first_row = 1
    try:
        for waiting in _pieces(batches):
            staged.append(store.stage(waiting, first_row))
            first_row += waiting.num_rows
    except BaseException:
        store.discard(staged)
        raise
    return StagedRows(staged, query)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of a task in tables of about STAGE_BYTES."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= STAGE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


class _Appends:
    """The common part of the writers of tables and of micro-batches."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration

    def abort(self, messages: Sequence[WriterCommitMessage | None], *_: int) -> None:
        open_store(self.declaration).discard(_all_staged(messages))


def _all_staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [one for message in messages if isinstance(message, StagedRows) for one in message.staged]


class StoreWriter(_Appends, DataSourceArrowWriter):
    """Appends a table."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return stage(self.declaration, iterator, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        open_store(self.declaration).commit(_all_staged(messages))


class StoreStreamWriter(_Appends, DataSourceStreamArrowWriter):
    """Appends micro-batches, each once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        task = TaskContext.get()
        query = None if task is None else task.getLocalProperty(_QUERY_ID)
        if query is None:
            raise EpisodeDataError("Spark does not tell to which query this task belongs: batches could be repeated.")
        return stage(self.declaration, iterator, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = _all_staged(messages)
        queries = {message.query for message in messages if isinstance(message, StagedRows) and message.query}
        if staged:
            open_store(self.declaration).commit(staged, Origin(f"spark-{queries.pop()}", batchId))


FORMAT = "episode"
CATALOG, STREAM, ENVELOPES = "catalog", "stream", "envelopes"
MAX_EVENTS, STARTING, SKIP_CORRUPT = "maxEventsPerTrigger", "startingPosition", "skipCorrupt"
ARCHIVED_TO = "archivedTo"
"""Option for a stream in Kafka: read its archive up to this commit only."""

_OWN = frozenset(("path", ENVELOPES, ARCHIVED_TO.lower(), "checkpointlocation", "queryname"))
"""Options that Spark or episode itself sets."""


class EpisodeSource(DataSource):
    """A stream store, by the name of the stream or of its archive. catalog: where names are looked up."""

    catalog: ClassVar[str | None] = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.given = {name.lower(): value for name, value in options.items()}

    def schema(self) -> StructType:
        if MAX_EVENTS.lower() in self.given:
            check_read_limit(MAX_EVENTS)
        return declared_schema(self.declaration())

    def declaration(self) -> Declaration:
        """The declaration of the stream, by its name or that of its archive."""
        name = self._name
        if not name:
            hint = "Write load('StockLive'), or option('stream', 'StockLive')."
            raise EpisodeAnalysisError("Which stream?", hint=hint)
        catalog = Catalog(self.given.get(CATALOG) or self.catalog)
        found = catalog.lookup(name) or catalog.find(name)
        if found.using != "episode" and ARCHIVED_TO.lower() not in self.given:
            raise EpisodeUnsupportedError(
                f"The events of {found.name} are in {found.using}: this data source is the embedded store's.",
                hint=f"Use its name in a query: episode.sql('SELECT * FROM {name}').",
            )
        return found

    # ---- called by Spark --------------------------------------------------------------------------------

    def reader(self, schema: StructType) -> StoreReader:
        from episode.spark.stores.reading import StoreReader

        self._check_options(STREAM, CATALOG, SKIP_CORRUPT)
        return StoreReader(self.declaration(), self.given, schema)

    def streamReader(self, schema: StructType) -> StoreStreamReader:
        from episode.spark.stores.reading import StoreStreamReader

        self._check_options(STREAM, CATALOG, MAX_EVENTS, STARTING, SKIP_CORRUPT)
        declaration, follow = self.declaration(), "Follow the stream itself: readStream.format('episode').load"
        self._check_live(declaration, "a table, not a stream", f"{follow}('{declaration.name}').")
        return StoreStreamReader(declaration, self.given, schema)

    def writer(self, schema: StructType, overwrite: bool) -> StoreWriter:
        return StoreWriter(self._check_append(overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StoreStreamWriter:
        return StoreStreamWriter(self._check_append(overwrite))

    @property
    def _name(self) -> str:
        return self.given.get(STREAM) or self.given.get("path") or ""

    def _check_append(self, overwrite: bool) -> Declaration:
        self._check_options(STREAM, CATALOG)
        declaration = self.declaration()
        if overwrite:
            message = f"{self._name} is appended to, never overwritten."
            raise EpisodeUnsupportedError(message, hint="Use mode('append').")
        source = f"its events come from the stream {declaration.name}"
        self._check_live(declaration, source, f"Append to {declaration.name}.")
        return declaration

    def _check_live(self, declaration: Declaration, reason: str, hint: str) -> None:
        """Refuse the name of an archive."""
        if self._name.lower() != declaration.name.lower():
            raise EpisodeUnsupportedError(f"{self._name} is an archive: {reason}.", hint=hint)

    def _check_options(self, *known: str) -> None:
        """Refuse unknown options."""
        allowed = _OWN.union(name.lower() for name in known)
        name = next((name for name in self.given if name not in allowed), None)
        if name is not None:
            raise EpisodeAnalysisError(f"There is no option {name} here.", hint=f"Options: {', '.join(known)}.")


def declared_schema(declaration: Declaration) -> StructType:
    """The columns of a stream for Spark; the event time is marked, with the delay of the watermark."""
    fields = []
    for field in declaration.schema:
        kind, is_time = from_arrow_type(field.type, prefer_timestamp_ntz=True), field.name == declaration.time
        fields.append(StructField(field.name, kind, True, {TIME: watermark_delay(declaration)} if is_time else None))
    return StructType(fields)


def watermark_delay(declaration: Declaration) -> int:
    """The declared DELAY in milliseconds of Spark's watermark.

    An event at the watermark is late; one that comes exactly DELAY after a later one is not. Hence one millisecond
    more.
    """
    return -(-(declaration.delay or 0) // declaration.event_time.units_per_millisecond) + 1
