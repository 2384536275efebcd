"""Ways of INCREMENTAL MATCH that wait at the last row, each by itself, and resume when rows come.

A way is a partial path through the pattern. A start row may have several, and with SKIP TO NEXT ROW many start rows
have one at a time; they are in the order in which a search would come to them. A way is a row of `ways` (and of
`way_values`): its start row, the instruction and the row at which it waits, the steps of its start row so far, the last
turn of its path (see `paths`); then the last and the first row of each label, the row where the iteration of each loop
began, and of each running aggregate the whole number and the count; in `way_values` its two other numbers.

The state of ways in a search is in an array (`rare`), not in variables, which would slow down searches without ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from episode.matchers.rows.arrays import AT_LIMIT, DEPTH, OPEN, ROOM, STACK, STACK_END, TURNS_END
from episode.matchers.rows.code.arrays import AGGREGATE_ROWS
from episode.matchers.rows.code.paths import NO_ROOM, NO_TURN, follow_turns, with_turns
from episode.native.builder import Scope, subroutine
from episode.native.ir import BOOL, Array, Operand, Value

WAY_START, WAY_PC, WAY_ROW, WAY_STEPS, WAY_TURN, WAY_MARKS = range(6)
KEPT, NO_ROOM_FOR_WAYS, NO_ROOM_FOR_TURNS, GIVEN_UP = range(4)
(
    WAYS, DONE, NEW, FROM, LEFT_FROM, LEFT, TURNS_FROM, KEEPS, RESUMED, ARRIVAL, KEPT_HERE, WAITS, LAST_TURN, TURNED_TO,
    KNOWN_FROM, LATEST_MATCH, LABEL_PLACE, MINE, TAKEN, LOOP_STEPS, EXTREME, SIFTED_TO,
) = range(22)  # fmt: skip
"""Places of `rare`. Of a partition: the number of ways that wait, of those that have resumed, and of those that wait
now; where the first of these begin; the begin of the ways that stay in place, and their number; the end of the turns
before; are ways kept? TAKEN: the mark of rows that are the end of a match. EXTREME, SIFTED_TO: see `sieves`. Of an
attempt: does it resume ways?; the instruction at which it came to the last row; is that kept already, and does it
wait?; the last turn of its path, and the row up to which it goes; the row from which on the path is written; the latest
match of ALL MATCHES, the place of the label to skip to in the longest one; the mark of ends that it has seen; steps
taken in loops over one label."""
RARE = 22


@dataclass(frozen=True)
class WayShape:
    """The layout of a way: places of `last_row` (and `first_row`), places of `loop_rows`, running aggregates."""

    labels: int
    loops: int
    aggregates: int

    @property
    def width(self) -> int:
        return WAY_MARKS + 2 * self.labels + self.loops + 2 * self.aggregates


def begin_partition(s: Scope, k: Operand) -> None:
    """Reset the state of a partition."""
    f, rare = s.f, s.rare
    for place in (DONE, NEW, LEFT_FROM, LEFT, RESUMED):
        rare[place] = 0
    rare[KEEPS] = 1
    rare[FROM], rare[TURNS_FROM] = s.opened[_opened_place(s, STACK, k)], s.cursor[TURNS_END]
    is_open = s.opened[_opened_place(s, OPEN, k)].differs(0)
    rare[WAYS] = f.select(is_open, s.opened[_opened_place(s, DEPTH, k)], 0)


def _opened_place(s: Scope, field: int, k: Operand) -> Value:
    """The place of a field of partition k in `opened`."""
    return s.key_lo.length * field + k


@subroutine()
def begin_attempt(s: Scope, start: Value, mine: Value) -> None:
    """Reset the state of an attempt."""
    rare = s.rare
    rare[LATEST_MATCH] = rare[LAST_TURN] = NO_TURN
    rare[LABEL_PLACE] = -1
    rare[TURNED_TO] = rare[KNOWN_FROM] = start
    for place in (RESUMED, KEPT_HERE, WAITS, ARRIVAL, LOOP_STEPS):
        rare[place] = 0
    rare[MINE] = mine
    s.f.give(0)


# ---- keeping ---------------------------------------------------------------------------------------------------------


@subroutine()
def keep_way(
    s: Scope, start: Value, pc: Value, row: Value, steps: Value, origin: Value, *, shape: WayShape, loops: str
) -> None:
    """Let a way of the start row wait at this instruction and row: KEPT, or why not.

    Its labels are in last_row and first_row; its loops in loop_rows, or in arrival_loops, as they were when it came to
    the last row.
    """
    f = s.f
    place = _place_for_way(s, shape)
    with f.when(place < 0):
        f.give(_not_kept(s, NO_ROOM_FOR_WAYS))
    turn = with_turns(s, s.rare[LAST_TURN], start, s.rare[TURNED_TO], row, origin)
    with f.when(turn.equals(NO_ROOM)):
        f.give(_not_kept(s, NO_ROOM_FOR_TURNS))
    at = place * shape.width
    for field, value in ((WAY_START, start), (WAY_PC, pc), (WAY_ROW, row), (WAY_STEPS, steps), (WAY_TURN, turn)):
        s.ways[at + field] = value
    for kept, its_place, own, own_place in _kept_elements(s, shape, place, row - origin, loops):
        kept[its_place] = own[own_place]
    f.give(KEPT)


def _kept_elements(
    s: Scope, shape: WayShape, place: Value, column: Value, *loops: str
) -> Iterator[tuple[Array, Value, Array, Value]]:
    """Elements of a way, and those of the search that they keep: code is built for each, inside loops.

    column: of the aggregates. loops: the arrays of the rows where the iterations of loops began."""
    f, ways, labels, aggregates = s.f, s.ways, shape.labels, shape.aggregates
    at = place * shape.width + WAY_MARKS
    with f.loop(0, labels) as label:
        yield ways, at + label, s.last_row, label
        yield ways, at + labels + label, s.first_row, label
    if shape.loops:
        with f.loop(0, shape.loops) as loop:
            place_of_loop = at + 2 * labels + loop
            for name in loops:
                yield ways, place_of_loop, s.array(name), loop
    if aggregates:
        at = (place + 1) * shape.width - 2 * aggregates
        with f.loop(0, aggregates) as j:
            cell, value = s.settings[AGGREGATE_ROWS] * j + column, place * (2 * aggregates) + j
            yield ways, at + j, s.agg_i, cell
            yield ways, at + aggregates + j, s.agg_n, cell
            yield s.way_values, value, s.agg_f, cell
            yield s.way_values, value + aggregates, s.agg_m, cell


def _place_for_way(s: Scope, shape: WayShape) -> Value:
    """The place of one more way; negative without room."""
    f, rare = s.f, s.rare
    place = s.cursor[STACK_END] + rare[LEFT] + rare[NEW]
    rare[KEPT_HERE] = 1
    rare[NEW] = rare[NEW] + 1
    return f.select(place * shape.width < s.ways.length, place, -1)


def _not_kept(s: Scope, reason: int) -> Value:
    """Note that the ways of this partition do not fit; if there cannot be more room, they start over when rows come."""
    s.rare[KEEPS] = 0
    return s.f.select(s.cursor[AT_LIMIT].equals(0), reason, GIVEN_UP)


# ---- resuming --------------------------------------------------------------------------------------------------------


@subroutine()
def take_way_up(s: Scope, start: Value, origin: Value, *, shape: WayShape, needs_path: bool) -> None:
    """Resume the next way in the arrays of the search; its row. Its instruction is in rare[ARRIVAL].

    Its labels are written to last_row and first_row, its loops to loop_rows and arrival_loops. needs_path: is its path
    needed?
    """
    rare = s.rare
    place = rare[FROM] + rare[DONE]
    rare[DONE] = rare[DONE] + 1
    at = place * shape.width
    row = s.ways[at + WAY_ROW]
    for kept, its_place, own, own_place in _kept_elements(s, shape, place, row - origin, "loop_rows", "arrival_loops"):
        own[own_place] = kept[its_place]
    rare[RESUMED], rare[ARRIVAL], rare[KEPT_HERE], rare[WAITS] = 1, s.ways[at + WAY_PC], 0, 0
    rare[LAST_TURN], rare[TURNED_TO], rare[KNOWN_FROM] = s.ways[at + WAY_TURN], row, row
    if needs_path:
        write_path(s, start, origin)
    s.f.give(row)


def write_path(s: Scope, start: Operand, origin: Operand) -> None:
    """Write the path of a resumed way from its start row on."""
    f = s.f
    follow_turns(s, s.rare[LAST_TURN], "path", f.value(start) - origin)
    s.rare[KNOWN_FROM] = start


@subroutine(BOOL)
def has_more(s: Scope, start: Value, *, width: int) -> None:
    """Does another way of the start row wait?"""
    f, done = s.f, s.rare[DONE]
    f.give_if(done >= s.rare[WAYS], False)
    f.give(s.ways[(s.rare[FROM] + done) * width + WAY_START].equals(start))


# ---- after an attempt, and after a partition -------------------------------------------------------------------------


@subroutine()
def stay(s: Scope, *, shape: WayShape) -> None:
    """Let all other ways wait as they are, after new ones: KEPT, or why not."""
    f, rare = s.f, s.rare
    new, begin, others = rare[NEW], rare[FROM] + rare[DONE], rare[WAYS] - rare[DONE]
    rare[DONE] = rare[WAYS]
    with f.when(new.equals(0)):
        rare[LEFT_FROM], rare[LEFT] = begin, others
        f.give(KEPT)
    to = s.cursor[STACK_END] + new
    with f.when((to + others) * shape.width > s.ways.length):
        f.give(_not_kept(s, NO_ROOM_FOR_WAYS))
    _copy_ways(s, to, begin, others, shape=shape)
    rare[NEW] = new + others
    f.give(KEPT)


@subroutine()
def settle_ways(s: Scope, k: Value, *, shape: WayShape) -> None:
    """Store the ways of partition k: those that stay in place, and new ones, which are at the end of all, after room
    for these."""
    f, rare, opened = s.f, s.rare, s.opened
    is_open, depth, stack, room = (_opened_place(s, field, k) for field in (OPEN, DEPTH, STACK, ROOM))
    with f.when(rare[KEEPS].equals(0)):
        rare[LEFT] = rare[NEW] = 0
        s.cursor[TURNS_END] = rare[TURNS_FROM]
    left, count = rare[LEFT], rare[NEW]
    ways = left + count
    opened[is_open], opened[depth] = (ways > 0).to(opened.type), ways
    with f.when(left > 0):
        opened[room] = opened[room] - (rare[LEFT_FROM] - opened[stack])
        opened[stack] = rare[LEFT_FROM]
    f.give_if(count.equals(0), 0)
    begin, end = opened[stack], s.cursor[STACK_END]
    with f.when(ways <= opened[room]):
        _copy_ways(s, begin + left, end + left, count, shape=shape)
        f.give(0)
    _copy_ways(s, end, begin, left, shape=shape)
    larger = f.least(ways * 2, s.ways.length.divide(shape.width) - end)
    opened[stack], opened[room] = end, larger
    s.cursor[STACK_END] = end + larger
    f.give(0)


@subroutine()
def _copy_ways(s: Scope, to: Value, from_: Value, count: Value, *, shape: WayShape) -> None:
    f = s.f
    for name, width in (("ways", shape.width), ("way_values", 2 * shape.aggregates)):
        if width:
            with f.loop(0, count * width) as at:
                s.array(name)[to * width + at] = s.array(name)[from_ * width + at]
    f.give(0)
