"""Paths of matches in little room, and the order and numbers of matches that are found out of order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from episode.matchers.code.searching import merge_sort
from episode.matchers.codes import MATCHED
from episode.matchers.rows.arrays import TURNS_END
from episode.native.builder import Function, Program, Scope, subroutine
from episode.native.ir import I64, U64, Array, Operand, Value
from episode.native.running import compiled_for

# Paths of matches in little room: the places where the instruction changes that takes their rows. A turn is (the
# instruction, up to which row, the turn before); rows are counted from the start row, so that turns stay as they are
# when rows move. Paths that begin alike share turns. A match found so far by an attempt of ALL MATCHES is also an
# entry: (-1 - its length, its last turn, the match found before it).


TAKEN_BY, UNTIL, BEFORE = range(3)
TURN = 3
"""Columns of a turn, and how many there are."""
NO_TURN, NO_ROOM = -1, -2


@subroutine()
def with_turns(s: Scope, before_begin: Value, start: Value, begin: Value, end: Value, origin: Value) -> None:
    """The last turn of `path` from `start` to row `end` (exclusive), or NO_ROOM.

    before_begin: its last turn before `begin`."""
    f = s.f
    last, at = f.variable("last", before_begin), f.variable("at", begin)
    with f.during(lambda: at < end):
        taken_by = s.path[at - origin]
        at.set(at + 1)
        with f.during(lambda: at < end) as changed:
            f.jump_if(s.path[at - origin].differs(taken_by), changed)
            at.set(at + 1)
        instruction = taken_by.to(s.turns.type)
        before = f.variable("before", last)
        with f.when(last >= 0), f.when(s.turns[last * TURN + TAKEN_BY].equals(instruction)):
            before.set(s.turns[last * TURN + BEFORE])
        last.set(_add_turn(s, instruction, at - start, before))
        f.give_if(last.equals(NO_ROOM), NO_ROOM)
    f.give(last)


@subroutine()
def follow_turns(s: Scope, latest: Value, into: str, begin: Value) -> None:
    """Write the path whose last turn is the latest into `path` or `out_path`, from the place `begin` on."""
    f, path = s.f, s.array(into)
    last = f.variable("last", latest)
    with f.during(lambda: last >= 0):
        taken_by, until, before = (s.turns[last * TURN + column] for column in range(TURN))
        first = f.variable("first", 0)
        with f.when(before >= 0):
            first.set(s.turns[before * TURN + UNTIL])
        with f.loop(begin + first, begin + until) as at:
            path[at] = taken_by.to(path.type)
        last.set(before)
    f.give(0)


@subroutine()
def with_match(s: Scope, latest: Value, start: Value, end: Value, origin: Value) -> None:
    """Add a match of the rows start..end, which is in `path`, to those found before: the latest one, or NO_ROOM."""
    f = s.f
    last = with_turns(s, NO_TURN, start, start, end, origin)
    f.give_if(last.equals(NO_ROOM), NO_ROOM)
    f.give(_add_turn(s, -1 - (end - start), last, latest))


@subroutine()
def _add_turn(s: Scope, taken_by: Value, until: Value, before: Value) -> None:
    """The place of a new turn or match, or NO_ROOM."""
    f, place = s.f, s.cursor[TURNS_END]
    at = place * TURN
    f.give_if(at >= s.turns.length, NO_ROOM)
    s.turns[at + TAKEN_BY], s.turns[at + UNTIL], s.turns[at + BEFORE] = taken_by, until, before
    s.cursor[TURNS_END] = place + 1
    f.give(place)


def matches_before(s: Scope, latest: Operand) -> tuple[Value, Value]:
    """The number of matches found up to the latest, and of their rows."""
    f = s.f
    match, count, rows = f.variable("match", latest), f.variable("count", 0), f.variable("rows", 0)
    with f.during(lambda: match >= 0):
        count.set(count + 1)
        rows.set(rows + _length(s, match))
        match.set(s.turns[match * TURN + BEFORE])
    return count.value, rows.value


@subroutine()
def give_matches(s: Scope, latest: Value, start: Value, before: Value) -> None:
    """Put the matches found up to the latest into the output, which has room for them; the number of matches then.

    Their paths come after those of the matches `before` them.
    """
    f = s.f
    match, outs = f.variable("match", latest), f.variable("outs", before)
    used = f.variable("used", s.out_path_from[before])
    with f.during(lambda: match >= 0):
        out, length = outs.value, _length(s, match)
        s.out_kind[out], s.out_start[out], s.out_length[out] = MATCHED, start, length
        follow_turns(s, s.turns[match * TURN + UNTIL], "out_path", used)
        used.set(used + length)
        s.out_path_from[out + 1] = used
        outs.set(out + 1)
        match.set(s.turns[match * TURN + BEFORE])
    f.give(outs)


def _length(s: Scope, match: Operand) -> Value:
    """The rows of a match that is an entry among turns."""
    return -1 - s.turns[match * TURN + TAKEN_BY]


# ---- between feeds ---------------------------------------------------------------------------------------------------


def keep_turns(turns: np.ndarray, end: int, roots: np.ndarray) -> tuple[np.ndarray, int]:
    """The turns, of the first `end`, that lead to the roots, in a new array with as many free places; and their number.

    turns int64[:, 3], which are not to be used again. The roots (int64) are changed to their new places.
    """
    count = compiled_for(keeping_program)([turns.reshape(-1), np.full(end, -1, np.int64), roots])
    kept = np.zeros((2 * count + 64, TURN), np.int64)
    kept[:count] = turns[:count]
    return kept, count


def keeping_program() -> Program:
    """Move the turns that lead to roots to the beginning: their number.

    A turn refers to earlier ones only. place: where each turn is moved to, -1: it is not kept.
    """
    program = Program("keep_turns")
    f = program.function("run")
    turns, place, roots = (f.array(name, I64, writable=True) for name in ("turns", "place", "roots"))
    end = place.length
    with f.loop(0, roots.length) as root:
        with f.when(roots[root] >= 0):
            place[roots[root]] = 0
    with f.loop(0, end) as back:
        at = end - 1 - back
        with f.when(place[at] >= 0):
            for _, to in _references(f, turns, at):
                place[to] = 0
    count = f.variable("count", 0)
    with f.loop(0, end) as at:
        with f.when(place[at] >= 0):
            for column, to in _references(f, turns, at):
                turns[at * TURN + column] = place[to]
            for column in range(TURN):
                turns[count * TURN + column] = turns[at * TURN + column]
            place[at] = count
            count.set(count + 1)
    with f.loop(0, roots.length) as root:
        with f.when(roots[root] >= 0):
            roots[root] = place[roots[root]]
    f.give(count)
    return program


def _references(f: Function, turns: Array, at: Value) -> Iterator[tuple[int, Value]]:
    """The columns of a turn that refer to others, if they do: code is built for each in turn."""
    before = turns[at * TURN + BEFORE]
    with f.when(before >= 0):
        yield BEFORE, before
    with f.when(turns[at * TURN + TAKEN_BY] < 0):
        yield UNTIL, turns[at * TURN + UNTIL]


# The order and the numbers of row pattern matches that are found out of order, and the place of a label in them.
#
# `ordered` has room for twice the matches that the output has room for, `copied` for all its paths.


Key = Callable[[Scope, Value], Value]
"""The sort key of a match of the output."""


@subroutine()
def order_by_length(s: Scope, begin: Value, end: Value, before: Value) -> None:
    """Put ALL MATCHES of one start row in order, shortest first, and number them; the last number."""
    f, count = s.f, end - begin
    with f.loop(0, count) as i:
        s.ordered[i] = begin + i
    sorted_at = _sort(s, "sort_by_length", count, lambda s, match: s.out_length[match])
    lengths_at = count - sorted_at
    origin = s.out_path_from[begin]
    with f.loop(0, count) as i:
        match = s.ordered[sorted_at + i]
        s.ordered[lengths_at + i] = s.out_length[match]
        s.ordered[sorted_at + i] = s.out_path_from[match] - origin
    with f.loop(origin, s.out_path_from[end]) as at:
        s.copied[at - origin] = s.out_path[at]
    place = f.variable("place", origin)
    with f.loop(0, count) as i:
        to, source, length = place.value, s.ordered[sorted_at + i], s.ordered[lengths_at + i]
        with f.loop(0, length) as at:
            s.out_path[to + at] = s.copied[source + at]
        place.set(to + length)
        s.out_length[begin + i], s.out_path_from[begin + i + 1] = length, place
        s.out_number[begin + i] = before + i + 1
    f.give(before + count)


@subroutine()
def number_by_end(s: Scope, count: Value, before: Value) -> None:
    """INCREMENTAL MATCH: number the matches in `pending` in the order of their end rows; the last number."""
    f = s.f
    with f.loop(0, count) as i:
        s.ordered[i] = s.pending[i]
    sorted_at = _sort(s, "sort_by_end", count, lambda s, match: s.out_start[match] + s.out_length[match])
    with f.loop(0, count) as i:
        s.out_number[s.ordered[sorted_at + i]] = before + i + 1
    f.give(before + count)


def _sort(s: Scope, name: str, count: Value, key: Key) -> Value:
    """Sort the first matches in `ordered` by a key, equal ones in their order: the place where they begin then, which
    is 0 or the count."""

    def build(s: Scope, count: Value) -> None:
        s.f.give(merge_sort(s.f, s.ordered, count, 0, count, lambda one, other: key(s, one) < key(s, other)))

    return s.call(name, build, count)


@subroutine()
def place_of_label(s: Scope, path: str, begin: Value, length: Value, *, first: bool, labels: int) -> None:
    """The first or last row of a match with one of the labels, counted from its first row; -1 if no row has one.

    path: the array with its instructions, from `begin` on. labels: a bit for each of them.
    """
    f = s.f
    place = f.variable("place", -1)
    with f.loop(0, length) as at:
        label = s.label_of[s.array(path)[begin + at].to(I64)]
        with f.when((f.constant(labels, U64) >> label.to(U64) & 1).differs(0)):
            if first:
                f.give(at)
            else:
                place.set(at)
    f.give(place)


def hold_back(
    s: Scope, at_end: Operand, hi: Operand, is_taken: Operand, first_out: Operand, outs: Operand, used: Operand,
    pendings: Operand,
) -> tuple[Value, Value, Value, Value]:  # fmt: skip
    """Hold an INCREMENTAL MATCH back that ends with the last row, while `$` keeps a match from at_end undecided.

    Matches from that start on with this end wait with it: they are taken out of the output again. Matches of a
    partition are pending in the order in which they were found. is_taken: does a match end there? Returns
    (undecided, outs, used, pendings).
    """
    f = s.f
    gone = _take_out(s, at_end, hi, first_out, outs, used, pendings)
    is_out = gone > 0
    fewer = is_out.to(I64)
    return is_out | ~f.value(is_taken), f.value(outs) - fewer, f.value(used) - gone, f.value(pendings) - fewer


@subroutine()
def _take_out(s: Scope, at_end: Value, hi: Value, first: Value, outs: Value, used: Value, pendings: Value) -> None:
    """Take the match out, if it exists; the number of its rows, or 0."""
    f = s.f
    with f.loop(first, outs) as i:
        gone = s.out_length[i]
        with f.when((s.out_start[i] >= at_end) & (s.out_start[i] + gone).equals(hi)):
            with f.loop(s.out_path_from[i], used - gone) as at:
                s.out_path[at] = s.out_path[at + gone]
            with f.loop(i, outs - 1) as at:
                for column in (s.out_kind, s.out_start, s.out_length):
                    column[at] = column[at + 1]
                s.out_path_from[at + 1] = s.out_path_from[at + 2] - gone
            with f.loop(0, pendings - 1) as at:
                s.pending[at] = first + at
            f.give(gone)
    f.give(0)
