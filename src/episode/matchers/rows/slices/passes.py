"""Row patterns whose matches are a chain, in slices of time: two passes, and the summaries that connect slices.

1. The first pass follows the chain through a slice as if it entered at the first row: the slice's own chain. Then it
   follows the chain from every other place at which it may enter (where a match from before may leave off), until it
   joins the slice's own chain: mostly at once, and rarely beyond a few rows. This is the summary of the slice.
2. The second pass goes from summary to summary, so that it knows where the true chain enters its slice, and how many
   matches come before. The slice's own matches from the place of joining on are the true ones. The few before it are
   matched again, from rows that the first pass has kept: the head of the slice.

Why it is exact: the matches of a start row do not depend on the chain (`overlap`), so that two chains which visit one
row are one from there on.

See decision 20.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers.columns import concat, from_bytes, to_bytes
from episode.matchers.protocol import KEY_COLUMN, EventBatch
from episode.matchers.rows import arrays as codes
from episode.matchers.rows.errors import matching_failed
from episode.matchers.rows.slices.chains import Links, adopt, is_chain, is_numbered, join, visit
from episode.matchers.rows.slices.search import SliceMatches, SliceSearch, events_of_key
from episode.matchers.slices.slicing import FAILURES, HEAD, RESULTS, SUMMARY, Entry, SliceBounds, SlicePart
from episode.plan.output import MATCHED_COLUMN, NumberOfMatch, RowMode

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec


_ENTRIES = ("joins", "matches_before", "cover_before", "left_out")


@dataclass(frozen=True)
class Summary:
    """The chains of one slice. Places are its rows, counted from the first that it owns.

    places: the number of rows it owns. rows_before: the rows of its overlap before them. Of the slice's own chain,
    from place 0 on: leaves: the place at which it continues after the slice; matches: their number; cover: the place
    after all of them. By place at which the chain may enter (int64): joins: where it joins the slice's own chain, or
    (not less than `places`) continues after the slice without joining; -1: no chain enters there. matches_before: its
    matches until then; cover_before: the place after these; left_out: matches of the slice's own chain that start
    before.
    """

    places: int
    rows_before: int
    leaves: int
    matches: int
    cover: int
    joins: np.ndarray
    matches_before: np.ndarray
    cover_before: np.ndarray
    left_out: np.ndarray

    def to_bytes(self) -> bytes:
        scalars = self.places, self.rows_before, self.leaves, self.matches, self.cover
        table = pa.table({name: getattr(self, name) for name in _ENTRIES})
        return to_bytes(table.replace_schema_metadata({"slice": json.dumps(list(map(int, scalars)))}))

    @staticmethod
    def from_bytes(data: bytes) -> Summary:
        table = from_bytes(data)
        scalars = json.loads(table.schema.metadata[b"slice"])
        entries = {name: table.column(name).to_numpy() for name in _ENTRIES}
        return Summary(*scalars, **entries)

    def next_entry(self, entry: Entry) -> Entry:
        """The entry into the next slice of a chain that enters this one at `entry`."""
        place, number, cover = entry.place, entry.number, entry.cover
        if place < self.places:
            joins = int(self.joins[place])
            assert joins >= 0, "no chain enters there"
            number += int(self.matches_before[place])
            cover = max(cover, int(self.cover_before[place]))
            if joins < self.places:
                number += self.matches - int(self.left_out[place])
                cover, joins = max(cover, self.cover), self.leaves
            place = joins
        return Entry(place - self.places, number, max(0, cover - self.places))


# The first pass over a slice: its own chain of matches, and where chains that may enter it join that one.


FEW_TURNS = 8
"""Matches of each chain that are tried one by one, before the remaining chains are followed along a stretch of rows."""
FEW_CHAINS = 8
"""Up to this number of chains are followed along a stretch one by one; for more, all its start rows are tried."""
LEAST_STRETCH = 64
"""The least number of further places along which chains are followed at once."""
PLACE, STATUS = "__episode_place", "__episode_status"
"""Columns of failures, in addition to the columns of their rows."""
_HEAD_BYTES = 1 << 25
"""The rows of a head are stored in parts of about this size."""


class OwnChain:
    """The chain that enters a slice at its first row, and where others join it."""

    def __init__(self, spec: RowPatternSpec, events: EventBatch, bounds: SliceBounds) -> None:
        self.spec = spec
        self.events = events
        own, end = bounds.span(events.time)
        self.search = SliceSearch(spec, events, own)
        self.places = max(0, end - own)
        self._reached = self.search.entries(bounds.first)
        self.entries = min(self.places, self._reached)
        self._links: list[tuple[np.ndarray, Links]] = []
        self.failures: list[tuple[int, int]] = []
        self._found = SliceMatches(self.search, end, 0, placed=is_chain(spec.plan))

    def parts(self) -> Iterator[tuple[int, bytes]]:
        """The results of the first pass: kinds and blobs."""
        for table in self.results():
            yield RESULTS, to_bytes(table)
        summary = self.summary()
        yield SUMMARY, summary.to_bytes()
        head = self.head(summary)
        rows = max(1, _HEAD_BYTES * head.num_rows // max(1, head.nbytes))
        for begin in range(0, head.num_rows, rows):
            yield HEAD, to_bytes(head.slice(begin, rows))
        if self.failures:
            places, statuses = np.array(self.failures, np.int64).T
            failed = self.events.table.take(pa.array(places + self.search.own))
            failed = failed.append_column(PLACE, pa.array(places)).append_column(STATUS, pa.array(statuses))
            yield FAILURES, to_bytes(failed)

    def results(self) -> Iterator[pa.Table]:
        """Its matches, with their places."""
        search, chained = self.search, is_chain(self.spec.plan)
        start, end = (search.own if chained else 0), self._found.end
        while self.places:
            for found in search.matches(start, search.matcher.settings):
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
        """The first failure on every chain that may enter the slice. Checked rarely, some may be missed."""
        (place, status), times = self.failures[-1], len(self.failures)
        if status == codes.ALL_BUDGETS_SPENT:
            return place, status
        if times & (times - 1) or place + 1 < self._reached:
            return None
        joins = self._join_chains(place + 1)[0]
        return next((failure for failure in self.failures if failure[0] >= joins.max()), None)

    def _visit_own(self, places: int) -> tuple[np.ndarray, np.ndarray]:
        """The first places of the slice's own chain: is_met and before, of `visit`."""
        links = Links.of(places)
        for place, some in self._links:
            inside = int(np.searchsorted(place, places))
            links.put(place[:inside], some.select(slice(inside)))
        return visit(links, self.spec.plan.output.rows is RowMode.ALL_WITH_UNMATCHED)

    def _join_chains(self, places: int) -> tuple[np.ndarray, ...]:
        """By entry, as in `Summary`: where chains join the slice's own in the first places, in a stretch of them, which
        grows if it must."""
        stretch = 2 * self.entries + LEAST_STRETCH
        while stretch < places:
            joined = self._join_within(stretch)
            if joined[0].max(initial=-1) < stretch:
                return joined
            stretch *= 4
        return self._join_within(places)

    def _join_within(self, stretch: int) -> tuple[np.ndarray, ...]:
        """Places where chains join the slice's own in a stretch, or leave the stretch."""
        met, before = self._visit_own(stretch)
        entered = self.search.possible(self.entries)
        pending = np.flatnonzero(entered & ~met[: self.entries])
        links, tried = Links.of(self.entries), self.search.hopeless(0, self.entries)
        for turn in count():
            if len(pending):
                links, tried = self._follow(links, tried, pending, met, turn)
            joins, matches, cover = (array[: self.entries] for array in join(links, tried, met))
            ends = joins[entered]
            ends = ends[ends < stretch]
            pending = np.unique(ends[~met[ends]])
            if len(pending) == 0:
                break
        joins = np.where(entered | met[: self.entries], joins, -1)
        return joins, matches, cover, np.append(before, 0)[np.minimum(joins, stretch)]

    def _follow(
        self, links: Links, tried: np.ndarray, pending: np.ndarray, met: np.ndarray, turn: int
    ) -> tuple[Links, np.ndarray]:
        """Follow chains from some places: match by match, and in each turn over more places without a match; after a
        few turns, along a stretch that grows: each chain, or all start rows in it."""
        ahead = 4**turn if turn < FEW_TURNS else links.places + LEAST_STRETCH
        room = min(len(met), max(links.places, int(pending[-1]) + ahead))
        tried = np.append(tried, self.search.hopeless(links.places, room))
        links = links.with_room(room)
        if turn >= FEW_TURNS and len(pending) <= FEW_CHAINS:
            for begin in pending.tolist():
                if not tried[begin]:
                    adopt(self.search.chain(begin, room), begin, links, tried)
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
        """The summary for other slices."""
        if not is_chain(self.spec.plan):
            nothing = [np.zeros(self.entries, np.int64)] * 4
            return Summary(self.places, self.search.own, self.places, self._found.count, 0, *nothing)
        leaves = max([self.places, *(int(some.following[-1]) for _, some in self._links if some.places)])
        cover = max([0, *(int(some.ends.max(initial=0)) for _, some in self._links)])
        matches = sum(int(some.counts.sum()) for _, some in self._links)
        return Summary(self.places, self.search.own, leaves, matches, cover, *self._join_chains(self.places))

    def head(self, summary: Summary) -> pa.Table:
        """The rows that chains need until they join: none if all join where they enter."""
        late = summary.joins[summary.joins > np.arange(self.entries)]
        rows = self.search.rows_for(min(int(late.max()), self.places)) if len(late) else 0
        return self.events.table.slice(0, rows)


