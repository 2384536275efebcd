"""Arrow types by Spark's names for them, and tables in the types in which Spark would hold them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError

NANOSECONDS = "Spark's timestamps have microseconds"
_NAMES = {
    pa.null(): "void", pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int",
    pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "binary", pa.date32(): "date", pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", tz="UTC"): "timestamp", pa.duration("us"): "interval day to second",
    pa.time64("us"): "time(6)",
}  # fmt: skip
_WIDER = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(), pa.date64(): pa.date32(),
}  # fmt: skip
_STRINGS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)


def spark_name(kind: pa.DataType) -> str:
    """Return the simple name of Spark's type for an Arrow type that `held_as` gives."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{spark_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)},{spark_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_name(field.type)}' for field in kind)}>"
    raise EpisodeUnsupportedError(f"Spark has no type for {kind}.", hint="Cast the column.")


def held_as(kind: pa.DataType, zone: str = "UTC") -> pa.DataType:
    """Return the Arrow type in which Spark holds values: times in microseconds, instants in UTC (or in `zone`)."""
    if pa.types.is_dictionary(kind):
        return held_as(kind.value_type, zone)
    if any(test(kind) for test in _STRINGS):
        return pa.string()
    if any(test(kind) for test in _BINARIES):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else zone)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if any(test(kind) for test in _LISTS):
        return pa.list_(held_as(kind.value_type, zone))
    if pa.types.is_map(kind):
        return pa.map_(held_as(kind.key_type, zone), held_as(kind.item_type, zone))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, held_as(field.type, zone)) for field in kind])
    return _WIDER.get(kind, kind)


def zones_of(kind: pa.DataType) -> set[str]:
    """Return the time zones of the instants in a type."""
    if pa.types.is_timestamp(kind):
        return set() if kind.tz is None else {kind.tz}
    return {zone for at in range(kind.num_fields) for zone in zones_of(kind.field(at).type)}


def to_spark_types(table: pa.Table, zone: str = "UTC", name: str = "") -> pa.Table:
    """Convert columns to the types in which Spark would hold them. A value that would lose digits is an error with its
    column and row. name: of the table, for the error."""
    arrays, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = held_as(field.type, zone)
        arrays.append(column if kind == field.type else _cast_exactly(column, kind, field, name))
        fields.append(pa.field(field.name, kind))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def lossy_value_error(column: str, table: str, kind: pa.DataType, row: int) -> EpisodeAnalysisError:
    """Return the error for a value that Spark's type cannot hold. row: counted from 0."""
    what = f"The column {column} of the table {table}" if table else f"The column {column}"
    if not _has_nanoseconds(kind):
        return EpisodeAnalysisError(f"{what}, of type {kind}, has a value in row {row + 1} that no type of Spark has.")
    return EpisodeAnalysisError(
        f"{what} has parts of a microsecond in row {row + 1}; {NANOSECONDS}.",
        hint=f"Cut them off, as by frame[{column!r}].dt.floor('us') in pandas; or, if their order counts, give "
        f"whole numbers: frame[{column!r}].astype('int64').",
    )


def _cast_exactly(column: pa.ChunkedArray, kind: pa.DataType, field: pa.Field, table: str) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        if _fits(column, kind):
            return pa.chunked_array([_visible(chunk).cast(kind) for chunk in column.chunks], kind)
    low, high = 0, len(column)
    while high - low > 1:  # the first lossy value is between them
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(column.slice(low, middle - low), kind) else (low, middle)
    raise lossy_value_error(field.name, table, field.type, low)


def _fits(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        for chunk in column.chunks:
            _visible(chunk).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _visible(array: pa.Array) -> pa.Array:
    """Return the array without values beneath nulls and outside its slice, which a cast would also check."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _visible(array.dictionary_decode())
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return pa.StructArray.from_arrays(list(map(_visible, array.flatten())), names, mask=array.is_null())
    if pa.types.is_map(kind):
        pairs = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        keys, values = map(_visible, pairs.flatten().flatten())
        return pa.MapArray.from_arrays(_offsets(pairs), keys, values, mask=array.is_null())
    if any(test(kind) for test in _LISTS):
        return pa.ListArray.from_arrays(_offsets(array), _visible(array.flatten()), mask=array.is_null())
    return array


def _offsets(lists: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(lists).fill_null(0).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_dictionary(kind):
        return _has_nanoseconds(kind.value_type)
    return any(_has_nanoseconds(kind.field(at).type) for at in range(kind.num_fields))
