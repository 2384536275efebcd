"""Emits a merge sort: stable, without branches that depend on values."""

from __future__ import annotations

from collections.abc import Callable

from episode.native.builder import Function
from episode.native.ir import Array, Operand, Value
from episode.native.scope import Scope
from episode.native.types import I64


def merge_sort(
    f: Function, values: Array, count: Value, begin: Operand, spare: Operand, is_less: Callable[[Value, Value], Value]
) -> Value:
    """Sort the values of an array from `begin` on, equal ones in their order: where they begin then.

    That is `begin` or `spare`, the place of as much room in the array.
    """
    source, target, width = f.variable("source", begin), f.variable("target", spare), f.variable("width", 1)
    with f.during(lambda: width < count):
        left = f.variable("left", 0)
        with f.during(lambda: left < count):
            middle, end = f.least(left + width, count), f.least(left + width * 2, count)
            _merge(f, values, source.value, target.value, left.value, middle, end, is_less)
            left.set(end)
        merged = target.value
        target.set(source)
        source.set(merged)
        width.set(width * 2)
    return source.value


def _merge(
    f: Function, values: Array, source: Value, target: Value, begin: Value, middle: Value, end: Value,
    is_less: Callable[[Value, Value], Value],
) -> None:  # fmt: skip
    """Merge the sorted runs begin:middle and middle:end."""
    left, right = f.variable("next_left", begin), f.variable("next_right", middle)
    with f.loop(begin, end) as at:
        has_left, has_right = left < middle, right < end
        one = values[source + f.select(has_left, left, right)]
        other = values[source + f.select(has_right, right, left)]
        takes_left = has_left & ~(has_right & is_less(other, one))
        values[target + at] = f.select(takes_left, one, other)
        left.set(left + takes_left.to(I64))
        right.set(right + (~takes_left).to(I64))


def sort_numbers(s: Scope, array: str, count: Value) -> None:
    """Sort the first `count` numbers of an array that has as much room after them."""

    def build(s: Scope, count: Value) -> None:
        f, values = s.f, s.array(array)
        begin = merge_sort(f, values, count, 0, count, lambda one, other: one < other)
        with f.when(begin > 0):
            with f.loop(0, count) as at:
                values[at] = values[begin + at]
        f.give(0)

    s.call(f"sort_{array}", build, count)
