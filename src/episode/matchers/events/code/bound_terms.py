"""Emits the interval of a term of a bound: an aggregate over a closure, or a value of one of its events.

level[term, j], in places LOWEST … SOME: of the values from the j-th candidate on: extremes; the sums of the negative
and of the positive ones (of COUNT: 0 and their number); their number. The last level is of the events before one, while
bounds on each event are decided. facts[term], in places SLACK … SHORT: the effect of rounding; no value is greater; are
sums of its values exact?
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from episode.matchers import codes as oc
from episode.matchers.events.code.arrays import LEVELS
from episode.matchers.events.code.checks import Checks
from episode.matchers.events.code.conditions import EventConditions
from episode.native.builder import Function, Scope
from episode.native.ir import BOOL, F64, I64, Operand, Value

LOWEST, HIGHEST, LEAST, GREATEST, SOME = range(5)
SLACK, SIZE, SHORT = range(3)
FIRST, LAST, BEFORE, OWN = 100, 101, 102, 103
"""Functions in addition to those of `opcodes`: values of the first or last event, of the one before b[i], of b[i]
itself."""
ONLY_BEFORE, WITH_CURRENT = "before", "current"
RELATIVE = 1e-9
WHOLE = 2.0**53
"""Whole numbers up to here are exact in floating point."""
FRACTION, MOST_FRACTIONS = 1024.0, 2.0**43
INFINITE = float("inf")
_ADDED_UP = (oc.SUM, oc.AVG, oc.AVG_WHOLE)


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

    @property
    def rounding(self) -> float:
        return 1.0 if self.function == oc.AVG_WHOLE else 0.0


@dataclass(frozen=True)
class ValueInterval:
    """may_be: can it be anything but null? never_null: is it never null? Its least and greatest value."""

    may_be: Value
    never_null: Value
    least: Value
    greatest: Value


@dataclass(frozen=True)
class BoundMoment:
    """The choices for which a bound is judged.

    `walking`: the events taken up to `depth` and some of the j-th candidate on, of which there are `left`, with at
    least one of them if `more`. `containing`: all choices that have the event `row`, of `left` candidates. `preceding`:
    `row` is b[i], at least `back` events come before it, of the j candidates before it.
    """

    kind: str
    checks: Checks
    row: Value | None = None
    j: Value | None = None
    left: Value | None = None
    more: Value | None = None
    depth: Value | None = None
    back: int = 0
    emitter: EventConditions | None = None


def term_interval(s: Scope, terms: tuple[TermShape, ...], number: int, moment: BoundMoment) -> ValueInterval:
    """The interval of a term, without slack."""
    emit = {"walking": _walking, "containing": _containing, "preceding": _preceding}[moment.kind]
    return emit(s, terms[number], number, moment)


def _level(s: Scope, number: int, j: Operand, place: int) -> Value:
    return s.level[_level_at(s, number, j, place)]


def _level_at(s: Scope, number: int, j: Operand, place: int) -> Value:
    return ((s.settings[LEVELS] * number) + j) * 5 + place


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


def fill_levels(
    s: Scope, emitter: EventConditions, terms: tuple[TermShape, ...], number: int, first: Value, stop: Value
) -> Value:
    """Sums and extremes of a term's values from each candidate on; False if a value is not finite."""
    return s.call(f"fill_levels_{number}", partial(_fill_levels, emitter, terms, number), first, stop, result=BOOL)


def _fill_levels(
    outer: EventConditions, terms: tuple[TermShape, ...], number: int, s: Scope, first: Value, stop: Value
) -> None:
    f, term = s.f, terms[number]
    emitter = outer.in_function(s)
    adds_up = term.function in _ADDED_UP
    size = stop - first
    start = (INFINITE, -INFINITE, 0.0, 0.0, 0.0)
    numbers = [f.variable(f"level{place}", number_) for place, number_ in enumerate(start)]
    lowest, highest, least, greatest, some = numbers
    total, exact = f.variable("total", 0.0), f.variable("exact", True)
    _store_level(s, number, size, numbers)
    j = f.variable("j", size - 1)
    with f.during(lambda: j >= 0):
        there, value = _value(emitter, term, s.members[first + j].to(I64))
        with f.when(there):
            if term.is_float:
                f.give_if(value.differs(value) | f.unary("abs", value).equals(INFINITE), False)
                fractions = value * FRACTION
                exact.set(exact & fractions.equals(f.unary("floor", fractions)))
            some.set(some + 1.0)
            magnitude = f.unary("abs", value)
            total.set(total + magnitude if adds_up else f.greatest(total, magnitude))
            lowest.set(f.least(lowest, value))
            highest.set(f.greatest(highest, value))
            least.set(least + f.least(value, 0.0))
            greatest.set(greatest + f.greatest(value, 0.0))
        _store_level(s, number, j.value, numbers)
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
    f.give(True)


