"""Archived events for a correlation: those from before the events that are fed or, of a table, all of them.

When a key first appears, its archived events are read from so early on that every archive match that may be recent for
its first event is found whole. A history that is all there is of the archive (`closed`) is then read along with the
stream, as if its events came in with those of the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from episode.matchers.code.searching import first_rows
from episode.matchers.columns import from_bytes, one_chunk_each, take
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import times_of
from episode.matchers.protocol import END_OF_TIME, EventBatch, StateChunk, Traits
from episode.matchers.state import by_name, chunk_of, ranges
from episode.matchers.times import EVER, NEVER, window_starts

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec


@runtime_checkable
class History(Protocol):
    """The archived events of the archive pattern's stream. Picklable: workers read it themselves.

    It has every event of the stream up to any time that was asked for, or at least all that are older than those fed;
    events that are fed as well are never asked for again.
    """

    def read(self, keys: pa.Table | None, lo: int, hi: int, columns: Sequence[str]) -> pa.Table:
        """The events with lo <= time <= hi, of each key in order of (time, arrival).

        keys: a row for each key, its columns the key columns of the correlation; None: of all keys. Times are images of
        event time (microseconds, or the integer itself). columns: of the correlation's input, keys and time among them.
        Pruned by time and key; events of other keys may come along, they are passed over.
        """
        ...

    def earliest(self) -> int | None:
        """A time before which no event occurs; None: the history is empty."""
        ...

    def latest(self) -> int | None:
        """A time after which no event occurs; None: the history is empty."""
        ...


@dataclass(frozen=True)
class MappedHistory:
    """A history by the names that columns have in the correlation's input. names: (column of the
    correlation's input, the history's own column)."""

    history: History
    names: tuple[tuple[str, str], ...]

    def read(self, keys: pa.Table | None, lo: int, hi: int, columns: Sequence[str]) -> pa.Table:
        own = dict(self.names)
        asked = None if keys is None else keys.rename_columns([own[name] for name in keys.column_names])
        wanted = [own[name] for name in columns]
        found = self.history.read(asked, lo, hi, list(dict.fromkeys(wanted)))
        return pa.Table.from_arrays([found.column(name) for name in wanted], names=list(columns))

    def earliest(self) -> int | None:
        return self.history.earliest()

    def latest(self) -> int | None:
        return self.history.latest()


_NAME = "past"
_LAST, _KEY = "__last", "__key"
_WIDER = 8


class PastReader:
    """Reads rows of some keys from a history. columns: of the rows; lookback: rows before that come along."""

    def __init__(self, spec: CorrelationSpec, columns: Sequence[str], lookback: int) -> None:
        assert spec.history is not None
        self.history: History = spec.history
        self.spec = spec
        self.columns = list(dict.fromkeys([*spec.keys, spec.time, *columns]))
        self.schema = pa.schema([spec.input_schema.field(name) for name in self.columns])
        self.lookback = lookback
        self.reads = self.rows = 0

    def read(self, values: pa.Table, codes: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> EventBatch:
        """The rows of keys (codes ascend; their values in the same order) with lo <= time <= hi, and `lookback` rows
        before them."""
        found = self.between(values, codes, int(lo.min()), int(hi.max()))
        first = self._first(found, codes, lo)
        if self.lookback:
            missing = np.flatnonzero(first - _bounds_of(found, codes)[0] < self.lookback)
            if len(missing):
                found = self._further(found, values, codes, lo, missing)
                first = self._first(found, codes, lo)
        begin, end = _bounds_of(found, codes)
        first = np.maximum(begin, first - self.lookback)
        last = np.where(hi == EVER, end, self._first(found, codes, np.minimum(hi, EVER - 1) + 1))
        rows = ranges(first, np.maximum(0, last - first))
        return EventBatch(take(found.table, rows), found.key[rows], found.time[rows])

    def _further(
        self, found: EventBatch, values: pa.Table, codes: np.ndarray, lo: np.ndarray, missing: np.ndarray
    ) -> EventBatch:
        """Read more rows before these, for the keys that lack them, as far as the history reaches."""
        earliest = self.history.earliest()
        have = int(lo.min())
        span = max(1, self.spec.recency)
        while len(missing) and earliest is not None and have > earliest:
            back = max(earliest, have - span)
            some = take(values, missing) if self.spec.keys else values
            older = self.between(some, codes[missing], back, have - 1)
            found = _in_order([older, found])
            lacking = self._first(found, codes, lo) - _bounds_of(found, codes)[0] < self.lookback
            missing = missing[lacking[missing]]
            have, span = back, span * _WIDER
        return found

    def _first(self, found: EventBatch, codes: np.ndarray, lo: np.ndarray) -> np.ndarray:
        """For each key its first row that is not earlier."""
        return first_rows(*_bounds_of(found, codes), found.time, lo)

    def between(self, values: pa.Table, codes: np.ndarray, lo: int, hi: int) -> EventBatch:
        """The rows of keys with lo <= time <= hi."""
        keys = values if self.spec.keys else None
        table = self.history.read(keys, lo, hi, self.columns).select(self.columns).cast(self.schema)
        self.reads, self.rows = self.reads + 1, self.rows + table.num_rows
        time = times_of(table, self.spec.input_order)
        key = np.full(table.num_rows, codes[0], np.int64)
        if self.spec.keys:
            coder = KeyCoder(self.spec.keys)
            known = coder.encode(values)
            code_of = np.full(len(codes), -1, np.int64)
            code_of[known.code[known.local]] = codes
            read = coder.encode(table)
            which = read.code[read.local] if table.num_rows else np.zeros(0, np.int64)
            key = np.where(which < len(codes), code_of[np.minimum(which, len(codes) - 1)], -1)
        mine = np.flatnonzero((key >= 0) & (time >= lo) & (time <= hi))
        return _by_key(take(table, mine), key[mine], time[mine])


def _by_key(table: pa.Table, key: np.ndarray, time: np.ndarray) -> EventBatch:
    """Rows by key, each key's in order of time, equal times as they come."""
    order = np.lexsort((time, key))
    return EventBatch(take(table, order), key[order], time[order])


