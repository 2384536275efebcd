"""Envelopes: how events cross Spark. Batches are split by shard; each part is one row with an Arrow IPC blob.

Rows are what costs in Spark; an envelope holds thousands of events and is shuffled, sorted and spilled as one row.
Columns travel in compact form (`compact.py`): fewer bytes to gather and move. Spark's shuffle compresses anyway.

See decisions 1 and 30.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from numbers import Integral
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError
from episode.matchers.columns import key_hashes, plain, take
from episode.matchers.compact import CompactTable, compact_parts, compact_table, is_compact, restore
from episode.matchers.grouping import group, spans_of
from episode.matchers.hashing import shards_of
from episode.matchers.ordering import has_lasting_image, order_image
from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.screening import Screen
from episode.matchers.shard import rechunk
from episode.matchers.slices.keys import SlicedKey, SlicedKeys
from episode.matchers.slices.routing import SliceRouting
from episode.matchers.slices.slicing import Overlap
from episode.plan import arrays, expressions

SCHEMA = "shard int, first_time long, last_time long, origin long, blob binary"
"""The row of an envelope. Times: the least and the greatest of its events, null if the order has no lasting image, or
if keys are sliced. Origin: grows in order of arrival."""

FLUSH_BYTES = 32 * 2**20
"""Events are gathered up to this size before they are split, so that envelopes stay large."""

_ARROW_SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("first_time", pa.int64()),
        ("last_time", pa.int64()),
        ("origin", pa.int64()),
        ("blob", pa.binary()),
    ]
)
_PER_PARTITION = 1 << 32
_DICTIONARY_SHARE = 4


@dataclass(frozen=True)
class Packing:
    """Settings of packing: the order in which events will be matched, and the number of shards.

    screen: leaves out rows that cannot be in a match. sliced: keys whose rows go to slices of time, which are numbered
    after the shards.
    """

    input_order: InputOrder
    shards: int
    flush_bytes: int = FLUSH_BYTES
    screen: Screen | None = None
    sliced: SlicedKeys | None = None

    @property
    def units(self) -> int:
        """The number of shards and slices."""
        return self.shards if self.sliced is None else self.sliced.units


def pack(tables: Iterable[pa.Table], packing: Packing, partition_index: int) -> Iterator[pa.RecordBatch]:
    """Yield the events of one Spark partition as batches of envelopes."""
    screen = packing.screen
    wanted = tables if screen is None else (screen.passing(table) for table in tables)
    routing = None if packing.sliced is None else SliceRouting(packing.sliced, packing.input_order)
    origin = partition_index * _PER_PARTITION
    for chunk in rechunk(wanted, packing.flush_bytes):
        if _has_large_dictionary(chunk, packing.units):
            chunk = plain(chunk)
        yield _split(chunk, packing, routing, origin)
        origin += 1
    for rows, units in () if routing is None else routing.last():
        yield _envelopes(rows, units, packing.units, origin)
        origin += 1


def pack_for_all(
    tables: Iterable[pa.Table], packings: Sequence[tuple[Packing, Sequence[str]]], partition_index: int
) -> Iterator[pa.RecordBatch]:
    """Yield the events of one Spark partition packed in several ways, for matchers that read other columns in another
    order.

    The shards of each way are numbered after those of the ways before it.
    """
    flush_bytes = max(packing.flush_bytes for packing, _ in packings)
    for count, chunk in enumerate(rechunk(tables, flush_bytes)):
        base = 0
        for packing, columns in packings:
            own = chunk.select(list(columns))
            if packing.screen is not None:
                own = packing.screen.passing(own)
            if _has_large_dictionary(own, packing.shards):
                own = plain(own)
            if own.num_rows:
                batch = _split(own, packing, None, partition_index * _PER_PARTITION + count)
                yield batch.set_column(0, _ARROW_SCHEMA.field(0), pc.add(batch.column(0), pa.scalar(base, pa.int32())))
            base += packing.shards


def _has_large_dictionary(table: pa.Table, shards: int) -> bool:
    """Whether writing a dictionary once for each shard is too expensive for these rows."""
    columns = (column.chunk(0) for column in table.columns if pa.types.is_dictionary(column.type))
    return any(len(column.dictionary) * shards * _DICTIONARY_SHARE > table.num_rows for column in columns)


def _split(table: pa.Table, packing: Packing, routing: SliceRouting | None, origin: int) -> pa.RecordBatch:
    """Pack rows of sliced keys for their slices, all others for their shards."""
    keys = packing.input_order.keys
    hashes = key_hashes(table, keys) if keys else None
    numbers = np.zeros(len(table), np.int32) if hashes is None else shards_of(hashes, packing.shards)
    if routing is not None:
        rows, units = routing.units(table, hashes, numbers)
        return _envelopes(table, units, packing.units, origin, rows=rows)
    order, spans = packing.input_order.order, None
    if order and has_lasting_image(table.schema.field(order[0].column).type):
        spans = spans_of(order_image(table, order[0]).time(), numbers, packing.shards)
    return _envelopes(table, numbers, packing.shards, origin, spans=spans)


def _envelopes(
    table: pa.Table,
    numbers: np.ndarray,
    n: int,
    origin: int,
    *,
    rows: np.ndarray | None = None,
    spans: tuple[np.ndarray, np.ndarray] | None = None,
) -> pa.RecordBatch:
    """Return an envelope for each of the numbers 0 .. n - 1 that is given to a row. rows: the row of each number,
    unless each row has one. spans: the least and the greatest time of each number's rows, if they have one."""
    compacted = compact_table(table)
    order, starts = group(numbers, n)
    used = np.flatnonzero(np.diff(starts))
    if len(used) > 1 or rows is not None:
        compacted = replace(compacted, table=take(compacted.table, order if rows is None else rows.take(order)))
    blobs = _blobs(compacted, np.append(starts[used], len(numbers)))
    first, last = [pa.nulls(len(used), pa.int64())] * 2 if spans is None else (pa.array(span[used]) for span in spans)
    columns = [pa.array(used.astype(np.int32)), first, last, pa.array(np.full(len(used), origin)), blobs]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)


