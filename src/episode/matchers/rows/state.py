"""State of a row pattern: the rows of each key from its next start row on, and the progress of its search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from episode.matchers.columns import from_bytes
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk, StateLimit
from episode.matchers.rows.arrays import SearchPartitions
from episode.matchers.rows.errors import too_many_held
from episode.matchers.state import HeldRows, by_name, chunk_of, ranges, rename_keys
from episode.plan.rows.plan import RowPatternPlan, uses_match_number
from episode.plan.rows.program import START

PARTITIONS = "partitions"


class HeldPartitions(NamedTuple):
    """Held partitions by key, in order of key code: number of held rows, whether the first is the true first, number of
    the last match, positions.

    Positions are rows relative to the first held row of the key: next start, reach of earlier matches, and
    (INCREMENTAL) the last start explored and how far it could see.
    """

    key: np.ndarray
    held: np.ndarray
    at_start: np.ndarray
    number: np.ndarray
    next_start: np.ndarray
    covered: np.ndarray
    explored_start: np.ndarray
    explored_to: np.ndarray

    @staticmethod
    def without_rows(keys: np.ndarray) -> HeldPartitions:
        """Return fresh partitions of these keys."""
        held, number, next_start, covered, explored_to = (np.zeros(len(keys), np.int64) for _ in range(5))
        at_start, explored_start = np.ones(len(keys), np.bool_), np.full(len(keys), -1, np.int64)
        return HeldPartitions(keys, held, at_start, number, next_start, covered, explored_start, explored_to)

    def select(self, which: np.ndarray) -> HeldPartitions:
        return HeldPartitions(*(array[which] for array in self))

    def with_new_keys(self, keys: np.ndarray) -> HeldPartitions:
        """Return the partitions with fresh entries for unknown keys."""
        fresh = np.setdiff1d(keys, self.key, assume_unique=True)
        if len(fresh) == 0:
            return self
        joined = HeldPartitions(*(np.concatenate(pair) for pair in zip(self, HeldPartitions.without_rows(fresh))))
        return joined.select(np.argsort(joined.key, kind="stable"))


POSITIONS = HeldPartitions._fields[4:]


@dataclass(frozen=True)
class FeedPartitions:
    """The partitions of one feed. everyone: all known partitions; at: those that have rows; now: these, with positions
    counted in rows of the feed."""

    everyone: HeldPartitions
    at: np.ndarray
    now: SearchPartitions


class RowState:
    """The held rows and partitions of one shard."""

    def __init__(self, plan: RowPatternPlan, columns: Sequence[str], limit: StateLimit | None) -> None:
        self.plan = plan
        self.limit = limit
        self.held = HeldRows(columns)
        self.partitions = HeldPartitions.without_rows(np.zeros(0, np.int64))
        self.given_up = 0
        self.counts = uses_match_number(plan) or any(i.operation == START for i in plan.program.instructions)

    def __len__(self) -> int:
        return len(self.held)

    @property
    def live_keys(self) -> np.ndarray:
        return self.partitions.key

    def here(self, events: EventBatch) -> FeedPartitions:
        """The progress of the keys of a feed."""
        lo, hi = events.bounds[:-1], events.bounds[1:]
        keys = events.key[lo]
        everyone = self.partitions.with_new_keys(np.sort(keys))
        at = np.searchsorted(everyone.key, keys)
        positions = {name: getattr(everyone, name)[at] + lo for name in POSITIONS}
        now = SearchPartitions(lo, hi, everyone.at_start[at], number=everyone.number[at], **positions)
        return FeedPartitions(everyone, at, now)

    def hold(self, events: EventBatch, here: FeedPartitions) -> None:
        """Keep what later rows may still need."""
        everyone, now = here.everyone, here.now
        keep_from = self.keep_from(now, events.from_row)
        for name in POSITIONS:
            getattr(everyone, name)[here.at] = getattr(now, name) - keep_from
        counts = now.hi - keep_from
        everyone.held[here.at] = counts
        everyone.at_start[here.at] = now.at_start & (keep_from == now.lo)
        everyone.number[here.at] = now.number
        self.held.keep(events, ranges(keep_from, counts))
        if self.counts:
            self.partitions = everyone
        else:
            alive = np.zeros(len(everyone.key), np.bool_)
            alive[here.at[counts > 0]] = True
            self.partitions = everyone.select(np.flatnonzero(alive))

    def keep_from(self, now: SearchPartitions, events_at: Callable[[int], EventBatch]) -> np.ndarray:
        """The first rows that later rows may still need. Keys with too many rows give up waiting; without `give_up`
        they are an error. events_at: the events from a row on."""
        keep_from, limit = np.maximum(now.lo, now.next_start - self.plan.lookback), self.limit
        if limit is None or not (now.hi - keep_from > limit.rows).any():
            return keep_from
        over = now.hi - keep_from > limit.rows
        if not limit.give_up:
            first = int(np.flatnonzero(over)[0])
            row = int(keep_from[first])
            raise too_many_held(self.plan, events_at(row), int(now.hi[first]) - row, limit)
        self.given_up += int(np.count_nonzero(over))
        now.next_start[over] = now.hi[over]
        now.explored_start[over] = now.hi[over] - 1
        return np.where(over, np.maximum(now.lo, now.hi - self.plan.lookback), keep_from)

    def forget(self) -> None:
        """Forget everything: the input has ended."""
        self.held.forget()
        self.partitions = HeldPartitions.without_rows(np.zeros(0, np.int64))

    def forget_keys(self, keys: np.ndarray) -> None:
        """Forget keys, given in order."""
        self.held.forget_keys(keys)
        self.partitions = self.partitions.select(np.flatnonzero(~np.isin(self.partitions.key, keys)))

    def rename_keys(self, old: np.ndarray, new: np.ndarray) -> None:
        """Give keys (the old ones in order) other codes."""
        self.held.rename(old, new)
        key = rename_keys(self.partitions.key, old, new)
        self.partitions = self.partitions._replace(key=key).select(np.argsort(key, kind="stable"))

    def waiting_starts(self) -> np.ndarray:
        """Held rows at which the search of their key waits for more."""
        held = self.held.rows
        if held is None or len(held) == 0:
            return np.zeros(0, np.int64)
        first = held.bounds[:-1]
        at = np.searchsorted(self.partitions.key, held.key[first])
        waiting = self.partitions.next_start[at] < self.partitions.held[at]
        return (first + self.partitions.next_start[at])[waiting]

    @property
    def wakes_at(self) -> int | None:
        """The earliest end of a window in which a start row waits."""
        starts = self.waiting_starts()
        if self.plan.within is None or self.held.rows is None or len(starts) == 0:
            return None
        return min(int(self.held.rows.time[starts].min()) + self.plan.within, END_OF_TIME - 1)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """The start rows at which keys wait."""
        held, starts = self.held.rows, self.waiting_starts()
        if held is None:
            return starts, starts
        order = np.argsort(held.key[starts], kind="stable")
        return held.key[starts][order], held.time[starts][order]

    def snapshot(self) -> Snapshot:
        put, removed = self.held.changes()
        return Snapshot((chunk_of(PARTITIONS, pa.table(self.partitions._asdict())), *put), removed)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = by_name(chunks)
        if PARTITIONS not in known:
            return
        table = from_bytes(known[PARTITIONS].data)
        self.partitions = HeldPartitions(*(table.column(name).to_numpy().copy() for name in HeldPartitions._fields))
        self.held.restore(chunks, self.partitions.key, self.partitions.held)
