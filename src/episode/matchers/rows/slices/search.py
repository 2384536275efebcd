"""The search of row patterns over the rows of one slice, and the matches that the slice owns.

A start row need not be on the chain of all slices, and then its error is not an error of the query. So errors are
noted, and the search continues at the next row.

The search tries every start row that offers a first label of the pattern. To try only some rows, these get a label that
no other row has, which replaces the first one. If the pattern has 64 labels, or may match no row, others are also
tried, and their results are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import MatchRows, output_tables
from episode.matchers.codes import TIMED_OUT, UNMATCHED
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.prepare import prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.rows import arrays as codes
from episode.matchers.rows.arrays import OUTS, FoundPaths, SearchPartitions, SearchRows, SearchSettings, WorkArrays
from episode.matchers.rows.code.row_code import Lowered
from episode.matchers.rows.matcher import ALREADY_SIFTED, RowPatternMatcher
from episode.matchers.rows.matches import RowOutput
from episode.matchers.rows.program import last_labels, without_hopeless_starts
from episode.matchers.rows.slices.chains import Links, links_of, owned_by_end, reach_of
from episode.matchers.rows.waiting_attempts import no_attempts
from episode.matchers.slices.slicing import Overlap, SliceBounds, Slicing
from episode.matchers.times import EVER
from episode.plan.rows.plan import MAXIMUM_LABELS, RowPatternPlan

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec


def events_of_key(spec: RowPatternSpec, table: pa.Table) -> EventBatch:
    """Rows of one key in the query's order."""
    events = events_of(table, spec.input_order, KeyCoder(spec.input_order.keys))
    assert len(events.bounds) == 2, "a slice has the rows of one key"
    return events


@dataclass
class SliceMatches:
    """Tables of the matches that a search finds from own rows (or, owned by their end, at such rows) of a slice."""

    search: SliceSearch
    end: int
    count: int
    placed: bool

    def tables(self, found: FoundPaths) -> Iterator[pa.Table]:
        """Yield tables with the place of the start as KEY_COLUMN, if places count; numbers follow `count`."""
        search, plan = self.search, self.search.matcher.plan
        last = found.start + found.length
        decisive = last - 1 if owned_by_end(plan) else found.start
        wanted = np.flatnonzero((decisive >= search.own) & (decisive < self.end))
        if search.matcher.settings.mode == codes.INCREMENTAL:
            wanted = wanted[np.argsort(last[wanted], kind="stable")]
        first = np.zeros(len(found.start), np.int64)
        matches = select_matches(MatchRows(*found, part_lo=first, part_hi=first + len(search.events)), wanted)
        counted = matches.kind != UNMATCHED
        if plan.output.timed_out:
            counted &= matches.number != TIMED_OUT
        number = np.where(counted, self.count + np.cumsum(counted), matches.number)
        self.count += int(np.count_nonzero(counted))
        place = matches.start - search.own if self.placed else np.zeros(len(wanted), np.int64)
        output, matches = search.matcher.output, replace(matches, number=number, key=place)
        yield from output_tables(plan, output.schema, output.path, search.events.table, search.prepared, matches)


class OwnedOutput(RowOutput):
    """The tables of the matches that one slice of time owns."""

    def __init__(self, plan: RowPatternPlan, label_of: np.ndarray, schema: pa.Schema, bounds: SliceBounds) -> None:
        super().__init__(plan, label_of, schema)
        self.bounds = bounds
        self._by_end = owned_by_end(plan)

    def select_emitted(self, matches: MatchRows, part: np.ndarray, time: np.ndarray) -> tuple[MatchRows, np.ndarray]:
        decisive = matches.start + matches.length - 1 if self._by_end else matches.start
        owned = np.flatnonzero(self.bounds.owns(time[decisive]))
        return select_matches(matches, owned), part[owned]


def select_matches(matches: MatchRows, which: np.ndarray) -> MatchRows:
    """Select matches, in the order given."""
    names = ("kind", "start", "length", "number", "path_from", "part_lo", "part_hi")
    return replace(matches, **{name: getattr(matches, name)[which] for name in names})


