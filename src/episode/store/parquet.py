"""The Parquet files of an archive: sorted by key and time, in row groups that their statistics prune by both."""

from __future__ import annotations

import os
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from episode.errors import EpisodeDataError
from episode.matchers.times import EVER, NEVER, microseconds_of
from episode.plan.schema import OWN
from episode.store.declaration import Declaration
from episode.store.files import space_needed, sync_path
from episode.store.segment import difference

COMMIT = f"{OWN}commit"
"""The column of an archive with the commit of each event."""
ROW_GROUP = 1 << 16
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError)
"""Errors that reading a damaged file may raise."""
_MAGIC = b"PAR1"


def with_commit(table: pa.Table, number: int) -> pa.Table:
    """Add the number of the commit to its rows."""
    return table.append_column(COMMIT, pa.chunked_array([pa.repeat(number, table.num_rows).cast(pa.int64())]))


def file_schema(declaration: Declaration) -> pa.Schema:
    """The columns of an archive's files."""
    return declaration.schema.append(pa.field(COMMIT, pa.int64()))


def sort(table: pa.Table, declaration: Declaration) -> pa.Table:
    """Sort rows that are in order of arrival by key, time and arrival."""
    from episode.matchers.columns import one_chunk_each, take
    from episode.store.lanes import order_by_key_and_time

    table = one_chunk_each(table)
    order = order_by_key_and_time(table, declaration.key, declaration.time)
    return table if order is None else take(table, order)


def write(table: pa.Table, path: Path, declaration: Declaration) -> int:
    """Write sorted rows to a file and to the disk; return its size."""
    names = [*declaration.key, declaration.time]
    sorting = [pq.SortingColumn(table.schema.get_field_index(name)) for name in names]
    with space_needed(f"the archive of {declaration.name}"):
        pq.write_table(
            table,
            path,
            row_group_size=ROW_GROUP,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in table.column_names if name != declaration.time],
            write_page_index=True,
            write_page_checksum=True,
            sorting_columns=sorting,
        )
        sync_path(path)
    return path.stat().st_size


def read(
    path: Path, declaration: Declaration, columns: Sequence[str], after: int | None = None, until: int | None = None
) -> pa.Table:
    """Return columns of a file; if given, only commits after `after` and up to `until`, with their numbers."""
    wanted = list(columns) if after is None else [*columns, COMMIT]
    declared = pa.schema([file_schema(declaration).field(name) for name in wanted])
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table = file.read(wanted).select(wanted)
    if not table.schema.equals(declared):
        raise EpisodeDataError(
            f"The file {path} has other columns than the stream declares: {difference(table.schema, declared)}.",
            hint="Declare the stream with the columns that are stored.",
        )
    table = table.cast(declared)
    if after is None:
        return table
    commits = table.column(COMMIT)
    kept = pc.and_(pc.greater(commits, after), pc.less_equal(commits, until))
    return table.filter(kept)


