"""The second pass over a slice: what the chain that really enters it makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers.protocol import KEY_COLUMN, EventBatch
from episode.matchers.rows.errors import matching_failed
from episode.matchers.rows.slices.found import SliceMatches, events_of_key
from episode.matchers.rows.slices.overlap import is_numbered
from episode.matchers.rows.slices.own_chain import PLACE, STATUS
from episode.matchers.rows.slices.search import SliceSearch
from episode.matchers.rows.slices.summary import Summary
from episode.matchers.slicing import Entry
from episode.plan.output import MATCHED_COLUMN, NumberOfMatch, RowMode

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec


@dataclass(frozen=True)
class TrueChain:
    """The chain in one slice, from its entry on."""

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
        spec, own = self.spec, self.summary.rows_before
        events = events_of_key(spec, head)
        search = SliceSearch(spec, events, own)
        found = SliceMatches(search, own + stop, self.entry.number, placed=True)
        start, covered = own + self.entry.place, own + self.entry.cover
        for some in search.matches(start, search.matcher.rules, covered=covered):
            for table in found.tables(some):
                yield table.drop_columns([KEY_COLUMN])
        if search.failure is not None and search.failure.row < own + stop:
            row, status = search.failure
            raise matching_failed(spec.plan, events.from_row(row), row, status, spec.step_budget)

    def check(self, failed: pa.Table) -> None:
        """Does the chain come to an error?"""
        place, status = (failed.column(name).to_numpy() for name in (PLACE, STATUS))
        met = np.flatnonzero(place >= self.joins)
        if self.joins < self.summary.places and len(met):
            first = int(met[0])
            nothing = np.zeros(0, np.int64)
            raise matching_failed(
                self.spec.plan, EventBatch(failed.slice(first), nothing, nothing),
                self.summary.rows_before + int(place[first]), int(status[first]), self.spec.step_budget,
            )  # fmt: skip
