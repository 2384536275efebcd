"""Sorting inside emitted code."""

from __future__ import annotations

from episode.native.ir import Value
from episode.native.scope import Scope


def sort(s: Scope, array: str, spare: str, count: Value) -> None:
    """Sort the first `count` numbers of an array, by merging; `spare` is another one of at least that length."""
    s.call(f"sort_{array}", lambda *given: _sort(array, spare, *given), count)


def _sort(array: str, spare: str, s: Scope, count: Value) -> None:
    f = s.f
    run = f.variable("run", 1)
    with f.during(lambda: run < count):
        left = f.variable("left", 0)
        with f.during(lambda: left < count):
            middle, end = f.least(left + run, count), f.least(left + run * 2, count)
            _merge(s, array, spare, left.value, middle, end)
            left.set(end)
        with f.loop(0, count) as at:
            s.array(array)[at] = s.array(spare)[at]
        run.set(run * 2)
    f.give(0)


def _merge(s: Scope, array: str, spare: str, begin: Value, middle: Value, end: Value) -> None:
    """The two sorted parts begin:middle and middle:end, as one, into the other array."""
    f, values = s.f, s.array(array)
    one, other = f.variable("one", begin), f.variable("other", middle)
    with f.loop(begin, end) as at:
        first = values[f.least(one, middle - 1)]
        second = values[f.least(other, end - 1)]
        takes_first = (one < middle) & ((other >= end) | (first <= second))
        s.array(spare)[at] = f.select(takes_first, first, second)
        one.set(f.select(takes_first, one + 1, one))
        other.set(f.select(takes_first, other, other + 1))
