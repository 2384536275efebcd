"""Row patterns whose matches are a chain, in slices of time: two passes.

1. The first pass follows the chain through a slice as if it entered at the first row of it: the slice's own chain. Then
   it follows the chain from every other place at which it may enter (where a match from before may leave off), until it
   joins the slice's own chain: mostly at once, and rarely beyond a few rows. This is the summary of the slice.
2. The second pass goes from summary to summary, so that it knows where the true chain enters its slice, and how many
   matches come before. The slice's own matches from the place of joining on are the true ones. The few before it are
   matched again, from rows that the first pass has handed on: the head of the slice.

Why it is exact: what is found from a start row does not depend on the chain (`overlap`), so that two chains which come
to one row are one from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.kernels.outcomes import TIMED_OUT, UNMATCHED
from episode.kernels.rows import matching as kernel
from episode.kernels.rows.arrays import Found
from episode.kernels.rows.chains import adopt, join, visit
from episode.matchers.assembly import Matches, output_tables
from episode.matchers.columns import concat, from_bytes, to_bytes
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import KEY_COLUMN, EventBatch
from episode.matchers.rows.errors import matching_failed
from episode.matchers.rows.slices.output import selected
from episode.matchers.rows.slices.overlap import is_numbered, owned_by_end
from episode.matchers.rows.slices.search import Links, SliceSearch
from episode.matchers.rows.slices.summary import Entry, Summary, entry_into
from episode.matchers.slicing import FAILURES, HEAD, RESULTS, SUMMARY, SliceBounds, SlicePart
from episode.plan.output import MATCHED_COLUMN, NumberOfMatch, RowMode
from episode.plan.rows.plan import SkipTo

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec

FEW_CHAINS = 8
"""Up to so many chains are followed one by one, where they have not joined the slice's own soon."""
LEAST_STRETCH = 64
"""So many places further, at least, chains are followed at once."""
_OUTPUT_ROWS = 1 << 16
_PLACE, _STATUS = "__episode_place", "__episode_status"


def first_pass(spec: RowPatternSpec, tables: Iterable[pa.Table], bounds: SliceBounds) -> Iterator[SlicePart]:
    """What `Chained` says."""
    given = [table for table in tables if table.num_rows]
    if not given:
        return
    chain = _OwnChain(spec, events_of(concat(given), spec.input_order, KeyCoder(spec.input_order.keys)), bounds)
    order = 0
    for order, table in enumerate(chain.results(), 1):
        yield SlicePart(RESULTS, order, to_bytes(table))
    summary = chain.summary()
    yield SlicePart(SUMMARY, order + 1, summary.to_bytes())
    head = chain.head(summary)
    if head is not None:
        yield SlicePart(HEAD, order + 2, to_bytes(head))
    if chain.failures:
        yield SlicePart(FAILURES, order + 3, to_bytes(chain.failed()))


def second_pass(
    spec: RowPatternSpec, parts: Iterable[SlicePart], number: int, summaries: Mapping[int, bytes]
) -> Iterator[pa.RecordBatch]:
    """What `Chained` says."""
    if number not in summaries:
        return
    summary = Summary.from_bytes(summaries[number])
    entry = entry_into(number, summaries)
    if entry.place >= summary.places:
        return
    rest = _TrueChain(spec, summary, entry)
    for part in parts:
        if part.kind == RESULTS:
            found = rest.corrected(from_bytes(part.blob))
            yield from found.to_batches(max_chunksize=_OUTPUT_ROWS)
        elif part.kind == HEAD:
            for found in rest.first_matches(from_bytes(part.blob)):
                yield from found.to_batches(max_chunksize=_OUTPUT_ROWS)
        elif part.kind == FAILURES:
            rest.check(from_bytes(part.blob))


def is_chain(spec: RowPatternSpec) -> bool:
    """Do matches say which start rows are tried? Otherwise, they are only numbered."""
    return spec.plan.rules.skip_to is not SkipTo.NEXT_ROW