# The second pass over a slice: the chain that really enters it.


@dataclass(frozen=True)
class TrueChain:
    """The chain in one slice, from its entry on."""

    spec: RowPatternSpec
    summary: Summary
    entry: Entry

    @property
    def joins(self) -> int:
        """The place where it joins the slice's own; beyond its places: nowhere."""
        return int(self.summary.joins[self.entry.place])

    def select_true(self, results: pa.Table) -> pa.Table:
        """Keep the matches of the slice's own chain that are also in the true one, with their numbers there."""
        place = results.column(KEY_COLUMN).to_numpy()
        results = results.drop_columns([KEY_COLUMN])
        wanted = place >= (self.joins if self.joins < self.summary.places else np.iinfo(np.int64).max)
        if self.spec.plan.output.rows is RowMode.ALL_WITH_UNMATCHED:
            cover = max(self.entry.cover, int(self.summary.cover_before[self.entry.place]))
            if place.min(initial=cover) < cover:
                wanted &= (place >= cover) | results.column(MATCHED_COLUMN).to_numpy()
        if not wanted.all():
            results = results.filter(pa.array(wanted))
        before, left_out = (array[self.entry.place] for array in (self.summary.matches_before, self.summary.left_out))
        by = self.entry.number + int(before) - int(left_out)
        if by and is_numbered(self.spec.plan):
            at = results.schema.get_field_index(self.spec.plan.measures.atoms[NumberOfMatch()])
            results = results.set_column(at, results.schema.field(at), pc.add(results.column(at), by))
        return results

    def first_matches(self, head: pa.Table) -> Iterator[pa.Table]:
        """The matches of the true chain before it joins the slice's own."""
        stop = min(self.joins, self.summary.places)
        spec, own = self.spec, self.summary.rows_before
        events = events_of_key(spec, head)
        search = SliceSearch(spec, events, own)
        found = SliceMatches(search, own + stop, self.entry.number, placed=True)
        start, covered = own + self.entry.place, own + self.entry.cover
        for some in search.matches(start, search.matcher.settings, covered=covered):
            for table in found.tables(some):
                yield table.drop_columns([KEY_COLUMN])
        if search.failure is not None and search.failure.row < own + stop:
            row, status = search.failure
            raise matching_failed(spec.plan, events.from_row(row), row, status, spec.step_budget)

    def check(self, failed: pa.Table) -> None:
        """Raise the error that the chain meets, if any."""
        place, status = (failed.column(name).to_numpy() for name in (PLACE, STATUS))
        met = np.flatnonzero(place >= self.joins)
        if self.joins < self.summary.places and len(met):
            first = int(met[0])
            nothing = np.zeros(0, np.int64)
            raise matching_failed(
                self.spec.plan, EventBatch(failed.slice(first), nothing, nothing),
                self.summary.rows_before + int(place[first]), int(status[first]), self.spec.step_budget,
            )  # fmt: skip


