"""Pairs of live and archive matches by recency (PCQ, Definitions 6, 8 and 9), without a look at pairs that are too old.

A live match l and an archive match a of one key are a pair iff a.start < l.start, a.end < l.end and l.end - a.start is
at most the recency. Matches of a key lie together, keys ascending; within a key, archive matches are in order of their
starts and live matches in order of their ends. The output arrays have a fixed size: where they are full, the kernel
says how far it has come, and goes on there when it is called again. All arrays are int64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.times import window_start

AT_OUTER, AT_INNER, NOT_BEGUN = 0, 1, -1


def beginning() -> np.ndarray:
    """The place of a join that has not begun: int64[2], updated by the kernels."""
    return np.array([0, NOT_BEGUN], np.int64)


@njit(cache=True, nogil=True)
def first_at_least(values, lo, hi, bound):
    """The first place in lo:hi, where values ascend, that holds at least `bound`; hi if there is none."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[middle] < bound:
            lo = middle + 1
        else:
            hi = middle
    return lo


@njit(cache=True, nogil=True)
def by_live(live_key, live_start, live_end, key, start, end, recency, place, out_live, out_archive):
    """For each live match, in order, its archive matches in order of their starts. Returns the number of pairs."""
    count = 0
    lo = hi = 0
    known = False
    room = len(out_live)
    for i in range(place[AT_OUTER], len(live_key)):
        if not known or live_key[i] != live_key[i - 1]:
            lo = first_at_least(key, hi if known else 0, len(key), live_key[i])
            hi = lo
            while hi < len(key) and key[hi] == live_key[i]:
                hi += 1
            known = True
        at = place[AT_INNER]
        if at == NOT_BEGUN:
            at = first_at_least(start, lo, hi, window_start(live_end[i], recency))
        while at < hi and start[at] < live_start[i]:
            if end[at] < live_end[i]:
                if count == room:
                    place[AT_OUTER], place[AT_INNER] = i, at
                    return count
                out_live[count] = i
                out_archive[count] = at
                count += 1
            at += 1
        place[AT_INNER] = NOT_BEGUN
    place[AT_OUTER] = len(live_key)
    return count


@njit(cache=True, nogil=True)
def by_archive(live_key, live_start, live_end, key, start, low, high, place, out_live, out_archive):
    """For each archive match, in order, the live matches that start after it and end in low <= end <= high, in order of
    their ends. Returns the number of pairs."""
    count = 0
    lo = hi = 0
    known = False
    room = len(out_live)
    for i in range(place[AT_OUTER], len(key)):
        if not known or key[i] != key[i - 1]:
            lo = first_at_least(live_key, hi if known else 0, len(live_key), key[i])
            hi = lo
            while hi < len(live_key) and live_key[hi] == key[i]:
                hi += 1
            known = True
        at = place[AT_INNER]
        if at == NOT_BEGUN:
            at = first_at_least(live_end, lo, hi, low[i])
        while at < hi and live_end[at] <= high[i]:
            if live_start[at] > start[i]:
                if count == room:
                    place[AT_OUTER], place[AT_INNER] = i, at
                    return count
                out_live[count] = at
                out_archive[count] = i
                count += 1
            at += 1
        place[AT_INNER] = NOT_BEGUN
    place[AT_OUTER] = len(key)
    return count
