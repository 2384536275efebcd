"""Functions that walk the path of the running match: rows of sets of labels."""

from __future__ import annotations

from episode.native.ir import Operand, Value, Variable
from episode.native.scope import Scope
from episode.native.types import I64


def label_at(s: Scope, place: Operand) -> Value:
    """The label that took a place of the path."""
    return s.label_of[s.path[place].to(I64)]


def is_member(s: Scope, mask: Operand, place: Operand) -> Value:
    """Is the label that took a place of the path in a set? mask: the bits of its labels."""
    return ((s.f.value(mask, I64) >> label_at(s, place)) & 1).differs(0)


def find_first(s: Scope, mask: int, offset: int, start: Value, row: Value, origin: Value) -> Value:
    """The row of a label of the set that comes after `offset` others, from the first row of the match on; or -1."""
    return s.call("find_first", _find_first, start, row, origin, mask, offset)


def find_last(s: Scope, mask: int, offset: int, start: Value, row: Value, origin: Value) -> Value:
    """The row of a label of the set that comes after `offset` others, from the last row of the match back; or -1."""
    return s.call("find_last", _find_last, start, row, origin, mask, offset)


def _find_first(s: Scope, start: Value, row: Value, origin: Value, mask: Value, offset: Value) -> None:
    f = s.f
    left = f.variable("left", offset)
    with f.loop(start, row + 1) as at:
        _give_or_pass(s, at, origin, mask, left)
    f.give(-1)


def _find_last(s: Scope, start: Value, row: Value, origin: Value, mask: Value, offset: Value) -> None:
    f = s.f
    left, at = f.variable("left", offset), f.variable("at", row)
    with f.during(lambda: at >= start):
        _give_or_pass(s, at.value, origin, mask, left)
        at.set(at - 1)
    f.give(-1)


def _give_or_pass(s: Scope, at: Value, origin: Value, mask: Value, left: Variable) -> None:
    """Give the row if it is of the set, unless rows are left to pass over."""
    f = s.f
    with f.when(is_member(s, mask, at - origin)):
        f.give_if(left.equals(0), at)
        left.set(left - 1)
