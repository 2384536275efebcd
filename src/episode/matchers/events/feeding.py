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
import pyarrow.compute as pc

from episode.matchers.columns import from_numbers, one_chunk_each, raw_values, take
from episode.matchers.encoding import Lanes, is_float_lane, rank_type
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

MOST_RECENT, LARGE = 32, 512
"""Tables of feeds that are searched together, and the rows from which on one is searched by itself."""


def can_keep(plan: EventPlan, needs: Needs) -> bool:
    """Can the records of a plan be kept?"""
    if plan.tree is None or plan.strategy is not Strategy.ANY or plan.times.imprecise is not None:
        return False
    if plan.construction is not None and any(plan.construction.automaton.late):
        return False  # a construction that looks at events after a match reads rows by partition
    return not any(lane_of(expression.type) == "code" for expression in needs.computed)


def pays(held: int, new: int) -> bool:
    """Does it pay to keep records from a feed on: does it have fewer events than its keys hold?"""
    return held >= max(LEAST_KEPT, new)


class EventLog:
    """Events in the order in which they came, in arrays with room for more.

    needs: values that are read of them. rankings: how often the ranks of events before have changed, because strings
    came that are new.
    """

    def __init__(self, plan: EventPlan, needs: Needs) -> None:
        self.needs = needs
        self.count = 0
        self.key, self.start, self.end = (np.empty(0, np.int64) for _ in range(3))
        self.bits = np.empty(0, np.uint64)
        self._tables, self._recent = list[pa.Table](), list[pa.Table]()
        self._ranked: dict[str, pa.Array] = {}
        self._ranks_in: dict[str, list[str]] = {rank_type(kind): [] for kind, _ in needs.constants}
        self.rankings = 0
        lanes = Lanes(np.empty((0, 0), np.int64), np.empty((0, 0)), np.empty((0, 0), np.uint8))
        for name, kind in needs.columns.items():
            lanes.at[name] = lanes.next_float() if is_float_lane(kind) else lanes.next_int()
            if lane_of(kind) == "code":
                self._ranks_in.setdefault(rank_type(kind), []).append(name)
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

    @property
    def starts(self) -> np.ndarray:
        """The starts of the events that qualify for something."""
        return self.start[: self.count][self.bits[: self.count] != 0]

    def append(self, events: EventBatch, start: np.ndarray, arrays: EventArrays) -> None:
        """Add a batch. arrays: its values, of which it has at least those that are needed."""
        low, high = self.count, self.count + len(events)
        if high > len(self.end):
            self._grow(max(2 * high, 64))
        self.key[low:high], self.start[low:high], self.end[low:high] = events.key, start, events.time
        self.bits[low:high] = arrays.bits
        self._recent.append(events.table.select(list(self.arrays.plan.input_columns)))
        if len(events) >= LARGE:
            self._join_recent()
        mine, its = self.arrays.lanes, arrays.lanes
        rank_of = {kind: self._rank(kind, its) for kind in self._ranks_in}
        for name, row in mine.at.items():
            kind = rank_type(self.needs.columns[name])
            if kind in rank_of:
                mine.ints[row, low:high] = rank_of[kind][its.ints[its.at[name]]]
            elif is_float_lane(self.needs.columns[name]):
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

    def _rank(self, kind: str, its: Lanes) -> np.ndarray:
        """The rank here of each rank of a batch; values that are new get theirs, between those of others."""
        values, order = its.ranked[kind]
        values = values.take(from_numbers(order))
        known = self._ranked.get(kind, values.slice(0, 0))
        ranks = pc.index_in(values, known)
        if ranks.null_count:
            every = pc.unique(pa.chunked_array([known, values]))
            self._ranked[kind] = every = every.take(pc.sort_indices(every))
            moved = raw_values(pc.index_in(known, every), np.int32)
            for name in self._ranks_in[kind] if len(known) else ():
                row = self.arrays.lanes.ints[self.arrays.lanes.at[name]]
                row[: self.count] = moved[row[: self.count]]
            self.rankings += 1
            ranks = pc.index_in(values, every)
        found = raw_values(ranks, np.int32)
        self.arrays.lanes.ranks |= {
            one: int(found[rank]) for one, rank in its.ranks.items() if rank_type(one[0]) == kind
        }
        return found if len(found) else np.zeros(1, np.int32)

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
        return EventBatch(
            pa.concat_tables([*self._tables, *self._recent]), self.key[: self.count], self.end[: self.count]
        )

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
        """The columns of rows, in order."""
        if len(self._recent) > MOST_RECENT:
            self._join_recent()
        tables = [*self._tables, pa.concat_tables(self._recent)] if self._recent else self._tables
        begins = np.cumsum([0, *(table.num_rows for table in tables)])
        at = np.searchsorted(rows, begins)
        parts = [
            take(table, rows[low:high] - begin)
            for table, begin, low, high in zip(tables, begins[:-1], at[:-1], at[1:])
            if low < high
        ]
        return one_chunk_each(pa.concat_tables(parts))

    def _join_recent(self) -> None:
        """Make one table of the small ones, and of those before it that are not much larger."""
        last, self._recent = self._recent, []
        while self._tables and self._tables[-1].num_rows <= 2 * sum(map(len, last)):
            last.insert(0, self._tables.pop())
        self._tables.append(one_chunk_each(pa.concat_tables(last)))


class KeptTree:
    """A tree at work on feeds. built_of: the number of events that it was built of."""

    def __init__(self, search: EventSearch, physical: PhysicalPlan, needs: Needs) -> None:
        self.search = search
        self.physical = physical
        self.log = EventLog(search.plan, needs)
        self.records = KeptRecords(search.most_records)
        self.built_of = 0
        self._rankings = 0

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
        if self.log.rankings != self._rankings:
            self._rankings = self.log.rankings
            self.records.forget_values()
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
