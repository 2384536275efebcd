"""The join: matches that are kept for partners to come, and the pairs that new ones make.

With the result cache, or where all matches are found, both sides keep their matches by key. Without it the side that
is evaluated first keeps its matches, each under the number of the segment that was computed for it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.correlation.conditions import RecencyTests
from episode.matchers.correlation.in_order import InOrder
from episode.matchers.correlation.matches import SideMatches
from episode.matchers.correlation.output import PairOutput, Pairs, ends_after, pairs_by_archive, pairs_by_live
from episode.matchers.correlation.segments import FIRST_ID
from episode.matchers.correlation.state import KeptMatches
from episode.matchers.protocol import Snapshot, StateChunk
from episode.matchers.times import EVER, NEVER, window_ends
from episode.plan.correlation.conditions import PairTest


class MatchJoin:
    """The kept matches of both sides. recency: in units of event time; ordered: do pairs come in order? tests: of
    pairs, before they are built."""

    def __init__(
        self,
        output: PairOutput,
        live: pa.Schema,
        archive: pa.Schema,
        recency: int,
        ordered: bool,
        tests: tuple[PairTest, ...] = (),
    ) -> None:
        self.output, self.recency, self.tests = output, recency, RecencyTests(tests)
        self.live = KeptMatches("kept.live", live, by_start=False)
        self.archive = KeptMatches("kept.archive", archive, by_start=True)
        self.in_order = InOrder(recency) if ordered else None

    def __len__(self) -> int:
        return len(self.live) + len(self.archive)

    # ---- pairs -----------------------------------------------------------------------------------------------------

    def add(self, live: SideMatches, archive: SideMatches) -> Iterator[pa.Table]:
        """Join what is new with each other and with what is kept, and keep it, too."""
        live, archive = self.live.ordered(live), self.archive.ordered(archive)
        if self.in_order is not None:
            self.live.add(live)
            self.archive.add(archive)
            return
        kept = self.archive.matches
        yield from self._tables(live, kept, pairs_by_live(live, kept, self.recency))
        self.live.add(live)
        yield from self._by_archive(self.live.matches, archive)
        self.archive.add(archive)

    def ordered(self, starts: np.ndarray, ends: np.ndarray) -> Iterator[pa.Table]:
        """The pairs before which none can come any more. starts, ends: of each kept archive match: no archive match of
        its key to come starts before, and no live match to come ends before."""
        if self.in_order is not None:
            live, archive = self.live.matches, self.archive.matches
            yield from self._tables(live, archive, self.in_order.pairs(live, archive, starts, ends))

    def own(self, live: SideMatches, archive: SideMatches) -> Iterator[pa.Table]:
        """Pairs of matches with those that were found for them alone: their keys are numbers of segments."""
        yield from self._by_archive(self.live.ordered(live), self.archive.ordered(archive))

    def _by_archive(self, live: SideMatches, archive: SideMatches) -> Iterator[pa.Table]:
        high = window_ends(archive.start, self.recency)
        yield from self._tables(live, archive, pairs_by_archive(live, archive, ends_after(archive), high))

    def _tables(self, live: SideMatches, archive: SideMatches, found: Iterator[Pairs]) -> Iterator[pa.Table]:
        for of_live, of_archive in found:
            passing = self.tests.passing(live, archive, of_live, of_archive)
            if len(passing[0]):
                yield self.output.table(live, archive, *passing)

    # ---- what is kept ----------------------------------------------------------------------------------------------

    def expire(self, archive_starts: np.ndarray, live_ends: np.ndarray) -> None:
        """Keep only archive matches that a live match to come may be a pair with. Bounds as for `ordered`."""
        archive = self.archive.matches
        if self.in_order is None:
            self.archive.keep(live_ends <= window_ends(archive.start, self.recency))
        else:
            self.archive.keep(~self.in_order.whole(archive, archive_starts, live_ends))

    def expire_live(self, archive_starts: np.ndarray) -> None:
        """The same of live matches. archive_starts: of each, no archive match of its key to come starts before."""
        live = self.live.matches
        if self.in_order is not None:  # pairs with archive matches that are kept may not be out yet
            archive_starts = np.minimum(archive_starts, self.first_kept(live.key))
        self.live.keep(archive_starts < live.start)

    def first_kept(self, keys: np.ndarray) -> np.ndarray:
        """For each key the first start of an archive match that is kept."""
        kept = self.archive.matches
        if len(kept) == 0:
            return np.full(len(keys), EVER, np.int64)
        first = np.minimum(np.searchsorted(kept.key, keys), len(kept) - 1)
        return np.where(kept.key[first] == keys, kept.start[first], EVER)

    def last_wanted(self, keys: np.ndarray) -> np.ndarray:
        """For each key: live matches that end before this time may be pairs with archive matches that are kept."""
        kept = self.archive.matches
        if len(kept) == 0:
            return np.full(len(keys), NEVER, np.int64)
        last = np.maximum(np.searchsorted(kept.key, keys, side="right") - 1, 0)
        ends = np.minimum(window_ends(kept.start[last], self.recency), EVER - 1) + 1
        return np.where(kept.key[last] == keys, ends, NEVER)

    @property
    def keys(self) -> np.ndarray:
        keys = np.unique(np.concatenate([self.live.matches.key, self.archive.matches.key]))
        return keys[keys < FIRST_ID]

    @property
    def wakes_at(self) -> int | None:
        """When the next pairs may be out, because none can come before them any more."""
        if self.in_order is None or len(self.live) == 0 or len(self.archive) == 0:
            return None
        return int(min(window_ends(self.archive.matches.start, self.recency).min(), EVER - 1))

    def forget(self) -> None:
        self.live.forget()
        self.archive.forget()

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        (live, gone_live), (archive, gone_archive) = self.live.changes(), self.archive.changes()
        in_order = () if self.in_order is None else (self.in_order.chunk(),)
        return Snapshot((*live, *archive, *in_order), (*gone_live, *gone_archive))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.live.restore(chunks)
        self.archive.restore(chunks)
        if self.in_order is not None:
            self.in_order.restore(chunks)
