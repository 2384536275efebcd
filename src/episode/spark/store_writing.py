"""Appends from Spark: tasks write their rows aside, and the driver makes them visible, all at once.

A micro-batch that is run again after a crash is not stored again: the store remembers the last batch of each query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from episode.errors import EpisodeDataError
from episode.spark.versions import DataSourceStreamArrowWriter
from episode.store.declaration import Declaration
from episode.store.log import Origin, Staged
from episode.store.stream import open_store

STAGE_BYTES = 64 * 2**20
"""Rows of a task are written aside in files of about this size."""

_QUERY_ID = "sql.streaming.queryId"


class StagedRows(WriterCommitMessage):
    """What a task has written aside. query: of a stream, Spark's id of it, which the checkpoint keeps."""

    def __init__(self, staged: Sequence[Staged], query: str | None) -> None:
        self.staged, self.query = tuple(staged), query


def stage(declaration: Declaration, batches: Iterator[pa.RecordBatch], query: str | None) -> StagedRows:
    """Check the rows of a task, and write them aside."""
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
