"""Rows of sliced keys on their way to slices, while one task packs: to their own, and copies to those that overlap.

The overlaps by time are known row by row. Those that count rows (the last n before a time, the first n after one) are
not: a task keeps its own last and first ones, and sends them when it has read all its rows; those of all rows are among
them, and whoever is fed the slice leaves out the rest (`trim_to_slice`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from episode.matchers.columns import concat, one_chunk_each, plain, take
from episode.matchers.ordering import order_image
from episode.matchers.protocol import InputOrder
from episode.matchers.slices.keys import SlicedKeys
from episode.matchers.slices.slicing import Overlap, SliceBounds
from episode.matchers.slices.units import nearest, of_sliced_keys, route


class SliceRouting:
    """The way of one task's rows."""

    def __init__(self, sliced: SlicedKeys, input_order: InputOrder) -> None:
        self.sliced = sliced
        self.input_order = input_order
        overlap = sliced.overlap
        self._counted = [
            _Counted(sliced, input_order, most, after)
            for most, after in ((overlap.before_rows, False), (overlap.after_rows, True))
            if most
        ]

    def units(
        self, table: pa.Table, hashes: np.ndarray | None, numbers: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(rows, units): the rows of a table that are sent, and where to; None: every row once.

        hashes: of keys (None: the query has no keys). numbers: of the rows' shards, overwritten where a key is sliced.
        """
        sliced = self.sliced
        times = order_image(table, self.input_order.order[0]).time()
        if hashes is None:
            of_keys, groups = np.arange(len(numbers)), np.zeros(len(numbers), np.int32)
        else:
            of_keys, groups = of_sliced_keys(hashes, sliced.hashes)
            times = times.take(of_keys)
        for counted in self._counted:
            counted.add(table, of_keys, groups, times)
        copies = route(of_keys, groups, times, sliced, numbers)
        if copies is None:
            return None, numbers
        # copies from before a slice come before its own rows, and those from after it after them: in order of time
        after_rows, after_units, before_rows, before_units = copies
        rows = np.concatenate([after_rows, np.arange(len(numbers)), before_rows])
        return rows, np.concatenate([after_units, numbers, before_units])

    def last(self) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """When all rows are in: further rows for overlaps, and their units."""
        for counted in self._counted:
            yield from counted.route_counted()


class _NearestRows:
    """The last rows of each group in the query's order (after: the first ones), `most` at most, as they came."""

    def __init__(self, input_order: InputOrder, most: int, after: bool) -> None:
        self.input_order, self.most, self.after = input_order, most, after
        self.rows: pa.Table | None = None
        self.groups = np.empty(0, np.int32)

    def put(self, table: pa.Table, groups: np.ndarray) -> None:
        """Put further rows, in order of arrival, with their groups (int32) among the others."""
        rows = plain(table)
        if self.rows is not None:
            rows, groups = one_chunk_each(concat([self.rows, rows])), np.concatenate([self.groups, groups])
        if np.bincount(groups).max() > self.most:
            kept = kept_rows(rows, self.input_order, groups, self.most, self.after)
            rows, groups = take(rows, kept), groups[kept]
        self.rows, self.groups = rows, groups


class _Counted(_NearestRows):
    """The last (after: the first) rows of a task for every cut, before (after) what overlaps by time.

    Limits of time part the rows of a key into intervals, which are the groups. Each keeps as many rows as an overlap
    asks for, and a cut takes them from the intervals before (after) its limit, the nearest first.
    """

    def __init__(self, sliced: SlicedKeys, input_order: InputOrder, most: int, after: bool) -> None:
        super().__init__(input_order, most, after)
        self.sliced = sliced

    def add(self, table: pa.Table, of_keys: np.ndarray, groups: np.ndarray, times: np.ndarray) -> None:
        """Rows of a table, in order of arrival: those of sliced keys, their keys and their times."""
        limits = self.sliced.highs if self.after else self.sliced.lows
        places, intervals = nearest(groups, times, self.sliced.first_cut, limits, self.after, self.most)
        if len(places):
            order = np.argsort(places)
            self.put(take(table, of_keys[places[order]]), intervals[order])

    def route_counted(self) -> Iterator[tuple[pa.Table, np.ndarray]]:
        if self.rows is None:
            return
        counts = np.bincount(self.groups, minlength=len(self.sliced.cuts) + len(self.sliced.keys))
        places = np.argsort(self.groups, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)])
        rows, units = [], []
        for interval, unit in self._overlapped_intervals(counts):
            of_interval = places[starts[interval] : starts[interval + 1]]
            rows.append(of_interval)
            units.append(np.full(len(of_interval), unit, np.int32))
        if rows:
            every, of = np.concatenate(rows), np.concatenate(units)
            order = np.argsort(every, kind="stable")  # in order of arrival
            yield take(self.rows, every[order]), of[order]

    def _overlapped_intervals(self, counts: np.ndarray) -> Iterator[tuple[int, int]]:
        """(interval, unit): for every slice, the intervals that its overlap takes rows from."""
        sliced = self.sliced
        for place, key in enumerate(sliced.keys):
            first = int(sliced.first_cut[place]) + place
            for cut in range(len(key.cuts)):
                unit = int(sliced.first_unit[place]) + (cut if self.after else cut + 1)
                reached = (
                    range(first + cut + 1, first + key.slices) if self.after else range(first + cut, first - 1, -1)
                )
                found = 0
                for interval in reached:
                    if found >= self.most:
                        break
                    if counts[interval]:
                        found += counts[interval]
                        yield interval, unit


