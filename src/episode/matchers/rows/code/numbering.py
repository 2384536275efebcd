"""The order and the numbers of row pattern matches that are found out of order, and the place of a label in them.

`ordered` has room for twice the matches that the output has room for, `copied` for all its paths.
"""

from __future__ import annotations

from collections.abc import Callable

from episode.matchers.sorting import merge_sort
from episode.native.ir import Operand, Value
from episode.native.scope import Scope
from episode.native.types import I64, U64

Key = Callable[[Scope, Value], Value]
"""What matches are sorted by: a number of each match of the output."""


def order_by_length(s: Scope, begin: Operand, end: Operand, number: Operand) -> Value:
    """Put ALL MATCHES of one start row in order, shortest first, and number them; the last number."""
    return s.call("order_by_length", _order_by_length, begin, end, number)


def _order_by_length(s: Scope, begin: Value, end: Value, before: Value) -> None:
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


def number_by_end(s: Scope, pendings: Operand, number: Operand) -> Value:
    """INCREMENTAL MATCH: number the matches in `pending` in the order of their end rows; the last number."""
    return s.call("number_by_end", _number_by_end, pendings, number)


def _number_by_end(s: Scope, count: Value, before: Value) -> None:
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


def place_of_label(s: Scope, first: bool, path: str, begin: Operand, length: Operand, labels: int) -> Value:
    """The first or last row of a match with one of the labels, counted from its first one; -1 if there is none.

    path: the array with its instructions, from `begin` on. labels: a bit for each of them.
    """

    def build(s: Scope, begin: Value, length: Value) -> None:
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

    return s.call(f"place_of_label_in_{path}", build, begin, length)


def hold_back(
    s: Scope, at_end: Operand, hi: Operand, is_taken: Operand, first_out: Operand, outs: Operand, used: Operand,
    pendings: Operand,
) -> tuple[Value, Value, Value, Value]:  # fmt: skip
    """INCREMENTAL MATCH if `$` keeps a match from at_end undecided that would end with the last row.

    What ends there from that start on waits with it: it is taken out of the output again. Matches of a partition are
    pending in the order in which they were found. is_taken: does a match end there? Returns (undecided, outs, used,
    pendings).
    """
    f = s.f
    gone = s.call("hold_back", _hold_back, at_end, hi, first_out, outs, used, pendings)
    is_out = gone > 0
    fewer = is_out.to(I64)
    return is_out | ~f.value(is_taken), f.value(outs) - fewer, f.value(used) - gone, f.value(pendings) - fewer


def _hold_back(s: Scope, at_end: Value, hi: Value, first: Value, outs: Value, used: Value, pendings: Value) -> None:
    """Take the match out, if there is one: how many rows it has, or 0."""
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
