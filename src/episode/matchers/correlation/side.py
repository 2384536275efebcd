"""One of the two patterns at work: events of the correlation as its matcher takes them, and the matches it gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.columns import int64_values, one_chunk, take
from episode.matchers.correlation.matches import SideMatches, matches_of
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import END_OF_TIME, EventBatch, Matcher, Snapshot, StateChunk, Traits
from episode.matchers.slices.slicing import ALL_TIMES
from episode.matchers.state import arrays_in, chunk_of, least_by_key
from episode.matchers.times import EVER, NEVER

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec, SidePlan

_OUTER = "__episode_outer"
_LEAST_KEYS = 1024


class SideEvents:
    """From events of the correlation to those of one side: its rows, its columns, its keys where they differ.

    flag: the bit of the side column that marks its rows. shared: keys and order are those of the correlation.
    """

    def __init__(self, spec: CorrelationSpec, side: SidePlan, flag: int) -> None:
        self.spec, self.flag = spec, flag
        self.inner = [name for name, _ in side.columns]
        self.outer = [name for _, name in side.columns]
        self.order = side.spec.input_order
        place = dict(side.columns)
        keys = [place[name] for name in self.order.keys]
        order = tuple(replace(one, column=place[one.column]) for one in self.order.order)
        self.shared = set(keys) == set(spec.keys) and order == spec.order and self.order.start is None
        self._coder = KeyCoder(self.order.keys)
        self._outer_of = np.zeros(0, np.int64)

    def rows_of(self, events: EventBatch) -> EventBatch:
        """The rows of this side, with the correlation's columns and keys."""
        if self.spec.side is None:
            return events
        mine = int64_values(one_chunk(events.table.column(self.spec.side))) & self.flag != 0
        if mine.all():
            return events
        rows = np.flatnonzero(mine)
        return EventBatch(take(events.table, rows), events.key[rows], events.time[rows])

    def own_columns(self, table: pa.Table) -> pa.Table:
        return table.select(self.outer).rename_columns(self.inner)

    def inside(self, rows: EventBatch) -> EventBatch:
        """Rows of this side as its own matcher takes them."""
        table = self.own_columns(rows.table)
        if self.shared:
            return EventBatch(table, rows.key, rows.time)
        events = events_of(table.append_column(_OUTER, pa.array(rows.key)), self.order, self._coder)
        first = events.bounds[:-1]
        codes = events.key[first]
        outer = int64_values(one_chunk(events.table.column(_OUTER)))[first]
        if len(codes) and codes.max() >= len(self._outer_of):
            larger = np.zeros(2 * int(codes.max()) + 1, np.int64)
            larger[: len(self._outer_of)] = self._outer_of
            self._outer_of = larger
        self._outer_of[codes] = outer
        return EventBatch(events.table.drop_columns([_OUTER]), events.key, events.time)

    def outer_keys(self, codes: np.ndarray) -> np.ndarray:
        """The correlation's keys of keys of this side."""
        return codes if self.shared else self._outer_of[codes]

    def forget_keys(self, live: np.ndarray) -> None:
        """Codes of other keys than these are not needed any more."""
        if not self.shared and self._coder.size > 2 * len(live) + _LEAST_KEYS:
            self._coder.keep(live)

    def snapshot(self) -> Snapshot:
        if self.shared:
            return Snapshot()
        keys = self._coder.snapshot()
        return Snapshot((*keys.put, chunk_of("outer", pa.table({"outer": self._outer_of}))), keys.removed)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        if not self.shared:
            self._coder.restore(chunks)
            known = arrays_in(chunks, "outer", "outer")
            if known is not None:
                (self._outer_of,) = known