_OUTPUT_ROWS = 1 << 16


def first_pass(spec: RowPatternSpec, tables: Iterable[pa.Table], bounds: SliceBounds) -> Iterator[SlicePart]:
    """See `Chained`."""
    given = [table for table in tables if table.num_rows]
    if not given:
        return
    table = concat(given)
    given.clear()
    chain = OwnChain(spec, events_of_key(spec, table), bounds)
    del table
    for order, (kind, part) in enumerate(chain.parts()):
        yield SlicePart(kind, order, part)


def second_pass(spec: RowPatternSpec, parts: Iterable[SlicePart], entry: Entry) -> Iterator[pa.RecordBatch]:
    """See `Chained`."""
    rest = iter(parts)
    summary = Summary.from_bytes(next(rest).blob)
    if entry.place >= summary.places:
        return
    chain = TrueChain(spec, summary, entry)
    head: list[SlicePart] = []
    for part in rest:
        if part.kind == RESULTS:
            yield from chain.select_true(from_bytes(part.blob)).to_batches(max_chunksize=_OUTPUT_ROWS)
        elif part.kind == HEAD and chain.joins > entry.place:
            head.append(part)
        elif part.kind == FAILURES:
            chain.check(from_bytes(part.blob))
    if head:
        rows = concat([from_bytes(part.blob) for part in sorted(head, key=lambda part: part.order)])
        for found in chain.first_matches(rows):
            yield from found.to_batches(max_chunksize=_OUTPUT_ROWS)
