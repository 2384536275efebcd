"""Frames of windows: the bounds that the search keeps to, moved from row to row.

With INITIAL the match of a row begins there; with SEEK at the first row of its frame that matches. `frame_place` holds
four rows: the row whose frame it is; before BARREN no row matches of which all that it reads is in the frame; the rows
from BARE_FROM to BARE_TO offer no first label, so that no frame need look at them again.
"""

from __future__ import annotations

from episode.matchers.rows.code.arrays import LOOKBACK, REACH
from episode.native.builder import Scope, subroutine
from episode.native.ir import Operand, Value

FRAME_AT, BARREN, BARE_FROM, BARE_TO = range(4)
FRAME_PLACE = 4
ALL_ROWS = 2**62
"""The reach of frames that end with the partition."""


def begin_frames(s: Scope, start: Operand, lo: Operand) -> None:
    """Set the place at the first row of a partition that is tried."""
    place = s.frame_place
    place[FRAME_AT] = place[BARE_FROM] = place[BARE_TO] = start
    place[BARREN] = lo


def next_start_in_frames(
    s: Scope, start: Operand, partition_end: Operand, first_bits: Value, *, seek: bool, endless: bool,
    skips_bare_starts: bool,
) -> tuple[Value, Value]:  # fmt: skip
    """The next start row from `start` on, and the end of the frame in which it is tried; the end of the partition twice
    if no start row is left.

    first_bits: the first labels, as bits (uint64). seek: SEEK, not INITIAL. endless: do frames end with the partition?
    skips_bare_starts: are start rows passed over that offer no first label?
    """
    if seek:
        first = _seek(s, start, partition_end, first_bits, endless=endless, skips_bare_starts=skips_bare_starts)
    else:
        first = _past_bare_rows(s, start, partition_end, first_bits) if skips_bare_starts else s.f.value(start)
        s.frame_place[FRAME_AT] = first
    return first, _frame_end(s, endless, s.frame_place[FRAME_AT], partition_end)


def _frame_end(s: Scope, endless: bool, row: Value, partition_end: Operand) -> Value:
    return s.f.value(partition_end) if endless else s.f.least(partition_end, row + s.settings[REACH])


@subroutine()
def _past_bare_rows(s: Scope, begin: Value, end: Value, first_bits: Value) -> None:
    """The first row from `begin` on that offers a first label, or the end."""
    f = s.f
    with f.loop(begin, end) as row:
        f.give_if((s.bits[row] & first_bits).differs(0), row)
    f.give(f.greatest(begin, end))


@subroutine()
def _seek(
    s: Scope, first: Value, partition_end: Value, first_bits: Value, *, endless: bool, skips_bare_starts: bool
) -> None:
    f, place = s.f, s.frame_place
    start = f.variable("start", first)
    with f.during(lambda: place[FRAME_AT] < partition_end):
        at = place[FRAME_AT]
        if endless:
            with f.when(start >= at + s.settings[LOOKBACK]):
                start.set(f.greatest(start, place[BARREN]))
        end = _frame_end(s, endless, at, partition_end)
        if skips_bare_starts:
            start.set(_past_known_bare_rows(s, start, end, first_bits))
        f.give_if(start < end, start)
        place[BARREN] = f.greatest(place[BARREN], end)
        place[FRAME_AT] = at + 1
        start.set(at + 1)
    f.give(partition_end)


@subroutine()
def _past_known_bare_rows(s: Scope, begin: Value, end: Value, first_bits: Value) -> None:
    """The first row that offers a first label; rows known to offer none are not read again."""
    f, place = s.f, s.frame_place
    known_from, known_to = place[BARE_FROM], place[BARE_TO]
    is_known = (known_from <= begin) & (begin < known_to)
    begin_at = f.select(is_known, f.least(known_to, end), begin)
    start = _past_bare_rows(s, begin_at, end, first_bits)
    touches = (known_from <= begin_at) & (begin_at <= known_to)
    place[BARE_FROM] = f.select(touches, known_from, begin_at)
    place[BARE_TO] = f.greatest(f.select(touches, known_to, begin_at), start)
    f.give(start)


def to_next_frame(s: Scope, start: Operand, after: Operand) -> None:
    """Move to the frame of the row `after`, once a match of `start` was found."""
    place = s.frame_place
    place[BARREN] = s.f.greatest(place[BARREN], start)
    place[FRAME_AT] = after
