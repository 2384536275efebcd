"""The Parquet files of an archive: sorted by key and time, in row groups that their statistics prune by both."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from episode.errors import EpisodeDataError
from episode.plan.schema import OWN
from episode.store.declaration import Declaration
from episode.store.files import space_needed
from episode.store.segment import difference

COMMIT = f"{OWN}commit"
"""The column of an archive that says in which commit an event came."""
ROW_GROUP = 1 << 16
UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError)
"""What reading a damaged file may raise."""
_MAGIC = b"PAR1"


def with_commit(table: pa.Table, number: int) -> pa.Table:
    """The rows of a commit, with its number."""
    return table.append_column(COMMIT, pa.chunked_array([pa.repeat(number, table.num_rows).cast(pa.int64())]))


def file_schema(declaration: Declaration) -> pa.Schema:
    """The columns of an archive's files."""
    return declaration.schema.append(pa.field(COMMIT, pa.int64()))


def sort(table: pa.Table, declaration: Declaration) -> pa.Table:
    """The rows in order of key, time and arrival; they come in order of arrival."""
    from episode.matchers.columns import one_chunk_each, take
    from episode.matchers.lanes import order_by_key_and_time

    table = one_chunk_each(table)
    order = order_by_key_and_time(table, declaration.key, declaration.time)
    return table if order is None else take(table, order)


def write(table: pa.Table, path: Path, declaration: Declaration) -> int:
    """Write sorted rows to a file, down to the disk; its size."""
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
        handle = os.open(path, os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return path.stat().st_size


def read(
    path: Path, declaration: Declaration, columns: Sequence[str], after: int | None = None, until: int | None = None
) -> pa.Table:
    """Columns of a file; of the commits after one and up to another, and with the commits, where they are given."""
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
    """The checksum of a file's footer; ValueError if it has none."""
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
    """ValueError if the footer of a file is not the one that was written. checksum: None if it is not known."""
    if checksum is not None and footer_checksum(path) != checksum:
        raise ValueError("the checksum of its footer is wrong")