def kept_rows(
    table: pa.Table, input_order: InputOrder, groups: np.ndarray, most: int, first: bool = False
) -> np.ndarray:
    """Places (ascending) of the last (or first) rows of each group in the query's order, `most` at most.

    Rows of a table are in order of arrival. groups: int32[n].
    """
    images = [row for key in input_order.order for row in order_image(table, key).rows()]
    order = np.lexsort([*reversed(images), groups])
    grouped = groups[order]
    starts = np.flatnonzero(np.diff(grouped, prepend=grouped[0] - 1))
    lengths = np.diff(np.append(starts, len(grouped)))
    rank = np.arange(len(grouped)) - np.repeat(starts, lengths)
    if not first:
        rank = np.repeat(lengths, lengths) - 1 - rank
    return np.sort(order[rank < most])


def trim_to_slice(
    tables: Iterable[pa.Table], input_order: InputOrder, bounds: SliceBounds, overlap: Overlap, hold_bytes: int
) -> Iterator[pa.Table]:
    """The rows of a slice and its overlap as they came, without those that only the packing of other tasks sent.

    Rows that are counted before the slice come first, so that rows in order stay so; unless more than hold_bytes of
    others come before all are known.
    """
    order = input_order.order[0]
    earliest, latest = overlap.around(bounds)
    sides = [_Farther(input_order, overlap.before_rows, False), _Farther(input_order, overlap.after_rows, True)]
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        within = _within(table, order_image(table, order).time(), earliest, latest, sides)
        if within is None:
            continue
        held.append(within)
        size += within.nbytes
        while held and size > hold_bytes:
            yield held.pop(0)
    before, after = (side.rows for side in sides)
    if before is not None:
        yield before
    while held:
        yield held.pop(0)  # release one by one
    if after is not None:
        yield after


def _within(table: pa.Table, times: np.ndarray, earliest: int, latest: int, sides: list[_Farther]) -> pa.Table | None:
    """The rows between two times; those before and after them go to the sides."""
    if len(times) == 0 or (times.min() >= earliest and times.max() <= latest):
        return table
    before, after = times < earliest, times > latest
    for side, rows in zip(sides, (before, after), strict=True):
        side.add(table, times, rows)
    within = np.flatnonzero(~(before | after))
    if len(within) == 0:
        return None
    follow_each_other = within[-1] - within[0] + 1 == len(within)
    return table.slice(int(within[0]), len(within)) if follow_each_other else take(table, within)


class _Farther(_NearestRows):
    """The last rows before (after: the first rows after) what overlaps a slice by time: all are of one group."""

    def add(self, table: pa.Table, times: np.ndarray, outside: np.ndarray) -> None:
        """Add rows of a table that is in order of arrival. outside: bool[n], the rows to add."""
        if not self.most or not outside.any():
            return
        rows = np.flatnonzero(outside)
        values = ~times[rows] if self.after else times[rows]
        if len(values) > self.most:
            least = values.max() if self.most == 1 else np.partition(values, -self.most)[-self.most]
            rows = rows[values >= least]
        self.put(take(table, rows), np.zeros(len(rows), np.int32))