def _store_level(s: Scope, number: int, j: Operand, values: list) -> None:
    for place, value in enumerate(values):
        s.level[_level_at(s, number, j, place)] = value


def note_preceding(
    s: Scope, emitter: EventConditions, terms: tuple[TermShape, ...], number: int, row: Value | None
) -> None:
    """Add the event `row` to those that precede later ones; None: nothing precedes the first one."""
    f, end = s.f, s.settings[LEVELS] - 1
    if row is None:
        _store_level(s, number, end, [f.value(one) for one in (INFINITE, -INFINITE, 0.0, 0.0, 0.0)])
        return
    there, value = _value(emitter, terms[number], row)
    with f.when(there):
        lowest, highest, least, greatest, some = (_level(s, number, end, place) for place in range(5))
        after = [
            f.least(lowest, value), f.greatest(highest, value), least + f.least(value, 0.0),
            greatest + f.greatest(value, 0.0), some + 1.0,
        ]  # fmt: skip
        _store_level(s, number, end, after)


# ---- intervals -------------------------------------------------------------------------------------------------


def _walking(s: Scope, term: TermShape, number: int, moment: BoundMoment) -> ValueInterval:
    f = s.f
    j, left, more, depth = moment.j, moment.left, moment.more, moment.depth
    assert j is not None
    assert left is not None
    assert more is not None
    assert depth is not None
    lowest, highest, some = (_level(s, number, j, place) for place in (LOWEST, HIGHEST, SOME))
    valued = more & some.equals(left.to(F64))  # one more event with a value is taken
    if term.function in (FIRST, LAST):
        return _edge(s, term, moment, more, valued, (lowest, highest, some))
    checks = moment.checks
    state = checks.state_at(s, term.aggregate, f.greatest(depth, 0))
    count = f.select(depth >= 0, state.count, 0)
    counted = count > 0
    least, greatest = _level(s, number, j, LEAST), _level(s, number, j, GREATEST)
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
    low, high = low * term.scale - term.rounding, high * term.scale + term.rounding
    return ValueInterval(counted | (some > 0.0), never, low, high)


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
    s: Scope, term: TermShape, moment: BoundMoment, more: Value, valued: Value, of_rest: tuple[Value, Value, Value]
) -> ValueInterval:
    """A value of the first or the last event, which may be taken already."""
    f = s.f
    assert moment.emitter is not None
    lowest, highest, some = of_rest
    is_first = term.function == FIRST
    known = s.taken[term.variable] > 0
    known = known if is_first else known & ~more
    depths = s.first_depth if is_first else s.last_depth
    row = s.path[f.select(known, depths[term.variable], 0)]
    there, value = _value(moment.emitter, term, row)
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


def _containing(s: Scope, term: TermShape, number: int, moment: BoundMoment) -> ValueInterval:
    f = s.f
    assert moment.emitter is not None
    assert moment.row is not None
    assert moment.left is not None
    lowest, highest, least, greatest, some = (_level(s, number, 0, place) for place in range(5))
    there, value = _value(moment.emitter, term, moment.row)
    if term.function == oc.COUNT:
        return ValueInterval(f.value(True), f.value(True), value, greatest)
    never = some.equals(moment.left.to(F64))
    never = never | there if term.function < FIRST else never
    may_be = some > 0.0
    if term.function == oc.SUM:
        return ValueInterval(may_be, never, least + f.greatest(value, 0.0), greatest + f.least(value, 0.0))
    if term.function == oc.MIN:
        highest = f.select(there, value, highest)
    elif term.function == oc.MAX:
        lowest = f.select(there, value, lowest)
    return ValueInterval(may_be, never, lowest * term.scale - term.rounding, highest * term.scale + term.rounding)


def _preceding(s: Scope, term: TermShape, number: int, moment: BoundMoment) -> ValueInterval:
    f = s.f
    assert moment.emitter is not None
    assert moment.row is not None
    assert moment.j is not None
    there, value = _value(moment.emitter, term, moment.row)
    if term.function == OWN:
        return ValueInterval(there, there, value, value)
    end = s.settings[LEVELS] - 1
    lowest, highest, least, greatest, some = (_level(s, number, end, place) for place in range(5))
    valued = some.equals(moment.j.to(F64)) if moment.back > 0 else f.value(False)
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
    low, high = f.select(own, low, lowest), f.select(own, high, highest)
    return ValueInterval(may_be, never, low * term.scale - term.rounding, high * term.scale + term.rounding)
