"""Arrow columns as NumPy arrays: one chunk, raw values, validity masks, gathering rows.

String columns may be dictionary-encoded on their way to a matcher (as Parquet stores them): their codes are hashed,
grouped and gathered in place of the strings. `plain` ends that; most matchers see plain strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeUnsupportedError
from episode.matchers import hashing
from episode.matchers.times import EVER
from episode.words import DAY

ALL_VALID = np.empty(0, np.bool_)
"""The mask of a column without nulls."""

_INT32_LIMIT = 2**31 - 1
_SMALL = 1 << 15
FEW = 1 << 12
"""Up to this many rows are gathered by one call for all columns: the call costs more than their values."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
"""Buffers are compressed one after the other: Arrow's threads would cost more than they save, most of all on a busy
machine. Small tables are not compressed."""
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_BYTES = {kind: pa.binary() for kind in _LARGE} | {kind: pa.large_binary() for kind in _LARGE.values()}


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return the column as one array; strings past 2 GB become large strings."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.nulls(0, column.type)
    if column.type in _LARGE and column.nbytes > _INT32_LIMIT:
        column = column.cast(_LARGE[column.type])
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.chunk(0) if combined.num_chunks == 1 else pa.concat_arrays(combined.chunks)
    return combined


def one_chunk_each(table: pa.Table) -> pa.Table:
    """Return the table with every column in one chunk."""
    if all(column.num_chunks == 1 for column in table.columns):
        return table
    return like(table, [one_chunk(column) for column in table.columns])


