"""Groups side by side, `A; B*; C*; D`: where the one ends and the other begins."""

from __future__ import annotations

import numpy as np
from numba import njit

NOT_TRIED, EMPTY = -2, -1


@njit(cache=True, nogil=True)
def splits(from_, rows, least, counts, time, limit):
    """Per match, with all events of each group between the places around them: every way to part them.

    from_ int64[groups, matches + 1]: where the events of each group begin in `rows`; least, counts int64[groups]: how
    many events it needs, and how many it has exactly (0: all of them). A group is all of its events after the last
    event of the groups before it, and before the first event of those after it; one with a count is any so many
    successive ones of these. A group that is empty bounds nothing.

    Depth first over the groups. `cap`: the next group that is not empty must begin by then, as there is an event that a
    group before it has not taken. Returns (match int64[ways], from int64[ways, groups], to); one more than `limit` if
    there are more.
    """
    groups = len(least)
    room = 1024
    which = np.empty(room, np.int64)
    begins, ends = np.empty((room, groups), np.int64), np.empty((room, groups), np.int64)
    begin, end = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    first, tried = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    last, cap = np.zeros(groups + 1, np.int64), np.zeros(groups + 1, np.int64)
    some, capped = np.zeros(groups + 1, np.bool_), np.zeros(groups + 1, np.bool_)
    found = 0
    for m in range(from_.shape[1] - 1):
        at = 0
        first[0], tried[0] = from_[0, m], NOT_TRIED
        while at >= 0:
            if at == groups:
                if not capped[at]:
                    if found == room:
                        room *= 2
                        which, begins, ends = _longer(which, room), _taller(begins, room), _taller(ends, room)
                    which[found] = m
                    begins[found], ends[found] = begin, end
                    found += 1
                    if found > limit:
                        return which[:found], begins[:found], ends[:found]
                at -= 1
                continue
            stop, low = from_[at, m + 1], first[at]
            tried[at] = _next(rows, time, low, stop, tried[at], least[at], counts[at], capped[at], cap[at],
                              at == groups - 1)  # fmt: skip
            option = tried[at]
            if option == NOT_TRIED:  # no more
                at -= 1
                continue
            some[at + 1], last[at + 1], capped[at + 1], cap[at + 1] = some[at], last[at], capped[at], cap[at]
            if option == EMPTY:
                begin[at] = end[at] = low
                if low < stop and not (capped[at] and cap[at] <= time[rows[low]]):
                    capped[at + 1], cap[at + 1] = True, time[rows[low]]
            else:
                begin[at], end[at] = low, option + 1
                if counts[at]:
                    begin[at], end[at] = option, option + counts[at]
                some[at + 1], last[at + 1] = True, time[rows[end[at] - 1]]
                capped[at + 1] = counts[at] == 0 and end[at] < stop
                if capped[at + 1]:
                    cap[at + 1] = time[rows[end[at]]]
            at += 1
            if at < groups:
                first[at], tried[at] = from_[at, m], NOT_TRIED
                if some[at]:
                    first[at] = _first_after(rows, time, from_[at, m], from_[at, m + 1], last[at])
    return which[:found], begins[:found], ends[:found]


@njit(cache=True, nogil=True)
def _next(rows, time, low, stop, tried, least, count, capped, cap, is_last):
    """The option of a group after `tried`: EMPTY, its last event, or with a count its first; NOT_TRIED: none."""
    if count:
        option = low if tried == NOT_TRIED else tried + 1
        fits = option + count <= stop and not (capped and time[rows[option]] > cap)
        return option if fits else NOT_TRIED
    if tried == NOT_TRIED and least == 0:
        return EMPTY
    if low == stop or (capped and time[rows[low]] > cap):
        return NOT_TRIED
    option = low + max(least, 1) - 1 if tried < 0 else tried + 1
    if is_last:
        option = max(option, stop - 1)  # what is left out is bounded by nothing
    while option + 1 < stop and time[rows[option + 1]] == time[rows[option]]:
        option += 1
    return option if option < stop else NOT_TRIED


@njit(cache=True, nogil=True)
def _first_after(rows, time, low, high, moment):
    """First index in [low, high) of a row that is later."""
    while low < high:
        middle = (low + high) >> 1
        if time[rows[middle]] <= moment:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _longer(values, room):
    out = np.empty(room, np.int64)
    out[: len(values)] = values
    return out


@njit(cache=True, nogil=True)
def _taller(values, room):
    out = np.empty((room, values.shape[1]), np.int64)
    out[: len(values)] = values
    return out