_NOWHERE = -1


class FailedStart(NamedTuple):
    """A start row at which the search stopped, and the status with the reason."""

    row: int
    status: int


class SliceSearch:
    """Searches over the rows of one key that a slice is fed. own: the first row that it owns."""

    def __init__(self, spec: RowPatternSpec, events: EventBatch, own: int) -> None:
        self.matcher = RowPatternMatcher(spec)
        self.events = events
        self.own = own
        slicing = spec.slicing
        assert isinstance(slicing, Slicing)
        self._overlap: Overlap = slicing.overlap
        self.prepared = prepare(spec.plan, self.matcher.needs, events.table, events.key)
        lanes = self.prepared.lanes
        self._rows = SearchRows(self.prepared.bits, events.time, events.key, lanes.ints, lanes.floats, lanes.valid)
        self._lowered = Lowered.of(spec.plan, self.prepared, self.matcher.sieves)
        to_label = self.matcher.settings.skip in (codes.FIRST_LABEL, codes.LAST_LABEL)
        self._skip_to = self._mask(spec.plan.labels.members(spec.plan.settings.skip_label)) if to_label else None
        self._mark = None if self.matcher.program.labels >= MAXIMUM_LABELS else np.uint64(1 << MAXIMUM_LABELS - 1)
        self.failure: FailedStart | None = None

    def _mask(self, labels: frozenset[str] | None) -> int:
        """The labels as bits."""
        names = self.matcher.plan.labels.names
        return sum(1 << at for at, label in enumerate(names) if labels is not None and label in labels)

    def links(self, found: FoundPaths, places: int) -> tuple[np.ndarray, Links]:
        """The places (ascending, of the first `places`) at which matches start, and their links."""
        matcher = self.matcher
        timed_out, to_first = matcher.plan.output.timed_out, matcher.settings.skip == codes.FIRST_LABEL
        return links_of(found, timed_out, self.own, places, matcher.program.label_of, self._skip_to, to_first)

    def try_each(self, links: Links, places: np.ndarray) -> None:
        """Note where some places (ascending) lead."""
        wanted = np.zeros(links.places, np.bool_)
        wanted[places] = True
        self._try(links, wanted, codes.NEXT_ROW, int(places[0]), int(places[-1]) + 1, self.own + places)

    def chain(self, begin: int, places: int) -> Links:
        """The links of the places that the chain from `begin` visits, among the first `places`."""
        links = Links.of(places)
        self._try(links, np.ones(places, np.bool_), self.matcher.settings.skip, begin, places)
        return links

    def _trial_settings(self, skip: int) -> SearchSettings:
        """INCREMENTAL MATCH omits ends that other start rows of a trial have had; ALL MATCHES finds them."""
        mode = self.matcher.settings.mode
        mode = codes.ALL if mode == codes.INCREMENTAL else mode
        return self.matcher.settings._replace(mode=mode, skip=skip, with_unmatched=False, timed_out=False)

    def _try(
        self, links: Links, wanted: np.ndarray, skip: int, begin: int, places: int, starts: np.ndarray | None = None
    ) -> None:
        settings = self._trial_settings(skip)
        row, stop = self.own + begin, self.own + places
        lo, hi = max(0, row - self._overlap.before_rows), self.rows_for(places)
        while row < stop:
            for found in self.matches(row, settings, starts=starts, lo=lo, hi=hi):
                place, some = self.links(found, places)
                which = wanted[place]
                links.put(place[which], some.select(which))
            if self.failure is None:
                break
            row = self.failure.row + 1

    def rows_for(self, places: int) -> int:
        """The end of the rows that the matches of the first `places` can need."""
        if places == 0:
            return self.own
        time = self.events.time
        latest = min(EVER, int(time[self.own + places - 1]) + self._overlap.after_time)
        return min(len(time), int(np.searchsorted(time, latest, "right")) + self._overlap.after_rows)

    def entries(self, first: int | None) -> int:
        """The number of places, from 0 on, at which a chain may enter the slice, whose first time is given."""
        if first is None or self.matcher.settings.skip == codes.NEXT_ROW:
            return 1
        time, rows = reach_of(self.matcher.plan)
        if time:
            latest = min(EVER, first + time)
            rows = int(np.searchsorted(self.events.time[self.own :], latest, "left"))
        return rows + 1

    def possible(self, entries: int) -> np.ndarray:
        """bool: the places at which a match from before may leave off, as far as single rows show; place 0 is one.

        After the last row of a match, or at a row of the label to skip to.
        """
        plan, bits = self.matcher.plan, self.prepared.bits
        offered = np.uint64(self._mask(last_labels(plan.program)) if self._skip_to is None else self._skip_to)
        first = self.own - 1 if self._skip_to is None else self.own
        possible = np.ones(entries, np.bool_)
        if entries > 1:
            possible[1:] = bits[first + 1 : first + entries] & offered != 0
        return possible

    def hopeless(self, begin: int, end: int) -> np.ndarray:
        """bool: the places from begin to before end where single rows show that no match starts."""
        program, bits = self.matcher.program, self._rows.bits
        if program.nullable:
            return np.zeros(end - begin, np.bool_)
        hopeless: np.ndarray = bits[self.own + begin : self.own + end] & program.first_bits == 0
        if not program.one_row_enough:
            after = bits[self.own + begin + 1 : self.own + end + 1]
            hopeless[: len(after)] |= after & program.follow_bits == 0
        return hopeless

    @cached_property
    def _marked(self) -> np.ndarray:
        """The bits of rows, with room for a mark."""
        return self._rows.bits.copy()

    def matches(
        self, start: int, settings: SearchSettings, *, starts: np.ndarray | None = None, lo: int = 0,
        hi: int | None = None, covered: int = 0,
    ) -> Iterator[FoundPaths]:  # fmt: skip
        """Yield the matches of the rows lo:hi, from a start row on. If the search fails, `failure` is set.

        starts: the few start rows that are wanted; others may be among the results.
        """
        self.failure = None
        program, rows = self.matcher.program, self._rows
        if starts is not None and self._mark is not None:
            offering = starts[rows.bits[starts] & program.first_bits != 0]
            self._marked[offering] |= self._mark
            program, rows = program._replace(first_bits=self._mark), rows._replace(bits=self._marked)
        hi = len(self.events) if hi is None else hi
        one = (np.array([value]) for value in (lo, hi, lo == 0, start, 0, covered, lo - 1, lo))
        partitions = SearchPartitions(*one)
        counts = np.zeros((len(program.code), 2, 2), np.int64)
        code = self._lowered.code(program, settings, None, kept=False, final=True)
        work = WorkArrays.allocate(hi - lo, hi - lo, code.values, counts)
        while True:
            work.found.start[work.cursor[OUTS] :] = _NOWHERE
            status = code.run(
                program, settings, None, self.prepared.lanes, rows, partitions, no_attempts(), work.found, work.work,
                END_OF_TIME,
            )  # fmt: skip
            if work.holds_many(status):
                yield work.matches()
                work.forget_found()
            elif status == codes.SIFTING_SLOW:
                bits = without_hopeless_starts(self._lowered.sieves[0], program, rows, partitions, settings.within)
                rows = rows._replace(bits=bits)
                work.cursor[codes.SIFTINGS] = ALREADY_SIFTED
            elif not work.enlarge(status, program.slots):
                break
        if starts is not None and self._mark is not None:
            self._marked[offering] &= ~self._mark
        if status != codes.FINE:
            row, found = int(work.cursor[codes.STATUS_ROW]), work.found.start
            self.failure = FailedStart(row, status)
            after = np.flatnonzero((found == _NOWHERE) | (found >= row))  # the search has not counted those before
            outs = int(after[0]) if len(after) else len(found)
            work.cursor[OUTS], work.cursor[codes.PATHS] = outs, work.found.path_from[outs]
        yield work.matches()
