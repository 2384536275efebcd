"""Emits arithmetic with times, which are int64 of any value and never wrap around, and searches in ascending times.

Windows and durations are not negative; see also `times`.
"""

from __future__ import annotations

from collections.abc import Callable

from episode.matchers.times import EVER, NEVER
from episode.native.builder import Function
from episode.native.ir import Operand, Value
from episode.native.scope import Scope


def window_start(f: Function, end: Value, window: Value) -> Value:
    """The earliest time in a window that ends at `end`."""
    return f.select((window < EVER) & (end >= window + NEVER), end - window, NEVER)


def window_end(f: Function, start: Value, window: Value) -> Value:
    """The latest time in a window that begins at `start`."""
    return f.select((window < EVER) & (start <= EVER - window), start + window, EVER)


def is_as_long_as(start: Value, end: Value, duration: Value) -> Value:
    """Is the time from start to end at least the duration?"""
    return (end >= duration + NEVER) & (start <= end - duration)


def first_at_least(s: Scope, array: str, first: Operand, stop: Operand, bound: Operand) -> Value:
    """The first place in first:stop, where the values of an array ascend, that holds at least `bound`; else stop."""

    def build(s: Scope, first: Value, stop: Value, bound: Value) -> None:
        s.f.give(search_place(s.f, first, stop, lambda at: s.array(array)[at] < bound))

    return s.call(f"first_at_least_in_{array}", build, first, stop, bound)


def first_after(s: Scope, array: str, first: Operand, stop: Operand, bound: Operand) -> Value:
    """The first place in first:stop, where the values of an array ascend, that holds more than `bound`; else stop."""

    def build(s: Scope, first: Value, stop: Value, bound: Value) -> None:
        s.f.give(search_place(s.f, first, stop, lambda at: s.array(array)[at] <= bound))

    return s.call(f"first_after_in_{array}", build, first, stop, bound)


def search_place(f: Function, first: Operand, stop: Operand, is_before: Callable[[Value], Value]) -> Value:
    """The first place in first:stop for which `is_before` does not hold, else stop; it holds for all before it."""
    low, high = f.variable("low", first), f.variable("high", stop)
    with f.during(lambda: low < high):
        middle = (low + high) >> 1
        before = is_before(middle)
        low.set(f.select(before, middle + 1, low))
        high.set(f.select(before, high, middle))
    return low.value
