"""Regions of rows that matches of one pattern ask the other for, as segments that do not overlap (PCQ, section 4.3).

Rows of a key lie together, in order of time. All arrays are int64.
"""

from __future__ import annotations

from numba import njit

from episode.kernels.correlation.joining import first_at_least

KEY, LO, HI, FROM, TO = range(5)
"""Columns of a segment: the number of its key; times lo <= t < hi; rows."""


@njit(cache=True, nogil=True)
def merge(key, lo, hi, row_from, row_to, time, covered, slack, until, merged, out):
    """Segments for demands, which are in order of key number and lo. Returns how many there are.

    row_from, row_to: of each key; covered: of each key, what is before this time is known already. slack: rows between
    two regions that are not worth a segment of their own. until: a region that reaches beyond it has rows to come.
    merged: may demands share segments? out int64[demands, 5].
    """
    count = 0
    for i in range(len(key)):
        k = key[i]
        low = max(lo[i], covered[k])
        first = first_at_least(time, row_from[k], row_to[k], low)
        end = first_at_least(time, first, row_to[k], hi[i])
        if merged:
            if hi[i] <= low or (first == end and hi[i] - 1 <= until):
                continue
            last = count - 1
            if count and out[last, KEY] == k and (low <= out[last, HI] or first <= out[last, TO] + slack):
                if hi[i] > out[last, HI]:
                    out[last, HI] = hi[i]
                    out[last, TO] = end
                continue
        out[count, KEY], out[count, LO], out[count, HI] = k, low, hi[i]
        out[count, FROM], out[count, TO] = first, end
        count += 1
    return count


@njit(cache=True, nogil=True)
def first_rows(row_from, row_to, time, bound, out):
    """In each range of rows, the first that is not earlier than its bound."""
    for i in range(len(row_from)):
        out[i] = first_at_least(time, row_from[i], row_to[i], bound[i])


@njit(cache=True, nogil=True)
def extent(key, lo, hi, row_from, row_to, time):
    """(rows in all regions, rows in their union), of demands that are in order of key number and lo."""
    rows = union = 0
    last = -1
    reached = 0
    for i in range(len(key)):
        k = key[i]
        first = first_at_least(time, row_from[k], row_to[k], lo[i])
        end = first_at_least(time, first, row_to[k], hi[i])
        if k != last:
            last, reached = k, first
        rows += end - first
        if end > reached:
            union += end - max(first, reached)
            reached = end
    return rows, union
