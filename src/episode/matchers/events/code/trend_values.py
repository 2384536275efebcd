"""Values of sets of matches, folded without visiting the matches one by one: a commutative semiring.

A value has a number of matches, sums over their events, and least values among them. `a + b` is the value of two sets
of matches; `a * b` that of all pairs of a beginning in one set and a continuation in the other: numbers multiply, sums
are (n1, s1) * (n2, s2) = (n1 n2, n1 s2 + s1 n2), least values are the lesser ones (Greta, COGRA: event trends).

Exact lanes are 128-bit numbers without sign in two words that saturate: a high word of BEYOND marks a number of more
than 38 digits. They are added and multiplied only, so that a number beyond stays so unless multiplied by zero; and a
zero number of matches is a zero value. Real lanes are doubles, the first of them the number of matches; least lanes are
int64, NOTHING without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from episode.native.builder import ArrayTypes, Function, Scope, subroutine
from episode.native.ir import F64, I64, U8, U64, U128, Operand, Value, Variable

BEYOND, NOTHING = 2**63 - 1, 2**63 - 1
_MOST = BEYOND << 64
ROWS = 0
"""The first place of `settings`: the number of rows."""

EXACT, REAL, LEAST = range(3)
"""Kinds of lanes."""
PARTS = ({"low": U64, "high": U64}, {"real": F64}, {"least": I64})
"""The arrays of each kind."""
NONE: tuple[tuple[Operand, ...], ...] = ((0, 0), (0.0,), (NOTHING,))
"""The value of a lane of each kind without matches."""

AddedLanes = tuple[tuple[int, ...], ...]
"""The exact, real and least lanes that an event adds to."""
Parts = tuple[Value, ...]
"""The value of a lane: the low and the high word of an exact number; else one value."""


class TrendValues(NamedTuple):
    """Values by their place: low, high uint64[n, exact], real float64[n, reals], least int64[n, leasts]."""

    low: np.ndarray
    high: np.ndarray
    real: np.ndarray
    least: np.ndarray


def zeros(count: int, exact: int, real: int, least: int) -> TrendValues:
    """Return values without matches."""
    return TrendValues(
        np.zeros((count, exact), np.uint64),
        np.zeros((count, exact), np.uint64),
        np.zeros((count, real), np.float64),
        np.full((count, least), NOTHING, np.int64),
    )


# ---- what is compiled in ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrendLanes:
    """The places whose events add to each lane. No event adds to the first exact and the first real one, which count
    matches."""

    exact: tuple[frozenset[int], ...]
    real: tuple[frozenset[int], ...] = ()
    least: tuple[frozenset[int], ...] = ()

    @property
    def counts(self) -> tuple[int, int, int]:
        return len(self.exact), len(self.real), len(self.least)

    @property
    def all(self) -> list[tuple[int, int]]:
        """The kind and the number of each lane."""
        return [(kind, lane) for kind, count in enumerate(self.counts) for lane in range(count)]

    def added_at(self, place: int) -> AddedLanes:
        kinds = (self.exact, self.real, self.least)
        return tuple(tuple(at for at, places in enumerate(kind) if place in places) for kind in kinds)


@dataclass(frozen=True)
class TrendLink:
    """An event of the second place may come next after one of the first, if all comparisons `current operation before`
    hold."""

    source: int
    target: int
    operations: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrendShape:
    """Places of a match in order, with the bits of their variables. starts, ends: of the first and of the last event.
    first_tests: comparisons `current operation first` and the places whose events are the current ones."""

    bits: tuple[int, ...]
    links: tuple[TrendLink, ...]
    starts: frozenset[int]
    ends: frozenset[int]
    lanes: TrendLanes
    first_tests: tuple[tuple[str, frozenset[int]], ...] = ()

    @cached_property
    def linked(self) -> frozenset[tuple[int, int]]:
        return frozenset((link.source, link.target) for link in self.links)

    @cached_property
    def continued(self) -> frozenset[int]:
        """Places of events that are not the last of all matches."""
        return frozenset(link.source for link in self.links)

    @property
    def places(self) -> range:
        return range(len(self.bits))

    @property
    def first_bits(self) -> int:
        found = 0
        for place in self.starts:
            found |= self.bits[place]
        return found

    def has(self, f: Function, bits: Value, place: int) -> Value:
        """Does an event qualify for a place?"""
        return (bits & f.constant(self.bits[place], U64)).differs(0)


WEIGHTS: ArrayTypes = {"exact": (U64, False), "real": (F64, False), "least": (I64, False)}
"""Weights of a row in each lane: exact[lane, row], and so on."""


# ---- lanes -----------------------------------------------------------------------------------------------


def unite(f: Function, kind: int, one: Parts, other: Parts) -> Parts:
    """A lane of two sets of matches."""
    if kind == EXACT:
        low = one[0] + other[0]
        high = one[1] + other[1] + (low < one[0]).to(U64)
        return low, f.least(high, BEYOND)
    return (one[0] + other[0],) if kind == REAL else (f.least(one[0], other[0]),)


def _times(s: Scope, kind: int, one: Parts, other: Parts) -> Parts:
    """The product of numbers, or of reals; nothing times infinity is nothing."""
    f = s.f
    if kind == REAL:
        return (f.select(one[0].equals(0.0) | other[0].equals(0.0), 0.0, one[0] * other[0]),)
    number = _multiply(s, *one, *other)
    return number.to(U64), (number >> 64).to(U64)


@subroutine(U128)
def _multiply(s: Scope, low: Value, high: Value, other_low: Value, other_high: Value) -> Value:
    f = s.f
    one, other = _join_words(low, high), _join_words(other_low, other_high)
    most = f.constant(_MOST, U128)
    return f.select(f.binary("mul_overflows", one, other), most, f.least(one * other, most))


def _join_words(low: Value, high: Value) -> Value:
    return high.to(U128) << 64 | low.to(U128)


def lane_words(added: AddedLanes) -> str:
    """Lanes as a part of a function's name."""
    return "_".join("".join(f"{lane}." for lane in kind) for kind in added)


