"""Which slices of time a row of a sliced key goes to: the one that owns it, and those in whose overlap it is.

Shapes: groups int32[n], the sliced key of each row, or -1; times int64[n]; first_cut int64[k + 1], where the cuts of
each of the k sliced keys begin among all cuts; cuts, lows, highs int64[m], ascending within a key: slice s of a key
owns times from its cut s - 1 up to before its cut s, the slice after a cut is given rows from `lows` on, the one before
it up to `highs`; first_unit int32[k], the number of a key's first slice.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LEAST = np.iinfo(np.int64).min


@njit(cache=True, nogil=True)
def groups_of(hashes: np.ndarray, sliced: np.ndarray) -> np.ndarray:
    """The place of each hash (uint64[n]) among those of sliced keys (uint64[k], ascending), or -1."""
    groups = np.empty(hashes.size, np.int32)
    for i in range(hashes.size):
        low, high = 0, sliced.size
        while low < high:
            middle = (low + high) >> 1
            if sliced[middle] < hashes[i]:
                low = middle + 1
            else:
                high = middle
        groups[i] = low if low < sliced.size and sliced[low] == hashes[i] else -1
    return groups


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
    groups: np.ndarray,
    times: np.ndarray,
    first_cut: np.ndarray,
    cuts: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    first_unit: np.ndarray,
    numbers: np.ndarray,
) -> int:
    """Write the unit that owns each row of a sliced key into `numbers` (int32[n]); how many copies overlaps take."""
    copies = 0
    for i in range(groups.size):
        group = groups[i]
        if group < 0:
            continue
        begin, end, time = first_cut[group], first_cut[group + 1], times[i]
        place = _not_after(cuts, begin, end, time)
        numbers[i] = first_unit[group] + place
        at = begin + place
        while at < end and time >= lows[at]:
            copies += 1
            at += 1
        at = begin + place - 1
        while at >= begin and time <= highs[at]:
            copies += 1
            at -= 1
    return copies


@njit(cache=True, nogil=True)
def with_copies(
    groups: np.ndarray,
    times: np.ndarray,
    first_cut: np.ndarray,
    cuts: np.ndarray,
    lows: np.ndarray,
    highs: np.ndarray,
    first_unit: np.ndarray,
    numbers: np.ndarray,
    copies: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(rows int64[n + copies], units int32[n + copies]): every row for its unit, and for those in whose overlap it is.

    numbers and copies: as `own` has them. Rows stay in order.
    """
    rows = np.empty(groups.size + copies, np.int64)
    units = np.empty(groups.size + copies, np.int32)
    to = 0
    for i in range(groups.size):
        rows[to], units[to] = i, numbers[i]
        to += 1
        group = groups[i]
        if group < 0:
            continue
        begin, end, time = first_cut[group], first_cut[group + 1], times[i]
        place = numbers[i] - first_unit[group]
        at = begin + place
        while at < end and time >= lows[at]:
            rows[to], units[to] = i, first_unit[group] + (at - begin) + 1
            to += 1
            at += 1
        at = begin + place - 1
        while at >= begin and time <= highs[at]:
            rows[to], units[to] = i, first_unit[group] + (at - begin)
            to += 1
            at -= 1
    return rows, units


@njit(cache=True, nogil=True)
def intervals_of(
    groups: np.ndarray, times: np.ndarray, first_cut: np.ndarray, limits: np.ndarray, after: bool
) -> np.ndarray:
    """Between which limits of its key (int64[m]) each row lies, as int32[n]; -1 where no overlap counts it.

    A key of c cuts has c + 1 intervals. after: rows after the limits count, those at a limit do not; else rows before.
    """
    intervals = np.empty(groups.size, np.int32)
    for i in range(groups.size):
        group = groups[i]
        intervals[i] = -1
        if group < 0:
            continue
        begin, end = first_cut[group], first_cut[group + 1]
        if after:
            place = _not_after(limits, begin, end, times[i] - 1) if times[i] > _LEAST else 0
            if place > 0:
                intervals[i] = begin + group + place
        else:
            place = _not_after(limits, begin, end, times[i])
            if place < end - begin:
                intervals[i] = begin + group + place
    return intervals


@njit(cache=True, nogil=True)
def among_greatest(values: np.ndarray, intervals: np.ndarray, n_intervals: int, most: int) -> np.ndarray:
    """The rows (int64) whose value (int64[n]) is among the `most` greatest of its interval, or equal to the least of
    these.

    One heap for each interval, whose root is the least of the greatest values so far.
    """
    heaps = np.empty((n_intervals, most), np.int64)
    sizes = np.zeros(n_intervals, np.int64)
    for i in range(values.size):
        interval = intervals[i]
        if interval < 0:
            continue
        heap, value = heaps[interval], values[i]
        size = sizes[interval]
        if size < most:
            at = size
            sizes[interval] = size + 1
            while at > 0 and heap[(at - 1) >> 1] > value:
                heap[at] = heap[(at - 1) >> 1]
                at = (at - 1) >> 1
            heap[at] = value
        elif value > heap[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= most:
                    break
                if child + 1 < most and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= value:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = value
    count = 0
    for i in range(values.size):
        interval = intervals[i]
        if interval >= 0 and (sizes[interval] < most or values[i] >= heaps[interval, 0]):
            count += 1
    rows = np.empty(count, np.int64)
    to = 0
    for i in range(values.size):
        interval = intervals[i]
        if interval >= 0 and (sizes[interval] < most or values[i] >= heaps[interval, 0]):
            rows[to] = i
            to += 1
    return rows
