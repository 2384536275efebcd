"""The arrays that the code of a row pattern works on, by name: those of `matchers.rows.arrays`, row after row.

Numbers that differ from query to query or from feed to feed, and are not part of the code, are in `settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from episode.matchers.rows.arrays import ROOM, STACK, STACK_END
from episode.native.builder import ArrayTypes, Scope, subroutine
from episode.native.ir import F64, I32, I64, U8, U64, Operand, Type, Value, Variable

if TYPE_CHECKING:
    from episode.matchers.rows.code.search import SearchFrame


(UNTIL, WITHIN, LOOKAHEAD, BUDGET, PATIENCE, REACH, LOOKBACK, ROWS, AGGREGATE_ROWS, ALLOWED, MOST_SIFTED) = range(11)
"""Places of `settings`: all rows up to this time are here; the numbers of `SearchSettings` and `Frames`; the number of
rows of a lane (ints, floats, valid), and of columns of a running aggregate (agg_i, agg_f, agg_m, agg_n); the steps that
all start rows together may take beyond the allowance of the rows; the rows that sieves may look through."""
SETTINGS = 11

_READ: dict[str, Type] = {
    # the batch; lanes of the same number of rows
    "bits": U64, "time": I64, "key": I64, "ints": I64, "floats": F64, "valid": U8, "const_i": I64, "const_f": F64,
    # the query
    "settings": I64, "code": I64, "label_of": I64, "required": U64, "loop_from": I64, "loop_ids": I32,
    # partitions
    "key_lo": I64, "key_hi": I64, "at_start": U8,
}  # fmt: skip

_WRITTEN: dict[str, Type] = {
    # partitions
    "next_start": I64, "numbers": I64, "covered": I64, "explored_start": I64, "explored_to": I64,
    # attempts and ways that wait: opened[field, partition], marks[mark, partition], sought[required, partition],
    # ways[way, field], way_values[way, field], turns[turn, 3]
    "opened": I64, "marks": I64, "sought": I64, "ways": I64, "way_values": F64, "turns": I64,
    # matches
    "out_kind": U8, "out_start": I64, "out_length": I64, "out_number": I64, "out_path_from": I64, "out_path": I32,
    # the search; agg_*[aggregate, column], counts[instruction, again, rows that came or failed]
    "cursor": I64, "stack_pc": I32, "stack_row": I64, "stack_low": I64, "path": I32, "best": I32, "previous": I64,
    "memo": I64, "seen_end": I64, "end_taken": I64, "pending": I64, "agg_i": I64, "agg_f": F64, "agg_m": F64,
    "agg_n": I64, "counts": I64,
    # of one call: last_row, first_row by label and loop_rows by loop, if they are handed to a function; the others have
    # places by name in the modules that use them
    "last_row": I64, "first_row": I64, "loop_rows": I64,
    "rare": I64, "seek": I64, "frame_place": I64, "arrived": I64, "arrival_loops": I64, "ordered": I64,
    "copied": I32,
}  # fmt: skip

TYPES: ArrayTypes = {name: (type_, False) for name, type_ in _READ.items()} | {
    name: (type_, True) for name, type_ in _WRITTEN.items()
}


@dataclass
class RunningMatch:
    """The running match, in values and variables of the function that is being built.

    start, row: its first row, and the row under trial, which is its last one. The instruction that took a row r is
    path[r - origin], from the row `known_from` on; that of the row under trial is written before its condition is
    tested. lo, hi: the rows of the partition. number: of the last match before this one. last_row, first_row: the last
    and the first row in the match of each label that navigations name, the row under trial included; -1 in last_row if
    no row has the label.
    """

    start: Value
    row: Value
    origin: Value
    lo: Value
    hi: Value
    number: Value
    known_from: Value
    last_row: dict[int, Variable] = field(default_factory=dict)
    first_row: dict[int, Variable] = field(default_factory=dict)


# Stacks of untried choices that grow, if attempts are kept: a full stack of a partition moves to the end of all.


LEAST_STACK = 8


def enlarge_stack(c: SearchFrame) -> None:
    """Double the room for the stack of this partition, if possible."""
    c.bottom.set(_enlarge(c.s, c.k, c.sp, c.bottom, c.stack_room))
    c.stack_room.set(c.get_opened(ROOM))


@subroutine()
def _enlarge(s: Scope, k: Value, depth: Value, bottom: Value, room: Value) -> None:
    """Return where the stack begins now; its room is in `opened`."""
    f = s.f
    larger = f.greatest(LEAST_STACK, room * 2)
    end = s.cursor[STACK_END]
    f.give_if(end + larger > s.stack_pc.length, bottom)
    with f.loop(0, depth) as at:
        s.stack_pc[end + at] = s.stack_pc[bottom + at]
        s.stack_row[end + at] = s.stack_row[bottom + at]
        s.stack_low[end + at] = s.stack_low[bottom + at]
    s.cursor[STACK_END] = end + larger
    partitions = s.key_lo.length
    s.opened[partitions * STACK + k] = end
    s.opened[partitions * ROOM + k] = larger
    f.give(end)


# Functions that walk the path of the running match: rows of sets of labels.


def label_at(s: Scope, place: Operand) -> Value:
    """The label that took a place of the path."""
    return s.label_of[s.path[place].to(I64)]


def is_member(s: Scope, mask: Operand, place: Operand) -> Value:
    """Is the label that took a place of the path in a set? mask: the bits of its labels."""
    return ((s.f.value(mask, I64) >> label_at(s, place)) & 1).differs(0)


@subroutine()
def find_first(s: Scope, start: Value, row: Value, origin: Value, mask: Value, offset: Value) -> None:
    """The row of a label of the set that comes after `offset` others, from the first row of the match on; or -1."""
    left = s.f.variable("left", offset)
    with s.f.loop(start, row + 1) as at:
        _give_or_pass(s, at, origin, mask, left)
    s.f.give(-1)


@subroutine()
def find_last(s: Scope, start: Value, row: Value, origin: Value, mask: Value, offset: Value) -> None:
    """The row of a label of the set that comes after `offset` others, from the last row of the match back; or -1."""
    f = s.f
    left, at = f.variable("left", offset), f.variable("at", row)
    with f.during(lambda: at >= start):
        _give_or_pass(s, at.value, origin, mask, left)
        at.set(at - 1)
    f.give(-1)


def _give_or_pass(s: Scope, at: Value, origin: Value, mask: Value, left: Variable) -> None:
    """Return the row if it is in the set, unless rows are left to pass over."""
    with s.f.when(is_member(s, mask, at - origin)):
        s.f.give_if(left.equals(0), at)
        left.set(left - 1)
