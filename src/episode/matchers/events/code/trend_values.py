"""Values of sets of matches, folded without looking at the matches one by one: a commutative semiring.

A value has a number of matches, sums over their events, and least values among them. `a + b` is the value of two sets
of matches; `a * b` that of all pairs of a beginning in one set and a continuation in the other: numbers multiply, sums
are (n1, s1) * (n2, s2) = (n1 n2, n1 s2 + s1 n2), least values are the lesser ones (Greta, COGRA: event trends).

Exact lanes are 128-bit numbers without sign in two words that saturate: a high word of BEYOND says that the number has
more than 38 digits. All parts of them are added and multiplied only, so what is beyond stays so unless multiplied by
zero; and a zero number of matches is a zero value. Real lanes are doubles, the first of them the number of matches;
least lanes are int64, NOTHING if there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from episode.native.builder import Function
from episode.native.ir import Operand, Value
from episode.native.scope import ArrayTypes, Scope
from episode.native.types import F64, I64, U8, U64, U128

BEYOND, NOTHING = 2**63 - 1, 2**63 - 1
_MOST = BEYOND << 64
ROWS = 0
"""The first place of `settings`: how many rows there are."""

Words = tuple[Value, Value]
"""The low and the high word of a number."""


class TrendValues(NamedTuple):
    """Values by their place: low, high uint64[n, exact], real float64[n, reals], least int64[n, leasts]."""

    low: np.ndarray
    high: np.ndarray
    real: np.ndarray
    least: np.ndarray


def zeros(count: int, exact: int, real: int, least: int) -> TrendValues:
    """No matches."""
    return TrendValues(
        np.zeros((count, exact), np.uint64),
        np.zeros((count, exact), np.uint64),
        np.zeros((count, real), np.float64),
        np.full((count, least), NOTHING, np.int64),
    )


# ---- what is compiled in ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrendLanes:
    """Of each lane: the places whose events add to it. No event adds to the first exact and the first real one, which
    count matches."""

    exact: tuple[frozenset[int], ...]
    real: tuple[frozenset[int], ...] = ()
    least: tuple[frozenset[int], ...] = ()

    @property
    def counts(self) -> tuple[int, int, int]:
        return len(self.exact), len(self.real), len(self.least)

    def added(self, place: int) -> tuple[tuple[int, ...], ...]:
        """The exact, real and least lanes that an event of a place adds to."""
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
"""What a row adds to each lane: exact[lane, row], and so on."""


# ---- numbers ---------------------------------------------------------------------------------------------


def plus(f: Function, one: Words, other: Words) -> Words:
    low = one[0] + other[0]
    high = one[1] + other[1] + (low < one[0]).to(U64)
    return low, f.least(high, BEYOND)


def times(s: Scope, one: Words, other: Words) -> Words:
    return _words(s.f, s.call("times", _multiply, *one, *other, result=U128))


def _multiply(s: Scope, low: Value, high: Value, other_low: Value, other_high: Value) -> None:
    f = s.f
    one, other = _joined(f, low, high), _joined(f, other_low, other_high)
    most = f.constant(_MOST, U128)
    f.give(f.select(f.binary("mul_overflows", one, other), most, f.least(one * other, most)))


def _joined(f: Function, low: Value, high: Value) -> Value:
    return high.to(U128) << f.constant(64, U128) | low.to(U128)


def _words(f: Function, number: Value) -> Words:
    return number.to(U64), (number >> f.constant(64, U128)).to(U64)


def product_of_reals(f: Function, one: Value, other: Value) -> Value:
    """Nothing times infinity is nothing."""
    return f.select(one.equals(0.0) | other.equals(0.0), 0.0, one * other)


def is_something(number: Words) -> Value:
    return (number[0] | number[1]).differs(0)


# ---- values in memory ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """Values in the arrays {name}_low, _high, _real and _least. width: there are so many side by side at each place
    (None: one), one lane after the other."""

    name: str
    lanes: TrendLanes
    width: str | None = None

    @property
    def types(self) -> ArrayTypes:
        kinds = {"low": U64, "high": U64, "real": F64, "least": I64}
        return {f"{self.name}_{kind}": (type_, True) for kind, type_ in kinds.items()}

    def given(self, values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return dict(zip(self.types, (lane.reshape(-1) for lane in values), strict=True))

    def number(self, s: Scope, at: Operand, lane: int) -> Words:
        place = self._place(s, at, 0, lane)
        return s.array(f"{self.name}_low")[place], s.array(f"{self.name}_high")[place]

    def put_number(self, s: Scope, at: Operand, lane: int, number: tuple[Operand, Operand]) -> None:
        place = self._place(s, at, 0, lane)
        s.array(f"{self.name}_low")[place], s.array(f"{self.name}_high")[place] = number

    def real(self, s: Scope, at: Operand, lane: int) -> Value:
        return s.array(f"{self.name}_real")[self._place(s, at, 1, lane)]

    def put_real(self, s: Scope, at: Operand, lane: int, real: Operand) -> None:
        s.array(f"{self.name}_real")[self._place(s, at, 1, lane)] = real

    def least(self, s: Scope, at: Operand, lane: int) -> Value:
        return s.array(f"{self.name}_least")[self._place(s, at, 2, lane)]

    def put_least(self, s: Scope, at: Operand, lane: int, least: Operand) -> None:
        s.array(f"{self.name}_least")[self._place(s, at, 2, lane)] = least

    def _place(self, s: Scope, at: Operand, kind: int, lane: int) -> Value:
        return s.f.value(at) * self.lanes.counts[kind] + lane


class One(Cells):
    """The beginning of a match, without any event."""

    def number(self, s: Scope, at: Operand, lane: int) -> Words:
        return s.f.constant(int(lane == 0), U64), s.f.constant(0, U64)

    def real(self, s: Scope, at: Operand, lane: int) -> Value:
        return s.f.constant(float(lane == 0), F64)

    def least(self, s: Scope, at: Operand, lane: int) -> Value:
        return s.f.constant(NOTHING, I64)


def clear(s: Scope, cells: Cells, at: Operand) -> None:
    """No matches at a place."""
    exact, real, least = cells.lanes.counts
    for lane in range(exact):
        cells.put_number(s, at, lane, (0, 0))
    for lane in range(real):
        cells.put_real(s, at, lane, 0.0)
    for lane in range(least):
        cells.put_least(s, at, lane, NOTHING)


def copy(s: Scope, cells: Cells, at: Operand, others: Cells, other: Operand) -> None:
    """cells[at] = others[other]"""
    s.call(f"copy_{others.name}_to_{cells.name}", lambda *given: _copy(cells, others, *given), at, other)


def _copy(cells: Cells, others: Cells, s: Scope, at: Value, other: Value) -> None:
    exact, real, least = cells.lanes.counts
    for lane in range(exact):
        cells.put_number(s, at, lane, others.number(s, other, lane))
    for lane in range(real):
        cells.put_real(s, at, lane, others.real(s, other, lane))
    for lane in range(least):
        cells.put_least(s, at, lane, others.least(s, other, lane))
    s.f.give(0)


def add(s: Scope, cells: Cells, at: Operand, others: Cells, other: Operand) -> None:
    """cells[at] += others[other]"""
    s.call(f"add_{others.name}_to_{cells.name}", lambda *given: _add(cells, others, *given), at, other)


def _add(cells: Cells, others: Cells, s: Scope, at: Value, other: Value) -> None:
    f = s.f
    exact, real, least = cells.lanes.counts
    for lane in range(exact):
        cells.put_number(s, at, lane, plus(f, cells.number(s, at, lane), others.number(s, other, lane)))
    for lane in range(real):
        cells.put_real(s, at, lane, cells.real(s, at, lane) + others.real(s, other, lane))
    for lane in range(least):
        cells.put_least(s, at, lane, f.least(cells.least(s, at, lane), others.least(s, other, lane)))
    f.give(0)


def add_taken(
    s: Scope, cells: Cells, at: Operand, step: int, others: Cells, other: Operand, other_step: int, count: int,
    place: int, row: Value,
) -> None:  # fmt: skip
    """cells[at + i step] += others[other + i other_step] * the event of a row as that of a place, for i < count"""
    added = cells.lanes.added(place)
    name = f"add_{others.name}_to_{cells.name}_with_{'_'.join(''.join(f'{at}.' for at in kind) for kind in added)}"
    f = s.f

    def take(at: Operand, other: Operand) -> None:
        s.call(name, lambda *given: _add_taken(cells, others, added, *given), at, other, row)

    if count == 1:
        take(at, other)
        return
    with f.loop(0, count) as number:
        take(number * step + at, number * other_step + other)


def _add_taken(
    cells: Cells, others: Cells, added: tuple[tuple[int, ...], ...], s: Scope, at: Value, other: Value, row: Value
) -> None:
    f, rows = s.f, s.settings[ROWS]
    exact, real, least = cells.lanes.counts
    number = others.number(s, other, 0)
    with f.when(is_something(number)):
        cells.put_number(s, at, 0, plus(f, cells.number(s, at, 0), number))
        for lane in range(1, exact):
            whole = others.number(s, other, lane)
            if lane in added[0]:
                whole = plus(f, whole, times(s, number, (s.exact[rows * lane + row], f.constant(0, U64))))
            cells.put_number(s, at, lane, plus(f, cells.number(s, at, lane), whole))
        for lane in range(real):
            value = others.real(s, other, lane)
            if lane in added[1]:
                value = value + product_of_reals(f, others.real(s, other, 0), s.real[rows * lane + row])
            cells.put_real(s, at, lane, cells.real(s, at, lane) + value)
        for lane in range(least):
            lesser = f.least(cells.least(s, at, lane), others.least(s, other, lane))
            if lane in added[2]:
                lesser = f.least(lesser, s.least[rows * lane + row])
            cells.put_least(s, at, lane, lesser)
    f.give(0)


def add_product(s: Scope, cells: Cells, at: Operand, one: Operand, other: Operand) -> None:
    """cells[at] += cells[one] * cells[other]"""
    s.call("add_product", lambda *given: _add_product(cells, *given), at, one, other)


def _add_product(cells: Cells, s: Scope, at: Value, one: Value, other: Value) -> None:
    f = s.f
    exact, real, least = cells.lanes.counts
    number, by = cells.number(s, one, 0), cells.number(s, other, 0)
    with f.when(is_something(number) & is_something(by)):
        cells.put_number(s, at, 0, plus(f, cells.number(s, at, 0), times(s, number, by)))
        for lane in range(1, exact):
            whole = times(s, number, cells.number(s, other, lane))
            whole = plus(f, whole, times(s, cells.number(s, one, lane), by))
            cells.put_number(s, at, lane, plus(f, cells.number(s, at, lane), whole))
        for lane in range(real):
            value = cells.real(s, at, lane)
            if lane == 0:
                value = value + cells.real(s, one, 0) * cells.real(s, other, 0)
            else:
                value = value + product_of_reals(f, cells.real(s, one, 0), cells.real(s, other, lane))
                value = value + product_of_reals(f, cells.real(s, one, lane), cells.real(s, other, 0))
            cells.put_real(s, at, lane, value)
        for lane in range(least):
            lesser = f.least(cells.least(s, one, lane), cells.least(s, other, lane))
            cells.put_least(s, at, lane, f.least(cells.least(s, at, lane), lesser))
    f.give(0)


# ---- the arrays of events --------------------------------------------------------------------------------

EVENTS: ArrayTypes = {
    **dict.fromkeys(("settings", "time", "begins", "ends", "slot", "group"), (I64, False)),
    "bits": (U64, False),
    **dict.fromkeys(("current", "before", "first_current", "first"), (I64, False)),
    **{f"{name}_valid": (U8, False) for name in ("current", "before", "first_current", "first")},
}
"""The rows, and the images that conditions of links and with the first event compare: current[test, row], and so on."""
