"""How far before a row evaluation must begin, so that the matches that end there are known (PCQ, section 4.4)."""

from __future__ import annotations

import numpy as np

from episode.matchers.correlation.recent import RecentBuffer
from episode.matchers.correlation.side import SideEvents
from episode.matchers.held import ranges
from episode.matchers.protocol import EventBatch, Partial, Traits
from episode.matchers.range_search import first_rows
from episode.matchers.times import NEVER, window_starts

FIRST_BLOCK = 8
"""Rows among which a wall is looked for first."""


class RecencyReach:
    """Of one pattern. A wall is a row that can only be the first of a match: nothing from before reaches beyond it."""

    def __init__(self, partial: Partial, traits: Traits, events: SideEvents) -> None:
        self.partial, self.traits, self.events = partial, traits, events

    def back(
        self, recent: RecentBuffer, row_from: np.ndarray, row_to: np.ndarray, row: np.ndarray, lo: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first rows to feed, so that all is known of matches that start with `row` or later, or end there; and
        are they enough even where the key has rows before row_from? lo: the time that belongs to `row`."""
        if not self.traits.by_end:
            return row, np.ones(len(row), np.bool_)
        if self.traits.longest is None and self.traits.within is None:
            return self._walls(recent, row_from, np.minimum(row + 1, row_to))
        back = np.full(len(row), NEVER, np.int64)
        sure = np.zeros(len(row), np.bool_)
        if self.traits.longest is not None:
            back = row - max(0, self.traits.longest - 1)
            sure |= back >= row_from
        if self.traits.within is not None:
            first = first_rows(row_from, row, recent.time, window_starts(lo, self.traits.within))
            back = np.maximum(back, first)
            sure |= first > row_from
        return np.maximum(back, row_from), sure

    def _walls(self, recent: RecentBuffer, row_from: np.ndarray, row_to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The last wall in each range of rows; without one, the first row of it; and is there one?"""
        last = row_from.copy()
        has_wall = np.zeros(len(row_from), np.bool_)
        pending = np.flatnonzero(row_from < row_to)
        high, block = row_to.copy(), FIRST_BLOCK
        while len(pending):
            low = np.maximum(row_from[pending], high[pending] - block)
            begin = np.maximum(row_from[pending], low - self.traits.lookback)
            counts = high[pending] - begin
            tried = ranges(begin, counts)
            events = EventBatch(
                self.events.renamed(recent.taken(tried)), np.repeat(pending, counts), recent.time[tried]
            )
            walls = np.flatnonzero(self.partial.walls(events))
            owner = events.key[walls]
            np.maximum.at(last, owner, tried[walls])
            has_wall[owner] = True
            high[pending] = low
            pending = pending[~has_wall[pending] & (low > row_from[pending])]
            block *= 4
        return last, has_wall
