"""Columns of a Parquet file, and what Spark makes of them: whether pyarrow's are the same, and how they become so."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from episode.spark.conditions import Range

AMBIGUOUS = ""
"""In the place of a name: several columns of the file could be meant."""

_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER = b"org.apache.spark.version"
_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_PER_UNIT = {"ms": 1000, "us": 1}


def file_names(columns: Sequence[str], wanted: Sequence[str], case_sensitive: bool) -> list[str | None]:
    """The file's name of each wanted column, whatever its case if the case does not count. None: there is none;
    AMBIGUOUS: there are several, and Spark decides (it refuses most)."""
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
    columns = footer.schema.to_arrow_schema()
    names = file_names(columns.names, schema.names, case_sensitive)
    for field, name in zip(schema, names, strict=True):
        if name == AMBIGUOUS:
            return f"column {field.name} is ambiguous"
        if name is not None and not _reads_as(columns.field(name).type, field.type, _is_int96(footer, name)):
            return f"column {field.name} is {columns.field(name).type}, Spark's is {field.type}"
    return None


def _is_int96(footer: pq.FileMetaData, name: str) -> bool:
    columns = (footer.schema.column(i) for i in range(len(footer.schema)))
    return any(column.path == name and column.physical_type == "INT96" for column in columns)


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
    if pa.types.is_time(kind) and pa.types.is_time(wanted):
        return True
    if pa.types.is_int64(kind) and pa.types.is_duration(wanted):
        return True
    families = (_STRINGS, _BYTES)
    return kind == wanted or _WIDER.get(kind) == wanted or any(kind in f and wanted in f for f in families)


def delivered(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A file's column in Spark's type; a dictionary of that type stays one."""
    if column.type == kind or column.type == pa.dictionary(pa.int32(), kind):
        return column
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type) and column.type.unit == kind.unit:
        return column.view(kind)
    return column.cast(kind)


# ---- statistics --------------------------------------------------------------------------------------------


def ranges(footer: pq.FileMetaData, number: int, names: dict[str, str | None], schema: pa.Schema) -> dict[str, Range]:
    """What the statistics of a row group say of some columns. names: of the columns in the file."""
    group = footer.row_group(number)
    places = {group.column(i).path_in_schema: i for i in range(group.num_columns)}
    columns = footer.schema.to_arrow_schema()
    found = {}
    for name, of_file in names.items():
        if of_file is None:
            found[name] = Range(group.num_rows, group.num_rows)
        elif of_file in places:
            chunk = group.column(places[of_file])
            found[name] = _range(chunk, columns.field(of_file).type, schema.field(name).type, group.num_rows)
    return found


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
    """How many units of Spark's type a unit of the file's is; None: the file's bounds say nothing of Spark's order.

    Not of floats, where a NaN may be left out of the bounds; nor of unsigned integers and decimals.
    """
    if (
        physical in ("INT32", "INT64")
        and kind == wanted
        and (pa.types.is_signed_integer(kind) or pa.types.is_date32(kind))
    ):
        return 1
    if physical == "INT64" and pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted):
        return _PER_UNIT.get(kind.unit)
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return 1 if physical == "BYTE_ARRAY" and plain in (*_STRINGS, *_BYTES) else None
