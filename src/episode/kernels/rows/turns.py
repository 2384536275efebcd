"""Paths of matches in little room: the places where the instruction changes that takes their rows.

A turn is (the instruction, up to which row, the turn before); rows are counted from the start row, so that turns stay
as they are when rows move. Paths that begin alike share turns. A match found so far by an attempt of ALL MATCHES is an
entry, too: (-1 - its length, its last turn, the match found before it).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.rows.arrays import TURNS_END

TAKEN_BY, UNTIL, BEFORE = range(3)
NO_TURN, NO_ROOM = -1, -2


@njit(cache=True, nogil=True)
def with_turns(turns, cursor, last, start, begin, end, path, origin):
    """The last turn of a path from `start` to row `end` (exclusive), or NO_ROOM. last: its last turn before `begin`."""
    at = begin
    while at < end:
        taken_by = path[at - origin]
        at += 1
        while at < end and path[at - origin] == taken_by:
            at += 1
        place = cursor[TURNS_END]
        if place >= len(turns):
            return NO_ROOM
        before = last
        if last >= 0 and turns[last, TAKEN_BY] == taken_by:
            before = turns[last, BEFORE]
        turns[place, TAKEN_BY], turns[place, UNTIL], turns[place, BEFORE] = taken_by, at - start, before
        cursor[TURNS_END] = place + 1
        last = place
    return last


@njit(cache=True, nogil=True)
def follow_turns(turns, last, path, begin):
    """Write the path whose last turn is `last` from the place `begin` on."""
    while last >= 0:
        before = turns[last, BEFORE]
        first = turns[before, UNTIL] if before >= 0 else 0
        path[begin + first : begin + turns[last, UNTIL]] = turns[last, TAKEN_BY]
        last = before


@njit(cache=True, nogil=True)
def with_match(turns, cursor, latest, start, end, path, origin):
    """Add a match of the rows start..end to those found before: the latest one, or NO_ROOM."""
    last = with_turns(turns, cursor, NO_TURN, start, start, end, path, origin)
    place = cursor[TURNS_END]
    if last == NO_ROOM or place >= len(turns):
        return NO_ROOM
    turns[place, TAKEN_BY], turns[place, UNTIL], turns[place, BEFORE] = -1 - (end - start), last, latest
    cursor[TURNS_END] = place + 1
    return place


@njit(cache=True, nogil=True)
def matches_before(turns, latest):
    """How many matches have been found up to the latest, and how many rows they have."""
    count, rows = 0, 0
    while latest >= 0:
        count += 1
        rows += -1 - turns[latest, TAKEN_BY]
        latest = turns[latest, BEFORE]
    return count, rows


@njit(cache=True, nogil=True)
def give_matches(turns, latest, start, kind, outs, used, out_kind, out_start, out_length, out_path_from, out_path):
    """Put the matches found up to the latest into the output, which has room for them: (outs, used)."""
    while latest >= 0:
        length = -1 - turns[latest, TAKEN_BY]
        out_kind[outs], out_start[outs], out_length[outs] = kind, start, length
        follow_turns(turns, turns[latest, UNTIL], out_path, used)
        used += length
        out_path_from[outs + 1] = used
        outs += 1
        latest = turns[latest, BEFORE]
    return outs, used


@njit(cache=True, nogil=True)
def keep_turns(turns, end, roots):
    """The turns, of the first `end`, that lead to the roots, in a new array with as many free places; and their number.

    The roots are changed to their new places. What a turn refers to always stands before it.
    """
    place = np.full(end, -1, np.int64)
    for root in roots:
        if root >= 0:
            place[root] = 0
    count = 0
    for at in range(end - 1, -1, -1):
        if place[at] >= 0:
            count += 1
            if turns[at, BEFORE] >= 0:
                place[turns[at, BEFORE]] = 0
            if turns[at, TAKEN_BY] < 0:
                place[turns[at, UNTIL]] = 0
    kept = np.zeros((2 * count + 64, 3), np.int64)
    count = 0
    for at in range(end):
        if place[at] >= 0:
            place[at] = count
            kept[count] = turns[at]
            if turns[at, BEFORE] >= 0:
                kept[count, BEFORE] = place[turns[at, BEFORE]]
            if turns[at, TAKEN_BY] < 0:
                kept[count, UNTIL] = place[turns[at, UNTIL]]
            count += 1
    for at in range(len(roots)):
        if roots[at] >= 0:
            roots[at] = place[roots[at]]
    return kept, count
