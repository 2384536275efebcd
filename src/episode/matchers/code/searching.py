"""Emits arithmetic with times, searches in rows that are ordered by time, and a stable merge sort."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from episode.matchers.times import EVER, NEVER
from episode.native.builder import ArrayTypes, Function, Program, Scope, entry_scope, subroutine
from episode.native.ir import I64, Array, Operand, Value
from episode.native.running import compiled_for

# Times are int64 of any value and never wrap around; windows and durations are not negative. See also `times`.


def window_start(f: Function, end: Value, window: Value) -> Value:
    """Return the earliest time in a window that ends at `end`."""
    return f.select((window < EVER) & (end >= window + NEVER), end - window, NEVER)


def window_end(f: Function, start: Value, window: Value) -> Value:
    """Return the latest time in a window that begins at `start`."""
    return f.select((window < EVER) & (start <= EVER - window), start + window, EVER)


def is_as_long_as(start: Value, end: Value, duration: Value) -> Value:
    """Whether the time from start to end is at least the duration."""
    return (end >= duration + NEVER) & (start <= end - duration)


@subroutine()
def first_at_least(s: Scope, array: str, first: Value, stop: Value, bound: Value) -> None:
    """Return the first place in first:stop, in which an array's values ascend, with at least `bound`; else stop."""
    s.f.give(search_place(s.f, first, stop, lambda at: s.array(array)[at] < bound))


@subroutine()
def first_after(s: Scope, array: str, first: Value, stop: Value, bound: Value) -> None:
    """Return the first place in first:stop, in which an array's values ascend, with more than `bound`; else stop."""
    s.f.give(search_place(s.f, first, stop, lambda at: s.array(array)[at] <= bound))


def search_place(f: Function, first: Operand, stop: Operand, is_before: Callable[[Value], Value]) -> Value:
    """Return the first place in first:stop for which `is_before` does not hold, else stop; it holds for all before
    it."""
    low, high = f.variable("low", first), f.variable("high", stop)
    with f.during(lambda: low < high):
        middle = (low + high) >> 1
        before = is_before(middle)
        low.set(f.select(before, middle + 1, low))
        high.set(f.select(before, high, middle))
    return low.value


# Searches in ranges of rows that are in order of time.


_TYPES: ArrayTypes = {
    "row_from": (I64, False), "row_to": (I64, False), "time": (I64, False), "bound": (I64, False), "out": (I64, True)
}  # fmt: skip


def first_rows(row_from: np.ndarray, row_to: np.ndarray, time: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Return in each range of rows the first that is not earlier than its bound, else row_to. All are int64."""
    out = np.empty(len(row_from), np.int64)
    arrays = {"row_from": row_from, "row_to": row_to, "time": time, "bound": bound, "out": out}
    compiled_for(first_rows_program).run(arrays)
    return out


def first_rows_program() -> Program:
    s = entry_scope("first_rows", _TYPES)
    f = s.f
    with f.loop(0, s.out.length) as number:
        s.out[number] = first_at_least(s, "time", s.row_from[number], s.row_to[number], s.bound[number])
    f.give(0)
    return s.program


# Emits a merge sort: stable, without branches that depend on values.


def merge_sort(
    f: Function, values: Array, count: Value, begin: Operand, spare: Operand, is_less: Callable[[Value, Value], Value]
) -> Value:
    """Sort the values of an array from `begin` on, stably; return their new beginning.

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


@subroutine()
def sort_numbers(s: Scope, array: str, count: Value) -> None:
    """Sort the first `count` numbers of an array that has as much room after them."""
    f, values = s.f, s.array(array)
    begin = merge_sort(f, values, count, 0, count, lambda one, other: one < other)
    with f.when(begin > 0):
        with f.loop(0, count) as at:
            values[at] = values[begin + at]
    f.give(0)
