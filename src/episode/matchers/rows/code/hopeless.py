"""Start rows that a sieve shows to fail, all at once, at the end of input.

Whether some row of a window compares with the start row as the sieve asks, the least or the greatest value of the
window decides; if it asks for equal values, the next row with that value.
"""

from __future__ import annotations

import numpy as np

from episode.native.builder import Program
from episode.native.ir import Operand, Value
from episode.native.running import compiled_for
from episode.native.scope import ArrayTypes, Scope, entry_scope
from episode.native.types import I64, U8, U64

LESS, EQUAL, GREATER = 0b001, 0b010, 0b100
_TYPES: ArrayTypes = {
    **dict.fromkeys(("key_lo", "key_hi", "time", "own", "wanted"), (I64, False)),
    **dict.fromkeys(("is_start", "is_candidate"), (U8, False)),
    **dict.fromkeys(("least", "greatest", "latest"), (I64, True)),
    "hopeless": (U8, True),
}


def hopeless_starts(
    key_lo: np.ndarray, key_hi: np.ndarray, within: int, time: np.ndarray, is_start: np.ndarray,
    is_candidate: np.ndarray, own: np.ndarray, wanted: np.ndarray, accepted: int,
) -> np.ndarray:  # fmt: skip
    """bool by row: of the start rows, those in whose window no candidate passes the sieve; all rows are here.

    own, wanted: ranks of the candidates' values, and of the start rows' own. within: negative if there is no window.
    """
    arrays = {
        "key_lo": key_lo, "key_hi": key_hi, "time": time, "is_start": is_start.view(np.uint8),
        "is_candidate": is_candidate.view(np.uint8), "own": own, "wanted": wanted,
        "hopeless": is_start.astype(np.uint8),
    }  # fmt: skip
    if accepted == EQUAL:
        arrays["latest"] = np.full(max(own.max(initial=0), wanted.max(initial=0)) + 1, -1, np.int64)
    for name in ("least", "greatest"):
        arrays[name] = np.empty(len(time), np.int64)
    compiled_for(program_of, accepted, within >= 0).run(arrays, within)
    hopeless: np.ndarray = arrays["hopeless"].view(np.bool_)
    return hopeless


def program_of(accepted: int, windowed: bool) -> Program:
    """The program for a sieve that accepts these orders."""
    s = entry_scope("hopeless_starts", _TYPES)
    f = s.f
    within = f.scalar("within").bits_as(U64)
    with f.loop(0, s.key_lo.length) as k:
        window = _Window(s, s.key_lo[k], s.key_hi[k], within if windowed else None)
        if accepted == EQUAL:
            _seek_equal(s, window)
        else:
            _compare_extremes(s, window, accepted)
    f.give(0)
    return s.program


class _Window:
    """The rows of a partition, and how long windows are: None if they have no end."""

    def __init__(self, s: Scope, lo: Value, hi: Value, within: Value | None) -> None:
        self.s, self.lo, self.hi, self.within = s, lo, hi, within

    def has(self, row: Operand, start: Value) -> Value | bool:
        """Is a row after the start row in its window?"""
        if self.within is None:
            return True
        return (self.s.time[row] - self.s.time[start]).bits_as(U64) <= self.within


def _seek_equal(s: Scope, window: _Window) -> None:
    """From the last row back: `latest` holds the next candidate with each value, in this partition or in another."""
    f = s.f
    with f.loop(0, window.hi - window.lo) as back:
        start = window.hi - 1 - back
        with f.when(s.is_start[start].differs(0)):
            found = s.latest[s.wanted[start]]
            with f.when((found > start) & (found < window.hi)), f.when(window.has(found, start)):
                s.hopeless[start] = 0
        with f.when(s.is_candidate[start].differs(0)):
            s.latest[s.own[start]] = start


def _compare_extremes(s: Scope, window: _Window, accepted: int) -> None:
    """From the first row on, with the candidates of the window that may be its least or greatest value."""
    f = s.f
    queues = [_Queue(s, less) for less in (True, False) if accepted & (LESS if less else GREATER)]
    end = f.variable("end", window.lo)
    with f.loop(window.lo, window.hi) as start:
        with f.when(s.is_start[start].differs(0)):
            with f.during(lambda: end < window.hi) as full:
                with f.when(end > start):
                    f.jump_if(~f.value(window.has(end, start)), full)
                with f.when(s.is_candidate[end].differs(0)):
                    for queue in queues:
                        queue.add(end.value)
                end.set(end + 1)
            for queue in queues:
                queue.drop_up_to(start)
                with f.when(queue.has_one):
                    best, wanted = s.own[queue.best], s.wanted[start]
                    passes = best < wanted if queue.less else best > wanted
                    with f.when(passes | best.equals(wanted) if accepted & EQUAL else passes):
                        s.hopeless[start] = 0


class _Queue:
    """Candidates whose values are less (or greater) than those of all later ones."""

    def __init__(self, s: Scope, less: bool) -> None:
        self.s, self.less = s, less
        self.rows = s.least if less else s.greatest
        self.begin, self.end = s.f.variable("begin", 0), s.f.variable("end", 0)

    @property
    def has_one(self) -> Value:
        return self.begin < self.end

    @property
    def best(self) -> Value:
        return self.rows[self.begin]

    def add(self, row: Value) -> None:
        s, f, value = self.s, self.s.f, self.s.own[row]
        with f.during(lambda: self.has_one) as placed:
            last = s.own[self.rows[self.end - 1]]
            f.jump_if(last < value if self.less else last > value, placed)
            self.end.set(self.end - 1)
        self.rows[self.end] = row
        self.end.set(self.end + 1)

    def drop_up_to(self, start: Value) -> None:
        f = self.s.f
        with f.during(lambda: self.has_one) as later:
            f.jump_if(self.best > start, later)
            self.begin.set(self.begin + 1)
