"""Rows of one key in order, and tables of the matches that a search finds from the rows that a slice owns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import MatchRows, output_tables
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.outcomes import TIMED_OUT, UNMATCHED
from episode.matchers.protocol import EventBatch
from episode.matchers.rows import codes
from episode.matchers.rows.arrays import FoundPaths
from episode.matchers.rows.slices.output import selected
from episode.matchers.rows.slices.overlap import owned_by_end
from episode.matchers.rows.slices.search import SliceSearch

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec


def events_of_key(spec: RowPatternSpec, table: pa.Table) -> EventBatch:
    """Rows of one key in the query's order."""
    events = events_of(table, spec.input_order, KeyCoder(spec.input_order.keys))
    assert len(events.bounds) == 2, "a slice has the rows of one key"
    return events


class SliceMatches:
    """Tables of the matches that a search finds from own rows (or, owned by their end, at such rows) of a slice."""

    def __init__(self, search: SliceSearch, end: int, count: int, *, placed: bool) -> None:
        self.search = search
        self.end = end
        self.count = count
        self._placed = placed

    def tables(self, found: FoundPaths) -> Iterator[pa.Table]:
        """With the place of their start as KEY_COLUMN, where places count; and numbered from `count` on."""
        search, plan = self.search, self.search.matcher.plan
        last = found.start + found.length
        decisive = last - 1 if owned_by_end(plan) else found.start
        wanted = np.flatnonzero((decisive >= search.own) & (decisive < self.end))
        if search.matcher.rules.mode == codes.INCREMENTAL:
            wanted = wanted[np.argsort(last[wanted], kind="stable")]
        nowhere = np.zeros(len(found.start), np.int64)
        matches = selected(
            MatchRows(
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
