"""Two groups side by side, `A; B*; C*; D`: where the one ends and the other begins."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def splits(b_from, b_rows, b_least, c_from, c_rows, c_least, time, limit):
    """Per match with all events of B and of C between the places around them: every way to part them.

    The group of B is all of its events before the first of C, the group of C all of its events after the last of B;
    a group that is empty bounds nothing. So B has a beginning of its list and C an end of its own.
    Returns (match, how many of B, from which of C on) of each way; one more than `limit` if there are more.
    """
    room = 1024
    which, ends, begins = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    for m in range(len(b_from) - 1):
        b, b_stop, c_first, c_stop = b_from[m], b_from[m + 1], c_from[m], c_from[m + 1]
        for c in range(c_first, c_stop + 1):
            while b < b_stop and (c == c_stop or time[b_rows[b]] < time[c_rows[c]]):
                b += 1
            if c > c_first and (b == b_from[m] or time[c_rows[c - 1]] > time[b_rows[b - 1]]):
                continue
            if b - b_from[m] < b_least or c_stop - c < c_least:
                continue
            if count == room:
                room *= 2
                which, ends, begins = _longer(which, room), _longer(ends, room), _longer(begins, room)
            which[count], ends[count], begins[count] = m, b, c
            count += 1
        if count > limit:
            break
    return which[:count], ends[:count], begins[:count]


@njit(cache=True, nogil=True)
def _longer(values, room):
    out = np.empty(room, np.int64)
    out[: len(values)] = values
    return out