class _Found:
    """Tables of the matches that a search finds from own rows (or, owned by their end, at such rows) of a slice."""

    def __init__(self, search: SliceSearch, end: int, count: int, *, placed: bool) -> None:
        self.search = search
        self.end = end
        self.count = count
        self._placed = placed

    def tables(self, found: Found) -> Iterator[pa.Table]:
        """With the place of their start as KEY_COLUMN, where places count; and numbered from `count` on."""
        search, plan = self.search, self.search.matcher.plan
        last = found.start + found.length
        decisive = last - 1 if owned_by_end(plan) else found.start
        wanted = np.flatnonzero((decisive >= search.own) & (decisive < self.end))
        if search.matcher.rules.mode == kernel.INCREMENTAL:
            wanted = wanted[np.argsort(last[wanted], kind="stable")]
        nowhere = np.zeros(len(found.start), np.int64)
        matches = selected(
            Matches(
                found.kind, found.start, found.length, found.number, found.path_from, found.path, nowhere,
                nowhere + len(search.events),
            ),
            wanted,
        )  # fmt: skip
        counted = matches.kind != UNMATCHED
        if plan.output.timed_out:
            counted &= matches.number != TIMED_OUT
        number = np.where(counted, self.count + np.cumsum(counted), matches.number)
        self.count += int(np.count_nonzero(counted))
        place = matches.start - search.own if self._placed else np.zeros(len(wanted), np.int64)
        output = search.matcher.output
        yield from output_tables(
            plan, output.schema, output.path, search.events.table, search.prepared,
            replace(matches, number=number, key=place),
        )  # fmt: skip


