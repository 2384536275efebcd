"""Regions of rows that matches of one pattern ask the other for, as segments that do not overlap (PCQ, section 4.3).

Rows of a key are contiguous, in order of time. All arrays are int64.
"""

from __future__ import annotations

import numpy as np

from episode.matchers.correlation.segments import RegionDemands
from episode.matchers.range_search import first_rows
from episode.matchers.time_code import first_at_least
from episode.native.builder import Program
from episode.native.ir import Value, Variable
from episode.native.running import compiled_for
from episode.native.scope import ArrayTypes, Scope, entry_scope
from episode.native.types import I64

KEY, LO, HI, FROM, TO = range(5)
"""Columns of a segment: the number of its key; times lo <= t < hi; rows."""
_COLUMNS = 5

_READ = ("key", "lo", "hi", "row_from", "row_to", "time", "covered", "settings")
TYPES: ArrayTypes = dict.fromkeys(_READ, (I64, False)) | {"out": (I64, True)}
_SLACK, _UNTIL = range(2)


def merge(
    number: np.ndarray, demands: RegionDemands, row_from: np.ndarray, row_to: np.ndarray, time: np.ndarray,
    covered: np.ndarray, slack: int, until: int, merged: bool,
) -> np.ndarray:  # fmt: skip
    """Segments int64[n, 5] for demands, which are in order of key number and lo.

    row_from, row_to: of each key; covered: of each key, what is before this time is known already. slack: rows between
    two regions that are not worth a segment of their own. until: a region that reaches beyond it has rows to come.
    merged: may demands share segments?
    """
    out = np.empty((len(number), _COLUMNS), np.int64)
    arrays = {
        "key": number, "lo": demands.lo, "hi": demands.hi, "row_from": row_from, "row_to": row_to, "time": time,
        "covered": covered, "settings": np.array([slack, until], np.int64), "out": out.reshape(-1),
    }  # fmt: skip
    return out[: compiled_for(merging_program, merged).run(arrays)]


def merging_program(merged: bool) -> Program:
    s = entry_scope("merge", TYPES)
    f = s.f
    end = f.variable("end", 0)
    with f.loop(0, s.key.length) as number:
        key, high = s.key[number], s.hi[number]
        low = f.greatest(s.lo[number], s.covered[key])
        first = first_at_least(s, "time", s.row_from[key], s.row_to[key], low)
        last = first_at_least(s, "time", first, s.row_to[key], high)
        segment = (key, low, high, first, last)
        if merged:
            has_rows = first.differs(last) | (high - 1 > s.settings[_UNTIL])
            with f.when((high > low) & has_rows):
                _join_or_put(s, end, *segment)
        else:
            _put(s, end, *segment)
    f.give(end.divide(_COLUMNS))
    return s.program


def _join_or_put(s: Scope, end: Variable, key: Value, low: Value, high: Value, first: Value, last: Value) -> None:
    """Make the last segment longer, if this one begins within it, or soon after it."""
    f, out = s.f, s.out
    at = end - _COLUMNS
    joins = f.variable("joins", False)
    with f.when(at >= 0):
        is_near = (low <= out[at + HI]) | (first <= out[at + TO] + s.settings[_SLACK])
        joins.set(out[at + KEY].equals(key) & is_near)
    with f.either(joins) as otherwise:
        with f.when(high > out[at + HI]):
            out[at + HI], out[at + TO] = high, last
        otherwise()
        _put(s, end, key, low, high, first, last)


def _put(s: Scope, end: Variable, *segment: Value) -> None:
    at = end.value
    for column, value in enumerate(segment):
        s.out[at + column] = value
    end.set(at + _COLUMNS)


def extent(
    number: np.ndarray, demands: RegionDemands, row_from: np.ndarray, row_to: np.ndarray, time: np.ndarray
) -> tuple[int, int]:  # fmt: skip
    """(rows in all regions, rows in their union), of demands that are in order of key number and lo."""
    first = first_rows(row_from[number], row_to[number], time, demands.lo)
    end = first_rows(first, row_to[number], time, demands.hi)
    # Each key's rows come after those of the keys before, so that a maximum over all demands is one within the key.
    before = np.cumsum(row_to - row_from) - row_to
    first, end = first + before[number], end + before[number]
    reached = np.concatenate([[0], np.maximum.accumulate(end)[:-1]]) if len(end) else end
    return int((end - first).sum()), int(np.maximum(0, end - np.maximum(first, reached)).sum())
