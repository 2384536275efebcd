"""Locations that hold events already: a stream that is declared there must have their columns, time, key and lanes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from episode.errors import EpisodeAnalysisError
from episode.store import segment
from episode.store.archive import Archive
from episode.store.declaration import Declaration
from episode.store.log import Log, layout_difference
from episode.store.parquet import file_schema
from episode.store.segment import CorruptSegment, Layout


def check_stored(declaration: Declaration) -> None:
    """An error that names the difference if the events at the location are not of the stream that is declared."""
    log = Log(declaration)
    wrong = _log_difference(log) or _archive_difference(Archive(declaration), log.layout)
    if wrong is not None:
        raise EpisodeAnalysisError(
            f"{declaration.location} holds the events of another stream: {wrong}.",
            hint=f"Choose another LOCATION for {declaration.name}, or declare it as it is stored.",
        )


def _log_difference(log: Log) -> str | None:
    """By the last segment that can be read."""
    for number in reversed(log.numbers()):
        path = log.path(number)
        try:
            footer = segment.read_footer(path)
            schema = segment.read_schema(path, footer.head)
        except (CorruptSegment, FileNotFoundError):
            continue
        layout = None if footer.layout is None else layout_difference(footer.layout, log.layout)
        return segment.difference(schema, log.declaration.schema) or layout
    return None


def _archive_difference(archive: Archive, declared: Layout) -> str | None:
    """By the last file, whose rows are sorted by key and time."""
    files = archive.manifest().files
    if not files:
        return None
    schema = file_schema(archive.declaration)
    return archive.opened(files[-1], lambda path: _file_difference(path, schema, declared))


def _file_difference(path: Path, schema: pa.Schema, declared: Layout) -> str | None:
    with pq.ParquetFile(path) as file:
        stored, metadata = file.schema_arrow, file.metadata
    *key, time = (stored.names[column.column_index] for column in metadata.row_group(0).sorting_columns)
    layout = Layout(time, tuple(key), declared.lanes)  # files have no lanes
    return segment.difference(stored, schema) or layout_difference(layout, declared)
