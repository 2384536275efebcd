"""Functions over arrays of a condition, whose elements are in rows of agg_* (see `array_code`): sorting and comparing.

An array begins at a place of agg_i or agg_f, by its lane; agg_n at the same place is 1 for a null. These functions are
built once in a program for each lane.
"""

from __future__ import annotations

from episode.matchers.expression_code import COMPARE
from episode.matchers.sorting import merge_sort
from episode.native.ir import Value
from episode.native.scope import Scope
from episode.native.types import I64


def sort_places(
    s: Scope, floating: bool, nullable: bool, nulls_first: bool, source: Value, size: Value, order: Value, spare: Value
) -> Value:
    """Sort the places 0, 1, … of an array by their elements, ascending; equal ones stay in order.

    order, spare: where in agg_i there is room for as many places; returns the one where they are.
    """

    def build(s: Scope, source: Value, size: Value, order: Value, spare: Value) -> None:
        with s.f.loop(0, size) as place:
            s.agg_i[order + place] = place

        def is_less(one: Value, two: Value) -> Value:
            return _is_less(s, floating, nullable, nulls_first, source + one, source + two)

        s.f.give(merge_sort(s.f, s.agg_i, size, order, spare, is_less))

    name = f"sort_{'reals' if floating else 'wholes'}{'_nulls_first' * nulls_first}{'_nullable' * nullable}"
    return s.call(name, build, source, size, order, spare)


def _is_less(s: Scope, floating: bool, nullable: bool, nulls_first: bool, one: Value, two: Value) -> Value:
    values = s.agg_f if floating else s.agg_i
    less = COMPARE["lt"](values[one], values[two])
    if not nullable:
        return less
    one_null, two_null = s.agg_n[one].differs(0), s.agg_n[two].differs(0)
    by_null = one_null & ~two_null if nulls_first else two_null & ~one_null
    return by_null | (less & ~one_null & ~two_null)


def are_equal(s: Scope, floating: bool, nullable: bool, one: Value, two: Value) -> Value:
    """Are two elements equal, at these places of agg_*? Nulls are."""
    values = s.agg_f if floating else s.agg_i
    equal = COMPARE["eq"](values[one], values[two])
    if not nullable:
        return equal
    one_null, two_null = s.agg_n[one].differs(0), s.agg_n[two].differs(0)
    return s.f.select(one_null | two_null, one_null & two_null, equal)


def order_arrays(
    s: Scope,
    floating: bool,
    nullable: tuple[bool, bool],
    left: Value,
    left_size: Value,
    right: Value,
    right_size: Value,
) -> Value:
    """-1, 0 or 1: the first difference decides; a null is less than a value, a shorter array than a longer one."""

    def build(s: Scope, left: Value, left_size: Value, right: Value, right_size: Value) -> None:
        f = s.f
        values = s.agg_f if floating else s.agg_i

        def null_at(at: Value, may_be: bool) -> Value:
            return s.agg_n[at] if may_be else f.value(0)

        with f.loop(0, f.least(left_size, right_size)) as place:
            one, two = values[left + place], values[right + place]
            order = _sign(COMPARE["gt"](one, two), COMPARE["lt"](one, two))
            if any(nullable):
                one_null, two_null = null_at(left + place, nullable[0]), null_at(right + place, nullable[1])
                order = f.select((one_null | two_null).equals(0), order, two_null - one_null)
            f.give_if(order.differs(0), order)
        f.give(_sign(left_size > right_size, left_size < right_size))

    name = f"order_{'reals' if floating else 'wholes'}{'_nullable' * nullable[0]}{'_to_nullable' * nullable[1]}"
    return s.call(name, build, left, left_size, right, right_size)


def _sign(greater: Value, less: Value) -> Value:
    return greater.to(I64) - less.to(I64)