def _bounds_of(rows: EventBatch, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each key, and the one after its last."""
    return np.searchsorted(rows.key, codes), np.searchsorted(rows.key, codes, side="right")


class Past:
    """The keys that are known, and the archived events of those that are new."""

    def __init__(self, spec: CorrelationSpec, columns: Sequence[str], traits: Traits) -> None:
        self.spec, self.traits = spec, traits
        self.reader = PastReader(spec, columns, traits.lookback if traits.dependent is None else 0)
        self.key = self.last = np.zeros(0, np.int64)
        self.values = pa.schema([spec.input_schema.field(name) for name in spec.keys]).empty_table()
        self.read_until = NEVER
        self.complete = False

    def supply(self, events: EventBatch, rows: EventBatch, until: int, on_demand: bool) -> EventBatch:
        """The rows of the archive pattern that come with a feed. rows: those of them that are fed. on_demand: what is
        older is read when it is asked for."""
        first = events.bounds[:-1]
        order = np.argsort(events.key[first], kind="stable")
        keys, begins = events.key[first][order], events.time[first][order]
        ends = events.time[events.bounds[1:] - 1][order]
        new = np.flatnonzero(~np.isin(keys, self.key))
        lo = self._earliest_needed(begins[new])
        parts = [EventBatch(rows.table.select(self.reader.columns), rows.key, rows.time)]
        values = take(events.table.select(list(self.spec.keys)), first[order][new]) if self.spec.keys else None
        if not self.spec.closed:
            if len(new) and not on_demand:
                parts.insert(0, self.reader.read(values, keys[new], lo, begins[new] - 1))
        else:
            latest = self.spec.history.latest() if self.spec.history is not None else None
            self.complete = until == END_OF_TIME or latest is None or until >= latest
            hi = EVER if self.complete else until
            if self.read_until < hi and len(self.key):
                parts.append(self.reader.between(self.values, self.key, self.read_until + 1, hi))
            if len(new):
                parts.append(self.reader.read(values, keys[new], lo, np.full(len(new), hi)))
            self.read_until = max(self.read_until, hi)
        self._remember(keys, ends, values, new)
        return _in_order(parts)

    def values_of(self, keys: np.ndarray) -> pa.Table:
        return take(self.values, np.searchsorted(self.key, keys)) if self.spec.keys else self.values

    def _earliest_needed(self, begins: np.ndarray) -> np.ndarray:
        if self.traits.dependent is not None and self.traits.reach is None:
            earliest = self.spec.history.earliest() if self.spec.history is not None else None
            return np.full(len(begins), EVER if earliest is None else earliest, np.int64)
        return window_starts(window_starts(begins, self.spec.recency), self.traits.reach or 0)

    def _remember(self, keys: np.ndarray, ends: np.ndarray, values: pa.Table | None, new: np.ndarray) -> None:
        all_keys, last = np.concatenate([self.key, keys[new]]), np.concatenate([self.last, ends[new]])
        order = np.argsort(all_keys, kind="stable")
        if values is not None:
            self.values = one_chunk_each(take(pa.concat_tables([self.values, values]), order))
        self.key, self.last = all_keys[order], last[order]
        at = np.searchsorted(self.key, keys)
        self.last[at] = np.maximum(self.last[at], ends)

    def forget(self, until: int, live: np.ndarray) -> None:
        """Keys without an event for as long as recency reaches are new when they appear again, if nothing is held of
        them: their archived events of that time have been read, and were of no use."""
        if until == END_OF_TIME:
            return
        bound = window_starts(np.array([until]), self.spec.recency)[0]
        keep = np.flatnonzero((self.last >= bound) | np.isin(self.key, live))
        if len(keep) < len(self.key):
            self.key, self.last = self.key[keep], self.last[keep]
            if self.spec.keys:
                self.values = take(self.values, keep)

    def chunk(self) -> StateChunk:
        table = pa.table({_KEY: self.key, _LAST: self.last})
        for name in self.spec.keys:
            table = table.append_column(name, self.values.column(name))
        return chunk_of(_NAME, table.replace_schema_metadata({"read": f"{self.read_until} {self.complete}"}))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = by_name([chunk for chunk in chunks if chunk.name == _NAME])
        if known:
            table = from_bytes(known[_NAME].data)
            until, complete = (table.schema.metadata or {})[b"read"].decode().split()
            self.read_until, self.complete = int(until), complete == "True"
            self.key, self.last = (table.column(name).to_numpy().copy() for name in (_KEY, _LAST))
            self.values = one_chunk_each(table.select(list(self.spec.keys)))


def _in_order(parts: list[EventBatch]) -> EventBatch:
    """Rows of several parts by key, each key's in order of time, then of parts."""
    some = [part for part in parts if len(part)]
    if len(some) < 2:
        return some[0] if some else parts[-1]
    key, time = (np.concatenate([getattr(part, name) for part in some]) for name in ("key", "time"))
    return _by_key(pa.concat_tables([part.table for part in some]), key, time)