class _OwnChain:
    """The chain that enters a slice at its first row, and where others join it."""

    def __init__(self, spec: RowPatternSpec, events: EventBatch, bounds: SliceBounds) -> None:
        self.spec = spec
        self.events = events
        own = 0 if bounds.first is None else int(np.searchsorted(events.time, bounds.first, "left"))
        end = len(events) if bounds.last is None else int(np.searchsorted(events.time, bounds.last, "left"))
        self.search = SliceSearch(spec, events, own)
        self.places = max(0, end - own)
        self.entries = min(self.places, self.search.entries(bounds.first))
        self.links = Links.of(self.places if is_chain(spec) else 0)
        self.failures: list[tuple[int, int]] = []
        self._found = _Found(self.search, end, 0, placed=is_chain(spec))

    def results(self) -> Iterator[pa.Table]:
        """Its matches, with their places."""
        search, chained = self.search, is_chain(self.spec)
        start, end = (search.own if chained else 0), self._found.end
        while self.places:
            for found in search.matches(start, search.matcher.rules):
                if chained:
                    search.follow(self.links, found)
                yield from self._found.tables(found)
            if search.failure is None or search.failure.row >= end:
                break
            row, status = search.failure
            self.failures.append((row - search.own, status))
            if not chained or status == kernel.ALL_BUDGETS_SPENT or self._is_certain(row - search.own):
                raise matching_failed(self.spec.plan, self.events.from_row(row), row, status, self.spec.step_budget)
            start = row + 1

    def _is_certain(self, place: int) -> bool:
        """Has every chain that may enter the slice joined its own when that comes to a place? Looked at rarely."""
        times = len(self.failures)
        if times & (times - 1) or place + 1 < self.entries:
            return False
        met, _, _ = self._visited(place + 1)
        joins, _, _ = self._joined(met)
        return bool((joins < len(met)).all())

    def _visited(self, places: int) -> tuple[np.ndarray, np.ndarray, tuple[int, int, int]]:
        """Of the first places: is_met and before, and what `visit` returns."""
        clean = self.spec.plan.output.rows is RowMode.ALL_WITH_UNMATCHED
        met, before = np.zeros(places, np.bool_), np.zeros(places, np.int64)
        return met, before, visit(*(array[:places] for array in self.links.arrays), clean, met, before)

    def _joined(self, met: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each entry, where its chain joins the slice's own (or leaves its places), its matches before, and the
        place after these."""
        links = Links.of(0)
        stretch = 0 if met[: self.entries].all() else self.entries
        pending = np.zeros(0, np.int64)
        while True:
            links = self._extended(links, stretch, pending)
            places = max(stretch, self.entries)
            joins, matches, cover = np.arange(places), np.zeros(places, np.int64), np.zeros(places, np.int64)
            join(*links.arrays, met, joins, matches, cover)
            joins, matches, cover = (array[: self.entries] for array in (joins, matches, cover))
            inside = joins < len(met)
            pending = np.unique(joins[inside][~met[joins[inside]]])
            if len(pending) == 0:
                return joins, matches, cover
            stretch = min(len(met), max(2 * stretch, int(pending[-1])) + LEAST_STRETCH)

    def _extended(self, links: Links, places: int, pending: np.ndarray) -> Links:
        """With further places, where they lead: all of them, or those that a few chains come to."""
        known = len(links)
        links = links.with_room(places)
        if known == 0 or len(pending) > FEW_CHAINS:
            if places:
                self.search.try_all(links, known)
            return links
        seen = np.zeros(places, np.bool_)
        for begin in pending.tolist():
            if not seen[begin]:
                adopt(*self.search.chain(begin, places).arrays, begin, *links.arrays, seen)
        return links

    def summary(self) -> Summary:
        """What other slices must know."""
        nothing = np.zeros(self.entries, np.int64)
        if not is_chain(self.spec):
            return Summary(
                self.places, self.search.own, self.places, self._found.count, 0, nothing, nothing, nothing, nothing
            )
        met, before, (leaves, cover, matches) = self._visited(self.places)
        joins, matches_before, cover_before = self._joined(met)
        left_out = (
            np.where(joins < self.places, before[np.minimum(joins, self.places - 1)], 0) if self.places else joins
        )
        return Summary(
            self.places, self.search.own, leaves, matches, cover, joins, matches_before, cover_before, left_out
        )

    def head(self, summary: Summary) -> pa.Table | None:
        """The rows that chains need until they join, if any does so later than it enters."""
        late = summary.joins[summary.joins > np.arange(self.entries)]
        if not is_chain(self.spec) or len(late) == 0:
            return None
        return self.events.table.slice(0, self.search.rows_for(min(int(late.max()), self.places)))

    def failed(self) -> pa.Table:
        """The rows where the chain came to an error."""
        places, statuses = np.array(self.failures, np.int64).T
        rows = self.events.table.take(pa.array(places + self.search.own))
        return rows.append_column(_PLACE, pa.array(places)).append_column(_STATUS, pa.array(statuses))


@dataclass(frozen=True)
class _TrueChain:
    """What the chain that really enters a slice makes of it."""

    spec: RowPatternSpec
    summary: Summary
    entry: Entry

    @property
    def joins(self) -> int:
        """Where it joins the slice's own; beyond its places: nowhere."""
        return int(self.summary.joins[self.entry.place])

    def corrected(self, results: pa.Table) -> pa.Table:
        """Of matches of the slice's own chain, those that are in the true one, too, with their numbers there."""
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
        return self._renumbered(results, self.entry.number + int(before) - int(left_out))

    def _renumbered(self, results: pa.Table, by: int) -> pa.Table:
        if by and is_numbered(self.spec.plan):
            at = results.schema.get_field_index(self.spec.plan.measures.atoms[NumberOfMatch()])
            results = results.set_column(at, results.schema.field(at), pc.add(results.column(at), by))
        return results

    def first_matches(self, head: pa.Table) -> Iterator[pa.Table]:
        """The matches of the true chain before it joins the slice's own."""
        stop = min(self.joins, self.summary.places)
        if stop <= self.entry.place:
            return
        spec, own = self.spec, self.summary.rows_before
        events = events_of(head, spec.input_order, KeyCoder(spec.input_order.keys))
        search = SliceSearch(spec, events, own)
        found = _Found(search, own + stop, self.entry.number, placed=True)
        start, covered = own + self.entry.place, own + self.entry.cover
        for some in search.matches(start, search.matcher.rules, covered=covered):
            for table in found.tables(some):
                yield table.drop_columns([KEY_COLUMN])
        if search.failure is not None and search.failure.row < own + stop:
            row, status = search.failure
            raise matching_failed(spec.plan, events.from_row(row), row, status, spec.step_budget)

    def check(self, failed: pa.Table) -> None:
        """Does the chain come to an error?"""
        place, status = (failed.column(name).to_numpy() for name in (_PLACE, _STATUS))
        met = np.flatnonzero(place >= self.joins)
        if self.joins < self.summary.places and len(met):
            first = int(met[0])
            nothing = np.zeros(0, np.int64)
            raise matching_failed(
                self.spec.plan, EventBatch(failed.slice(first), nothing, nothing),
                self.summary.rows_before + int(place[first]), int(status[first]), self.spec.step_budget,
            )  # fmt: skip