def like(table: pa.Table, arrays: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Table:
    """Return a table of other rows with the same fields; only a type may have become large."""
    fields = [field.with_type(array.type) for field, array in zip(table.schema, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=table.schema.metadata))


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows. `schema.empty_table()` would import pandas."""
    return pa.Table.from_batches([], schema)


def valid_mask(array: pa.Array) -> np.ndarray:
    """Return which values (bool[n]) are not null; ALL_VALID without nulls."""
    if array.null_count == 0:
        return ALL_VALID
    return array.is_valid().to_numpy(zero_copy_only=False)


def value_range(values: np.ndarray, valid: np.ndarray) -> tuple[int, int]:
    """Return the smallest and the largest of the valid whole numbers; (0, -1) without any."""
    if len(valid):
        first = int(np.argmax(valid))
        if not valid[first]:
            return 0, -1
        values = np.where(valid, values, values[first])
    return (int(values.min()), int(values.max())) if len(values) else (0, -1)


def raw_values(array: pa.Array, dtype: type) -> np.ndarray:
    """Return the values buffer of a fixed-width array unchanged; values under nulls are arbitrary."""
    if len(array) == 0:
        return np.empty(0, dtype)
    width = array.type.bit_width // (8 * np.dtype(dtype).itemsize)
    values: np.ndarray = np.frombuffer(array.buffers()[1], dtype=dtype)
    return values[array.offset * width : (array.offset + len(array)) * width]


def numbers(array: pa.Array) -> np.ndarray:
    """Return the values of an array of numbers without nulls. `to_numpy` would import pandas."""
    return raw_values(array, array.type.to_pandas_dtype())


def int64_values(array: pa.Array) -> np.ndarray:
    """Return an integer, boolean or temporal column as int64 in its own unit; zero-copy if it has 64 bits."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    bits = array.type.bit_width
    values = raw_values(array, np.dtype(f"int{bits}").type)
    if pa.types.is_unsigned_integer(kind) and bits < 64:
        values = values.view(f"uint{bits}")
    return values if bits == 64 else values.astype(np.int64)


def is_integral(kind: pa.DataType) -> bool:
    """Whether the values are integers inside: integers, booleans, dates, times, timestamps, durations."""
    temporal = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    return pa.types.is_integer(kind) or pa.types.is_boolean(kind) or temporal


def decimal_low_words(array: pa.Array) -> np.ndarray:
    """Return the unscaled values of a decimal column of at most 18 digits."""
    return np.ascontiguousarray(raw_values(array, np.int64)[:: array.type.bit_width // 64])


def is_narrow_decimal(kind: pa.DataType) -> bool:
    """Whether the decimal's unscaled values fit int64 (low words of 64 bits and more can be read directly)."""
    return pa.types.is_decimal(kind) and kind.bit_width >= 64 and kind.precision <= 18


def concat(tables: list[pa.Table]) -> pa.Table:
    """Concatenate tables of the same row type; a column that only some have a dictionary for becomes plain."""
    if any(table.schema != tables[0].schema for table in tables):
        tables = [plain(table) for table in tables]
    return pa.concat_tables(tables).unify_dictionaries()


def plain(table: pa.Table, only_with_nulls: bool = False) -> pa.Table:
    """Return the table without dictionaries. only_with_nulls: only those with a null among their values are removed."""
    for i, field in enumerate(table.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        column, kind = table.column(i), field.type.value_type
        if not only_with_nulls or any(chunk.dictionary.null_count for chunk in column.chunks):
            decoded = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], kind)
            table = table.set_column(i, field.with_type(kind), decoded)
    return table


@dataclass(frozen=True)
class KeyAtom:
    """One comparable piece of a key: int64 values with a mask, or byte strings, one for each row.

    coded: the values are places in `strings`, which are distinct.
    """

    values: np.ndarray
    valid: np.ndarray
    strings: pa.Array | None = None
    coded: bool = False


def atoms(array: pa.Array, name: str) -> list[KeyAtom]:
    """Split a key column into atoms whose equality is the column's; structs give a presence atom and their fields'."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        strings, target = array.dictionary, _BYTES.get(kind.value_type)
        if target is None or strings.null_count or len(strings.unique()) != len(strings):
            return atoms(array.dictionary_decode(), name)
        return [KeyAtom(int64_values(array.indices), valid_mask(array), strings.cast(target), coded=True)]
    if pa.types.is_null(kind):
        return [KeyAtom(np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_))]
    if pa.types.is_struct(kind):
        present = KeyAtom(np.ones(len(array), np.int64), valid_mask(array))
        fields = zip(kind, array.flatten(), strict=True)
        return [present] + [atom for field, part in fields for atom in atoms(part, f"{name}.{field.name}")]
    if pa.types.is_floating(kind):
        return [KeyAtom(float_bits(array), valid_mask(array))]
    if is_narrow_decimal(kind):
        return [KeyAtom(decimal_low_words(array), valid_mask(array))]
    if pa.types.is_decimal(kind):
        array = array.cast(pa.string())
        kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return [KeyAtom(ALL_VALID, valid_mask(array), array.cast(pa.binary()))]
    if any(test(kind) for test in _LARGE_BYTES):
        return [KeyAtom(ALL_VALID, valid_mask(array), array.cast(pa.large_binary()))]
    if is_integral(kind):
        return [KeyAtom(int64_values(array), valid_mask(array))]
    raise EpisodeUnsupportedError(
        f"column {name} of type {kind} cannot be a partition key",
        hint="Partition by columns of atomic types, or structs of them.",
    )


_LARGE_BYTES = (
    pa.types.is_large_string,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_string_view,
    pa.types.is_binary_view,
)


def float_bits(array: pa.Array) -> np.ndarray:
    """Return a floating-point column as the bits of float64 (int64), with one zero and one NaN."""
    return hashing.normalize_floats(raw_values(array.cast(pa.float64()), np.int64))


def float_order(bits: np.ndarray) -> np.ndarray:
    """Return integers in the order of floats for their bits (int64, see `normalize_floats`), and the bits for those."""
    return bits ^ ((bits >> 63) & EVER)


def float_images(values: np.ndarray) -> np.ndarray:
    """Return integers in the order of float64 values: NaN last, zeros alike."""
    return float_order(hashing.normalize_floats(values.view(np.int64)))


def ranks(array: pa.Array) -> np.ndarray:
    """Return the dense rank of each value among those of the array; 0 under nulls."""
    encoded = array.dictionary_encode()
    rank = np.empty(len(encoded.dictionary) + 1, np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    rank[-1] = 0
    return rank[encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()]


def from_times(times: np.ndarray, kind: pa.DataType, missing: np.ndarray | None = None) -> pa.Array:
    """Return event times (microseconds since 1970, or numbers) as a column of their type."""
    if pa.types.is_date32(kind):
        return from_numbers((times // DAY).astype(np.int32), missing).view(kind)
    array = from_numbers(times, missing)
    return array.view(kind) if pa.types.is_timestamp(kind) else array.cast(kind)


def key_hashes(table: pa.Table, keys: tuple[str, ...], salt: int = 0) -> np.ndarray:
    """Return stable 64-bit hashes of the rows' keys (uint64[n])."""
    hashes = hashing.start(table.num_rows, salt)
    for name in keys:
        for atom in atoms(one_chunk(table.column(name)), name):
            if atom.strings is None:
                hashing.combine_int64(hashes, atom.values, atom.valid)
            elif not atom.coded:
                hashing.combine_bytes(hashes, *_string_buffers(atom.strings), atom.valid)
            elif len(atom.strings):
                words = hashing.words_of_bytes(*_string_buffers(atom.strings))
                hashing.combine_int64(hashes, words.take(atom.values, mode="clip"), atom.valid)
            else:
                hashing.combine_int64(hashes, atom.values, atom.valid)
    return hashes


def _string_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    _, offsets, data = array.buffers()
    kind = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    if len(array) == 0:
        return np.zeros(1, kind), np.empty(0, np.uint8)
    places = np.frombuffer(offsets, kind)[array.offset : array.offset + len(array) + 1]
    return places, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def take(table: pa.Table, order: np.ndarray) -> pa.Table:
    """Return the rows of the table in the given order, one chunk for each column."""
    coded = any(pa.types.is_dictionary(kind) for kind in table.schema.types)
    if len(order) <= FEW and table.num_columns and not coded:
        try:
            return one_chunk_each(table.take(from_numbers(order)))
        except pa.ArrowInvalid:  # strings past 2 GB
            pass
    return like(table, [take_array(one_chunk(column), order) for column in table.columns])


def fixed_values(array: pa.Array) -> np.ndarray | None:
    """Return the values as integers of the same width; None if some are null, or have no or another width."""
    kind = array.type
    fixed = pa.types.is_primitive(kind) and kind.bit_width in (8, 16, 32, 64)
    if not fixed or array.null_count or not len(array):
        return None
    return raw_values(array, np.dtype(f"int{kind.bit_width}").type)


def from_values(kind: pa.DataType, values: np.ndarray) -> pa.Array:
    """Return the array with these values, which are not null and of the width of its type."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], 0)


def from_numbers(values: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    """Return the array of these numbers or booleans; null where some are missing. `pa.array` would import pandas."""
    is_boolean = values.dtype == np.bool_
    data = np.packbits(values, bitorder="little") if is_boolean else np.ascontiguousarray(values)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(data)])


def from_texts(texts: Sequence[str]) -> pa.Array:
    """Return the array of these texts. `pa.array` would import pandas."""
    return from_binaries([text.encode() for text in texts]).cast(pa.string())


def from_binaries(values: Sequence[bytes]) -> pa.Array:
    """Return the binary array of these values."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def take_array(array: pa.Array, order: np.ndarray) -> pa.Array:
    """Return the values at the given rows."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(take_array(array.indices, order), array.dictionary, safe=False)
    values = fixed_values(array)
    if values is not None:
        return from_values(kind, values.take(order))
    if kind in _LARGE and array.nbytes * max(1.0, len(order) / max(1, len(array))) > _INT32_LIMIT:
        array = array.cast(_LARGE[kind])
    return pc.take(array, from_numbers(order), boundscheck=False)


def to_bytes(table: pa.Table) -> bytes:
    """Encode a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    options = _PLAIN if table.nbytes < _SMALL else _COMPRESSED
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    """Read the table in an Arrow IPC stream."""
    return pa.ipc.open_stream(data, options=_READ).read_all()
