"""Emits bounds: can a condition on a closure still hold, must it, whatever is chosen of the remaining events?

The least and the greatest possible value of each term (an aggregate over the closure, a value of its first or last
event) are known: from the events taken, and from sums and extremes of the remaining events, which `prepare` adds up
from the last event to the first, once for each intermediate match. Sums that may be rounded have some slack, so that no
match is lost; exact sums (small whole numbers, short binary fractions) have none, so that a sum that just fails to be
great enough is seen to fail.

Consequences: a branch of the choices in which a condition cannot hold is cut (`feasible`); a condition that must hold
is not tested any more (`is_decided`: these events are SAFE, after SASE++, section 5.2); events that no choice may have
are left out before (`begin`); and conditions on b[i] are decided for each event once, whatever comes before it
(`is_safe`).

Intermediate match i may take the rows members[low[i, v]:tops[v]] for variable v.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from episode.matchers.events.code.bound_terms import (
    FRACTION,
    MOST_FRACTIONS,
    RELATIVE,
    SHORT,
    SIZE,
    SLACK,
    WHOLE,
    TermShape,
    ValueInterval,
    fill_levels,
    interval_after,
    interval_of_rest,
    interval_with,
    note_preceding,
)
from episode.matchers.events.code.checks import Checks
from episode.matchers.events.code.conditions import EventConditions, FindRow, only_label
from episode.native.builder import ArrayTypes, Function, Scope, subroutine
from episode.native.ir import BOOL, F64, I32, I64, Operand, Value
from episode.plan.expressions import Expression, Navigated

IMPOSSIBLE, OPEN, CERTAIN = 0, 1, 2
NOT_SETTLED = 1 << 40
NO_DOOM = 1 << 30
MOST_MARKS = 60
"""Bounds on each event that have a bit."""
LARGEST = 2.0**62
"""Whole numbers up to here do not overflow."""

TYPES: ArrayTypes = {
    # of intermediate matches, and of the one at work: where its candidates end, and the depth of the first of each
    "low": (I64, False), "tops": (I64, True), "members": (I32, True), "first_depth": (I64, True),
    # factors of parts; what is fixed (value, is it known?); level[term, candidate, 5] and facts[term, 3] of terms
    "factors": (F64, False), "fixed": (F64, True), "level": (F64, True), "facts": (F64, True),
    # by bound: does it decide nothing? a depth: of choices with another event after it, the bound holds. By member: the
    # bounds on each event that hold for it, as bits; it is not taken after so many
    "rests": (I64, True), "settled": (I64, True), "safe": (I64, True), "doom": (I64, True),
}  # fmt: skip


@dataclass(frozen=True)
class SideShape:
    """A sum of parts: numbers of terms, or -1 - p for values of single events, each times factors[first_factor + …].

    computed: may it be rounded? limit: greater numbers may be null.
    """

    parts: tuple[int, ...]
    first_factor: int
    computed: bool
    limit: float


@dataclass(frozen=True)
class BoundShape:
    """One of the branches must hold: (has it no further conditions?, comparisons that all must hold).

    needs: variables of single events without which nothing is demanded. each: it is about each event, but the first
    `back` of a choice."""

    variable: int
    each: bool
    back: int
    needs: tuple[int, ...]
    branches: tuple[tuple[bool, tuple[tuple[str, SideShape, SideShape], ...]], ...]

    @property
    def sides(self) -> list[SideShape]:
        return [side for _, comparisons in self.branches for _, one, other in comparisons for side in (one, other)]

    @property
    def terms(self) -> list[int]:
        return list(dict.fromkeys(part for side in self.sides for part in side.parts if part >= 0))


@dataclass(frozen=True)
class BoundsShape:
    """The bounds of a construction as they are compiled in.

    fixed: values of single events. by_check: for each check, the bounds on whole closures that imply it, and those on
    each event as bits; neither: it is not known. places: by alternative, its variables in order, and whether a match
    needs an event of it. variables: their number.
    """

    terms: tuple[TermShape, ...]
    bounds: tuple[BoundShape, ...]
    fixed: tuple[Expression, ...]
    by_check: tuple[tuple[tuple[int, ...], int], ...]
    places: tuple[tuple[tuple[int, bool], ...], ...]
    variables: int


def bound_room(shape: BoundsShape, longest: int, members: int) -> dict[str, np.ndarray]:
    """Arrays for the bounds of an intermediate match. longest: the most candidates of one closure."""
    count = len(shape.bounds)
    marked = members if any(bound.each for bound in shape.bounds) else 0
    return {
        "fixed": np.zeros(2 * len(shape.fixed)), "level": np.zeros(len(shape.terms) * (longest + 2) * 5),
        "facts": np.zeros(3 * len(shape.terms)), "rests": np.zeros(count, np.int64),
        "settled": np.zeros(count, np.int64), "safe": np.zeros(marked, np.int64),
        "doom": np.full(marked, NO_DOOM, np.int64),
    }  # fmt: skip


Interval = Callable[[TermShape, int], ValueInterval]
"""The interval of a term (and its number) for some choices: see `bound_terms`."""


def _find_nothing(_: Navigated) -> tuple[Value, Value | None]:
    raise NotImplementedError  # terms read candidates alone


class BoundCode:
    """Emits the bounds of a construction in a program; checks: those of its automaton."""

    def __init__(self, shape: BoundsShape, checks: Checks) -> None:
        self.shape, self.checks = shape, checks

    @property
    def is_marked(self) -> bool:
        """Are there bounds on each event?"""
        return any(bound.each for bound in self.shape.bounds)

    def about(self, variable: int) -> list[int]:
        """The bounds about a closure as a whole."""
        return [at for at, one in enumerate(self.shape.bounds) if one.variable == variable and not one.each]

    # ---- an intermediate match begins ------------------------------------------------------------------------------

    @subroutine(BOOL)
    def begin(self, alternative: int, s: Scope, match: Value) -> Operand:
        """Prepare the bounds of an intermediate match. False: an alternative has no match in it."""
        f, places = s.f, self.shape.places[alternative]
        self._fix(s, match)
        for again in range(2):
            self._prepare(s, match)
            left_out = f.variable("left_out", 0)
            for variable, needed in places:
                if self.about(variable):
                    size = s.tops[variable] - s.low[self._place(match, variable)]
                    f.give_if(~self.feasible(variable, s, 0, size, needed, -1), False)
            for variable, needed in places:
                if again == 0 and self.about(variable):
                    left_out.set(left_out + self._possible(variable, s, match))
                    if needed:
                        f.give_if(s.tops[variable].equals(s.low[self._place(match, variable)]), False)
            if again == 0:
                done = f.block("done")
                f.jump_if(left_out.equals(0), done)
        f.jump(done)
        f.at(done)
        if self.is_marked:
            self._mark(s, match)
        return True

    def _place(self, match: Value, variable: int) -> Value:
        return match * self.shape.variables + variable

    def _fix(self, s: Scope, match: Value) -> None:
        """Compute the values of the single events of an intermediate match."""
        f, bit = s.f, self.checks.bit

        def find(event: Navigated) -> tuple[Value, Value | None]:
            variable = bit[only_label(event)]
            place = s.low[self._place(match, variable)]
            there = place < s.tops[variable]
            row = f.variable("row", 0)
            with f.when(there):
                row.set(s.members[place].to(I64))
            return row.value, there

        if not self.shape.fixed:
            return
        conditions = self._values(s, find)
        conditions.begin(f.value(0))
        for number, expression in enumerate(self.shape.fixed):
            value, null = conditions.emit(expression)
            s.fixed[2 * number] = value.to(F64)
            s.fixed[2 * number + 1] = f.value(1.0) if null is None else (~null).to(F64)

    @subroutine()
    def _prepare(self, s: Scope, match: Value) -> None:
        """Compute sums and extremes of the candidates, and the bounds that do not apply."""
        f = s.f
        finite = f.variable("finite", True)
        for number, term in enumerate(self.shape.terms):
            first, stop = s.low[self._place(match, term.variable)], s.tops[term.variable]
            finite.set(finite & fill_levels(self._values, term, number, s, first, stop))
        for number, bound in enumerate(self.shape.bounds):
            rests = ~finite.value
            for variable in bound.needs:
                rests = rests | s.low[self._place(match, variable)].equals(s.tops[variable])
            for part in {part for side in bound.sides for part in side.parts if part < 0}:
                value, known = s.fixed[2 * (-1 - part)], s.fixed[2 * (-1 - part) + 1]
                endless = value.differs(value) | f.unary("abs", value).equals(float("inf"))
                rests = rests | (known.differs(0.0) & endless)
            s.rests[number], s.settled[number] = rests.to(I64), NOT_SETTLED

    def _values(self, s: Scope, find: FindRow = _find_nothing) -> EventConditions:
        """An emitter of values of rows."""
        return EventConditions(s, self.checks.shape.columns, self.checks.constants, find)

    def reopen(self, s: Scope, variable: Value, depth: Value) -> None:
        """Forget what was settled at this depth or deeper about a closure, whose events are tried anew."""
        f = s.f
        for closure, numbers in self._closures():
            with f.when(variable.equals(closure)):
                for number in numbers:
                    with f.when(s.settled[number] >= depth):
                        s.settled[number] = NOT_SETTLED

    def _closures(self) -> list[tuple[int, list[int]]]:
        closures = [(variable, self.about(variable)) for variable in range(self.shape.variables)]
        return [(variable, numbers) for variable, numbers in closures if numbers]

    def may_hold(self, s: Scope, variable: Value, j: Value, left: Value, depth: Value) -> Value:
        """`feasible` for a closure that is known at run time, with at least one more event."""
        f = s.f
        may = f.variable("may", True)
        for closure, _ in self._closures():
            with f.when(variable.equals(closure)):
                may.set(self.feasible(closure, s, j, left, True, depth))
        return may.value

    @subroutine(BOOL)
    def feasible(self, variable: int, s: Scope, j: Value, left: Value, more: Value, depth: Value) -> Operand:
        """Can all bounds on a closure hold with the events taken up to `depth` and some of the j-th candidate on?

        left: the number of these; more: at least one of them is taken. Notes the bounds that must hold.
        """
        f = s.f
        for number in self.about(variable):
            with f.when(s.rests[number].equals(0) & (s.settled[number] >= depth)):
                interval = partial(interval_of_rest, s, self._values(s), self.checks, (j, left, more, depth))
                verdict = self._judge(s, number, interval)
                f.give_if(verdict.equals(IMPOSSIBLE), False)
                with f.when(verdict.equals(CERTAIN) & more):
                    s.settled[number] = depth
        return True

    def is_decided(self, s: Scope, check: int) -> Value | None:
        """Is a check known to hold? None: it never is."""
        numbers, _ = self.shape.by_check[check]
        known: Value | None = None
        for number in numbers:
            one = s.last_depth[self.shape.bounds[number].variable] > s.settled[number]
            known = one if known is None else known & one
        return known

    def is_safe(self, s: Scope, check: int, member: Value) -> Value | None:
        """Is a check of each event known to hold for a candidate? None: it never is."""
        _, mask = self.shape.by_check[check]
        return (s.safe[member] & mask).equals(mask) if mask else None

    @subroutine()
    def _possible(self, variable: int, s: Scope, match: Value) -> Value:
        """Drop candidates of a closure that no choice may have, whatever else it has; return their number."""
        f = s.f
        first = s.low[self._place(match, variable)]
        size = s.tops[variable] - first
        kept, open_ = f.variable("kept", 0), f.value(False)
        opens = [s.rests[one].equals(0) & s.settled[one].equals(NOT_SETTLED) for one in self.about(variable)]
        for one in opens:
            open_ = open_ | one
        f.give_if(~open_, 0)
        with f.loop(0, size) as j:
            row = s.members[first + j].to(I64)
            fits = f.variable("fits", True)
            for number, one in zip(self.about(variable), opens):
                with f.when(fits & one):
                    interval = partial(interval_with, s, self._values(s), row, size)
                    fits.set(self._judge(s, number, interval).differs(IMPOSSIBLE))
            with f.when(fits):
                s.members[first + kept] = row.to(I32)
                kept.set(kept + 1)
        s.tops[variable] = first + kept
        return size - kept

    @subroutine()
    def _mark(self, s: Scope, match: Value) -> None:
        """Decide bounds on each event of closures, whatever is chosen of the candidates before it."""
        f = s.f
        each = [(number, bound) for number, bound in enumerate(self.shape.bounds) if bound.each]
        for variable in dict.fromkeys(bound.variable for _, bound in each):
            with f.loop(s.low[self._place(match, variable)], s.tops[variable]) as member:
                s.safe[member], s.doom[member] = 0, NO_DOOM
        for number, _ in each:
            with f.when(s.rests[number].equals(0)):
                self._mark_one(number, s, match)

    @subroutine()
    def _mark_one(self, number: int, s: Scope, match: Value) -> None:
        f, bound, terms = s.f, self.shape.bounds[number], self.shape.terms
        emitter = self._values(s)
        first = s.low[self._place(match, bound.variable)]
        for term in bound.terms:
            note_preceding(s, emitter, terms[term], term, None)
        with f.loop(first, s.tops[bound.variable]) as member:
            row = s.members[member].to(I64)
            verdict = self._judge(s, number, partial(interval_after, s, emitter, row, member - first, bound.back))
            if number < MOST_MARKS:
                bit = f.select(verdict.equals(CERTAIN), 1 << number, 0)
                s.safe[member] = s.safe[member] | bit
            doom = s.doom[member]
            s.doom[member] = f.select(verdict.equals(IMPOSSIBLE), f.least(doom, bound.back), doom)
            for term in bound.terms:
                note_preceding(s, emitter, terms[term], term, row)

    # ---- verdicts --------------------------------------------------------------------------------------------------

    def _judge(self, s: Scope, number: int, interval: Interval) -> Value:
        """IMPOSSIBLE: a bound does not hold for any choice; CERTAIN: it holds for all; else OPEN."""
        f = s.f
        found = f.value(IMPOSSIBLE)
        for whole, comparisons in self.shape.bounds[number].branches:
            verdict = f.value(CERTAIN if whole else OPEN)
            for operation, one, other in comparisons:
                left, right = self._side(s, one, interval), self._side(s, other, interval)
                holds = _compare(f, operation, left, right)
                weaker = verdict.equals(CERTAIN) & (holds.equals(OPEN) | ~(left.never_null & right.never_null))
                fails = ~(left.may_be & right.may_be) | holds.equals(IMPOSSIBLE)
                verdict = f.select(fails, IMPOSSIBLE, f.select(weaker, OPEN, verdict))
            found = f.greatest(found, verdict)
        return found

    def _side(self, s: Scope, side: SideShape, interval: Interval) -> ValueInterval:
        """The least and the greatest value of the sum of parts."""
        f = s.f
        may_be, never_null, short = f.value(True), f.value(True), f.value(True)
        least, greatest, size = f.value(0.0), f.value(0.0), f.value(0.0)
        for at, part in enumerate(side.parts):
            factor = s.factors[side.first_factor + at]
            one, slack, largest, is_short = (
                self._fixed_part(s, -1 - part) if part < 0 else self._term_part(s, part, factor, interval)
            )
            low, high = (one.least - slack) * factor, (one.greatest + slack) * factor
            least, greatest = least + f.least(low, high), greatest + f.greatest(low, high)
            size = size + largest * f.unary("abs", factor)
            short = short & is_short & factor.equals(f.unary("floor", factor))
            may_be, never_null = may_be & one.may_be, never_null & one.never_null
        if side.computed:
            rounding = f.select(short & (size < MOST_FRACTIONS), 0.0, size * RELATIVE)
            least, greatest = least - rounding, greatest + rounding
        return ValueInterval(may_be, never_null & (size < min(LARGEST, side.limit)), least, greatest)

    def _fixed_part(self, s: Scope, number: int) -> tuple[ValueInterval, Value, Value, Value]:
        """(values, slack, no value is greater, are sums exact?)"""
        f = s.f
        value, known = s.fixed[2 * number], s.fixed[2 * number + 1].differs(0.0)
        largest = f.unary("abs", value)
        slack = f.select(largest >= WHOLE, largest * RELATIVE, 0.0)
        fractions = value * FRACTION
        return ValueInterval(known, known, value, value), slack, largest, fractions.equals(f.unary("floor", fractions))

    def _term_part(
        self, s: Scope, number: int, factor: Value, interval: Interval
    ) -> tuple[ValueInterval, Value, Value, Value]:  # fmt: skip
        f, term = s.f, self.shape.terms[number]
        slack, largest, short = (s.facts[3 * number + place] for place in (SLACK, SIZE, SHORT))
        if not term.is_float:
            is_large = largest * f.unary("abs", factor) >= WHOLE
            slack = f.select(is_large, f.greatest(slack, largest * RELATIVE), slack)
        return interval(term, number), slack, largest, short.differs(0.0)


def _compare(f: Function, operation: str, one: ValueInterval, other: ValueInterval) -> Value:
    """CERTAIN, OPEN or IMPOSSIBLE: does a comparison hold, whatever the values in two intervals?"""
    if operation in ("gt", "ge"):
        one, other = other, one
    if operation in ("lt", "gt"):
        certain, possible = one.greatest < other.least, one.least < other.greatest
    elif operation in ("le", "ge"):
        certain, possible = one.greatest <= other.least, one.least <= other.greatest
    else:
        apart = (one.greatest < other.least) | (other.greatest < one.least)
        is_one = one.least.equals(one.greatest) & other.least.equals(other.greatest)
        same = is_one & one.least.equals(other.least)
        certain, possible = (same, ~apart) if operation == "eq" else (apart, ~same)
    return f.select(certain, CERTAIN, f.select(possible, OPEN, IMPOSSIBLE))
