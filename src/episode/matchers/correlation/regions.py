"""Regions of rows that matches of one pattern ask the other for (PCQ, section 4.4), and how much of them is known.

Rows of a key are contiguous, in order of time. All arrays are int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa

from episode.matchers.code.searching import first_at_least, first_rows
from episode.matchers.protocol import StateChunk
from episode.matchers.state import arrays_in, chunk_of, least_by_key
from episode.matchers.times import EVER, NEVER
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope
from episode.native.ir import I64, Value, Variable
from episode.native.running import compiled_for

# Segments: stretches of a key's rows in which the matches of a pattern are asked for, each with its own key inside.

FIRST_ID = 1 << 40
"""Segments have numbers that no key code has."""


def nothing() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class RegionDemands:
    """Demands of matches of the other pattern: the key of each, and the times lo <= t < hi of starts, or of ends."""

    key: np.ndarray = field(default_factory=nothing)
    lo: np.ndarray = field(default_factory=nothing)
    hi: np.ndarray = field(default_factory=nothing)

    def __len__(self) -> int:
        return len(self.key)

    def select(self, which: np.ndarray) -> RegionDemands:
        return RegionDemands(self.key[which], self.lo[which], self.hi[which])


@dataclass(frozen=True)
class Segments:
    """Segments that are being computed, in order of their numbers, int64.

    key: whose rows. lo, hi: starts (or ends) from lo on and before hi are asked for. limit: those before it are
    taken, too, if they are found. at: the next row to feed, in the buffer of this feed. last: the last start found.
    """

    id: np.ndarray = field(default_factory=nothing)
    key: np.ndarray = field(default_factory=nothing)
    lo: np.ndarray = field(default_factory=nothing)
    hi: np.ndarray = field(default_factory=nothing)
    limit: np.ndarray = field(default_factory=nothing)
    at: np.ndarray = field(default_factory=nothing)
    last: np.ndarray = field(default_factory=nothing)

    def __len__(self) -> int:
        return len(self.id)

    def select(self, which: np.ndarray) -> Segments:
        return Segments(*(getattr(self, one.name)[which] for one in fields(self)))

    def followed_by(self, others: Segments) -> Segments:
        return Segments(*(np.concatenate([getattr(self, one.name), getattr(others, one.name)]) for one in fields(self)))

    def move_to(self, at: np.ndarray) -> Segments:
        return replace(self, at=at)

    def table(self) -> pa.Table:
        return pa.table({one.name: getattr(self, one.name) for one in fields(self)})

    @staticmethod
    def from_table(table: pa.Table) -> Segments:
        return Segments(*(table.column(one.name).to_numpy().copy() for one in fields(Segments)))


def extend_last(active: Segments, demands: RegionDemands, by_end: bool) -> tuple[Segments, RegionDemands]:
    """Segments that nothing follows, grown by what is asked for of their keys; and what is left to ask for."""
    last = np.flatnonzero(active.limit == EVER)
    if len(last) == 0 or len(demands) == 0:
        return active, demands
    order = last[np.argsort(active.key[last], kind="stable")]
    at = np.minimum(np.searchsorted(active.key[order], demands.key), len(order) - 1)
    mine = active.key[order[at]] == demands.key
    hi, last = active.hi.copy(), active.last.copy()
    np.maximum.at(hi, order[at[mine]], demands.hi[mine])
    if by_end:
        np.maximum.at(last, order[at[mine]], demands.hi[mine])
    return replace(active, hi=hi, last=last), demands.select(np.flatnonzero(~mine))


def looked_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray, default: int) -> np.ndarray:
    """The values of the wanted keys; keys ascend."""
    if len(keys) == 0:
        return np.full(len(wanted), default, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], default)


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
    two regions that are not worth a separate segment. until: a region that reaches beyond it has rows to come.
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


# How far matches of a key are known: what was asked for and decided is never computed again.

_NAME = "covered"


@dataclass
class Covered:
    """The time of each key (ascending) before which everything is known."""

    key: np.ndarray = field(default_factory=nothing)
    time: np.ndarray = field(default_factory=nothing)

    def until(self, keys: np.ndarray) -> np.ndarray:
        """For each of these keys, the time before which everything is known."""
        return looked_up(self.key, self.time, keys, NEVER)

    def cover(self, key: np.ndarray, time: np.ndarray) -> None:
        """Note that everything before these times is known of these keys."""
        keys, times = np.concatenate([self.key, key]), np.concatenate([self.time, time])
        self.key, negative = least_by_key(keys, ~times)
        self.time = ~negative

    def keep(self, wanted: np.ndarray) -> None:
        """Remember only those (bool)."""
        self.key, self.time = self.key[wanted], self.time[wanted]

    def chunk(self) -> StateChunk:
        return chunk_of(_NAME, pa.table({"key": self.key, "covered": self.time}))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = arrays_in(chunks, _NAME, "key", "covered")
        if known is not None:
            self.key, self.time = known
