"""Envelopes: how events cross Spark. Slices of batches by shard, each one row with an Arrow IPC blob.

Rows are what costs in Spark; an envelope holds thousands of events and is shuffled, sorted and spilled as one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.kernels import hashing, partition
from episode.match.columns import key_hashes, take
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


@dataclass(frozen=True)
class Packing:
    """How events are packed: in which order they will be matched, and into how many shards they are spread."""

    input_order: InputOrder
    shards: int
    flush_bytes: int = FLUSH_BYTES


def pack(tables: Iterable[pa.Table], packing: Packing, partition_index: int) -> Iterator[pa.RecordBatch]:
    """The events of one Spark partition as batches of envelopes."""
    for count, chunk in enumerate(rechunk(tables, packing.flush_bytes)):
        yield _envelopes(chunk, packing, partition_index * _PER_PARTITION + count)


def _envelopes(table: pa.Table, packing: Packing, origin: int) -> pa.RecordBatch:
    table, shards, starts = _by_shard(table, packing)
    first, last = _time_spans(table, packing.input_order, starts[:-1])
    columns = [pa.array(shards), first, last, pa.array(np.full(len(shards), origin)), _blobs(table, starts)]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)


def _by_shard(table: pa.Table, packing: Packing) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """The rows grouped by shard, the shards that have any (int32), and where their rows start and end."""
    if packing.shards == 1 or not packing.input_order.keys:
        return table, np.zeros(1, np.int32), np.array([0, table.num_rows])
    numbers = hashing.shards_of(key_hashes(table, packing.input_order.keys), packing.shards)
    order, starts = partition.group(numbers, packing.shards)
    used = np.flatnonzero(np.diff(starts))
    return take(table, order), used.astype(np.int32), np.append(starts[used], table.num_rows)


def _time_spans(table: pa.Table, input_order: InputOrder, starts: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """The least and the greatest time of each slice."""
    order = input_order.order
    if not order or not has_lasting_image(table.schema.field(order[0].column).type):
        return pa.nulls(len(starts), pa.int64()), pa.nulls(len(starts), pa.int64())
    times = order_image(table, order[0]).time()
    return pa.array(np.minimum.reduceat(times, starts)), pa.array(np.maximum.reduceat(times, starts))


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
                yield shards[i].as_py(), reader.read_all()


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
