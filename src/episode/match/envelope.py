"""Envelopes: how events cross Spark. Slices of batches by shard, each one row with an Arrow IPC blob.

Rows are what costs in Spark; an envelope holds thousands of events and is shuffled, sorted and spilled as one row.
Integers travel as narrow distances from a base (`kernels.narrowing`): fewer bytes to gather, compress and move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.kernels import hashing, narrowing, partition
from episode.match.columns import is_integral, key_hashes, plain, raw_values, take, valid_mask
from episode.match.ordering import has_lasting_image, order_image
from episode.match.protocol import InputOrder
from episode.match.spill import rechunk

SCHEMA = "shard int, first_time long, last_time long, origin long, blob binary"
"""An envelope's row. Times: the least and the greatest of its events, null where the order has no lasting image.
Origin: grows in order of arrival."""

FLUSH_BYTES = 32 * 2**20
"""Events are gathered up to this size before they are split, so that slices are worth a row each."""

_ARROW_SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("first_time", pa.int64()),
        ("last_time", pa.int64()),
        ("origin", pa.int64()),
        ("blob", pa.binary()),
    ]
)
_COMPRESSION = pa.ipc.IpcWriteOptions(compression="lz4")
_PER_PARTITION = 1 << 32
_DICTIONARY_SHARE = 4
_BASE = b"episode.base"
_WIDE = b"episode.wide"


@dataclass(frozen=True)
class Packing:
    """How events are packed: in which order they will be matched, and into how many shards they are spread."""

    input_order: InputOrder
    shards: int
    flush_bytes: int = FLUSH_BYTES


def pack(tables: Iterable[pa.Table], packing: Packing, partition_index: int) -> Iterator[pa.RecordBatch]:
    """The events of one Spark partition as batches of envelopes."""
    for count, chunk in enumerate(rechunk(tables, packing.flush_bytes)):
        if _has_large_dictionary(chunk, packing.shards):
            chunk = plain(chunk)
        yield _envelopes(chunk, packing, partition_index * _PER_PARTITION + count)


def _has_large_dictionary(table: pa.Table, shards: int) -> bool:
    """Whether writing a dictionary once for each shard is too much for the rows there are."""
    columns = (column.chunk(0) for column in table.columns if pa.types.is_dictionary(column.type))
    return any(len(column.dictionary) * shards * _DICTIONARY_SHARE > table.num_rows for column in columns)


def _envelopes(table: pa.Table, packing: Packing, origin: int) -> pa.RecordBatch:
    keys = packing.input_order.keys
    numbers = hashing.shards_of(key_hashes(table, keys), packing.shards) if keys else np.zeros(len(table), np.int32)
    first, last = _time_spans(table, packing.input_order, numbers, packing.shards)
    slim = _narrowed(table)
    order, starts = partition.group(numbers, packing.shards)
    used = np.flatnonzero(np.diff(starts))
    if len(used) > 1:
        slim = take(slim, order)
    blobs = _blobs(slim, np.append(starts[used], len(table)))
    columns = [pa.array(used.astype(np.int32)), first.take(pa.array(used)), last.take(pa.array(used))]
    columns += [pa.array(np.full(len(used), origin)), blobs]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)


def _time_spans(table: pa.Table, input_order: InputOrder, numbers: np.ndarray, n: int) -> tuple[pa.Array, pa.Array]:
    """The least and the greatest time of each shard's slice."""
    order = input_order.order
    if not order or not has_lasting_image(table.schema.field(order[0].column).type):
        return pa.nulls(n, pa.int64()), pa.nulls(n, pa.int64())
    first, last = narrowing.spans(order_image(table, order[0]).time(), numbers, n)
    return pa.array(first), pa.array(last)


def _narrowed(table: pa.Table) -> pa.Table:
    """The table with integers as narrow as their ranges allow; its schema remembers those fields and their bases."""
    fields, columns, wide = [], [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        slim, base = _narrow(column.chunk(0))
        columns.append(slim)
        fields.append(field.with_type(slim.type))
        if base is not None:
            wide.append(pa.field(field.name, field.type, metadata={_BASE: str(base)}))
    remembered = pa.schema(wide).serialize().to_pybytes()
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata={_WIDE: remembered}))


