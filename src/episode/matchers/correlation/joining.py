"""Pairs of live and archive matches by recency (PCQ, Definitions 6, 8 and 9), without a look at pairs that are too old.

A live match l and an archive match a of one key are a pair iff a.start < l.start, a.end < l.end and l.end - a.start is
at most the recency. Matches of a key are contiguous, keys ascending; within a key, archive matches are in order of
their starts and live matches in order of their ends. The output arrays have a fixed size: when they are full, the code
notes how far it is in `place`, and continues there when it is called again. All arrays are int64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from episode.matchers.time_code import first_at_least, window_start
from episode.native.builder import Program
from episode.native.ir import Value
from episode.native.scope import ArrayTypes, Scope, entry_scope
from episode.native.types import BOOL, I64

AT_OUTER, AT_INNER, NOT_BEGUN = 0, 1, -1

_READ = ("live_key", "live_start", "live_end", "key", "start", "end", "low", "high", "recency")
_WRITTEN = ("place", "out_live", "out_archive")
TYPES: ArrayTypes = dict.fromkeys(_READ, (I64, False)) | dict.fromkeys(_WRITTEN, (I64, True))


def beginning() -> np.ndarray:
    """The place of a join that has not begun."""
    return np.array([0, NOT_BEGUN], np.int64)


@dataclass(frozen=True)
class RecencyJoin:
    """A join of the matches of one side, in order, with those of the other.

    outer, inner: the arrays of their keys; outer_out, inner_out: those of their numbers in pairs. begin: the first
    inner match that an outer one looks at, of those of its key; is_over: it looks at no inner match from this one on;
    fits: are the two a pair?
    """

    outer: str
    inner: str
    outer_out: str
    inner_out: str
    begin: Callable[[Scope, Value, Value, Value], Value]
    is_over: Callable[[Scope, Value, Value], Value]
    fits: Callable[[Scope, Value, Value], Value]

    def program(self) -> Program:
        """The program that lists pairs in the order of outer matches, then of inner ones, and returns their number."""
        s = entry_scope(f"join_{self.outer}", TYPES)
        f, place = s.f, s.place
        key, inner = s.array(self.outer), s.array(self.inner)
        count, lo, hi = (f.variable(name, 0) for name in ("count", "lo", "hi"))
        current, is_known = f.variable("current", 0), f.variable("is_known", f.constant(False, BOOL))
        with f.loop(place[AT_OUTER], key.length) as number:
            its_key = key[number]
            with f.when(~is_known | current.differs(its_key)):
                lo.set(first_at_least(s, self.inner, hi, inner.length, its_key))
                hi.set(lo)
                with f.during(lambda: hi < inner.length) as other_key:
                    f.jump_if(inner[hi].differs(its_key), other_key)
                    hi.set(hi + 1)
                current.set(its_key)
                is_known.set(True)
            at = f.variable("at", place[AT_INNER])
            with f.when(at.equals(NOT_BEGUN)):
                at.set(self.begin(s, number, lo.value, hi.value))
            with f.during(lambda: at < hi) as over:
                f.jump_if(self.is_over(s, number, at.value), over)
                with f.when(self.fits(s, number, at.value)):
                    with f.when(count.equals(s.out_live.length)):
                        place[AT_OUTER], place[AT_INNER] = number, at
                        f.give(count)
                    s.array(self.outer_out)[count], s.array(self.inner_out)[count] = number, at
                    count.set(count + 1)
                at.set(at + 1)
            place[AT_INNER] = NOT_BEGUN
        place[AT_OUTER] = key.length
        f.give(count)
        return s.program


BY_LIVE = RecencyJoin(
    "live_key", "key", "out_live", "out_archive",
    begin=lambda s, live, lo, hi: first_at_least(
        s, "start", lo, hi, window_start(s.f, s.live_end[live], s.recency[0])
    ),
    is_over=lambda s, live, at: s.start[at] >= s.live_start[live],
    fits=lambda s, live, at: s.end[at] < s.live_end[live],
)  # fmt: skip
"""Of each live match, its archive matches."""
BY_ARCHIVE = RecencyJoin(
    "key", "live_key", "out_archive", "out_live",
    begin=lambda s, archive, lo, hi: first_at_least(s, "live_end", lo, hi, s.low[archive]),
    is_over=lambda s, archive, at: s.live_end[at] > s.high[archive],
    fits=lambda s, archive, at: s.live_start[at] > s.start[archive],
)  # fmt: skip
"""Of each archive match, the live matches that start after it and end in low <= end <= high."""
