"""Times of row groups by the statistics in their footers, and which row groups a slice of time needs by them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from episode.matchers.ordering import order_image
from episode.matchers.protocol import OrderKey
from episode.matchers.slices.keys import SlicedKeys
from episode.matchers.slices.slicing import FIRST_TIME, LAST_TIME, Overlap, SliceBounds
from episode.spark.scan.conditions import Range
from episode.spark.scan.direct import ParquetScan, Split, row_bytes
from episode.spark.scan.parquet import group_ranges

MOST_READ = 2.5
"""If slices would read more than this multiple of all rows, because files are not in order of time, rows are shuffled
to them instead."""

_AT_ONCE = 8


@dataclass(frozen=True)
class GroupTimes:
    """The least and the greatest time (images, as `EventBatch.time`) of a row group. nulls: whether times may be
    null."""

    first: int
    last: int
    nulls: bool


def times_of_groups(scan: ParquetScan, order: OrderKey, splits: Sequence[Split]) -> list[GroupTimes | None]:
    """Times of the row groups of splits; None if the footers lack them."""
    field = scan.schema.field(order.column)
    name = scan.columns[scan.schema.get_field_index(order.column)]
    if name in scan.partitions.column_names:
        return [None] * len(splits)
    asked = pa.schema([pa.field(name, field.type)])
    storage = scan.storage.open()

    def of_file(path: str) -> list[Range | None]:
        footer = pq.read_metadata(path, filesystem=storage)
        return [found.get(name) for found in group_ranges(footer, asked, scan.case_sensitive)]

    paths = list(dict.fromkeys(split.path for split in splits))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ranges = dict(zip(paths, pool.map(of_file, paths), strict=True))
    return [_times(ranges[split.path][split.first], field.type, order) for split in splits]


def _times(found: Range | None, kind: pa.DataType, order: OrderKey) -> GroupTimes | None:
    if found is None or not isinstance(found.low, int) or not isinstance(found.high, int):
        return None
    ends = pa.array([found.low, found.high])
    if not pa.types.is_integer(kind):
        ends = ends.cast(pa.int32()).view(kind) if kind.bit_width == 32 else ends.view(kind)
    first, last = sorted(order_image(pa.table({order.column: ends}), order).time().tolist())
    return GroupTimes(first, last, found.nulls != 0)


# ---- what slices read --------------------------------------------------------------------------------------


def reads_of_slices(scan: ParquetScan, order: OrderKey, sliced: SlicedKeys) -> tuple[tuple[Split, ...], ...] | None:
    """For each slice of the only key, the row groups that have its rows and its overlap, in order; None if footers lack
    times, or files are not in order of time."""
    overlap = sliced.overlap
    if scan.condition is not None and (overlap.before_rows or overlap.after_rows):
        return None  # how many rows of a group count is not known
    found = times_of_groups(scan, order, scan.splits)
    times = [one for one in found if one is not None and not one.nulls]
    if len(times) < len(found):
        return None
    first, last = (np.array([getattr(one, name) for one in times], np.int64) for name in ("first", "last"))
    width = row_bytes(scan.schema)
    rows = np.array([split.bytes // width for split in scan.splits], np.int64)
    slices = [part for part in map(sliced.slice_of, sliced.units_of(0)) if part is not None]
    wanted = [groups_of_slice(first, last, rows, part.bounds, overlap) for part in slices]
    if sum(int(rows[groups].sum()) for groups in wanted) > MOST_READ * scan.rows:
        return None
    return tuple(tuple(scan.splits[group] for group in groups) for groups in wanted)


def groups_of_slice(
    first: np.ndarray, last: np.ndarray, rows: np.ndarray, bounds: SliceBounds, overlap: Overlap
) -> np.ndarray:
    """The row groups (with times first .. last, and rows) that may have a row of a slice or of its overlap."""
    earliest = FIRST_TIME if bounds.first is None else max(FIRST_TIME, bounds.first - overlap.before_time)
    latest = LAST_TIME if bounds.last is None else min(LAST_TIME, bounds.last + overlap.after_time)
    if overlap.before_rows and bounds.first is not None:
        earliest = _counted_from(first, last, rows, earliest, overlap.before_rows)
    if overlap.after_rows and bounds.last is not None:
        latest = ~_counted_from(~last, ~first, rows, ~latest, overlap.after_rows)
    return np.flatnonzero((last >= earliest) & (first <= latest))


def _counted_from(first: np.ndarray, last: np.ndarray, rows: np.ndarray, limit: int, wanted: int) -> int:
    """A time with at least `wanted` rows between it and the limit; or the least time."""
    before = np.flatnonzero(last < limit)
    order = before[np.argsort(first[before], kind="stable")[::-1]]
    enough = np.flatnonzero(np.cumsum(rows[order]) >= wanted)
    return int(first[order[enough[0]]]) if len(enough) else FIRST_TIME
