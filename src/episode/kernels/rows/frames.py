"""Frames of windows: the bounds that the search keeps to, moved from row to row.

With INITIAL the match of a row begins there; with SEEK at the first row of its frame that matches. A place of four rows
goes along: the row whose frame it is; before BARREN no row matches of which all that it reads is in the frame; the rows
from BARE_FROM to BARE_TO offer no first label, so that no frame need look at them again.
"""

from __future__ import annotations

import numpy as np

from episode.kernels.lean import lean

FRAME_AT, BARREN, BARE_FROM, BARE_TO = range(4)
FRAME_PLACE = 4
ALL_ROWS = 2**62
"""The reach of frames that end with the partition."""

_ZERO = np.uint64(0)


@lean
def begin_frames(place, start, lo):
    """The place at the first row of a partition that is tried."""
    place[FRAME_AT] = place[BARE_FROM] = place[BARE_TO] = start
    place[BARREN] = lo


@lean
def next_start_in_frames(place, frames, start, partition_end, leaps, first_bits, bits):
    """The next start row from `start` on, and the end of the frame in which it is tried; the end of the partition twice
    if there is none. leaps: are start rows passed over that offer no first label?"""
    seek, reach, lookback = frames
    if not seek:
        while leaps and start < partition_end and (bits[start] & first_bits) == _ZERO:
            start += 1
        place[FRAME_AT] = start
        return start, min(partition_end, start + reach)
    while place[FRAME_AT] < partition_end:
        if reach == ALL_ROWS and start >= place[FRAME_AT] + lookback:
            start = max(start, place[BARREN])
        end = min(partition_end, place[FRAME_AT] + reach)
        if leaps:
            start = _past_bare_rows(place, start, end, first_bits, bits)
        if start < end:
            return start, end
        place[BARREN] = max(place[BARREN], end)
        place[FRAME_AT] += 1
        start = place[FRAME_AT]
    return partition_end, partition_end


@lean
def _past_bare_rows(place, start, end, first_bits, bits):
    """The first row that offers a first label; rows that are known to offer none are not looked at again."""
    if place[BARE_FROM] <= start < place[BARE_TO]:
        start = min(place[BARE_TO], end)
    leapt = start
    while start < end and (bits[start] & first_bits) == _ZERO:
        start += 1
    if not place[BARE_FROM] <= leapt <= place[BARE_TO]:
        place[BARE_FROM] = place[BARE_TO] = leapt
    place[BARE_TO] = max(place[BARE_TO], start)
    return start


@lean
def to_next_frame(place, start, after):
    """A match of `start` was found: the row at `after` is the next one that wants a match."""
    place[BARREN] = max(place[BARREN], start)
    place[FRAME_AT] = after
