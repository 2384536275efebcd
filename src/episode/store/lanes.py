"""Rows by lane and by key: how stream stores spread events over lanes and sort them for an archive."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers.columns import key_hashes, one_chunk_each, take
from episode.matchers.grouping import group, order_rows
from episode.matchers.hashing import shards_of
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import order_image
from episode.matchers.protocol import OrderKey


def event_times(table: pa.Table, column: str) -> np.ndarray:
    """The rows' times as int64: microseconds, or the integers themselves. No time is null."""
    if table.num_rows == 0:
        return np.empty(0, np.int64)
    return order_image(table, OrderKey(column)).values


def lanes_of(table: pa.Table, keys: tuple[str, ...], lanes: int) -> np.ndarray:
    """The lane of each row (int32): a stable hash of its key; without keys, lane 0."""
    if not keys or lanes == 1 or table.num_rows == 0:
        return np.zeros(table.num_rows, np.int32)
    return shards_of(key_hashes(table, keys), lanes)


class LaneRows(NamedTuple):
    """Rows begin:end of a batch that is grouped by lane, and their least and greatest time."""

    lane: int
    begin: int
    end: int
    least: int
    greatest: int


def by_lane(table: pa.Table, keys: tuple[str, ...], lanes: int, time: str) -> tuple[pa.RecordBatch, list[LaneRows]]:
    """Group rows by lane, in order of arrival within a lane; return them with the range of each lane."""
    numbers = lanes_of(table, keys, lanes)
    order, starts = group(numbers, lanes)
    used = np.flatnonzero(np.diff(starts))
    grouped = take(table, order) if len(used) > 1 else one_chunk_each(table)
    times = event_times(grouped, time)
    least, greatest = np.minimum.reduceat(times, starts[used]), np.maximum.reduceat(times, starts[used])
    spans = (used, starts[used], starts[used + 1], least, greatest)
    return grouped.to_batches()[0], [LaneRows(*values) for values in zip(*(span.tolist() for span in spans))]


def order_by_key_and_time(table: pa.Table, keys: tuple[str, ...], time: str) -> np.ndarray | None:
    """Return the order of rows by key values, time and arrival (int64[n]); None if they are in this order."""
    images = np.ascontiguousarray(event_times(table, time))[np.newaxis, :]
    coded = KeyCoder(keys).encode(table)
    codes = _ranks(table, keys, coded.local, coded.count)[coded.local] if keys else coded.local
    grouped = order_rows(codes, coded.count, images)
    return None if grouped is None else grouped[0]


def _ranks(table: pa.Table, keys: tuple[str, ...], local: np.ndarray, count: int) -> np.ndarray:
    """Return the rank of each key among the keys in order of their values (int32[count])."""
    first = np.empty(count, np.int64)
    first[local[::-1]] = np.arange(len(local) - 1, -1, -1)
    values = take(table.select(list(keys)), first)
    ranks = np.empty(count, np.int32)
    ranks[pc.sort_indices(values, [(key, "ascending") for key in keys]).to_numpy()] = np.arange(count, dtype=np.int32)
    return ranks
