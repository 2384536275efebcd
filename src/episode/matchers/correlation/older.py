"""What the recent buffer does not have of a region, read from the archive (PCQ, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.correlation.past import Past
from episode.matchers.correlation.recent import RecentBuffer
from episode.matchers.correlation.segments import looked_up
from episode.matchers.held import arrays_in, chunk_of, least_by_key
from episode.matchers.protocol import StateChunk
from episode.matchers.range_search import first_rows
from episode.matchers.times import EVER, NEVER

_NAME = "since"


class OlderRows:
    """From when on the buffer has all rows of a key, and reading those from before.

    capacity: the most rows of a key that stay in the buffer after a round; None: all that may be asked for.
    """

    def __init__(self, past: Past, capacity: int | None) -> None:
        self.past, self.capacity = past, capacity
        self.key = self.since = np.zeros(0, np.int64)

    def arrive(self, recent: RecentBuffer) -> None:
        """Of keys that have rows for the first time, the buffer has all from the first one on."""
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

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def chunk(self) -> StateChunk:
        return chunk_of(_NAME, pa.table({"key": self.key, "since": self.since}))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = arrays_in(chunks, _NAME, "key", "since")
        if known is not None:
            self.key, self.since = known
