"""The first pass over a slice: its own chain of matches, and where the chains that may enter it join that one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from episode.matchers.columns import to_bytes
from episode.matchers.protocol import EventBatch
from episode.matchers.rows import codes
from episode.matchers.rows.errors import matching_failed
from episode.matchers.rows.slices.chains import adopt, join, visit
from episode.matchers.rows.slices.found import SliceMatches
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


class JoinedChain(NamedTuple):
    """By entry, as in `Summary`."""

    joins: np.ndarray
    matches_before: np.ndarray
    cover_before: np.ndarray
    left_out: np.ndarray


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
        self._links: list[tuple[np.ndarray, Links]] = []
        self.failures: list[tuple[int, int]] = []
        self._found = SliceMatches(self.search, end, 0, placed=is_chain(spec.plan))

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
        while self.places:
            for found in search.matches(start, search.matcher.rules):
                if chained:
                    self._links.append(search.links(found, self.places))
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
        if status == codes.ALL_BUDGETS_SPENT:
            return place, status
        if times & (times - 1) or place + 1 < self._reached:
            return None
        joins = self._joined(place + 1).joins
        return next((failure for failure in self.failures if failure[0] >= joins.max()), None)

    def _visited(self, places: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the first places: is_met and before, of `visit`."""
        links = Links.of(places)
        for place, some in self._links:
            inside = int(np.searchsorted(place, places))
            links.put(place[:inside], Links(*(array[:inside] for array in some.arrays)))
        return visit(*links.arrays, self.spec.plan.output.rows is RowMode.ALL_WITH_UNMATCHED)

    def _joined(self, places: int) -> JoinedChain:
        """Where chains join the slice's own in the first places: in a stretch of them, which grows if it must."""
        stretch = 2 * self.entries + LEAST_STRETCH
        while stretch < places:
            joined = self._joined_in(stretch)
            if joined.joins.max(initial=-1) < stretch:
                return joined
            stretch *= 4
        return self._joined_in(places)

    def _joined_in(self, stretch: int) -> JoinedChain:
        """Where chains join the slice's own in a stretch of places, or leave that."""
        met, before = self._visited(stretch)
        entered = self.search.possible(self.entries)
        pending = np.flatnonzero(entered & ~met[: self.entries])
        links, tried = Links.of(self.entries), self.search.hopeless(0, self.entries)
        for turn in count():
            if len(pending):
                links, tried = self._followed(links, tried, pending, met, turn)
            joins, matches, cover = (array[: self.entries] for array in join(*links.arrays, tried, met))
            ends = joins[entered]
            ends = ends[ends < stretch]
            pending = np.unique(ends[~met[ends]])
            if len(pending) == 0:
                break
        joins = np.where(entered | met[: self.entries], joins, -1)
        return JoinedChain(joins, matches, cover, np.append(before, 0)[np.minimum(joins, stretch)])

    def _followed(
        self, links: Links, tried: np.ndarray, pending: np.ndarray, met: np.ndarray, turn: int
    ) -> tuple[Links, np.ndarray]:
        """Chains that have come to some places, followed further: match by match, and in each turn over more places
        without a match; after a few turns, along a stretch that grows: each, or all that may be in it."""
        ahead = 4**turn if turn < FEW_TURNS else len(links) + LEAST_STRETCH
        room = min(len(met), max(len(links), int(pending[-1]) + ahead))
        tried = np.append(tried, self.search.hopeless(len(links), room))
        links = links.with_room(room)
        if turn >= FEW_TURNS and len(pending) <= FEW_CHAINS:
            for begin in pending.tolist():
                if not tried[begin]:
                    adopt(*self.search.chain(begin, room).arrays, begin, *links.arrays, tried)
            return links, tried
        edges = np.zeros(room + 1, np.int64)
        edges[pending] = 1
        joined = np.append(np.flatnonzero(met[:room]), room)
        np.subtract.at(edges, np.minimum(pending + ahead, joined[np.searchsorted(joined, pending)]), 1)
        places = np.flatnonzero((np.cumsum(edges[:-1]) > 0) & ~tried)
        if len(places):
            self.search.try_each(links, places)
            tried[places] = True
        return links, tried

    def summary(self) -> Summary:
        """What other slices must know."""
        nothing = np.zeros(self.entries, np.int64)
        if not is_chain(self.spec.plan):
            return Summary(
                self.places, self.search.own, self.places, self._found.count, 0, nothing, nothing, nothing, nothing
            )
        leaves = max([self.places, *(int(some.following[-1]) for _, some in self._links if len(some))])
        cover = max([0, *(int(some.ends.max(initial=0)) for _, some in self._links)])
        matches = sum(int(some.counts.sum()) for _, some in self._links)
        return Summary(self.places, self.search.own, leaves, matches, cover, *self._joined(self.places))

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
