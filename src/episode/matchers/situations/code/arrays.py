"""The arrays that the code of a situation pattern works on, by name, and what of a pattern is a part of the code.

The rows of a batch are contiguous by partition ("group") and in order of time within one. Bit s of a row's `bits` is
set if the condition of symbol s holds. All rows of a group with one time are one *instant*; what is certain is asked
after its last row.

Situations of one symbol and partition never overlap, so a buffer of them is sorted by start and by end at once: a
buffer is a range of slots lo:hi of flat arrays, the slot `hi` after the finished ones holds the one that lasts. Slots
leave at the front when they fall out of the window. Sets of symbols are bits of one number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from episode.native.builder import ArrayTypes, Function
from episode.native.ir import F64, I64, TRAILING_ZEROS, U8, U64, Operand, Type, Value

DONE, FULL, REPLAN, TOO_MANY, NO_ROOM = range(5)
"""Why the code returns: all rows are done; there are `soft_limit` matches; the plan should be made anew; there are more
matches of one instant than there may be; `found` is full, in the middle of a search."""

ENDED_IN_VAIN, ENDED_SEEN, ENDED, STARTED = range(4)
"""Changes at an instant, in the order of searching: ends of situations that were visible (without and with
something that they may make certain), ends of others, situations that are visible from now on."""
KINDS = 4

DERIVING, SEARCHING, SUSPENDED = range(3)

(GROUP, ROW, BEGUN, OPEN, SEEN, STAGE, COUNT, FIRST, OLDEST, KIND, CANDIDATES, JUST_ENDED, STEP, LASTS, LASTED) = range(
    15
)
"""Places of `place`, where a run is, to continue there: the group, the next row, is the group begun; symbols that last,
and those of them that are visible; deriving, or searching at an instant; matches, and those of earlier instants; when
situations of the window began; of a search at an instant: the kind of what is new, symbols whose lasting situation
takes part, symbols that have ended just now and were visible, the step, and which chosen ones last or have lasted."""
PLACES = 15

WINDOW, SOFT_LIMIT, MOST, NEVER_SEEN, PAUSE = range(5)
"""Places of `settings`: the window; after how many matches to return, and how many there may be of one instant; symbols
whose situations are not visible before their end; instants between two looks at the plan."""

SMOOTHING, SHARE_SMOOTHING, THRESHOLD = range(3)
"""Places of `rates`: the weight of a new size and of a new share of a buffer that fits, in moving averages; by which
share they may differ from what the plan was made for."""

_READ: dict[str, Type] = {
    # the batch: from_[groups + 1], until_row[groups]: rows of a group from here on are left for later
    "from_": I64, "until_row": I64, "time": I64, "bits": U64,
    # the query: masks[symbol, symbol]; at_least, at_most by symbol; paths[symbol, step]: the order of a search that a
    # situation of a symbol begins; triggers[kind]: symbols of which that is worth a search
    "settings": I64, "rates": F64, "masks": I64, "at_least": I64, "at_most": I64, "paths": I64, "triggers": I64,
    # what earlier batches left: symbols that last and are visible by group, since when [group, symbol]; finished
    # situations of symbol s and group g at held_from[s, g]:held_to[s, g]
    "open_before": I64, "seen_before": I64, "open_start": I64, "held_from": I64, "held_to": I64, "held_start": I64,
    "held_end": I64,
    # what the plan was made for
    "size_then": F64, "selectivity_then": F64,
}  # fmt: skip

_WRITTEN: dict[str, Type] = {
    "place": I64, "lo": I64, "hi": I64,
    # slots; first: row in this batch (-1: it began before it); last: row (-1: before this batch; -2 - i: it is the held
    # situation i)
    "starts": I64, "ends": I64, "first": I64, "last": I64,
    # how every group ends: [group, symbol]; open_slot -1: none lasts
    "group_lo": I64, "group_hi": I64, "open_slot": I64, "open_seen": U8,
    # matches: found[match, symbol], and after the symbols those that last; found_row[match, 2]: row and group
    "found": I64, "found_row": I64,
    # moving averages and counts: size[symbol], selectivity[symbol, symbol], partial[symbol, step]
    "size": F64, "selectivity": F64, "sizes_seen": I64, "shares_seen": I64, "look_at": I64, "partial": I64,
    "searches": I64,
    # of one instant: what is new of each kind; top: after the finished situations that take part. Of one search: the
    # slot of each symbol; by step: how many ranges of slots fit, which of them is tried, which slot of it
    "items": I64, "top": I64, "chosen": I64, "range_count": I64, "range_at": I64, "slot_at": I64, "ranges": I64,
    # of one buffer: where the slots of each relation to a situation end
    "bounds": I64,
}  # fmt: skip

TYPES: ArrayTypes = {name: (type_, False) for name, type_ in _READ.items()} | {
    name: (type_, True) for name, type_ in _WRITTEN.items()
}


@dataclass(frozen=True)
class SituationShape:
    """Traits of a pattern that are compiled in.

    symbols: how many. eager: may situations that last be part of a match? has_least, has_most: do some symbols have
    limits of their durations? has_window: is there one? adapts: may plans be made anew? Relations are data, so that
    most patterns with the same number of symbols have the same code.
    """

    symbols: int
    eager: bool
    has_least: bool
    has_most: bool
    has_window: bool
    adapts: bool

    @property
    def ranges(self) -> int:
        return ranges_of(self.symbols)


def ranges_of(symbols: int) -> int:
    """The most ranges of slots that fit the constraints of one symbol: each has three gaps at most."""
    return 3 * symbols + 1


@contextmanager
def each_bit(f: Function, bits: Operand) -> Iterator[tuple[Value, Value]]:
    """The symbols of a set, in order: (number, the set of it alone)."""
    left = f.variable("left", bits)
    with f.during(lambda: left.differs(0)):
        now = left.value
        left.set(now & (now - 1))
        yield f.unary(TRAILING_ZEROS, now), now & -now


def is_in(symbol: Value, bits: Operand) -> Value:
    return ((symbol.function.value(bits) >> symbol) & 1).differs(0)
