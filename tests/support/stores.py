"""Stream stores for tests: declarations, rows of integer time, and what a store holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from episode.store.catalog import Catalog
from episode.store.declaration import declare
from episode.store.stream import StreamStore

COLUMNS = "k STRING, t BIGINT, v BIGINT"
Row = tuple[Any, ...]


def make_store(directory: Path, columns: str = COLUMNS, **given: Any) -> StreamStore:
    """A new stream called Live, whose archive is Past, by key k and time t unless said otherwise."""
    settings = {"time": "t", "key": "k", "archive": "Past", "lanes": 3, **given}
    catalog = Catalog(directory)
    return StreamStore(catalog.create(declare("Live", columns, **settings)))


def events(rows: Sequence[Row]) -> pa.Table:
    """Rows of (key, time, value)."""
    keys, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"k": pa.array(keys, pa.string()), "t": pa.array(times, pa.int64()), "v": pa.array(values, pa.int64())}
    )


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table, as they come."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_rows else []


def in_plain_files(store: StreamStore) -> list[Row]:
    """What a tool sees that reads all Parquet files below the archive and knows of no manifest."""
    import pyarrow.dataset as ds

    directory = store.archived.directory
    if not list(directory.glob("*=*/*.parquet")):
        return []
    found = ds.dataset(directory, format="parquet", partitioning="hive").to_table(columns=store.schema.names)
    return rows_of(found)