def _narrow(array: pa.Array) -> tuple[pa.Array, int | None]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        index = next(index for index in (pa.int8(), pa.int16(), pa.int32()) if _fits(len(array.dictionary), index))
        return pa.DictionaryArray.from_arrays(array.indices.cast(index), array.dictionary, safe=False), None
    if not is_integral(kind) or kind.bit_width < 16 or pa.types.is_unsigned_integer(kind):
        return array, None
    values = raw_values(array, np.dtype(f"int{kind.bit_width}").type)
    base, largest = narrowing.value_range(values, valid_mask(array))
    bits = next(bits for bits in (8, 16, 32, 64) if int(largest) - int(base) < 2**bits)
    if bits >= kind.bit_width:
        return array, None
    distances = np.empty(len(values), f"uint{bits}")
    narrowing.narrow(values, base, distances)
    return _with_values(array, getattr(pa, f"uint{bits}")(), distances), int(base)


def _fits(size: int, index: pa.DataType) -> bool:
    return size < 2 ** (index.bit_width - 1)


def _widen(array: pa.Array, base: int, kind: pa.DataType) -> pa.Array:
    values = np.empty(len(array), f"int{kind.bit_width}")
    narrowing.widen(raw_values(array, np.dtype(f"uint{array.type.bit_width}").type), base, values)
    return _with_values(array, kind, values)


def _with_values(array: pa.Array, kind: pa.DataType, values: np.ndarray) -> pa.Array:
    """An array of other values with the nulls of the given one."""
    if array.null_count == 0:
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], 0)
    mask = array.is_valid().buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(values)])


def _blobs(table: pa.Table, starts: np.ndarray) -> pa.Array:
    """The slices of a table as Arrow IPC streams, written one after the other into one binary column."""
    sink = pa.BufferOutputStream()
    offsets = np.zeros(len(starts), np.int32)
    for i in range(len(starts) - 1):
        with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSION) as writer:
            writer.write_table(table.slice(starts[i], starts[i + 1] - starts[i]))
        offsets[i + 1] = sink.tell()
    return pa.BinaryArray.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(offsets), sink.getvalue()])


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """(shard, events) of each envelope."""
    for batch in batches:
        shards, blobs = batch.column("shard"), batch.column("blob")
        for i in range(batch.num_rows):
            with pa.ipc.open_stream(blobs[i].as_buffer()) as reader:
                yield shards[i].as_py(), _widened(reader.read_all())


def _widened(table: pa.Table) -> pa.Table:
    wide = pa.ipc.read_schema(pa.py_buffer(table.schema.metadata[_WIDE]))
    for field in wide:
        at = table.schema.get_field_index(field.name)
        column = _widen(table.column(at).chunk(0), int(field.metadata[_BASE]), field.type)
        table = table.set_column(at, pa.field(field.name, field.type), column)
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            kind = pa.dictionary(pa.int32(), field.type.value_type)
            table = table.set_column(at, field.with_type(kind), table.column(at).cast(kind))
    return table.replace_schema_metadata()


def in_groups(envelopes: Iterable[tuple[int, pa.Table]], group_bytes: int) -> Iterator[Iterator[pa.Table]]:
    """Events of whole shards, and of several small ones together; each group must be read to its end.

    Envelopes come sorted by shard. A group ends with the shard in which it reaches group_bytes.
    """
    source = iter(envelopes)
    ahead = next(source, None)

    def group() -> Iterator[pa.Table]:
        nonlocal ahead
        size = 0
        while ahead is not None:
            shard, table = ahead
            size += table.nbytes
            ahead = next(source, None)
            yield table
            if size >= group_bytes and ahead is not None and ahead[0] != shard:
                return

    while ahead is not None:
        yield group()
