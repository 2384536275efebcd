"""Emits arithmetic with times, which are int64 of any value and never wrap around, and searches in ascending times.

A window of EVER is none. What is beyond the least or the greatest time is that time: nothing is earlier or later.
"""

from __future__ import annotations

from episode.native.builder import Function
from episode.native.ir import Operand, Value
from episode.native.scope import Scope

NEVER, EVER = -(2**63), 2**63 - 1


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
        f, values = s.f, s.array(array)
        low, high = f.variable("low", first), f.variable("high", stop)
        with f.during(lambda: low < high):
            middle = (low + high) >> 1
            is_less = values[middle] < bound
            low.set(f.select(is_less, middle + 1, low))
            high.set(f.select(is_less, high, middle))
        f.give(low)

    return s.call(f"first_at_least_in_{array}", build, first, stop, bound)
