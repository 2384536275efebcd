"""The first pass over a slice: its own chain of matches, and where the chains that may enter it join that one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.kernels.rows import matching as kernel
from episode.kernels.rows.slices.chains import adopt, join, visit
from episode.matchers.columns import to_bytes
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.errors import matching_failed
from episode.matchers.rows.slices.found import FoundMatches
from episode.matchers.rows.slices.overlap import is_chain
from episode.matchers.rows.slices.search import Links, SliceSearch
from episode.matchers.rows.slices.summary import Summary
from episode.matchers.slicing import FAILURES, HEAD, RESULTS, SUMMARY, SliceBounds
from episode.plan.output import RowMode

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec

FEW_TURNS = 8
"""So many matches of chains are tried one by one, before those that are left are followed along a stretch of rows."""
FEW_CHAINS = 8
"""Up to so many chains are followed along a stretch each; where there are more, all start rows of it are tried."""
LEAST_STRETCH = 64
"""So many places further, at least, chains are followed at once."""
PLACE, STATUS = "__episode_place", "__episode_status"
"""Columns of failures, beside the rows at which they came."""
_HEAD_BYTES = 1 << 25
"""The rows of a head come in parts of about this size."""


class OwnChain:
    """The chain that enters a slice at its first row, and where others join it."""

    def __init__(self, spec: RowPatternSpec, events: EventBatch, bounds: SliceBounds) -> None:
        self.spec = spec
        self.events = events
        own = 0 if bounds.first is None else int(np.searchsorted(events.time, bounds.first, "left"))
        end = len(events) if bounds.last is None else int(np.searchsorted(events.time, bounds.last, "left"))
        self.search = SliceSearch(spec, events, own)
        self.places = max(0, end - own)
        self._reached = self.search.entries(bounds.first)
        self.entries = min(self.places, self._reached)
        self.links = Links.of(self.places if is_chain(spec.plan) else 0)
        self.failures: list[tuple[int, int]] = []
        self._found = FoundMatches(self.search, end, 0, placed=is_chain(spec.plan))

    def parts(self) -> Iterator[tuple[int, bytes]]:
        """All that the first pass makes of the slice: kinds and blobs."""
        for table in self.results():
            yield RESULTS, to_bytes(table)
        summary = self.summary()
        yield SUMMARY, summary.to_bytes()
        head = self.head(summary)
        rows = max(1, _HEAD_BYTES * head.num_rows // max(1, head.nbytes))
        for begin in range(0, head.num_rows, rows):
            yield HEAD, to_bytes(head.slice(begin, rows))
        if self.failures:
            yield FAILURES, to_bytes(self.failed())

    def results(self) -> Iterator[pa.Table]:
        """Its matches, with their places."""
        search, chained = self.search, is_chain(self.spec.plan)
        start, end = (search.own if chained else 0), self._found.end
        wanted = np.ones(self.places, np.bool_)
        while self.places:
            for found in search.matches(start, search.matcher.rules):
                if chained:
                    search.follow(self.links, found, wanted)
                yield from self._found.tables(found)
            if search.failure is None or search.failure.row >= end:
                break
            start = search.failure.row + 1
            self.failures.append((search.failure.row - search.own, search.failure.status))
            failure = self._certain_failure() if chained else self.failures[-1]
            if failure is not None:
                row = search.own + failure[0]
                plan, budget = self.spec.plan, self.spec.step_budget
                raise matching_failed(plan, self.events.from_row(row), row, failure[1], budget)

    def _certain_failure(self) -> tuple[int, int] | None:
        """The first one that every chain which may enter the slice comes to, having joined its own; looked at rarely,
        so that some may be missed."""
        (place, status), times = self.failures[-1], len(self.failures)
        if status == kernel.ALL_BUDGETS_SPENT:
            return place, status
        if times & (times - 1) or place + 1 < self._reached:
            return None
        met, _, _ = self._visited(place + 1)
        joins, _, _ = self._joined(met)
        return next((failure for failure in self.failures if failure[0] >= joins.max()), None)

    def _visited(self, places: int) -> tuple[np.ndarray, np.ndarray, tuple[int, int, int]]:
        """Of the first places: is_met and before, and what `visit` returns."""
        clean = self.spec.plan.output.rows is RowMode.ALL_WITH_UNMATCHED
        met, before = np.zeros(places, np.bool_), np.zeros(places, np.int64)
        return met, before, visit(*(array[:places] for array in self.links.arrays), clean, met, before)

    def _joined(self, met: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each entry, where its chain joins the slice's own (or leaves its places), its matches before, and the
        place after these. -1: nothing enters there."""
        entered = self.search.possible(self.entries)
        pending = np.flatnonzero(entered & ~met[: self.entries])
        links, tried = Links.of(self.entries), np.zeros(self.entries, np.bool_)
        for turn in count():
            if len(pending):
                links, tried = self._followed(links, tried, pending, len(met), turn)
            joins, matches, cover = (np.empty(len(links), np.int64) for _ in range(3))
            join(*links.arrays, tried, met, joins, matches, cover)
            joins, matches, cover = (array[: self.entries] for array in (joins, matches, cover))
            ends = joins[entered]
            ends = ends[ends < len(met)]
            pending = np.unique(ends[~met[ends]])
            if len(pending) == 0:
                return np.where(entered | met[: self.entries], joins, -1), matches, cover
        raise AssertionError

    def _followed(
        self, links: Links, tried: np.ndarray, pending: np.ndarray, places: int, turn: int
    ) -> tuple[Links, np.ndarray]:
        """Chains that have come to some places, followed further: match by match; after a few turns, along a stretch
        that grows: each, or all that may be in it."""
        last = int(pending[-1])
        if turn >= FEW_TURNS:
            last = min(places, max(2 * len(links), last) + LEAST_STRETCH) - 1
        room = max(len(links), last + 1)
        links, tried = links.with_room(room), np.append(tried, np.zeros(room - len(tried), np.bool_))
        if turn >= FEW_TURNS and len(pending) <= FEW_CHAINS:
            for begin in pending.tolist():
                if not tried[begin]:
                    adopt(*self.search.chain(begin, room).arrays, begin, *links.arrays, tried)
            return links, tried
        if turn >= FEW_TURNS:
            pending = np.flatnonzero(~tried[pending[0] :]) + pending[0]
        self.search.try_each(links, pending)
        tried[pending] = True
        return links, tried

    def summary(self) -> Summary:
        """What other slices must know."""
        nothing = np.zeros(self.entries, np.int64)
        if not is_chain(self.spec.plan):
            return Summary(
                self.places, self.search.own, self.places, self._found.count, 0, nothing, nothing, nothing, nothing
            )
        met, before, (leaves, cover, matches) = self._visited(self.places)
        joins, matches_before, cover_before = self._joined(met)
        left_out = np.append(before, 0)[np.minimum(joins, self.places)]
        return Summary(
            self.places, self.search.own, leaves, matches, cover, joins, matches_before, cover_before, left_out
        )

    def head(self, summary: Summary) -> pa.Table:
        """The rows that chains need until they join: none if all join where they enter."""
        late = summary.joins[summary.joins > np.arange(self.entries)]
        rows = self.search.rows_for(min(int(late.max()), self.places)) if len(late) else 0
        return self.events.table.slice(0, rows)

    def failed(self) -> pa.Table:
        """The rows where the chain came to an error."""
        places, statuses = np.array(self.failures, np.int64).T
        rows = self.events.table.take(pa.array(places + self.search.own))
        return rows.append_column(PLACE, pa.array(places)).append_column(STATUS, pa.array(statuses))
