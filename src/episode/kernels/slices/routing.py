"""Which slices of time a row of a sliced key goes to: the one that owns it, and those in whose overlap it is.

Shapes: rows int64[h], the rows of sliced keys, ascending; groups int32[h], the key of each (its place among the sliced
ones); times int64[h]; first_cut int64[k + 1], where the cuts of each of the k keys begin among all cuts; cuts, lows,
highs int64[m], ascending within a key: slice s of a key owns times from its cut s - 1 up to before its cut s, the slice
after a cut is given rows from `lows` on, the one before it up to `highs`; first_unit int32[k], the number of a key's
first slice.

Rows mostly come in order of time, so that a row mostly is where the one before it was: that is looked at first.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_TOP = np.uint64(58)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def of_sliced_keys(hashes: np.ndarray, sliced: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, groups) of the rows whose hash (uint64[n]) is among those of sliced keys (uint64[k], ascending)."""
    rows, groups = np.empty(hashes.size, np.int64), np.zeros(hashes.size, np.int32)
    count = 0
    if sliced.size == 1:
        wanted = sliced[0]
        for i in range(hashes.size):
            rows[count] = i
            count += np.int64(hashes[i] == wanted)  # without a branch, which nobody could foresee
        return rows[:count], groups[:count]
    some = np.uint64(0)
    for hashed in sliced:
        some |= _ONE << (hashed >> _TOP)
    for i in range(hashes.size):
        if (some >> (hashes[i] >> _TOP)) & _ONE == 0:
            continue
        low, high = 0, sliced.size
        while low < high:
            middle = (low + high) >> 1
            if sliced[middle] < hashes[i]:
                low = middle + 1
            else:
                high = middle
        if low < sliced.size and sliced[low] == hashes[i]:
            rows[count], groups[count] = i, low
            count += 1
    return rows[:count], groups[:count]


@njit(cache=True, nogil=True)
def _not_after(values: np.ndarray, low: int, high: int, time: int) -> int:
    """How many of the ascending values[low:high] are at most a time."""
    begin = low
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low - begin


@njit(cache=True, nogil=True)
def own(
    rows: np.ndarray,
    groups: np.ndarray,
    times: np.ndarray,
    first_cut: np.ndarray,
    cuts: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    first_unit: np.ndarray,
    numbers: np.ndarray,
) -> tuple[int, int]:
    """Write the unit that owns each of the rows into `numbers` (int32[n]); how many copies are needed for slices after
    the one that owns a row, and for those before it."""
    following = preceding = 0
    group, unit, above, below = -1, 0, np.int64(0), np.int64(0)
    for i in range(rows.size):
        time = times[i]
        if groups[i] == group and above < time < below:  # in the same slice as the row before, and in no overlap
            numbers[rows[i]] = unit
            continue
        group = groups[i]
        begin, end = first_cut[group], first_cut[group + 1]
        place = _not_after(cuts, begin, end, time)
        unit = first_unit[group] + place
        numbers[rows[i]] = unit
        at = begin + place
        below = lows[at] if at < end else _GREATEST
        while at < end and time >= lows[at]:
            following += 1
            at += 1
        at = begin + place - 1
        above = highs[at] if at >= begin else _LEAST
        while at >= begin and time <= highs[at]:
            preceding += 1
            at -= 1
    return following, preceding


@njit(cache=True, nogil=True)
def copies(
    rows: np.ndarray,
    groups: np.ndarray,
    times: np.ndarray,
    first_cut: np.ndarray,
    cuts: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    first_unit: np.ndarray,
    following: int,
    preceding: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(rows, units) of the copies for slices after the one that owns a row, and (rows, units) of those for slices
    before it; in order of the rows, as many as `own` has counted."""
    after_rows, after_units = np.empty(following, np.int64), np.empty(following, np.int32)
    before_rows, before_units = np.empty(preceding, np.int64), np.empty(preceding, np.int32)
    following = preceding = 0
    group, above, below = -1, np.int64(0), np.int64(0)
    for i in range(rows.size):
        time = times[i]
        if groups[i] == group and above < time < below:
            continue
        group = groups[i]
        begin, end = first_cut[group], first_cut[group + 1]
        place = _not_after(cuts, begin, end, time)
        at = begin + place
        below = lows[at] if at < end else _GREATEST
        while at < end and time >= lows[at]:
            after_rows[following], after_units[following] = rows[i], first_unit[group] + (at - begin) + 1
            following += 1
            at += 1
        at = begin + place - 1
        above = highs[at] if at >= begin else _LEAST
        while at >= begin and time <= highs[at]:
            before_rows[preceding], before_units[preceding] = rows[i], first_unit[group] + (at - begin)
            preceding += 1
            at -= 1
    return after_rows, after_units, before_rows, before_units


@njit(cache=True, nogil=True)
def _add(heap: np.ndarray, size: int, value: int) -> None:
    """Put a value into a heap of so many, whose root is the least."""
    at = size
    while at > 0 and heap[(at - 1) >> 1] > value:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = value


@njit(cache=True, nogil=True)
def _replace(heap: np.ndarray, value: int) -> None:
    """Put a greater value in place of the root of a full heap."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= heap.size:
            break
        if child + 1 < heap.size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value


@njit(cache=True, nogil=True)
def nearest(
    groups: np.ndarray, times: np.ndarray, first_cut: np.ndarray, limits: np.ndarray, after: bool, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """(places int64, intervals int32): rows that may be among the `most` last ones before limits (int64[m]) of their
    key, or (after) among the first ones after them: these, and all that have the same time as the farthest.

    The c limits of a key part its rows into c + 1 intervals; each has a heap of the nearest times so far. Rows are
    looked at from where the nearest are, if they are in order of time.
    """
    n_intervals = limits.size + first_cut.size - 1
    heaps, sizes = np.empty((n_intervals, most), np.int64), np.zeros(n_intervals, np.int64)
    places, intervals = np.empty(groups.size, np.int64), np.empty(groups.size, np.int32)
    count = 0
    group, interval, first, until = -1, -1, np.int64(0), np.int64(0)
    for step in range(groups.size):
        i = step if after else groups.size - 1 - step
        time = times[i]
        if groups[i] != group or time < first or time >= until:
            group = groups[i]
            begin, end = first_cut[group], first_cut[group + 1]
            earlier = time - 1 if after and time > _LEAST else time
            place = 0 if after and time == _LEAST else _not_after(limits, begin, end, earlier)
            first = limits[begin + place - 1] if place > 0 else _LEAST
            until = limits[begin + place] if begin + place < end else _GREATEST
            if after:
                first = min(first, _GREATEST - 1) + 1 if place > 0 else first
                until = min(until, _GREATEST - 1) + 1
            counted = place > 0 if after else begin + place < end
            interval = begin + group + place if counted else -1
        if interval < 0:
            continue
        value = ~time if after else time
        heap, size = heaps[interval], sizes[interval]
        if size < most:
            _add(heap, size, value)
            sizes[interval] = size + 1
        elif value > heap[0]:
            _replace(heap, value)
        elif value < heap[0]:
            continue
        places[count], intervals[count] = i, interval
        count += 1
    kept = 0
    for j in range(count):
        value = ~times[places[j]] if after else times[places[j]]
        if value >= heaps[intervals[j], 0]:
            places[kept], intervals[kept] = places[j], intervals[j]
            kept += 1
    return places[:kept], intervals[:kept]
