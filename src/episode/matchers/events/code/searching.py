"""Parts of loops over events: windows of time, places in sorted arrays."""

from __future__ import annotations

from episode.native.builder import Function
from episode.native.ir import Operand, Value
from episode.native.scope import Scope

NEVER, EVER = -(2**63), 2**63 - 1


def first_at_least(s: Scope, array: str, first: Operand, stop: Operand, value: Operand) -> Value:
    """The first place from `first` to `stop` of an ascending array whose value is at least this one."""
    return s.call(f"first_at_least_in_{array}", lambda *given: _bisect(array, False, *given), first, stop, value)


def first_after(s: Scope, array: str, first: Operand, stop: Operand, value: Operand) -> Value:
    """The first place from `first` to `stop` of an ascending array whose value is greater."""
    return s.call(f"first_after_in_{array}", lambda *given: _bisect(array, True, *given), first, stop, value)


def _bisect(array: str, after: bool, s: Scope, first: Value, stop: Value, value: Value) -> None:
    f, values = s.f, s.array(array)
    low, high = f.variable("low", first), f.variable("high", stop)
    with f.during(lambda: low < high):
        middle = (low + high) >> 1
        found = values[middle]
        with f.either(found <= value if after else found < value) as otherwise:
            low.set(middle + 1)
            otherwise()
            high.set(middle)
    f.give(low)


def window_end(f: Function, start: Value, window: Value) -> Value:
    """The latest time in a window that begins at `start`; a window of EVER is none."""
    fits = (window < EVER) & (start <= EVER - window)
    return f.select(fits, start + window, EVER)


def window_start(f: Function, end: Value, window: Value) -> Value:
    """The earliest time in a window that ends at `end`."""
    fits = (window < EVER) & (end >= window + NEVER)
    return f.select(fits, end - window, NEVER)
