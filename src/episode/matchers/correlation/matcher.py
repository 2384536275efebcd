"""The correlation Matcher: two patterns on one shard, joined by recency, in batch and in a stream.

A round evaluates both patterns over new events, joins the matches that are new with each other and with those that are
kept, and then keeps the matches that a match to come may be a pair with. A feed is one round; in a batch, groups of
keys are rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.kernels.correlation import joining
from episode.kernels.times import window_ends
from episode.matchers.correlation.matches import Matches
from episode.matchers.correlation.output import Kernel, Output, pairs
from episode.matchers.correlation.side import Side, with_prefix, without_prefix
from episode.matchers.correlation.state import KeptMatches
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk

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
        self.live = Side(spec, spec.live, LIVE_ROW)
        self.archive = Side(spec, spec.archive, ARCHIVE_ROW)
        self.kept_live = KeptMatches("kept.live", self.live.schema, by_start=False)
        self.kept_archive = KeptMatches("kept.archive", self.archive.schema, by_start=True)
        self.output = Output(spec.output_schema, spec.archive.start, spec.live.end)

    # ---- protocol --------------------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        for part in self._rounds(events, until):
            yield from self._round(self.live.feed(part, until), self.archive.feed(part, until), until)

    def finish(self) -> Iterator[pa.Table]:
        yield from self._round(self.live.finish(), self.archive.finish(), END_OF_TIME)

    def snapshot(self) -> Snapshot:
        parts = [with_prefix(self.live.snapshot(), "live."), with_prefix(self.archive.snapshot(), "archive.")]
        parts += [Snapshot(*self.kept_live.changes()), Snapshot(*self.kept_archive.changes())]
        return Snapshot(
            tuple(chunk for part in parts for chunk in part.put), tuple(name for part in parts for name in part.removed)
        )

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.live.restore(without_prefix(chunks, "live."))
        self.archive.restore(without_prefix(chunks, "archive."))
        self.kept_live.restore(chunks)
        self.kept_archive.restore(chunks)

    @property
    def keyed(self) -> bool:
        return self.output.keyed

    @keyed.setter
    def keyed(self, keyed: bool) -> None:
        self.output.keyed = keyed

    @property
    def state_rows(self) -> int:
        """Events, and matches that stand for them."""
        held = self.live.matcher.state_rows + self.archive.matcher.state_rows
        return held + len(self.kept_live) + len(self.kept_archive)

    @property
    def given_up(self) -> int:
        return self.live.matcher.given_up + self.archive.matcher.given_up

    @property
    def live_keys(self) -> np.ndarray:
        known = [self.live.live_keys, self.archive.live_keys]
        return np.unique(np.concatenate([*known, self.kept_live.matches.key, self.kept_archive.matches.key]))

    @property
    def wakes_at(self) -> int | None:
        """When either pattern could give a match."""
        wakes = [side.matcher.wakes_at for side in (self.live, self.archive)]
        return min((one for one in wakes if one is not None), default=None)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """A pair starts with its archive match: one that is kept, or one to come."""
        keys = self.live_keys
        bounds = self.archive.starts_from(keys, END_OF_TIME)
        kept = self.kept_archive.matches
        first = np.minimum(np.searchsorted(kept.key, keys), max(0, len(kept) - 1))
        if len(kept):
            bounds = np.where(kept.key[first] == keys, np.minimum(bounds, kept.start[first]), bounds)
        return keys, bounds

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

    def _round(self, live: Matches, archive: Matches, until: int) -> Iterator[pa.Table]:
        live, archive = self.kept_live.ordered(live), self.kept_archive.ordered(archive)
        yield from self._joined(joining.by_live, live, self.kept_archive.matches)
        self.kept_live.add(live)
        yield from self._joined(joining.by_archive, self.kept_live.matches, archive)
        self.kept_archive.add(archive)
        self._expire(until)

    def _joined(self, kernel: Kernel, live: Matches, archive: Matches) -> Iterator[pa.Table]:
        for of_live, of_archive in pairs(kernel, live, archive, self.spec.recency):
            yield self.output.table(live, archive, of_live, of_archive)

    def _expire(self, until: int) -> None:
        """Keep only matches that a match to come may be a pair with."""
        if until == END_OF_TIME:
            self.kept_live.forget()
            self.kept_archive.forget()
            return
        live, archive = self.kept_live.matches, self.kept_archive.matches
        self.kept_live.keep(self.archive.starts_from(live.key, until) < live.start)
        last = window_ends(archive.start, self.spec.recency)
        self.kept_archive.keep(self.live.ends_from(archive.key, until) <= last)
        self.live.forget_keys()
        self.archive.forget_keys()
