"""Spark's Python data source `episode`: stream stores as tables and streams, to read and to append to.

    spark.read.format("episode").load("StockArchive")        every event so far, archived or not, once
    spark.readStream.format("episode").load("StockLive")     as they are appended
    df.write.format("episode").mode("append").save("StockLive")
    df.writeStream.format("episode").option("checkpointLocation", …).start("StockLive")

Spark makes these objects in separate processes that only plan: heavy modules are imported where rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
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
    waiting: list[pa.RecordBatch] = []
    size, first_row = 0, 1

    def flush() -> None:
        nonlocal waiting, size, first_row
        if waiting:
            table = pa.Table.from_batches(waiting)
            staged.append(store.stage(table, first_row))
            first_row += table.num_rows
            waiting, size = [], 0

    try:
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= STAGE_BYTES:
                flush()
        flush()
    except BaseException:
        store.discard(staged)
        raise
    return StagedRows(staged, query)


def all_staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [one for message in messages if isinstance(message, StagedRows) for one in message.staged]


class StoreWriter(DataSourceArrowWriter):
    """Appends a table."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        return stage(self.declaration, iterator, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        open_store(self.declaration).commit(all_staged(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        open_store(self.declaration).discard(all_staged(messages))


class StoreStreamWriter(DataSourceStreamArrowWriter):
    """Appends micro-batches, each once."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        task = TaskContext.get()
        query = None if task is None else task.getLocalProperty(_QUERY_ID)
        if query is None:
            raise EpisodeDataError("Spark does not say to which query this task belongs: batches could be repeated.")
        return stage(self.declaration, iterator, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = all_staged(messages)
        queries = {message.query for message in messages if isinstance(message, StagedRows) and message.query}
        if staged:
            open_store(self.declaration).commit(staged, Origin(f"spark-{queries.pop()}", batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        open_store(self.declaration).discard(all_staged(messages))


FORMAT = "episode"
CATALOG, STREAM, ENVELOPES = "catalog", "stream", "envelopes"
MAX_EVENTS, STARTING, SKIP_CORRUPT = "maxEventsPerTrigger", "startingPosition", "skipCorrupt"
ARCHIVED_TO = "archivedTo"
"""Option for a stream in Kafka: read its archive up to this commit only."""

READING = (STREAM, CATALOG, MAX_EVENTS, STARTING, SKIP_CORRUPT)
WRITING = (STREAM, CATALOG)
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
        name = self.given.get(STREAM) or self.given.get("path")
        if not name:
            raise EpisodeAnalysisError(
                "Which stream?", hint="Write load('StockLive'), or option('stream', 'StockLive')."
            )
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

        check_options(self.given, (STREAM, CATALOG, SKIP_CORRUPT))
        return StoreReader(self.declaration(), self.given, schema)

    def streamReader(self, schema: StructType) -> StoreStreamReader:
        from episode.spark.stores.reading import StoreStreamReader

        check_options(self.given, READING)
        return StoreStreamReader(self._live(), self.given, schema)

    def writer(self, schema: StructType, overwrite: bool) -> StoreWriter:
        return StoreWriter(self._check_append(overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StoreStreamWriter:
        return StoreStreamWriter(self._check_append(overwrite))

    def _live(self) -> Declaration:
        declaration = self.declaration()
        name = self.given.get(STREAM) or self.given["path"]
        if name.lower() != declaration.name.lower():
            raise EpisodeUnsupportedError(
                f"{name} is an archive: a table, not a stream.",
                hint=f"Follow the stream itself: readStream.format('episode').load('{declaration.name}').",
            )
        return declaration

    def _check_append(self, overwrite: bool) -> Declaration:
        check_options(self.given, WRITING)
        declaration = self.declaration()
        name = self.given.get(STREAM) or self.given["path"]
        if overwrite:
            raise EpisodeUnsupportedError(f"{name} is appended to, never overwritten.", hint="Use mode('append').")
        if name.lower() != declaration.name.lower():
            raise EpisodeUnsupportedError(
                f"{name} is an archive: its events come from the stream {declaration.name}.",
                hint=f"Append to {declaration.name}.",
            )
        return declaration


def check_options(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse unknown options."""
    lower = {name.lower() for name in known}
    for name in given:
        if name not in lower and name not in _OWN:
            raise EpisodeAnalysisError(f"There is no option {name} here.", hint=f"Options: {', '.join(known)}.")


def declared_schema(declaration: Declaration) -> StructType:
    """The columns of a stream for Spark; the event time is marked, with the delay of the watermark."""
    return StructType(
        [
            StructField(
                field.name,
                from_arrow_type(field.type, prefer_timestamp_ntz=True),
                True,
                {TIME: watermark_delay(declaration)} if field.name == declaration.time else None,
            )
            for field in declaration.schema
        ]
    )


def watermark_delay(declaration: Declaration) -> int:
    """The declared DELAY in milliseconds of Spark's watermark.

    An event at the watermark is late; one that comes exactly DELAY after a later one is not. Hence one millisecond
    more.
    """
    return -(-(declaration.delay or 0) // declaration.event_time.units_per_millisecond) + 1
