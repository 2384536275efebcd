"""Rows that every match has: is there a row in the window of a start row that could have such a label?

A sieve also tests how its value compares with the start row's.

See decision 77.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from episode.matchers.code.expressions import COMPARE
from episode.matchers.rows.arrays import EXTREME_AT, SIFTED
from episode.matchers.rows.code.arrays import ROWS, UNTIL, WITHIN
from episode.matchers.rows.code.waiting_ways import EXTREME, SIFTED_TO
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope, subroutine
from episode.native.ir import BOOL, I64, U8, U64, Operand, Value, Variable
from episode.native.running import compiled_for

SIEVE_BIT, IN_FLOAT_LANE, OWN_COLUMN, OWN_CHECK, START_COLUMN, START_CHECK, ACCEPTED, FIRST_DECIDES = range(8)
"""Columns of a sieve: the label's bit; which lane the values are in; the row's value and its validity (-1: no nulls);
the same of the start row; the orders that are accepted: bit 0 less, bit 1 equal, bit 2 greater; whether all rows fail
that follow one that fails."""
PASSES, FAILS, UNDECIDED = range(3)
STRIDE = 64
_COMPARISONS = {0b001: "lt", 0b011: "le", 0b010: "eq", 0b100: "gt", 0b110: "ge", 0b101: "ne"}
_EXTREMES = {0b001: "lt", 0b011: "lt", 0b100: "gt", 0b110: "gt"}
"""By the orders that are accepted: how values are compared, and how the one that passes first of all is found."""
OFFERED, LACKING, DISMISSED = range(3)


class SieveColumns(NamedTuple):
    """A sieve as it is compiled: its columns, and its bit as a mask."""

    bit: int
    is_float: bool
    own: int
    own_check: int
    start: int
    start_check: int
    accepted: int
    first_decides: bool

    @staticmethod
    def of(row: np.ndarray) -> SieveColumns:
        """A sieve from a row of `lower_sieves`."""
        bit, is_float, own, own_check, start, start_check, accepted, first_decides = row.tolist()
        columns = own, own_check, start, start_check
        return SieveColumns(bit % 2**64, bool(is_float), *columns, accepted, bool(first_decides))


# ---- windows ---------------------------------------------------------------------------------------------------------


def _is_beyond(s: Scope, row: Operand, start: Value) -> Value:
    """Is the row after the window of the start row?"""
    return (s.time[row] - s.time[start]).bits_as(U64) > s.settings[WITHIN].bits_as(U64)


def _has_ended(s: Scope, start: Value) -> Value:
    """Are all rows of the window of the start row here, if there are no later ones?"""
    until, begin = s.settings[UNTIL], s.time[start]
    return (until >= begin) & ((until - begin).bits_as(U64) >= s.settings[WITHIN].bits_as(U64))


# ---- labels ----------------------------------------------------------------------------------------------------------


@subroutine()
def seek_labels(
    s: Scope, start: Value, available: Value, hi: Value, *, required: int, windowed: bool, final: bool
) -> None:
    """Does the window of a start row have all labels that every match has? OFFERED, LACKING (not yet) or DISMISSED
    (one does not come).

    seek: for each label, no row between this one and an earlier start row offers it.
    """
    f = s.f
    found = f.variable("found", OFFERED)
    with f.loop(0, required) as which:
        at = f.variable("at", f.greatest(s.seek[which], start))
        label = s.required[which]
        with f.during(lambda: at < available) as offered:
            f.jump_if((s.bits[at] & label).differs(0), offered)
            at.set(at + 1)
        s.seek[which] = at
        with f.either(at >= hi) as otherwise:
            if final:
                f.give(DISMISSED)
            elif windowed:
                f.give_if(_has_ended(s, start), DISMISSED)
            otherwise()
            if windowed:
                f.give_if(_is_beyond(s, at, start), DISMISSED)
        with f.when(at >= available):
            found.set(LACKING)
    f.give(found)


# ---- sieves ----------------------------------------------------------------------------------------------------------


def begin_sieve(s: Scope, k: Operand, kept: bool) -> None:
    """Set the memory of the sieve when a partition begins: as it was kept, or empty."""
    for place, field in ((EXTREME, EXTREME_AT), (SIFTED_TO, SIFTED)):
        s.rare[place] = s.opened[s.key_lo.length * field + k] if kept else -1


def keep_sieve(s: Scope, k: Operand) -> None:
    """Keep the memory of the sieve of a partition."""
    for place, field in ((EXTREME, EXTREME_AT), (SIFTED_TO, SIFTED)):
        s.opened[s.key_lo.length * field + k] = s.rare[place]


@subroutine()
def sift(
    s: Scope, start: Value, available: Value, hi: Value, *, sieve: SieveColumns, windowed: bool, final: bool
) -> None:
    """Look for a row that the sieve of a start row lets through: PASSES, FAILS or UNDECIDED.

    FAILS: no row in the window could have the label, and none will come. UNDECIDED: none has come yet. rare[EXTREME],
    rare[SIFTED_TO]: the memory of earlier calls, for later ones. If the sieve asks for less or more than the start
    row's value, the row with the least or greatest value of those after an earlier start up to row SIFTED_TO; if that
    is after this start, it decides for all of them. Else, the start after which none up to SIFTED_TO passes.
    """
    _Sifting(s, sieve, windowed, final, start, available, hi).emit()


class _Sifting:
    """Emits `sift`."""

    def __init__(
        self, s: Scope, sieve: SieveColumns, windowed: bool, final: bool, start: Value, available: Value, hi: Value
    ) -> None:
        self.s, self.sieve = s, sieve
        self.start, self.available, self.hi = start, available, hi
        self.windowed, self.final = windowed, final
        self.accepts: Callable[[Value, Value], Value] = COMPARE[_COMPARISONS[sieve.accepted]]
        extreme = _EXTREMES.get(sieve.accepted)
        self.precedes = None if extreme is None else COMPARE[extreme]

    def emit(self) -> None:
        s, f, sieve, start = self.s, self.s.f, self.sieve, self.start
        if sieve.start_check >= 0:
            f.give_if(self.is_null(sieve.start_check, start), FAILS)
        wanted = self.value(sieve.start, start)
        extreme, at = f.variable("extreme", s.rare[EXTREME]), f.variable("at", start + 1)
        self.take_up(wanted, extreme, at)
        with f.during(lambda: at < self.available):
            self.fail_beyond(at, extreme, at)
            stop = f.least(self.available, at + STRIDE)
            with f.during(lambda: at < stop):
                with f.when(self.is_candidate(at)):
                    self.try_row(at, wanted, extreme)
                at.set(at + 1)
        if not self.final and self.windowed:
            with f.either(at >= self.hi) as otherwise:
                with f.when(_has_ended(s, start)):
                    self.give(FAILS, extreme, at)
                otherwise()
                self.fail_beyond(at, extreme, at)
        self.give(FAILS if self.final else UNDECIDED, extreme, at)

    def take_up(self, wanted: Value, extreme: Variable, at: Variable) -> None:
        """Begin where an earlier call ended, if its memory holds for this start row."""
        s, f, start = self.s, self.s.f, self.start
        if self.precedes is None:
            with f.when(extreme.equals(start)):
                at.set(s.rare[SIFTED_TO])
            extreme.set(start)
            return
        with f.either(extreme > start) as otherwise:
            at.set(s.rare[SIFTED_TO])
            with f.when(self.accepts(self.value(self.sieve.own, extreme), wanted)):
                if self.windowed:
                    f.give_if(~_is_beyond(s, extreme, start), PASSES)
                    at.set(start + 1)  # others may pass, before it
                    extreme.set(-1)
                else:
                    f.give(PASSES)
            if self.sieve.first_decides:
                f.give_if(extreme >= 0, FAILS)
            otherwise()
            extreme.set(-1)

    def is_candidate(self, at: Variable) -> Value:
        """Could the row have the label?"""
        s, f = self.s, self.s.f
        has_label = (s.bits[at] & f.constant(self.sieve.bit, U64)).differs(0)
        return has_label if self.sieve.own_check < 0 else has_label & ~self.is_null(self.sieve.own_check, at)

    def try_row(self, at: Variable, wanted: Value, extreme: Variable) -> None:
        f = self.s.f
        value = self.value(self.sieve.own, at)
        if self.precedes is not None:
            with f.either(extreme < 0) as otherwise:
                extreme.set(at)
                otherwise()
                with f.when(self.precedes(value, self.value(self.sieve.own, extreme))):
                    extreme.set(at)
        with f.when(self.accepts(value, wanted)):
            # Whether it is in the window or not, no row before it passes.
            self.fail_beyond(at, extreme, at + 1)
            self.give(PASSES, extreme, at + 1)
        if self.sieve.first_decides:
            self.give(FAILS, extreme, at + 1)

    def fail_beyond(self, row: Variable, extreme: Variable, to: Operand) -> None:
        if self.windowed:
            with self.s.f.when(_is_beyond(self.s, row, self.start)):
                self.give(FAILS, extreme, to)

    def give(self, status: int, extreme: Variable, to: Operand) -> None:
        self.s.rare[EXTREME], self.s.rare[SIFTED_TO] = extreme, to
        self.s.f.give(status)

    def value(self, column: int, row: Operand) -> Value:
        lane = self.s.floats if self.sieve.is_float else self.s.ints
        return lane[self.s.settings[ROWS] * column + row]

    def is_null(self, check: int, row: Operand) -> Value:
        return self.s.valid[self.s.settings[ROWS] * check + row].equals(0)


# Start rows that a sieve shows to fail, all at once, at the end of input. The least or the greatest value of the window
# decides whether some row compares with the start row as the sieve asks; if it asks for equal values, the next row with
# that value.


LESS, EQUAL, GREATER = 0b001, 0b010, 0b100
_TYPES: ArrayTypes = {
    **dict.fromkeys(("key_lo", "key_hi", "time", "own", "wanted"), (I64, False)),
    **dict.fromkeys(("is_start", "is_candidate"), (U8, False)),
    **dict.fromkeys(("least", "greatest", "latest"), (I64, True)),
    "hopeless": (U8, True),
}


def hopeless_starts(
    key_lo: np.ndarray, key_hi: np.ndarray, within: int, time: np.ndarray, is_start: np.ndarray,
    is_candidate: np.ndarray, own: np.ndarray, wanted: np.ndarray, accepted: int,
) -> np.ndarray:  # fmt: skip
    """bool by row: the start rows in whose window no candidate passes the sieve; all rows are here.

    own, wanted: ranks of the candidates' values, and of the start rows' values. within: negative without a window.
    """
    arrays = {
        "key_lo": key_lo, "key_hi": key_hi, "time": time, "is_start": is_start.view(np.uint8),
        "is_candidate": is_candidate.view(np.uint8), "own": own, "wanted": wanted,
        "hopeless": is_start.astype(np.uint8),
    }  # fmt: skip
    if accepted == EQUAL:
        arrays["latest"] = np.full(max(own.max(initial=0), wanted.max(initial=0)) + 1, -1, np.int64)
    for name in ("least", "greatest"):
        arrays[name] = np.empty(len(time), np.int64)
    compiled_for(hopeless_program, accepted, within >= 0).run(arrays, within)
    hopeless: np.ndarray = arrays["hopeless"].view(np.bool_)
    return hopeless


def hopeless_program(accepted: int, windowed: bool) -> Program:
    """The program for a sieve that accepts these orders."""
    s = entry_scope("hopeless_starts", _TYPES)
    f = s.f
    within = f.scalar("within").bits_as(U64)
    with f.loop(0, s.key_lo.length) as k:
        lo, hi = s.key_lo[k], s.key_hi[k]
        if accepted == EQUAL:
            _seek_equal(s, lo, hi, within if windowed else None)
        else:
            _compare_extremes(s, lo, hi, within if windowed else None, accepted)
    f.give(0)
    return s.program


def _is_inside(s: Scope, row: Operand, start: Value, within: Value | None) -> Value:
    """Is a row after the start row in its window? within: its length; None: it has no end."""
    if within is None:
        return s.f.constant(True, BOOL)
    return (s.time[row] - s.time[start]).bits_as(U64) <= within


def _seek_equal(s: Scope, lo: Value, hi: Value, within: Value | None) -> None:
    """Go from the last row back: `latest` holds the next candidate with each value, in this partition or in another."""
    f = s.f
    with f.loop(0, hi - lo) as back:
        start = hi - 1 - back
        with f.when(s.is_start[start].differs(0)):
            found = s.latest[s.wanted[start]]
            with f.when((found > start) & (found < hi)), f.when(_is_inside(s, found, start, within)):
                s.hopeless[start] = 0
        with f.when(s.is_candidate[start].differs(0)):
            s.latest[s.own[start]] = start


def _compare_extremes(s: Scope, lo: Value, hi: Value, within: Value | None, accepted: int) -> None:
    """Go from the first row on, with the candidates of the window that may be its least or greatest value."""
    f = s.f
    queues = [_Queue(s, less) for less in (True, False) if accepted & (LESS if less else GREATER)]
    end = f.variable("end", lo)
    with f.loop(lo, hi) as start:
        with f.when(s.is_start[start].differs(0)):
            with f.during(lambda: end < hi) as full:
                with f.when(end > start):
                    f.jump_unless(_is_inside(s, end, start, within), full)
                with f.when(s.is_candidate[end].differs(0)):
                    for queue in queues:
                        queue.add(end.value)
                end.set(end + 1)
            for queue in queues:
                queue.drop_up_to(start)
                with f.when(queue.has_one):
                    best, wanted = s.own[queue.best], s.wanted[start]
                    passes = best < wanted if queue.less else best > wanted
                    with f.when(passes | best.equals(wanted) if accepted & EQUAL else passes):
                        s.hopeless[start] = 0


class _Queue:
    """Candidates whose values are less (or greater) than those of all later ones."""

    def __init__(self, s: Scope, less: bool) -> None:
        self.s, self.less = s, less
        self.rows = s.least if less else s.greatest
        self.begin, self.end = s.f.variable("begin", 0), s.f.variable("end", 0)

    @property
    def has_one(self) -> Value:
        return self.begin < self.end

    @property
    def best(self) -> Value:
        return self.rows[self.begin]

    def add(self, row: Value) -> None:
        s, f, value = self.s, self.s.f, self.s.own[row]
        with f.during(lambda: self.has_one) as placed:
            last = s.own[self.rows[self.end - 1]]
            f.jump_if(last < value if self.less else last > value, placed)
            self.end.set(self.end - 1)
        self.rows[self.end] = row
        self.end.set(self.end + 1)

    def drop_up_to(self, start: Value) -> None:
        f = self.s.f
        with f.during(lambda: self.has_one) as later:
            f.jump_if(self.best > start, later)
            self.begin.set(self.begin + 1)
