"""A feed in rounds: in a batch some keys at a time, and large keys in pieces, so that not all matches are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

import numpy as np

from episode.matchers.protocol import END_OF_TIME, EventBatch

ROUND_ROWS = 1 << 18
"""Rows of one round in a batch."""
SAMPLE_ROWS = 1 << 14
"""Rows of the first two rounds, where strategies are compared by what they cost."""


def rounds_of(events: EventBatch, until: int, is_fresh: bool, sampled: bool) -> Iterator[tuple[EventBatch, int]]:
    """Parts of a feed, and up to which time they complete the keys that they have.

    is_fresh: nothing is known of any key. Otherwise, and in a stream, all keys go on together.
    """
    if until != END_OF_TIME or not is_fresh or len(events) <= SAMPLE_ROWS:
        yield events, until
        return
    at, bounds = 0, events.bounds
    sizes = chain([SAMPLE_ROWS] * 2 if sampled else [], repeat(ROUND_ROWS))
    most = next(sizes)
    while at < len(bounds) - 1:
        end = max(at + 1, int(np.searchsorted(bounds, bounds[at] + most, side="right")) - 1)
        low, high = int(bounds[at]), int(bounds[end])
        while high - low > 2 * most:
            cut = _cut(events.time, low, high, most)
            if cut == high:
                break
            yield _part(events, low, cut), int(events.time[cut]) - 1
            low, most = cut, next(sizes)
        yield _part(events, low, high), until
        at, most = end, next(sizes)


def _cut(time: np.ndarray, low: int, high: int, rows: int) -> int:
    """The row after about so many rows of one key where another time begins."""
    return low + int(np.searchsorted(time[low:high], time[low + rows], side="right"))


def _part(events: EventBatch, low: int, high: int) -> EventBatch:
    return EventBatch(events.table.slice(low, high - low), events.key[low:high], events.time[low:high])