def is_something(number: Parts) -> Value:
    return (number[0] | number[1]).differs(0)


def constants(f: Function, kind: int, values: Sequence[Operand]) -> Parts:
    return tuple(f.value(value, type_) for value, type_ in zip(values, PARTS[kind].values(), strict=True))


def one_match(f: Function, kind: int, lane: int) -> Parts:
    """A lane of the beginning of a match, without any event: the first exact and the first real one count it."""
    return constants(f, kind, ((1, 0), (1.0,))[kind] if lane == 0 and kind != LEAST else NONE[kind])


def added_by(s: Scope, kind: int, lane: int, row: Value, count: Callable[[int], Parts]) -> Parts:
    """The addition of a row's event to a lane of matches. count: their number, exact or real."""
    at = s.settings[ROWS] * lane + row
    if kind == LEAST:
        return (s.least[at],)
    return _times(s, kind, count(kind), (s.exact[at], s.f.constant(0, U64)) if kind == EXACT else (s.real[at],))


# ---- values in memory ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """Values in the arrays {name}_low, _high, _real and _least."""

    name: str
    lanes: TrendLanes

    @property
    def types(self) -> ArrayTypes:
        return {f"{self.name}_{part}": (type_, True) for parts in PARTS for part, type_ in parts.items()}

    def arrays(self, values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return dict(zip(self.types, (lane.reshape(-1) for lane in values), strict=True))

    def place(self, s: Scope, at: Operand, kind: int, lane: Operand) -> Value:
        """The place of a lane of a cell in the arrays of its kind."""
        return s.f.value(at) * self.lanes.counts[kind] + lane

    def load(self, s: Scope, kind: int, place: Value) -> Parts:
        return tuple(s.array(f"{self.name}_{part}")[place] for part in PARTS[kind])

    def store(self, s: Scope, kind: int, place: Value, values: Sequence[Operand]) -> None:
        for part, value in zip(PARTS[kind], values, strict=True):
            s.array(f"{self.name}_{part}")[place] = value

    def get(self, s: Scope, at: Operand, kind: int, lane: int) -> Parts:
        return self.load(s, kind, self.place(s, at, kind, lane))

    def put(self, s: Scope, at: Operand, kind: int, lane: int, values: Sequence[Operand]) -> None:
        self.store(s, kind, self.place(s, at, kind, lane), values)

    def add(self, s: Scope, at: Operand, kind: int, lane: int, *more: Parts) -> None:
        """Unite a lane of a cell with others, one after the other."""
        values = self.get(s, at, kind, lane)
        for one in more:
            values = unite(s.f, kind, values, one)
        self.put(s, at, kind, lane, values)


class MatchBeginning(Cells):
    """The beginning of a match, without any event."""

    def get(self, s: Scope, at: Operand, kind: int, lane: int) -> Parts:
        return one_match(s.f, kind, lane)


def clear(s: Scope, cells: Cells, at: Operand) -> None:
    """Clear a place: no matches."""
    for kind, lane in cells.lanes.all:
        cells.put(s, at, kind, lane, NONE[kind])


@subroutine()
def copy(cells: Cells, others: Cells, s: Scope, at: Value, other: Value) -> None:
    """cells[at] = others[other]"""
    for kind, lane in cells.lanes.all:
        cells.put(s, at, kind, lane, others.get(s, other, kind, lane))


@subroutine()
def add(cells: Cells, others: Cells, s: Scope, at: Value, other: Value) -> None:
    """cells[at] += others[other]"""
    for kind, lane in cells.lanes.all:
        cells.add(s, at, kind, lane, others.get(s, other, kind, lane))


def add_taken(
    s: Scope, cells: Cells, at: Operand, step: int, others: Cells, other: Operand, other_step: int, count: int,
    place: int, row: Value,
) -> None:  # fmt: skip
    """cells[at + i step] += others[other + i other_step] * the event of a row as that of a place, for i < count"""
    added = cells.lanes.added_at(place)
    if count == 1:
        _add_with(cells, others, lane_words(added), added, s, at, other, row)
        return
    with s.f.loop(0, count) as number:
        to, from_ = number * step + at, number * other_step + other
        _add_with(cells, others, lane_words(added), added, s, to, from_, row)


@subroutine()
def _add_with(
    cells: Cells, others: Cells, _name: str, added: AddedLanes, s: Scope, at: Value, other: Value, row: Value
) -> None:
    """cells[at] += others[other] * the event of a row, which adds to some lanes"""
    with s.f.when(is_something(others.get(s, other, EXACT, 0))):
        for kind, lane in cells.lanes.all:
            values = others.get(s, other, kind, lane)
            if lane in added[kind]:
                more = added_by(s, kind, lane, row, lambda kind: others.get(s, other, kind, 0))
                values = unite(s.f, kind, values, more)
            cells.add(s, at, kind, lane, values)


@subroutine()
def add_product(cells: Cells, s: Scope, at: Value, one: Value, other: Value) -> None:
    """cells[at] += cells[one] * cells[other]"""

    def product(kind: int, lane: int, other_lane: int) -> Parts:
        return _times(s, kind, cells.get(s, one, kind, lane), cells.get(s, other, kind, other_lane))

    with s.f.when(is_something(cells.get(s, one, EXACT, 0)) & is_something(cells.get(s, other, EXACT, 0))):
        for kind, lane in cells.lanes.all:
            if kind == LEAST:
                cells.add(s, at, kind, lane, cells.get(s, one, kind, lane), cells.get(s, other, kind, lane))
            elif lane == 0:
                cells.add(s, at, kind, 0, product(kind, 0, 0))
            else:
                cells.add(s, at, kind, lane, product(kind, 0, lane), product(kind, lane, 0))


def pass_time(s: Scope, row: Variable, stop: Value) -> Value:
    """Move a row behind all rows of its time, before `stop`; return the row that it was at."""
    f, first, now = s.f, row.value, s.time[row]
    with f.during(lambda: (row < stop) & s.time[f.least(row, stop - 1)].equals(now)):
        row.set(row + 1)
    return first


# ---- the arrays of events --------------------------------------------------------------------------------

EVENTS: ArrayTypes = {
    **dict.fromkeys(("settings", "time", "begins", "ends", "slot", "group"), (I64, False)),
    "bits": (U64, False),
    **dict.fromkeys(("current", "before", "first_current", "first"), (I64, False)),
    **{f"{name}_valid": (U8, False) for name in ("current", "before", "first_current", "first")},
}
"""The rows, and the images that conditions of links and with the first event compare: current[test, row], and so on."""