class RecencySide:
    """One pattern, of which all matches are found. ending: those alone that end in these times."""

    def __init__(self, spec: CorrelationSpec, side: SidePlan, flag: int) -> None:
        self.plan = side
        self.traits: Traits = side.spec.traits
        self.schema = side.spec.output_schema
        self.events = SideEvents(spec, side, flag)
        self.matcher: Matcher = side.spec.open()
        self.matcher.keyed = True
        self.ending = ALL_TIMES

    def feed(self, rows: EventBatch, until: int) -> SideMatches:
        """The matches that are certain with these rows of the side."""
        return self.matches_in(self.matcher.feed(self.events.inside(rows), until))

    def matches_in(self, tables: Iterable[pa.Table]) -> SideMatches:
        """Matches in the output of the matcher, with the keys of the correlation."""
        found = matches_of(tables, self.schema, self.plan.start, self.plan.end)
        if self.ending != ALL_TIMES:
            found = found.select(np.flatnonzero(self.ending.owns(found.end)))
        if self.events.shared:
            return found
        return SideMatches(found.table, self.events.outer_keys(found.key), found.start, found.end)

    def forget_keys(self) -> None:
        """Forget, after a feed, what is not needed any more of the side's own keys."""
        self.events.forget_keys(self.matcher.live_keys)

    def starts_from(self, keys: np.ndarray, until: int) -> np.ndarray:
        """For each key: no match to come starts before this time."""
        early = self.traits.early
        bound = NEVER if early is None else max(NEVER, min(until, EVER - 1) + 1 - early)
        bounds = np.full(len(keys), EVER if until == END_OF_TIME else bound, np.int64)
        codes, times = self.matcher.open_from
        if len(codes):
            open_keys, open_times = least_by_key(self.events.outer_keys(codes), times)
            at = np.minimum(np.searchsorted(open_keys, keys), len(open_keys) - 1)
            bounds = np.where(open_keys[at] == keys, np.minimum(bounds, open_times[at]), bounds)
        return bounds

    def ends_from(self, keys: np.ndarray, until: int) -> np.ndarray:
        """For each key: no match to come ends before this time."""
        if self.traits.prompt:
            return np.full(len(keys), EVER if until == END_OF_TIME else until + 1, np.int64)
        return self.starts_from(keys, until)

    @property
    def state_rows(self) -> int:
        return self.matcher.state_rows

    @property
    def live_keys(self) -> np.ndarray:
        return np.unique(self.events.outer_keys(self.matcher.live_keys))

    def snapshot(self) -> Snapshot:
        inner, own = with_prefix(self.matcher.snapshot(), "matcher."), self.events.snapshot()
        return Snapshot((*inner.put, *own.put), (*inner.removed, *own.removed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.events.restore(chunks)
        self.matcher.restore(without_prefix(chunks, "matcher."))


def without_prefix(chunks: Sequence[StateChunk], prefix: str) -> list[StateChunk]:
    """The chunks whose names begin so, under the rest of their names."""
    mine = [chunk for chunk in chunks if chunk.name.startswith(prefix)]
    return [StateChunk(chunk.name[len(prefix) :], chunk.version, chunk.data) for chunk in mine]


def with_prefix(snapshot: Snapshot, prefix: str) -> Snapshot:
    """A snapshot under longer names."""
    put = [StateChunk(prefix + chunk.name, chunk.version, chunk.data) for chunk in snapshot.put]
    return Snapshot(tuple(put), tuple(prefix + name for name in snapshot.removed))


# A feed in rounds: in a batch some keys at a time, and large keys in pieces, so that not all matches are in memory.

ROUND_ROWS = 1 << 18
"""Rows of one round in a batch."""
SAMPLE_ROWS = 1 << 14
"""Rows of the first two rounds, where strategies are compared by what they cost."""


def rounds_of(events: EventBatch, until: int, is_fresh: bool, sampled: bool) -> Iterator[tuple[EventBatch, int]]:
    """Parts of a feed, and up to which time they complete the keys that they have.

    is_fresh: nothing is known of any key. Otherwise, and in a stream, all keys advance together.
    """
    if until != END_OF_TIME or not is_fresh or len(events) <= SAMPLE_ROWS:
        yield events, until
        return
    at, bounds = 0, events.bounds
    sizes = chain([SAMPLE_ROWS] * 2 if sampled else [], repeat(ROUND_ROWS))
    most = next(sizes)
    while at < len(bounds) - 1:
        end = max(at + 1, int(np.searchsorted(bounds, bounds[at] + most, side="right")) - 1)
        low, high = int(bounds[at]), int(bounds[end])
        while high - low > 2 * most:
            # The row after about `most` rows of one key where another time begins.
            cut = low + int(np.searchsorted(events.time[low:high], events.time[low + most], side="right"))
            if cut == high:
                break
            yield _part(events, low, cut), int(events.time[cut]) - 1
            low, most = cut, next(sizes)
        yield _part(events, low, high), until
        at, most = end, next(sizes)


def _part(events: EventBatch, low: int, high: int) -> EventBatch:
    return EventBatch(events.table.slice(low, high - low), events.key[low:high], events.time[low:high])
