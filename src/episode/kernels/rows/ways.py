"""Ways of INCREMENTAL MATCH that wait at the last row that is there, each of its own, and go on when rows come.

A start row may have several, and with SKIP TO NEXT ROW many start rows have one at a time; they stand in the order in
which a search would come to them. A way is a row of `ways` (and of `way_values`): its start row, the instruction and
the row at which it stands, the steps of its start row so far, the last turn of its path (see `kernels.rows.turns`);
then the last and the first row of each label, the row where the iteration of each loop began, and of each running
aggregate the whole number and the count; in `way_values` its two other numbers.

What the search knows of ways while it runs is in an array (`rare`), not in variables, which would cost speed where
there are none.
"""

from __future__ import annotations

from numba import njit

from episode.kernels.rows.arrays import CRAMPED, DEPTH, OPEN, ROOM, STACK, STACK_END, TURNS_END
from episode.kernels.rows.turns import NO_ROOM, NO_TURN, follow_turns, with_turns

WAY_START, WAY_PC, WAY_ROW, WAY_STEPS, WAY_TURN, WAY_MARKS = range(6)
KEPT, NO_ROOM_FOR_WAYS, NO_ROOM_FOR_TURNS, GIVEN_UP = range(4)
(
    WAYS, DONE, NEW, FROM, LEFT_FROM, LEFT, TURNS_FROM, KEEPS, RESUMED, ARRIVAL, KEPT_HERE, WAITS, LAST_TURN, TURNED_TO,
    KNOWN_FROM, LATEST_MATCH, LABEL_PLACE, MINE, TAKEN, RUSHED,
) = range(20)  # fmt: skip
"""Places of `rare`. Of a partition: how many ways wait, how many of them have gone on, how many wait now; where the
former begin; those that stay where they are, and how many; the end of the turns before; are ways kept? TAKEN: the mark
of rows that are the end of a match. Of an attempt: does it go on with ways?; the instruction at which it came to the
last row; is that kept already, and does it wait?; the last turn of its path, and the row up to which it goes; the row
from which on the path is written; the latest match of ALL MATCHES, the place of the label to skip to in the longest
one; the mark of ends that it has seen; steps taken in loops over one label."""
RARE = 20


@njit(cache=True, nogil=True)
def begin_partition(k, rare, opened, cursor, by_way):
    """What a partition begins with."""
    rare[WAYS] = rare[DONE] = rare[NEW] = rare[FROM] = rare[LEFT_FROM] = rare[LEFT] = rare[RESUMED] = 0
    rare[KEEPS] = by_way
    if by_way:
        rare[FROM], rare[TURNS_FROM] = opened[STACK, k], cursor[TURNS_END]
        if opened[OPEN, k]:
            rare[WAYS] = opened[DEPTH, k]


@njit(cache=True, nogil=True)
def begin_attempt(rare, start, mine):
    """What an attempt begins with."""
    rare[LATEST_MATCH] = rare[LAST_TURN] = NO_TURN
    rare[LABEL_PLACE] = -1
    rare[TURNED_TO] = rare[KNOWN_FROM] = start
    rare[RESUMED] = rare[KEPT_HERE] = rare[WAITS] = rare[ARRIVAL] = rare[RUSHED] = 0
    rare[MINE] = mine


@njit(cache=True, nogil=True)
def keep_way(
    rare, ways, way_values, turns, cursor, start, pc, row, steps, path, origin, first_row, last_row, loop_rows, agg_i,
    agg_f, agg_m, agg_n, aggs,
):  # fmt: skip
    """A way of the start row waits at this instruction and row: KEPT, or why not."""
    place = cursor[STACK_END] + rare[LEFT] + rare[NEW]
    rare[KEPT_HERE] = 1
    rare[NEW] += 1
    turn = NO_ROOM
    if place < len(ways):
        turn = with_turns(turns, cursor, rare[LAST_TURN], start, rare[TURNED_TO], row, path, origin)
    if turn == NO_ROOM:
        return _not_kept(rare, cursor, NO_ROOM_FOR_WAYS if place >= len(ways) else NO_ROOM_FOR_TURNS)
    way = ways[place]
    way[WAY_START], way[WAY_PC], way[WAY_ROW], way[WAY_STEPS], way[WAY_TURN] = start, pc, row, steps, turn
    labels = len(last_row)
    at = WAY_MARKS
    for label in range(labels):
        way[at + label], way[at + labels + label] = last_row[label], first_row[label]
    at += 2 * labels
    for loop in range(len(loop_rows)):
        way[at + loop] = loop_rows[loop]
    at += len(loop_rows)
    column = row - origin
    for j in range(aggs):
        way[at + j], way[at + aggs + j] = agg_i[j, column], agg_n[j, column]
        way_values[place, j], way_values[place, aggs + j] = agg_f[j, column], agg_m[j, column]
    return KEPT


