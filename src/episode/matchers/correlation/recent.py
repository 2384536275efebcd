"""The recent buffer (PCQ, section 4.2): rows that a match to come may still ask for, and older ones from the archive.

What a feed costs depends on its rows and on the number of keys, not on the rows that are held. The rows of a key lie
together, in order, as places in arrays, with room for more after them; if the room is used up, they move to a place
with twice as much. What the rows have in their columns stays in tables, in the order in which they came.

See decision 130.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.code.searching import first_rows
from episode.matchers.columns import from_bytes, one_chunk_each, take
from episode.matchers.correlation.archive import Past
from episode.matchers.correlation.regions import looked_up
from episode.matchers.protocol import EventBatch, StateChunk
from episode.matchers.state import NOT_WRITTEN, RowChunks, arrays_in, by_name, chunk_of, least_by_key, ranges, writable
from episode.matchers.times import EVER, NEVER

# Rows in the order in which they came: they are appended and let go without copying the others.

TOGETHER = 8
"""Tables of like size that become one: each row is copied a few times at most, and there are few tables."""
MOST_TABLES = 64
_LEAST_WASTE = 1024


class ArrivedRows:
    """Numbered rows, in tables. A table goes with the last of its rows that is wanted."""

    def __init__(self, nothing: pa.Table) -> None:
        self._nothing = nothing
        self._tables: list[pa.Table] = []
        self._first = np.zeros(0, np.int64)
        self._wanted = np.zeros(0, np.int64)
        self._next = 0

    def append(self, table: pa.Table) -> int:
        """Rows that have come; gives the number of the first of them."""
        number = self._next
        self._next += table.num_rows
        self._tables.append(table)
        self._first = np.append(self._first, number)
        self._wanted = np.append(self._wanted, table.num_rows)
        while self._join_last():
            pass
        return number

    def rows_at(self, numbers: np.ndarray) -> pa.Table:
        if len(numbers) == 0:
            return self._nothing
        which = np.searchsorted(self._first, numbers, side="right") - 1
        used = np.unique(which)
        if len(used) == 1:
            return take(self._tables[used[0]], numbers - self._first[used[0]])
        parts, order = [], []
        for one in used.tolist():
            at = np.flatnonzero(which == one)
            parts.append(take(self._tables[one], numbers[at] - self._first[one]))
            order.append(at)
        place = np.empty(len(numbers), np.int64)
        place[np.concatenate(order)] = np.arange(len(numbers))
        return take(pa.concat_tables(parts), place)

    def let_go(self, numbers: np.ndarray) -> None:
        """These rows are not wanted any more."""
        which = np.searchsorted(self._first, numbers, side="right") - 1
        self._wanted -= np.bincount(which, minlength=len(self._first))
        if not self._wanted.all():
            kept = np.flatnonzero(self._wanted)
            self._tables = [self._tables[one] for one in kept.tolist()]
            self._first, self._wanted = self._first[kept], self._wanted[kept]

    @property
    def wasteful(self) -> bool:
        """Should the rows that are wanted be appended anew?"""
        rows = sum(table.num_rows for table in self._tables)
        return rows > 2 * int(self._wanted.sum()) + _LEAST_WASTE or len(self._tables) > MOST_TABLES

    def _join_last(self) -> bool:
        """The last tables as one, if they are many and none is much larger than the last one."""
        sizes = [table.num_rows for table in self._tables]
        most, begin = 2 * sizes[-1], len(sizes) - 1
        while begin and sizes[begin - 1] <= most and self._first[begin - 1] + sizes[begin - 1] == self._first[begin]:
            begin -= 1
        if len(sizes) - begin < TOGETHER:
            return False
        self._tables[begin:] = [one_chunk_each(pa.concat_tables(self._tables[begin:]))]
        self._wanted = np.append(self._wanted[:begin], self._wanted[begin:].sum())
        self._first = self._first[: begin + 1]
        return True


_NAME = "recent"


class RecentBuffer:
    """Rows by key. keys ascend; row_from, row_to: the places of each key's rows, in order; fresh: the first of those
    that have come with the last feed. time: by place."""

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        nothing = EventBatch.empty(schema, list(dict.fromkeys(columns))).table
        self.columns = nothing.column_names
        self._nothing = nothing
        self._kept = RowChunks(f"{_NAME}.")
        self.forget()

    def forget(self) -> None:
        self.keys, self.row_from, self.row_to, self.fresh, self._room_to = (np.zeros(0, np.int64) for _ in range(5))
        self.time, self._number, self._chunk = (np.zeros(0, np.int64) for _ in range(3))
        self._used = 0
        self._arrived = ArrivedRows(self._nothing)

    def __len__(self) -> int:
        return int((self.row_to - self.row_from).sum())

    @property
    def rows(self) -> EventBatch:
        """All of them, key after key."""
        return self._batch(self._places())

    def rows_at(self, places: np.ndarray) -> pa.Table:
        return self._arrived.rows_at(self._number[places])

    def _places(self) -> np.ndarray:
        return ranges(self.row_from, self.row_to - self.row_from)

    def _batch(self, places: np.ndarray, which: np.ndarray | None = None) -> EventBatch:
        """Rows of all keys; which: of those only these."""
        key = np.repeat(self.keys, self.row_to - self.row_from)
        if which is not None:
            places, key = places[which], key[which]
        return EventBatch(self.rows_at(places), key, self.time[places])

    def add(self, events: EventBatch) -> None:
        """New rows after those that are held."""
        if len(events):
            at, counts, events = self._arriving(events)
            self._make_room(at, np.zeros(len(at), np.int64), counts)
            self.fresh = self.row_to.copy()
            self._put(events, ranges(self.row_to[at], counts))
            self.row_to[at] += counts
        else:
            self.fresh = self.row_to.copy()

    def prepend(self, older: EventBatch) -> None:
        """Rows from before those that are held, of some keys, each key's in order."""
        if len(older) == 0:
            return
        at, counts, older = self._arriving(older)
        self._make_room(at, counts, np.zeros(len(at), np.int64))
        self.row_from[at] -= counts
        self._put(older, ranges(self.row_from[at], counts))
        self._chunk[self._places()] = NOT_WRITTEN  # they are to be written in this order

    def keep_from(self, first: np.ndarray) -> None:
        """Keep the rows of each key from this one on."""
        first = np.maximum(first, self.row_from)
        if bool((first == self.row_from).all()):
            return
        first = np.minimum(first, self.row_to)
        self._arrived.let_go(self._number[ranges(self.row_from, first - self.row_from)])
        self.row_from = first
        kept = np.flatnonzero(first < self.row_to)
        if len(kept) < len(first):
            self.keys, self.row_from, self.row_to, self.fresh, self._room_to = (one[kept] for one in self._by_key())
        if self._arrived.wasteful:
            places = self._places()
            table = self.rows_at(places)
            self._arrived = ArrivedRows(self._nothing)
            self._number[places] = self._arrived.append(table) + np.arange(len(places))

    def _arriving(self, events: EventBatch) -> tuple[np.ndarray, np.ndarray, EventBatch]:
        """Keys that have new rows, how many, and these rows, grouped by key."""
        keys = events.key[events.bounds[:-1]]
        if len(np.unique(keys)) < len(keys):
            order = np.argsort(events.key, kind="stable")
            events = EventBatch(take(events.table, order), events.key[order], events.time[order])
            keys = events.key[events.bounds[:-1]]
        new = np.setdiff1d(keys, self.keys)
        if len(new):
            nothing = np.zeros(len(new), np.int64)
            order = np.argsort(np.concatenate([self.keys, new]), kind="stable")
            own = (new, nothing, nothing, nothing, nothing)
            together = [np.concatenate(both)[order] for both in zip(self._by_key(), own, strict=True)]
            self.keys, self.row_from, self.row_to, self.fresh, self._room_to = together
        return np.searchsorted(self.keys, keys), np.diff(events.bounds), events

    def _put(self, events: EventBatch, places: np.ndarray) -> None:
        self.time[places] = events.time
        self._number[places] = self._arrived.append(events.table.select(self.columns)) + np.arange(len(events))
        self._chunk[places] = NOT_WRITTEN

    def _by_key(self) -> tuple[np.ndarray, ...]:
        return self.keys, self.row_from, self.row_to, self.fresh, self._room_to

    def _make_room(self, at: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
        """Make room for `before` rows before those of these keys, and for `after` rows after them."""
        lengths = self.row_to - self.row_from
        short = np.flatnonzero((before > 0) | (self.row_to[at] + after > self._room_to[at]))
        if len(short) == 0:
            return
        sizes = (before + 2 * (lengths[at] + after))[short]
        old = self.time, self._number, self._chunk
        if self._used + sizes.sum() <= len(self.time):
            at, before = at[short], before[short]
        else:  # all keys move, into larger arrays
            wanted = np.zeros((2, len(self.keys)), np.int64)
            wanted[0, at], wanted[1, at] = before, after
            at, (before, after) = np.arange(len(self.keys)), wanted
            sizes = before + after + lengths + (lengths + after) // 2
            self._used = 0
            self.time, self._number, self._chunk = (np.zeros(2 * int(sizes.sum()), np.int64) for _ in old)
        begin = self._used + np.cumsum(sizes) - sizes
        self._used += int(sizes.sum())
        lengths = lengths[at]
        places, new = ranges(self.row_from[at], lengths), ranges(begin + before, lengths)
        for array, source in zip((self.time, self._number, self._chunk), old, strict=True):
            array[new] = source[places]
        fresh = self.row_to[at] - self.fresh[at]
        self.row_from[at] = begin + before
        self.row_to[at] = self.row_from[at] + lengths
        self.fresh[at] = self.row_to[at] - fresh
        self._room_to[at] = begin + sizes

    def first_rows(self, bound: np.ndarray) -> np.ndarray:
        """For each key the first row that is not earlier than its bound."""
        return first_rows(self.row_from, self.row_to, self.time, bound)

    def rows_before(self, keys: np.ndarray, time: np.ndarray) -> np.ndarray:
        """For each of these keys (ascending), how many rows of it are earlier."""
        begin, end = (looked_up(self.keys, one, keys, 0) for one in (self.row_from, self.row_to))
        return first_rows(begin, end, self.time, time) - begin

    def changes(self) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        places = self._places()
        self._kept.chunk = self._chunk[places]
        put, removed = self._kept.changes_of(len(places), lambda which: self._batch(places, which))
        self._chunk[places] = self._kept.chunk
        held = pa.table({"key": self.keys, "held": self.row_to - self.row_from})
        return (*put, chunk_of(_NAME, held)), removed

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = by_name(chunks)
        if _NAME in known:
            table = from_bytes(known[_NAME].data)
            rows = self._kept.restore(chunks, table.column("key").to_numpy(), table.column("held").to_numpy())
            self.forget()
            if rows is not None:
                self.add(EventBatch(rows.table, writable(rows.key), writable(rows.time)))
                self._chunk[self._places()] = self._kept.chunk


# What the recent buffer does not have of a region, read from the archive (PCQ, section 4.2).

_SINCE = "since"


class OlderRows:
    """From when on the buffer has all rows of a key, and reading those from before.

    capacity: the most rows of a key that stay in the buffer after a round; None: all that may be asked for.
    """

    def __init__(self, past: Past, capacity: int | None) -> None:
        self.past, self.capacity = past, capacity
        self.key = self.since = np.zeros(0, np.int64)

    def arrive(self, recent: RecentBuffer) -> None:
        """Note keys that have rows for the first time: the buffer has all their rows from the first one on."""
        keys = recent.keys
        new = np.flatnonzero(~np.isin(keys, self.key))
        if len(new):
            since = recent.time[recent.row_from[new]]
            self._set(np.concatenate([self.key, keys[new]]), np.concatenate([self.since, since]))

    def fetch(self, recent: RecentBuffer, key: np.ndarray, lo: np.ndarray, until: int) -> None:
        """Read what is missing of rows of keys from these times on, and of the rows before that conditions look at."""
        if len(key) == 0:
            return
        lookback = self.past.reader.lookback
        keys, first = least_by_key(key, lo)
        since = looked_up(self.key, self.since, keys, min(until, EVER - 1) + 1)
        before = recent.rows_before(keys, first)
        missing = np.flatnonzero((first < since) | ((before < lookback) & (since > NEVER)))
        if len(missing) == 0:
            return
        keys, since = keys[missing], since[missing]
        first = np.minimum(first[missing], since)
        rows = self.past.reader.read(self.past.values_of(keys), keys, first, since - 1)
        recent.prepend(rows)
        begin = np.searchsorted(rows.key, keys)
        earlier = first_rows(begin, np.searchsorted(rows.key, keys, side="right"), rows.time, first)
        first = np.where(earlier - begin < lookback, NEVER, first)  # there are no more
        others = np.flatnonzero(~np.isin(self.key, keys))
        self._set(np.concatenate([self.key[others], keys]), np.concatenate([self.since[others], first]))

    def cut(self, recent: RecentBuffer, first: np.ndarray, until: int) -> np.ndarray:
        """The first rows to keep of those that may be needed, within the capacity, and where another time begins.

        Rows after `until` stay: of their times more may come, and what is read ends where the buffer begins.
        """
        first = np.maximum(first, recent.row_from)
        if self.capacity is not None:
            first = np.maximum(first, recent.row_to - self.capacity)
        time, inside = recent.time, (first > recent.row_from) & (first < recent.row_to)
        bound = np.where(inside, time[np.minimum(first, len(time) - 1)], 0) if len(time) else first
        before = np.where(inside, time[np.maximum(first - 1, 0)], 0) if len(time) else first
        split = np.flatnonzero(inside & (bound == before))
        if len(split):  # rows of one time stay together, or go together
            later = recent.first_rows(np.where(inside, np.minimum(bound, EVER - 1) + 1, 0))
            first = first.copy()
            first[split] = later[split]
        first = np.minimum(first, recent.first_rows(np.full(len(first), until + 1, np.int64)))
        dropped = first > recent.row_from
        kept = np.flatnonzero(first < recent.row_to)
        since = looked_up(self.key, self.since, recent.keys[kept], 0)
        at = first[kept]
        self._set(recent.keys[kept], np.where(dropped[kept], time[at] if len(time) else at, since))
        return first

    def _set(self, keys: np.ndarray, since: np.ndarray) -> None:
        order = np.argsort(keys, kind="stable")
        self.key, self.since = keys[order], since[order]

    def chunk(self) -> StateChunk:
        return chunk_of(_SINCE, pa.table({"key": self.key, "since": self.since}))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = arrays_in(chunks, _SINCE, "key", "since")
        if known is not None:
            self.key, self.since = known
