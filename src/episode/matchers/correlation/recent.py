"""The recent buffer (PCQ, section 4.2): rows of each key that a match to come may still ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.kernels.correlation import regions
from episode.matchers.columns import from_bytes, take
from episode.matchers.correlation.segments import looked_up
from episode.matchers.held import KeptRows, by_name, chunk_of, owned, ranges
from episode.matchers.protocol import EventBatch, StateChunk

_NAME = "recent"


class RecentBuffer:
    """Rows by key, keys ascending, each key's rows in order. fresh: for each key the first of its rows that have come
    with the last feed."""

    def __init__(self, schema: pa.Schema, columns: Sequence[str]) -> None:
        self.rows = EventBatch.empty(schema, list(dict.fromkeys(columns)))
        self.columns = self.rows.table.column_names
        self.fresh = np.zeros(0, np.int64)
        self._kept = KeptRows(f"{_NAME}.")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def keys(self) -> np.ndarray:
        return self.rows.key[self.rows.bounds[:-1]]

    @property
    def row_from(self) -> np.ndarray:
        return self.rows.bounds[:-1]

    @property
    def row_to(self) -> np.ndarray:
        return self.rows.bounds[1:]

    def add(self, events: EventBatch) -> None:
        """New rows after those that are held."""
        held = self.rows
        self._kept.extend(len(events))
        table = events.table.select(self.columns)
        key = np.concatenate([held.key, events.key])
        is_fresh = np.arange(len(key)) >= len(held)
        time = np.concatenate([held.time, events.time])
        together = table if len(held) == 0 else pa.concat_tables([held.table, table]) if len(events) else held.table
        if bool((key[1:] >= key[:-1]).all()):
            self.rows = EventBatch(
                take(together, np.arange(len(key))) if len(held) and len(events) else together, owned(key), owned(time)
            )
        else:
            order = np.argsort(key, kind="stable")
            self._kept.reorder(order)
            self.rows = EventBatch(take(together, order), key[order], time[order])
            is_fresh = is_fresh[order]
        counts = np.add.reduceat(~is_fresh, self.row_from) if len(key) else np.zeros(0, np.int64)
        self.fresh = self.row_from + counts

    def prepend(self, older: EventBatch) -> None:
        """Rows from before those that are held, of some keys, each key's in order."""
        if len(older) == 0:
            return
        keys, fresh = self.keys, self.row_to - self.fresh
        key = np.concatenate([older.key, self.rows.key])
        order = np.argsort(key, kind="stable")
        table = pa.concat_tables([older.table.select(self.columns), self.rows.table])
        time = np.concatenate([older.time, self.rows.time])
        self.rows = EventBatch(take(table, order), key[order], time[order])
        self._kept.extend(len(older))
        self._kept.chunk[:] = -1  # they are to be written in this order
        self.fresh = self.row_to - looked_up(keys, fresh, self.keys, 0)

    def first_rows(self, bound: np.ndarray) -> np.ndarray:
        """For each key the first row that is not earlier than its bound."""
        out = np.empty(len(bound), np.int64)
        regions.first_rows(self.row_from, self.row_to, self.rows.time, bound, out)
        return out

    def rows_before(self, keys: np.ndarray, time: np.ndarray) -> np.ndarray:
        """For each of these keys (ascending), how many rows of it are earlier."""
        begin = np.searchsorted(self.rows.key, keys)
        first = np.empty(len(keys), np.int64)
        regions.first_rows(begin, np.searchsorted(self.rows.key, keys, side="right"), self.rows.time, time, first)
        return first - begin

    def keep_from(self, first: np.ndarray) -> None:
        """Of each key, keep the rows from this one on."""
        first = np.maximum(first, self.row_from)
        if bool((first == self.row_from).all()):
            return
        rows = ranges(first, self.row_to - first)
        self._kept.select(rows)
        self.rows = EventBatch(take(self.rows.table, rows), self.rows.key[rows], self.rows.time[rows])

    def forget(self) -> None:
        nothing = np.zeros(0, np.int64)
        self._kept.select(nothing)
        self.rows = EventBatch(self.rows.table.slice(0, 0), nothing, nothing)

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def changes(self) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        keys, counts = np.unique(self.rows.key, return_counts=True)
        put, removed = self._kept.changes(self.rows)
        return (*put, chunk_of(_NAME, pa.table({"key": keys, "held": counts.astype(np.int64)}))), removed

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = by_name(chunks)
        if _NAME in known:
            table = from_bytes(known[_NAME].data)
            rows = self._kept.restore(chunks, table.column("key").to_numpy(), table.column("held").to_numpy())
            if rows is not None:
                self.rows = EventBatch(rows.table, owned(rows.key), owned(rows.time))