@njit(cache=True, nogil=True)
def _not_kept(rare, cursor, reason):
    """There is no room for the ways of this partition; if there cannot be more, they start over when rows come."""
    rare[KEEPS] = 0
    return reason if cursor[CRAMPED] == 0 else GIVEN_UP


@njit(cache=True, nogil=True)
def take_way_up(
    rare, ways, way_values, turns, walks, start, path, origin, first_row, last_row, loop_rows, arrival_loops, agg_i,
    agg_f, agg_m, agg_n, aggs,
):  # fmt: skip
    """The next way goes on: what it knows, back to where the search works; (row, pc)."""
    place = rare[FROM] + rare[DONE]
    rare[DONE] += 1
    way = ways[place]
    row, pc = way[WAY_ROW], way[WAY_PC]
    labels = len(last_row)
    at = WAY_MARKS
    for label in range(labels):
        last_row[label], first_row[label] = way[at + label], way[at + labels + label]
    at += 2 * labels
    for loop in range(len(loop_rows)):
        loop_rows[loop] = arrival_loops[loop] = way[at + loop]
    at += len(loop_rows)
    column = row - origin
    for j in range(aggs):
        agg_i[j, column], agg_n[j, column] = way[at + j], way[at + aggs + j]
        agg_f[j, column], agg_m[j, column] = way_values[place, j], way_values[place, aggs + j]
    rare[RESUMED], rare[ARRIVAL], rare[KEPT_HERE], rare[WAITS] = 1, pc, 0, 0
    rare[LAST_TURN], rare[TURNED_TO], rare[KNOWN_FROM] = way[WAY_TURN], row, row
    if walks:
        write_path(rare, turns, start, path, origin)
    return row, pc


@njit(cache=True, nogil=True)
def write_path(rare, turns, start, path, origin):
    """Write the path of a way that has gone on from its start row on."""
    follow_turns(turns, rare[LAST_TURN], path, start - origin)
    rare[KNOWN_FROM] = start


@njit(cache=True, nogil=True)
def has_more(rare, ways, start):
    """Does another way of the start row wait?"""
    return rare[DONE] < rare[WAYS] and ways[rare[FROM] + rare[DONE], WAY_START] == start


@njit(cache=True, nogil=True)
def stay(rare, cursor, ways, way_values):
    """All other ways wait as they are, after new ones: KEPT, or why not."""
    if rare[NEW] == 0:
        rare[LEFT_FROM], rare[LEFT] = rare[FROM] + rare[DONE], rare[WAYS] - rare[DONE]
        rare[DONE] = rare[WAYS]
        return KEPT
    end = cursor[STACK_END]
    while rare[DONE] < rare[WAYS]:
        if end + rare[NEW] >= len(ways):
            rare[DONE] = rare[WAYS]
            return _not_kept(rare, cursor, NO_ROOM_FOR_WAYS)
        ways[end + rare[NEW]] = ways[rare[FROM] + rare[DONE]]
        way_values[end + rare[NEW]] = way_values[rare[FROM] + rare[DONE]]
        rare[NEW] += 1
        rare[DONE] += 1
    return KEPT


@njit(cache=True, nogil=True)
def settle_ways(k, rare, opened, cursor, ways, way_values):
    """The ways of partition k from now on: those that were left where they are, and new ones, which stand at the end
    of all, after room for these."""
    if not rare[KEEPS]:
        rare[LEFT] = rare[NEW] = 0
        cursor[TURNS_END] = rare[TURNS_FROM]
    left, count = rare[LEFT], rare[NEW]
    opened[OPEN, k], opened[DEPTH, k] = left + count > 0, left + count
    if left:
        opened[ROOM, k] -= rare[LEFT_FROM] - opened[STACK, k]
        opened[STACK, k] = rare[LEFT_FROM]
    if count == 0:
        return
    end = cursor[STACK_END]
    begin = opened[STACK, k]
    if left + count <= opened[ROOM, k]:
        for at in range(left, left + count):
            ways[begin + at] = ways[end + at]
            way_values[begin + at] = way_values[end + at]
        return
    for at in range(left):
        ways[end + at] = ways[begin + at]
        way_values[end + at] = way_values[begin + at]
    opened[STACK, k], opened[ROOM, k] = end, min(2 * (left + count), len(ways) - end)
    cursor[STACK_END] = end + opened[ROOM, k]
