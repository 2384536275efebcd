"""The Parquet files that a DataFrame reads, and their columns: whether pyarrow reads them as Spark does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from episode.spark.scan.conditions import Condition, Range
from episode.spark.scan.storage import Storage

# Which Parquet files a DataFrame reads, and what it does to their rows: what a direct scan has to know, and all of it.
#
# Whoever can list the files of a table (the plan of a Spark session, the snapshot of a lakehouse table) makes a
# `TableFiles`; `scan.py` goes by it alone.


@dataclass(frozen=True)
class DataFile:
    """A file, and which row of the table's partitions has its constant columns."""

    path: str
    partition: int = 0


@dataclass(frozen=True)
class TableFiles:
    """The files that hold the rows of a frame.

    storage: the file system that they are in, and on which their paths are.
    partitions: the columns that are constant in each file, one row for each set of values; a column that is here is not
    read from the files even if they have it. Without any: one row of no columns.
    columns: for each column of the frame, its name in the files or among the partitions.
    fields: the types in which Spark delivers the columns that are read (those of `columns` and of the condition).
    condition: the rows to keep; None: all.
    case_sensitive: whether the names in the files must be in the same case.
    """

    storage: Storage
    files: tuple[DataFile, ...]
    partitions: pa.Table
    columns: tuple[str, ...]
    fields: pa.Schema
    condition: Condition | None = None
    case_sensitive: bool = False


# Columns of a Parquet file, and what Spark makes of them: whether pyarrow's are the same, and how they become so.

AMBIGUOUS = ""
"""In the place of a name: several columns of the file could be meant."""

_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER = b"org.apache.spark.version"
_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_PER_UNIT = {"ms": 1000, "us": 1}


def file_names(columns: Sequence[str], wanted: Sequence[str], case_sensitive: bool) -> list[str | None]:
    """The file's name of each wanted column, in any case unless the case counts. None: missing; AMBIGUOUS: there are
    several, and Spark decides (it refuses most)."""
    names: list[str | None] = []
    for name in wanted:
        found = [other for other in columns if other == name or (not case_sensitive and other.lower() == name.lower())]
        names.append(None if not found else found[0] if len(found) == 1 else AMBIGUOUS)
    return names


def mismatch(footer: pq.FileMetaData, schema: pa.Schema, case_sensitive: bool) -> str | None:
    """Why a file must be read by Spark, or None."""
    metadata = footer.metadata or {}
    has_times = any(pa.types.is_timestamp(field.type) or pa.types.is_date(field.type) for field in schema)
    if has_times and (any(key in metadata for key in _LEGACY) or metadata.get(_WRITER, b"9").split(b".")[0] < b"3"):
        return "dates and times are in the legacy calendar"
    stored = map(footer.schema.column, range(len(footer.schema)))
    int96 = {column.path for column in stored if column.physical_type == "INT96"}
    columns = footer.schema.to_arrow_schema()
    names = file_names(columns.names, schema.names, case_sensitive)
    for field, name in zip(schema, names, strict=True):
        if name == AMBIGUOUS:
            return f"column {field.name} is ambiguous"
        if name is not None and not _reads_as(columns.field(name).type, field.type, name in int96):
            return f"column {field.name} is {columns.field(name).type}, Spark's is {field.type}"
    return None


def _reads_as(kind: pa.DataType, wanted: pa.DataType, int96: bool) -> bool:
    """Whether pyarrow's type of a file column becomes Spark's by a cast that changes no value."""
    if pa.types.is_nested(wanted):
        return False
    if int96:
        return pa.types.is_timestamp(wanted) and wanted.tz is not None
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted):
        return kind.unit in _PER_UNIT and (kind.tz is None) == (wanted.tz is None)
    if kind == wanted or _WIDER.get(kind) == wanted or (pa.types.is_int64(kind) and pa.types.is_duration(wanted)):
        return True
    both_times = pa.types.is_time(kind) and pa.types.is_time(wanted)
    return both_times or any(kind in family and wanted in family for family in (_STRINGS, _BYTES))


def convert_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A file's column in Spark's type; a dictionary of that type stays one."""
    if column.type == kind or column.type == pa.dictionary(pa.int32(), kind):
        return column
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type) and column.type.unit == kind.unit:
        return column.view(kind)
    return column.cast(kind)


# ---- statistics --------------------------------------------------------------------------------------------


def group_ranges(footer: pq.FileMetaData, schema: pa.Schema, case_sensitive: bool) -> Iterator[dict[str, Range]]:
    """The statistics of the columns of a schema, for each row group."""
    columns = footer.schema.to_arrow_schema()
    names = file_names(columns.names, schema.names, case_sensitive)
    places = {footer.schema.column(i).path: i for i in range(len(footer.schema))}
    for group in map(footer.row_group, range(footer.num_row_groups)):
        found = {}
        for field, name in zip(schema, names, strict=True):
            if name is None:
                found[field.name] = Range(group.num_rows, group.num_rows)
            elif name in places:
                chunk = group.column(places[name])
                found[field.name] = _range(chunk, columns.field(name).type, field.type, group.num_rows)
        yield found


def _range(chunk: pq.ColumnChunkMetaData, kind: pa.DataType, wanted: pa.DataType, rows: int) -> Range:
    statistics = chunk.statistics
    if statistics is None:
        return Range(rows)
    nulls = statistics.null_count if statistics.has_null_count else None
    factor = _factor(chunk.physical_type, kind, wanted)
    if not statistics.has_min_max or factor is None:
        return Range(rows, nulls)
    return Range(rows, nulls, statistics.min_raw * factor, statistics.max_raw * factor)


def _factor(physical: str, kind: pa.DataType, wanted: pa.DataType) -> int | None:
    """Units of Spark's type per unit of the file's; None: the file's bounds do not order Spark's values.

    Not of floats, where a NaN may be left out of the bounds; nor of unsigned integers and decimals.
    """
    whole = pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)
    if whole and kind == wanted and physical in ("INT32", "INT64"):
        return 1
    if physical == "INT64" and pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted):
        return _PER_UNIT.get(kind.unit)
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return 1 if physical == "BYTE_ARRAY" and plain in (*_STRINGS, *_BYTES) else None