def footer_checksum(path: Path) -> int:
    """Return the checksum of a file's footer; ValueError if it has none."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 8))
        tail = file.read()
        length = int.from_bytes(tail[:4], "little") + 8
        if len(tail) < 8 or tail[4:] != _MAGIC or length > end:
            raise ValueError("its end is missing")
        file.seek(end - length)
        return zlib.crc32(file.read())


def check_footer(path: Path, checksum: int | None) -> None:
    """Raise ValueError if the footer of a file is not the one that was written. checksum: None if unknown."""
    if checksum is not None and footer_checksum(path) != checksum:
        raise ValueError("the checksum of its footer is wrong")


# Row groups that can hold rows of some keys between two times, by their statistics.

REMEMBERED = 1 << 14
"""Files whose indexes a process remembers: a history is sent anew with each task, and footers are many."""


@dataclass(frozen=True)
class ColumnBounds:
    """Least and greatest value of a column in a row group, and whether nulls may be among the values."""

    least: Any
    greatest: Any
    nulls: bool


@dataclass(frozen=True)
class FileIndex:
    """Statistics of a file's row groups, from its footer.

    least, greatest: int64[groups], event times. keys: for each key column, bounds by group; None if unknown.
    """

    least: np.ndarray
    greatest: np.ndarray
    keys: Mapping[str, tuple[ColumnBounds | None, ...]]
    names: frozenset[str]


@dataclass(frozen=True)
class WantedKeys:
    """Values of a key column to look for, sorted, and whether null is one."""

    values: tuple[Any, ...]
    null: bool

    def within(self, bounds: ColumnBounds | None) -> bool:
        """Whether a row group with these bounds can have one of the values."""
        if bounds is None or (self.null and bounds.nulls):
            return True
        if bounds.least is None:
            return False
        try:
            at = bisect_left(self.values, bounds.least)
            return at < len(self.values) and self.values[at] <= bounds.greatest
        except TypeError:  # of types that do not compare
            return True


def wanted_keys(keys: pa.Table) -> dict[str, WantedKeys]:
    """Return the values to look for in each key column, except columns of floating-point numbers, because of NaN."""
    found = {}
    for field in keys.schema:
        if _compares(field.type):
            values = keys.column(field.name).unique()
            found[field.name] = WantedKeys(tuple(sorted(values.drop_null().to_pylist())), values.null_count > 0)
    return found


def _compares(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def cached_index(path: Path, time: str, keys: Sequence[str]) -> FileIndex:
    """Return the index of a file, remembered by this process while the file does not change."""
    stamp = path.stat()
    return _remembered_index(path, stamp.st_size, stamp.st_mtime_ns, time, tuple(keys))


@lru_cache(maxsize=REMEMBERED)
def _remembered_index(path: Path, size: int, changed: int, time: str, keys: tuple[str, ...]) -> FileIndex:
    return index_of(path, time, keys)


def index_of(path: Path, time: str, keys: Sequence[str]) -> FileIndex:
    """Read the index of a file. If the footer has no statistics of time (INT96 times have none), times are read."""
    with pq.ParquetFile(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
        places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        least = np.full(metadata.num_row_groups, NEVER)
        greatest = np.full(metadata.num_row_groups, EVER)
        if time in places:
            for group in range(metadata.num_row_groups):
                least[group], greatest[group] = _times(file, group, places[time], schema.field(time))
        bounds = {
            key: tuple(_bounds(metadata, group, places[key], schema.field(key).type) for group in range(len(least)))
            for key in keys
            if key in places
        }
        return FileIndex(least, greatest, bounds, frozenset(schema.names))


def _times(file: pq.ParquetFile, group: int, place: int, field: pa.Field) -> tuple[int, int]:
    column = file.metadata.row_group(group).column(place)
    found = column.statistics
    if found is not None and found.has_min_max and column.physical_type in ("INT32", "INT64"):
        return _image(found.min_raw, field.type), _image(found.max_raw, field.type)
    from episode.store.lanes import event_times

    values = file.read_row_group(group, [field.name]).column(0).drop_null()
    if not len(values):
        return EVER, NEVER
    times = event_times(pa.table({field.name: values}), field.name)
    return int(times.min()), int(times.max())


def _image(value: int, kind: pa.DataType) -> int:
    """Convert a stored time to units of event time."""
    return microseconds_of(value, kind) if pa.types.is_temporal(kind) else value


def _bounds(metadata: pq.FileMetaData, group: int, place: int, kind: pa.DataType) -> ColumnBounds | None:
    found = metadata.row_group(group).column(place).statistics
    if found is None or not _compares(kind):
        return None
    nulls = not found.has_null_count or found.null_count > 0
    if found.has_min_max:
        return ColumnBounds(found.min, found.max, nulls)
    all_null = found.has_null_count and found.null_count == metadata.row_group(group).num_rows
    return ColumnBounds(None, None, nulls) if all_null else None


def groups_of(index: FileIndex, wanted: Mapping[str, WantedKeys], lo: int, hi: int) -> list[int]:
    """Return the row groups that can have rows of these keys between two times (both included)."""
    near = np.flatnonzero((index.least <= hi) & (index.greatest >= lo))
    tests = [(one, index.keys[name]) for name, one in wanted.items() if name in index.keys]
    return [int(group) for group in near if all(one.within(bounds[group]) for one, bounds in tests)]
