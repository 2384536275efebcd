"""Emits the interval of a term of a bound: an aggregate over a closure, or a value of one of its events.

level[term, j], in places LOWEST … SOME: of the values from the j-th candidate on: extremes; the sums of the negative
and of the positive ones (of COUNT: 0 and their number); their number. The last level is of the events before one, while
bounds on each event are decided. facts[term], in places SLACK … SHORT: the effect of rounding; no value is greater; are
sums of its values exact?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from episode.matchers import codes as oc
from episode.matchers.events.code.arrays import LEVELS
from episode.matchers.events.code.checks import Checks
from episode.matchers.events.code.conditions import EventConditions
from episode.native.builder import Function, Scope, subroutine
from episode.native.ir import BOOL, F64, I64, Operand, Value

LOWEST, HIGHEST, LEAST, GREATEST, SOME = range(5)
SLACK, SIZE, SHORT = range(3)
FIRST, LAST, BEFORE, OWN = 100, 101, 102, 103
"""Functions beyond those of `matchers.codes`: values of the first or last event, of the one before b[i], of b[i]
itself."""
WITH_CURRENT = "current"
RELATIVE = 1e-9
WHOLE = 2.0**53
"""Whole numbers up to here are exact in floating point."""
FRACTION, MOST_FRACTIONS = 1024.0, 2.0**43
"""Fractions of 1 / 1024 whose sums are exact, and their limit."""
INFINITE = float("inf")
_ADDED_UP = (oc.SUM, oc.AVG, oc.AVG_WHOLE)
_NO_VALUES = (INFINITE, -INFINITE, 0.0, 0.0, 0.0)
"""A level without values."""


@dataclass(frozen=True)
class TermShape:
    """A function of a column (is float, row in its lane, row of validity) of a closure.

    aggregate: its number among the running aggregates of the automaton, if it is one of all events; reach: "before" or
    "current" if it is one of b[..i-1] or b[..i]."""

    function: int
    variable: int
    column: tuple[bool, int, int]
    aggregate: int = -1
    reach: str = ""

    @property
    def is_float(self) -> bool:
        return self.column[0]

    @property
    def scale(self) -> float:
        """An average of whole numbers has four digits more."""
        return 10000.0 if self.function == oc.AVG_WHOLE else 1.0

    def interval(self, may_be: Value, never_null: Value, low: Value, high: Value) -> ValueInterval:
        """An interval between values of the column."""
        rounding = 1.0 if self.function == oc.AVG_WHOLE else 0.0
        return ValueInterval(may_be, never_null, low * self.scale - rounding, high * self.scale + rounding)


@dataclass(frozen=True)
class ValueInterval:
    """may_be: can it be anything but null? never_null: is it never null? Its least and greatest value."""

    may_be: Value
    never_null: Value
    least: Value
    greatest: Value


def _load_level(s: Scope, number: int, j: Operand, *places: int) -> list[Value]:
    """Some places of a level; without any, all of them."""
    return [s.level[_level_at(s, number, j, place)] for place in places or range(5)]


def _store_level(s: Scope, number: int, j: Operand, values: Sequence[Operand]) -> None:
    for place, value in enumerate(values):
        s.level[_level_at(s, number, j, place)] = value


def _level_at(s: Scope, number: int, j: Operand, place: int) -> Value:
    return ((s.settings[LEVELS] * number) + j) * 5 + place


def _add_to_level(f: Function, level: Sequence[Value], value: Value) -> list[Value]:
    """A level with one more value."""
    lowest, highest, least, greatest, some = level
    return [
        f.least(lowest, value), f.greatest(highest, value),
        least + f.least(value, 0.0), greatest + f.greatest(value, 0.0), some + 1.0,
    ]  # fmt: skip


def _value(emitter: EventConditions, term: TermShape, row: Value) -> tuple[Value, Value]:
    """(is it there?, the value of a term's column at a row; 0 if it is not)"""
    f = emitter.f
    null = emitter.null_of(term.column, row)
    if term.function == oc.COUNT:
        value = f.value(1.0)
    else:
        found, _ = emitter.value_of(term.column, row)
        value = found if found.type is F64 else found.to(F64)
    if null is None:
        return f.value(True), value
    return ~null, f.select(null, 0.0, value)


# ---- levels -------------------------------------------------------------------------------------------------


@subroutine(BOOL)
def fill_levels(
    emitter_in: Callable[[Scope], EventConditions], term: TermShape, number: int, s: Scope, first: Value, stop: Value
) -> Operand:
    """Sums and extremes of a term's values from each candidate on; False if a value is not finite."""
    f, emitter = s.f, emitter_in(s)
    adds_up = term.function in _ADDED_UP
    size = stop - first
    level = [f.variable(f"level{place}", start) for place, start in enumerate(_NO_VALUES)]
    total, exact = f.variable("total", 0.0), f.variable("exact", True)
    _store_level(s, number, size, level)
    j = f.variable("j", size - 1)
    with f.during(lambda: j >= 0):
        there, value = _value(emitter, term, s.members[first + j].to(I64))
        with f.when(there):
            if term.is_float:
                f.give_if(value.differs(value) | f.unary("abs", value).equals(INFINITE), False)
                fractions = value * FRACTION
                exact.set(exact & fractions.equals(f.unary("floor", fractions)))
            magnitude = f.unary("abs", value)
            total.set(total + magnitude if adds_up else f.greatest(total, magnitude))
            for one, after in zip(level, _add_to_level(f, level, value)):
                one.set(after)
        _store_level(s, number, j.value, level)
        j.set(j - 1)
    is_short = exact.value if term.function == oc.SUM or not adds_up else f.value(False)
    s.facts[3 * number + SHORT] = is_short.to(F64)
    if adds_up:
        is_exact = exact & (total < (MOST_FRACTIONS if term.is_float else WHOLE))
    else:
        is_exact = f.value(True) if term.is_float else total < WHOLE
    size_ = total * term.scale
    s.facts[3 * number + SLACK] = f.select(is_exact, 0.0, size_ * RELATIVE)
    s.facts[3 * number + SIZE] = size.to(F64) if term.function == oc.COUNT else size_
    return True


def note_preceding(s: Scope, emitter: EventConditions, term: TermShape, number: int, row: Value | None) -> None:
    """Add the event `row` to those that precede later ones; None: nothing precedes the first one."""
    f, end = s.f, s.settings[LEVELS] - 1
    if row is None:
        _store_level(s, number, end, _NO_VALUES)
        return
    there, value = _value(emitter, term, row)
    with f.when(there):
        _store_level(s, number, end, _add_to_level(f, _load_level(s, number, end), value))


# ---- intervals of a term, without slack ------------------------------------------------------------------------


def interval_of_rest(
    s: Scope, emitter: EventConditions, checks: Checks, rest: tuple[Value, ...], term: TermShape, number: int
) -> ValueInterval:
    """The interval with the events taken up to a depth and some of the j-th candidate on, of which there are `left`,
    with at least one of them if `more`. rest: j, left, more, the depth."""
    f, (j, left, more, depth) = s.f, rest
    lowest, highest, some = _load_level(s, number, j, LOWEST, HIGHEST, SOME)
    valued = more & some.equals(left.to(F64))  # one more event with a value is taken
    if term.function in (FIRST, LAST):
        return _edge(s, term, emitter, more, valued, (lowest, highest, some))
    state = checks.state_at(s, term.aggregate, f.greatest(depth, 0))
    count = f.select(depth >= 0, state.count, 0)
    counted = count > 0
    least, greatest = _load_level(s, number, j, LEAST, GREATEST)
    if term.function == oc.COUNT:
        taken = count.to(F64)
        return ValueInterval(f.value(True), f.value(True), taken + valued.to(F64), taken + greatest)
    never = counted | valued
    now = f.select(counted, _so_far(term, state.whole, state.real, state.more), 0.0)
    if term.function == oc.SUM:
        adds = (some > 0.0) & (~counted | valued)  # at least one value is added
        least = f.select(adds & least.equals(0.0), lowest, least)
        greatest = f.select(adds & greatest.equals(0.0), highest, greatest)
        return ValueInterval(counted | (some > 0.0), never, now + least, now + greatest)
    low, high = _extremes(f, term, now, f.select(counted, count, 1).to(F64), valued, lowest, highest)
    low, high = f.select(counted, low, lowest), f.select(counted, high, highest)
    return term.interval(counted | (some > 0.0), never, low, high)


def _so_far(term: TermShape, whole: Value | None, real: Value | None, more: Value | None) -> Value:
    """The sum or the extreme of the events taken."""
    if term.is_float:
        assert real is not None
        return real
    assert whole is not None
    now = whole.to(F64)
    if term.function in (oc.SUM, oc.AVG_WHOLE):
        assert more is not None
        now = now + more * 2.0**64
    return now


def _extremes(
    f: Function, term: TermShape, now: Value, count: Value, valued: Value, lowest: Value, highest: Value
) -> tuple[Value, Value]:
    """The extremes of MIN, MAX and AVG with events taken."""
    if term.function == oc.MIN:
        return f.least(now, lowest), f.select(valued, f.least(now, highest), now)
    if term.function == oc.MAX:
        return f.select(valued, f.greatest(now, lowest), now), f.greatest(now, highest)
    mean = now.divide(count)
    low, high = f.least(mean, lowest), f.greatest(mean, highest)
    high = f.select(valued & (highest < mean), (now + highest).divide(count + 1.0), high)
    low = f.select(valued & (lowest > mean), (now + lowest).divide(count + 1.0), low)
    return low, high


def _edge(
    s: Scope, term: TermShape, emitter: EventConditions, more: Value, valued: Value, of_rest: tuple[Value, Value, Value]
) -> ValueInterval:
    """A value of the first or the last event, which may be taken already."""
    f = s.f
    lowest, highest, some = of_rest
    is_first = term.function == FIRST
    known = s.taken[term.variable] > 0
    known = known if is_first else known & ~more
    depths = s.first_depth if is_first else s.last_depth
    row = s.path[f.select(known, depths[term.variable], 0)]
    there, value = _value(emitter, term, row)
    if is_first:
        lowest, highest = f.select(known, INFINITE, lowest), f.select(known, -INFINITE, highest)
        some = f.select(known, 0.0, some)
    found = known & there
    return ValueInterval(
        found | (some > 0.0),
        f.select(known, there, valued),
        f.select(found, f.least(lowest, value), lowest),
        f.select(found, f.greatest(highest, value), highest),
    )


def interval_with(
    s: Scope, emitter: EventConditions, row: Value, left: Value, term: TermShape, number: int
) -> ValueInterval:
    """The interval of all choices that have the event `row`, of `left` candidates."""
    f = s.f
    lowest, highest, least, greatest, some = _load_level(s, number, 0)
    there, value = _value(emitter, term, row)
    if term.function == oc.COUNT:
        return ValueInterval(f.value(True), f.value(True), value, greatest)
    never = some.equals(left.to(F64))
    never = never | there if term.function < FIRST else never
    may_be = some > 0.0
    if term.function == oc.SUM:
        return ValueInterval(may_be, never, least + f.greatest(value, 0.0), greatest + f.least(value, 0.0))
    if term.function == oc.MIN:
        highest = f.select(there, value, highest)
    elif term.function == oc.MAX:
        lowest = f.select(there, value, lowest)
    return term.interval(may_be, never, lowest, highest)


def interval_after(
    s: Scope, emitter: EventConditions, row: Value, j: Value, back: int, term: TermShape, number: int
) -> ValueInterval:
    """The interval if `row` is b[i], and at least `back` events come before it, of the j candidates before it."""
    f = s.f
    there, value = _value(emitter, term, row)
    if term.function == OWN:
        return ValueInterval(there, there, value, value)
    lowest, highest, least, greatest, some = _load_level(s, number, s.settings[LEVELS] - 1)
    valued = some.equals(j.to(F64)) if back > 0 else f.value(False)
    if term.function == BEFORE:
        return ValueInterval(some > 0.0, valued, lowest, highest)
    own = there if term.reach == WITH_CURRENT else f.value(False)
    if term.function == oc.COUNT:
        least_ = own.to(F64) + valued.to(F64)
        return ValueInterval(f.value(True), f.value(True), least_, own.to(F64) + greatest)
    may_be, never = own | (some > 0.0), own | valued
    if term.function == oc.SUM:
        low = f.select(own, value + least, f.select(least.equals(0.0), lowest, least))
        high = f.select(own, value + greatest, f.select(greatest.equals(0.0), highest, greatest))
        return ValueInterval(may_be, never, low, high)
    low, high = f.least(value, lowest), f.greatest(value, highest)
    if term.function == oc.MIN:
        high = value
    elif term.function == oc.MAX:
        low = value
    return term.interval(may_be, never, f.select(own, low, lowest), f.select(own, high, highest))
