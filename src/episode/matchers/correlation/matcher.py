"""The correlation Matcher: two patterns on one shard, joined by recency, in batch and in a stream.

A round evaluates both patterns over new events, joins the matches that are new with each other and with those that are
kept, and then keeps the matches that a match to come may be a pair with. A feed is one round; in a batch, groups of
keys are rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.kernels.times import EVER, window_ends, window_starts
from episode.matchers.correlation.demand import DemandedSide
from episode.matchers.correlation.in_order import InOrder
from episode.matchers.correlation.matches import Matches
from episode.matchers.correlation.output import Output, Pairs, ends_after, pairs_by_archive, pairs_by_live
from episode.matchers.correlation.past import Past
from episode.matchers.correlation.segments import FIRST_ID, Demands
from episode.matchers.correlation.side import Side, with_prefix, without_prefix
from episode.matchers.correlation.state import KeptMatches
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.plan.correlation.plan import Strategy

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec

LIVE_ROW, ARCHIVE_ROW, ROW_OF_BOTH = 1, 2, 3
"""Values of the side column: what an event is an event of."""
ROUND_ROWS = 1 << 18
"""Rows of the keys that are one round in a batch."""


class CorrelationMatcher:
    """Two patterns and their join at work on one shard."""

    def __init__(self, spec: CorrelationSpec) -> None:
        self.spec = spec
        self.strategy = spec.plan.strategy or Strategy.EAGER
        cached = spec.plan.result_cache
        self.live, self.archive = Side(spec, spec.live, LIVE_ROW), Side(spec, spec.archive, ARCHIVE_ROW)
        if self.strategy is Strategy.ARCHIVE_FIRST:
            self.live = DemandedSide(spec, spec.live, LIVE_ROW, cached)
        elif self.strategy is Strategy.LIVE_FIRST:
            self.archive = DemandedSide(spec, spec.archive, ARCHIVE_ROW, cached)
        self.kept_live = KeptMatches("kept.live", self.live.schema, by_start=False)
        self.kept_archive = KeptMatches("kept.archive", self.archive.schema, by_start=True)
        self.past = None
        if spec.history is not None:
            self.past = Past(spec, self.archive.events.outer, self.archive.traits)
        self.in_order = InOrder(spec.recency) if spec.plan.ordered else None
        self.output = Output(spec.output_schema, spec.archive.start, spec.live.end)

    # ---- protocol --------------------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        for part in self._rounds(events, until):
            live, archive = self.live.events.rows_of(part), self.archive.events.rows_of(part)
            if self.past is not None:
                archive = self.past.supply(part, archive, until)
            if self.strategy is Strategy.EAGER:
                found = self.live.feed(live, until), self.archive.feed(archive, self._archive_until(until))
                yield from self._joined(*found, until)
            elif self.strategy is Strategy.LIVE_FIRST:
                yield from self._live_first(live, archive, until)
            else:
                yield from self._archive_first(live, archive, until)
            self._expire(until)

    def finish(self) -> Iterator[pa.Table]:
        yield from self.feed(EventBatch.empty(self.spec.input_schema, self.spec.input_columns), END_OF_TIME)

    def snapshot(self) -> Snapshot:
        parts = [with_prefix(self.live.snapshot(), "live."), with_prefix(self.archive.snapshot(), "archive.")]
        parts += [Snapshot(*self.kept_live.changes()), Snapshot(*self.kept_archive.changes())]
        if self.in_order is not None:
            parts.append(Snapshot((self.in_order.chunk(),)))
        if self.past is not None:
            parts.append(Snapshot((self.past.chunk(),)))
        return Snapshot(
            tuple(chunk for part in parts for chunk in part.put), tuple(name for part in parts for name in part.removed)
        )

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.live.restore(without_prefix(chunks, "live."))
        self.archive.restore(without_prefix(chunks, "archive."))
        self.kept_live.restore(chunks)
        self.kept_archive.restore(chunks)
        if self.in_order is not None:
            self.in_order.restore(chunks)
        if self.past is not None:
            self.past.restore(chunks)

    @property
    def keyed(self) -> bool:
        return self.output.keyed

    @keyed.setter
    def keyed(self, keyed: bool) -> None:
        self.output.keyed = keyed

    @property
    def state_rows(self) -> int:
        """Events, and matches that stand for them."""
        return self.live.state_rows + self.archive.state_rows + len(self.kept_live) + len(self.kept_archive)

    @property
    def given_up(self) -> int:
        return self.live.matcher.given_up + self.archive.matcher.given_up

    @property
    def live_keys(self) -> np.ndarray:
        return self._held_keys() if self.past is None else np.union1d(self._held_keys(), self.past.key)

    def _held_keys(self) -> np.ndarray:
        known = [self.live.live_keys, self.archive.live_keys, self.kept_live.matches.key, self.kept_archive.matches.key]
        keys = np.unique(np.concatenate(known))
        return keys[keys < FIRST_ID]

    @property
    def wakes_at(self) -> int | None:
        """When either pattern could give a match; where pairs come in order, when none can come before one any more."""
        wakes = [side.matcher.wakes_at for side in (self.live, self.archive)]
        if self.in_order is not None and len(self.kept_live) and len(self.kept_archive):
            wakes.append(int(min(window_ends(self.kept_archive.matches.start, self.spec.recency).min(), EVER - 1)))
        return min((one for one in wakes if one is not None), default=None)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """A pair starts with its archive match: one that is kept, or one to come."""
        keys = self.live_keys
        return keys, np.minimum(self.archive.starts_from(keys, END_OF_TIME), self._first_kept(keys))

    def _archive_starts(self, keys: np.ndarray, until: int) -> np.ndarray:
        """For each key: no archive match to come starts before this time."""
        return self.archive.starts_from(keys, self._archive_until(until))

    def _first_kept(self, keys: np.ndarray) -> np.ndarray:
        """For each key the first start of an archive match that is kept."""
        kept = self.kept_archive.matches
        if len(kept) == 0:
            return np.full(len(keys), EVER, np.int64)
        first = np.minimum(np.searchsorted(kept.key, keys), len(kept) - 1)
        return np.where(kept.key[first] == keys, kept.start[first], EVER)

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def _rounds(self, events: EventBatch, until: int) -> Iterator[EventBatch]:
        """In a batch some keys at a time, so that not all matches are in memory at once; a feed of a stream whole."""
        if until != END_OF_TIME or len(events) <= ROUND_ROWS or self.state_rows:
            yield events
            return
        at, bounds = 0, events.bounds
        while at < len(bounds) - 1:
            end = max(at + 1, int(np.searchsorted(bounds, bounds[at] + ROUND_ROWS, side="right")) - 1)
            low, high = int(bounds[at]), int(bounds[end])
            yield EventBatch(events.table.slice(low, high - low), events.key[low:high], events.time[low:high])
            at = end

    def _archive_until(self, until: int) -> int:
        """A table that is read along has no more rows to come when it is at its end."""
        return END_OF_TIME if self.past is not None and self.past.complete else until

    def _live_first(self, live_rows: EventBatch, archive_rows: EventBatch, until: int) -> Iterator[pa.Table]:
        """All live matches, and the archive matches of their regions."""
        side = self.archive
        assert isinstance(side, DemandedSide)
        live = self.live.feed(live_rows, until)
        demands = Demands(live.key, window_starts(live.end, self.spec.recency), live.start)
        archive, ids = side.answer(archive_rows, until, demands)
        if side.cached:
            yield from self._joined(live, archive, until)
        else:  # each live match has archive matches of its own: both have the number of the segment as their key
            self.kept_live.add(replace(live, key=ids))
            yield from self._own(self.kept_live.matches, self.kept_archive.ordered(archive), side)
        side.trim(until, lambda keys: window_starts(self.live.ends_from(keys, until), self.spec.recency))

    def _archive_first(self, live_rows: EventBatch, archive_rows: EventBatch, until: int) -> Iterator[pa.Table]:
        """All archive matches, and the live matches of their regions."""
        side = self.live
        assert isinstance(side, DemandedSide)
        archive = self.archive.feed(archive_rows, self._archive_until(until))
        after = np.minimum(archive.start, EVER - 1) + 1
        demands = Demands(archive.key, after, window_ends(after, self.spec.recency))
        live, ids = side.answer(live_rows, until, demands)
        if side.cached:
            yield from self._joined(live, archive, until)
        else:
            self.kept_archive.add(replace(archive, key=ids))
            yield from self._own(self.kept_live.ordered(live), self.kept_archive.matches, side)
        side.trim(until, lambda keys: np.minimum(self._archive_starts(keys, until), EVER - 1) + 1)

    def _own(self, live: Matches, archive: Matches, side: DemandedSide) -> Iterator[pa.Table]:
        """Pairs of matches with those that were found for them alone."""
        high = window_ends(archive.start, self.spec.recency)
        yield from self._tables(live, archive, pairs_by_archive(live, archive, ends_after(archive), high))

    def _joined(self, live: Matches, archive: Matches, until: int) -> Iterator[pa.Table]:
        """Join what is new with each other and with what is kept, and keep it, too."""
        live, archive = self.kept_live.ordered(live), self.kept_archive.ordered(archive)
        if self.in_order is not None:
            self.kept_live.add(live)
            self.kept_archive.add(archive)
            yield from self._ordered(self.in_order, until)
            return
        kept = self.kept_archive.matches
        yield from self._tables(live, kept, pairs_by_live(live, kept, self.spec.recency))
        self.kept_live.add(live)
        high = window_ends(archive.start, self.spec.recency)
        live = self.kept_live.matches
        yield from self._tables(live, archive, pairs_by_archive(live, archive, ends_after(archive), high))
        self.kept_archive.add(archive)

    def _ordered(self, in_order: InOrder, until: int) -> Iterator[pa.Table]:
        """The pairs before which none can come any more."""
        live, archive = self.kept_live.matches, self.kept_archive.matches
        starts, ends = self._archive_starts(archive.key, until), self.live.ends_from(archive.key, until)
        found = in_order.pairs(live, archive, starts, ends)
        yield from self._tables(live, archive, found)

    def _tables(self, live: Matches, archive: Matches, found: Iterator[Pairs]) -> Iterator[pa.Table]:
        for of_live, of_archive in found:
            yield self.output.table(live, archive, of_live, of_archive)

    def _expire(self, until: int) -> None:
        """Keep only matches that a match to come may be a pair with."""
        if until == END_OF_TIME:
            self.kept_live.forget()
            self.kept_archive.forget()
            return
        if self.past is not None:
            self.past.forget(until, self._held_keys())
        for side, kept in ((self.archive, self.kept_live), (self.live, self.kept_archive)):
            if isinstance(side, DemandedSide) and not side.cached:
                kept.keep(np.isin(kept.matches.key, side.segments.id))
                return
        archive = self.kept_archive.matches
        ends = self.live.ends_from(archive.key, until)
        if self.in_order is None:
            self.kept_archive.keep(ends <= window_ends(archive.start, self.spec.recency))
        else:
            self.kept_archive.keep(~self.in_order.whole(archive, self._archive_starts(archive.key, until), ends))
        live = self.kept_live.matches
        first = self._archive_starts(live.key, until)
        if self.in_order is not None:  # pairs with archive matches that are kept may not be out yet
            first = np.minimum(first, self._first_kept(live.key))
        self.kept_live.keep(first < live.start)
        self.live.forget_keys()
        self.archive.forget_keys()
