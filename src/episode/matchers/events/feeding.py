"""Feeds to a tree whose records are kept: a feed adds its events, and joins them with the records of the feeds before.

The events since the tree was built are in an `EventLog`; their places there are the rows of all records. A tree is
built from the events that are held, with the first feed and again when the log has doubled: so old events and records
go, the plan may change, and an event is joined about twice altogether. Nothing here is state: after a restore the tree
is built anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.columns import one_chunk_each, take
from episode.matchers.encoding import Lanes, is_float_lane
from episode.matchers.events.output import FoundMatches
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.rounds import Round
from episode.matchers.events.stores import KeptRecords, longer
from episode.matchers.events.tree import TreeRun
from episode.matchers.prepare import Needs
from episode.matchers.protocol import EventBatch
from episode.matchers.times import NEVER
from episode.plan.events.cost import PhysicalPlan
from episode.plan.events.plan import EventPlan, Strategy
from episode.plan.types import is_wide, lane_of

if TYPE_CHECKING:
    from episode.matchers.events.matcher import EventSearch

LEAST_KEPT = 256
"""Held events from which on records are kept: fewer are joined again in less time."""


def can_keep(plan: EventPlan, needs: Needs) -> bool:
    """Can the records of a plan be kept? Not if values of the log would change with new events: ranks of strings."""
    if plan.tree is None or plan.strategy is not Strategy.ANY or plan.times.imprecise is not None:
        return False
    if plan.construction is not None and any(plan.construction.automaton.late):
        return False  # a construction that looks at events after a match reads rows by partition
    ranked = [kind for kind in needs.columns.values() if lane_of(kind) == "code"]
    return not ranked and not needs.constants


def pays(held: int, new: int) -> bool:
    """Does it pay to keep records from a feed on: is it smaller than the window?"""
    return held >= max(LEAST_KEPT, new)


class EventLog:
    """Events in the order in which they came, in arrays with room for more. needs: values that are read of them."""

    def __init__(self, plan: EventPlan, needs: Needs) -> None:
        self.needs = needs
        self.count = 0
        self.key, self.start, self.end = (np.empty(0, np.int64) for _ in range(3))
        self.bits = np.empty(0, np.uint64)
        self._tables: list[pa.Table] = []
        lanes = Lanes(np.empty((0, 0), np.int64), np.empty((0, 0)), np.empty((0, 0), np.uint8))
        for name, kind in needs.columns.items():
            lanes.at[name] = lanes.next_float() if is_float_lane(kind) else lanes.next_int()
        for name in needs.words:
            lanes.words_at[name], _ = lanes.next_int(), lanes.next_int()
        for name in (*needs.columns, *needs.words, *needs.null_tests):
            lanes.valid_at[name] = -1
        places = {}
        for expression in needs.computed:
            is_float = is_float_lane(expression.type)
            row = lanes.next_float() if is_float else lanes.next_int()
            if is_wide(expression):
                lanes.next_int()
            places[expression] = is_float, row, lanes.next_valid()
        self._most_valid = lanes.valid_rows + len(lanes.valid_at)
        self.arrays = EventArrays(plan, lanes, self.bits, places)

    def append(self, events: EventBatch, start: np.ndarray, arrays: EventArrays) -> None:
        """Add a batch. arrays: its values, of which it has at least those that are needed."""
        low, high = self.count, self.count + len(events)
        if high > len(self.end):
            self._grow(max(2 * high, 64))
        self.key[low:high], self.start[low:high], self.end[low:high] = events.key, start, events.time
        self.bits[low:high] = arrays.bits
        self._tables.append(events.table)
        mine, its = self.arrays.lanes, arrays.lanes
        for name, row in mine.at.items():
            if is_float_lane(self.needs.columns[name]):
                mine.floats[row, low:high] = its.floats[its.at[name]]
            else:
                mine.ints[row, low:high] = its.ints[its.at[name]]
        for name, row in mine.words_at.items():
            mine.ints[row : row + 2, low:high] = its.ints[its.words_at[name] : its.words_at[name] + 2]
        for name in mine.valid_at:
            self._append_valid(name, low, high, its)
        for expression, (is_float, row, check) in self.arrays.places.items():
            _, from_, its_check = arrays.places[expression]
            if is_float:
                mine.floats[row, low:high] = its.floats[from_]
            else:
                words = 2 if is_wide(expression) else 1
                mine.ints[row : row + words, low:high] = its.ints[from_ : from_ + words]
            mine.valid[check, low:high] = its.valid[its_check]
        self.count = high

    def _append_valid(self, name: str, low: int, high: int, its: Lanes) -> None:
        mine, row = self.arrays.lanes, its.valid_at[name]
        if mine.valid_at[name] < 0 <= row:  # the first null
            mine.valid_at[name] = mine.next_valid()
            mine.valid[mine.valid_at[name], :low] = 1
            self.arrays = EventArrays(self.arrays.plan, mine, self.bits, self.arrays.places)
        if mine.valid_at[name] >= 0:
            mine.valid[mine.valid_at[name], low:high] = 1 if row < 0 else its.valid[row]

    def _grow(self, rows: int) -> None:
        self.key, self.start, self.end = longer(self.key, rows), longer(self.start, rows), longer(self.end, rows)
        self.arrays.bits = self.bits = longer(self.bits, rows)
        lanes, rows = self.arrays.lanes, len(self.end)
        sizes = (lanes.int_rows, lanes.float_rows, self._most_valid)
        for name, size in zip(("ints", "floats", "valid"), sizes, strict=True):
            before = getattr(lanes, name)
            matrix = np.empty((size, rows), before.dtype)
            if len(before):
                matrix[:, : self.count] = before[:, : self.count]
            setattr(lanes, name, matrix)

    def batch_of(self, found: FoundMatches) -> tuple[EventBatch, FoundMatches]:
        """Matches as lists of rows of a batch, which has few others."""
        offsets, rows, variables = found.lists
        some = np.unique(rows)
        placed = np.searchsorted(some, rows).astype(np.int32)
        batch = EventBatch(self._rows(some), self.key[some], self.end[some])
        return batch, FoundMatches.of_lists(offsets, placed, variables, found.final, found.confidence, found.alike)

    def events(self) -> EventBatch:
        """All events."""
        return EventBatch(pa.concat_tables(self._tables), self.key[: self.count], self.end[: self.count])

    def by_key(self, until: int) -> tuple[EventArrays, Round]:
        """All events as those of one round."""
        order = np.argsort(self.key[: self.count], kind="stable")
        ours = self.arrays.lanes
        lanes = replace(ours, ints=ours.ints[:, order], floats=ours.floats[:, order], valid=ours.valid[:, order])
        arrays = EventArrays(self.arrays.plan, lanes, self.bits[order], self.arrays.places)
        from_ = np.concatenate([[0], np.flatnonzero(np.diff(self.key[order])) + 1, [self.count]]).astype(np.int64)
        done = np.full(len(from_) - 1, NEVER, np.int64)
        return arrays, Round(from_, self.start[order], self.end[order], done, until, arrays.bits)

    def _rows(self, rows: np.ndarray) -> pa.Table:
        """The columns of rows, in order. Small tables are joined to larger ones before: few are searched."""
        last: list[pa.Table] = []
        size = 0
        while self._tables and (not last or self._tables[-1].num_rows <= 2 * size):
            last.append(self._tables.pop())
            size += last[-1].num_rows
        self._tables.append(one_chunk_each(pa.concat_tables(last[::-1])))
        begins = np.cumsum([0, *(table.num_rows for table in self._tables)])
        at = np.searchsorted(rows, begins)
        parts = [
            take(table, rows[low:high] - begin)
            for table, begin, low, high in zip(self._tables, begins[:-1], at[:-1], at[1:])
            if low < high
        ]
        return one_chunk_each(pa.concat_tables(parts))


class KeptTree:
    """A tree at work on feeds. built_of: the number of events that it was built of."""

    def __init__(self, search: EventSearch, physical: PhysicalPlan, needs: Needs) -> None:
        self.search = search
        self.physical = physical
        self.log = EventLog(search.plan, needs)
        self.records = KeptRecords(search.most_records)
        self.built_of = 0

    @property
    def is_large(self) -> bool:
        """Has the log doubled since the tree was built?"""
        return self.log.count > 2 * self.built_of + LEAST_KEPT

    def feed(
        self, events: EventBatch, start: np.ndarray, arrays: EventArrays, done: int, until: int
    ) -> Iterator[tuple[EventBatch, FoundMatches]]:
        """The matches decided with new events, none of which is later than `until`; see `EventSearch.results`."""
        low = self.log.count
        self.log.append(events, start, arrays)
        self.built_of = self.built_of or self.log.count
        keys, from_ = events.key[events.bounds[:-1]], events.bounds + low
        if self.search.horizon.waits:  # matches of any key may be decided now
            others = np.setdiff1d(self.records.slots.keys, keys)
            keys, from_ = np.concatenate([keys, others]), np.concatenate([from_, np.full(len(others), from_[-1])])
        self.records.begin(keys)
        done_of = np.full(len(keys), done, np.int64)
        round_ = Round(from_.astype(np.int64), self.log.start, self.log.end, done_of, until, self.log.bits)
        run = TreeRun(
            self.search.plan, self.physical, self.log.arrays, round_, self.search.most_records, self.records
        )  # fmt: skip
        for found in self.search.results(self.log.events, round_, run):
            if len(found):
                yield self.log.batch_of(found)