def _blobs(compacted: CompactTable, starts: np.ndarray) -> pa.Array:
    """Return the parts of a table as Arrow IPC streams, written one after the other into one binary column."""
    compacted, firsts = compact_parts(compacted, starts)
    schema = compacted.schema()
    batch = pa.RecordBatch.from_arrays([column.chunk(0) for column in compacted.table.columns], schema=schema)
    sink = pa.BufferOutputStream()
    offsets = np.zeros(len(starts), np.int32)
    for i, first in enumerate(firsts):
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(batch.slice(starts[i], starts[i + 1] - starts[i]), custom_metadata=first or None)
        offsets[i + 1] = sink.tell()
    return pa.BinaryArray.from_buffers(pa.binary(), len(firsts), [None, pa.py_buffer(offsets), sink.getvalue()])


def empty_envelope(shard: int) -> pa.RecordBatch:
    """Return an envelope without events, which makes the shard run."""
    return _repeat([shard], 0, b"")


_ORDERS = -(1 << 62)
"""Origins of orders begin here; those of events are not negative."""


def order_envelopes(shards: Sequence[int], number: int, blob: bytes) -> pa.RecordBatch:
    """Return an order (given in bytes) for each of these shards. Orders are handled by number, before events."""
    return _repeat(shards, _ORDERS + number, blob)


def _repeat(shards: Sequence[int], origin: int, blob: bytes) -> pa.RecordBatch:
    """Return the same envelope, without times, for several shards."""
    rows = [(shard, None, None, origin, blob) for shard in shards]
    return pa.RecordBatch.from_pylist([dict(zip(_ARROW_SCHEMA.names, row)) for row in rows], _ARROW_SCHEMA)


def is_order(origins: np.ndarray) -> np.ndarray:
    """Return which envelopes (bool) are orders, by their origins."""
    return origins < 0


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Yield (shard, events) of each envelope."""
    for batch in batches:
        shards, blobs = batch.column("shard"), batch.column("blob")
        for i in range(batch.num_rows):
            yield shards[i].as_py(), open_envelope(blobs[i].as_buffer())


def open_envelope(blob: pa.Buffer | bytes) -> pa.Table:
    """Return the events in an envelope, or in a plain table in bytes, as merged envelopes are kept."""
    with pa.ipc.open_stream(blob) as reader:
        if not is_compact(reader.schema):
            return reader.read_all()
        slice_, first = reader.read_next_batch_with_custom_metadata()
    return restore(slice_, dict(first or {}))


def group_shards(envelopes: Iterable[tuple[int, pa.Table]], group_bytes: int) -> Iterator[Iterator[pa.Table]]:
    """Yield groups of events: of whole shards, small ones together; each group must be read to its end.

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


# The packing as JSON: options of a data source hold only values, never code.


KIND, REAL, BYTES, SET = "kind", "real", "bytes", "set"


def write_packing(packing: Packing) -> str:
    """Return the JSON of a packing."""
    return json.dumps(_to_json(packing))


def read_packing(text: str) -> Packing:
    """Read a packing from JSON; any other text is an error."""
    try:
        found = _from_json(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        found = None
    if not isinstance(found, Packing):
        raise EpisodeAnalysisError(
            "The option envelopes is set by episode itself, and this is not a value that it sets.",
            hint="Leave the option out: rows are read as they are.",
        )
    return found


@lru_cache(maxsize=1)
def _kinds() -> dict[str, type]:
    """Return the only classes that a text can name: plain values."""
    own = (Packing, InputOrder, OrderKey, Screen, SlicedKeys, SlicedKey, Overlap)
    return {kind.__name__: kind for kind in (*own, *_classes(expressions), *_classes(arrays))}


def _classes(module: ModuleType) -> list[type]:
    found = [one for one in vars(module).values() if isinstance(one, type) and is_dataclass(one)]
    return [one for one in found if one.__module__ == module.__name__]


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, float):
        return {REAL: value.hex()}
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return [_to_json(one) for one in value]
    if isinstance(value, frozenset):
        return {SET: sorted(_to_json(one) for one in value)}
    name = type(value).__name__
    if _kinds().get(name) is not type(value):
        raise TypeError(f"{name} cannot be sent to readers of a stream")
    return {KIND: name, **{field.name: _to_json(getattr(value, field.name)) for field in fields(_kinds()[name])}}


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_json(one) for one in value)
    if not isinstance(value, dict):
        return value
    if REAL in value:
        return float.fromhex(value[REAL])
    if BYTES in value:
        return base64.b64decode(value[BYTES], validate=True)
    if SET in value:
        return frozenset(_from_json(one) for one in value[SET])
    kind = _kinds()[value[KIND]]
    return kind(**{name: _from_json(one) for name, one in value.items() if name != KIND})
