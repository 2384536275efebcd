"""Pairs in order of their start, then of their end (PCQ, Definition 5), as soon as none can come before them.

A pair starts with its archive match. So the pairs of an archive match come when all archive matches that start earlier
are known, and no live match to come can be a pair with one of those; and then as far as their ends are certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.correlation.matches import SideMatches
from episode.matchers.correlation.output import MOST_PAIRS, Pairs, ends_after, pairs_by_archive
from episode.matchers.held import arrays_in, chunk_of
from episode.matchers.protocol import StateChunk
from episode.matchers.times import EVER, NEVER, window_ends

_NAME = "in order"


class InOrder:
    """How far the pairs of each key are out: of archive matches with the start `start`, those that end before `end`;
    all that start earlier. Keys ascend."""

    def __init__(self, recency: int) -> None:
        self.recency = recency
        self.key = self.start = self.end = np.zeros(0, np.int64)

    def pairs(self, live: SideMatches, archive: SideMatches, starts: np.ndarray, ends: np.ndarray) -> Iterator[Pairs]:
        """What can come now. starts, ends: of each archive match: no match of its key to come starts or ends before."""
        last = window_ends(archive.start, self.recency)
        whole = self.whole(archive, starts, ends)
        first = _first_left(archive, whole)
        ready = np.flatnonzero((archive.start < starts) & (whole | (archive.start == first)))
        low, high = ends_after(archive), np.where(whole, last, np.minimum(last, np.maximum(ends, NEVER + 1) - 1))
        low = np.maximum(low, self._out(archive))
        self._note(archive, whole, ready, ends)
        if len(ready) == 0:
            return
        chosen = SideMatches(archive.table, archive.key[ready], archive.start[ready], archive.end[ready])
        found = pairs_by_archive(live, chosen, low[ready], high[ready])
        if not _has_equal_starts(chosen):
            for of_live, of_archive in found:
                yield of_live, ready[of_archive]
            return
        parts = list(found)
        if parts:
            of_live, of_archive = (np.concatenate(part) for part in zip(*parts, strict=True))
            of_archive = ready[of_archive]
            order = np.lexsort((live.end[of_live], archive.start[of_archive], archive.key[of_archive]))
            for at in range(0, len(order), MOST_PAIRS):
                yield of_live[order[at : at + MOST_PAIRS]], of_archive[order[at : at + MOST_PAIRS]]

    def whole(self, archive: SideMatches, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Of each archive match: can all its pairs come out? Then it is not needed any more."""
        last = window_ends(archive.start, self.recency)
        return (archive.start < starts) & ((ends > last) | (ends == EVER))

    def _out(self, archive: SideMatches) -> np.ndarray:
        """For each archive match the end from which on its pairs are still to come."""
        if len(self.key) == 0:
            return np.full(len(archive), NEVER, np.int64)
        at = np.minimum(np.searchsorted(self.key, archive.key), len(self.key) - 1)
        begun = (self.key[at] == archive.key) & (self.start[at] == archive.start)
        return np.where(begun, self.end[at], NEVER)

    def _note(self, archive: SideMatches, whole: np.ndarray, ready: np.ndarray, ends: np.ndarray) -> None:
        """What is out after this: of the archive matches that are not out as a whole, the first of each key."""
        begun = ready[~whole[ready]]
        self.key, first = np.unique(archive.key[begun], return_index=True)
        self.start, self.end = archive.start[begun[first]], ends[begun[first]]

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def chunk(self) -> StateChunk:
        return chunk_of(_NAME, pa.table({"key": self.key, "start": self.start, "end": self.end}))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = arrays_in(chunks, _NAME, "key", "start", "end")
        if known is not None:
            self.key, self.start, self.end = known


def _first_left(archive: SideMatches, whole: np.ndarray) -> np.ndarray:
    """For each archive match, in order of key and start: the first start of its key that is not out as a whole."""
    if len(archive) == 0:
        return archive.start
    first = np.flatnonzero(np.diff(archive.key, prepend=archive.key[0] - 1))
    least = np.minimum.reduceat(np.where(whole, EVER, archive.start), first)
    return np.repeat(least, np.diff(np.append(first, len(archive))))


def _has_equal_starts(archive: SideMatches) -> bool:
    return bool(((archive.key[1:] == archive.key[:-1]) & (archive.start[1:] == archive.start[:-1])).any())
