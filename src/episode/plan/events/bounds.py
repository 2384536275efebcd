"""Conditions on closures that bounds can decide, before or while the events of a closure are being chosen.

`sum(b[].x) > c.y` can no longer hold when the sum so far and all that is left to choose from come to no more than c.y;
and it holds for every choice that begins like this one when the sum so far is greater and nothing below zero is left.
So a comparison is of sums (with + and -, and constant factors). A summand is a value of the closure, whose least and
greatest value are known from the events to choose from, or a value of single events, which an intermediate match has
fixed. Of an OR one branch must hold.

Conditions on b[i] are decided for each event by itself, whatever is chosen of the events before it.
See decisions 68 and 69.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union

from episode.plan.events.automaton import AutomatonPlan, Check
from episode.plan.events.conditions import event_variables
from episode.plan.expressions import (
    COMPARISONS,
    NEGATED,
    Apply,
    Constant,
    Current,
    Expression,
    Load,
    Navigated,
    Running,
    conjuncts,
    is_operation,
    walk,
)
from episode.plan.types import INTEGER_LIMITS, decimal_of, is_float, is_integer, is_wide, lane_of

FUNCTIONS = frozenset({"sum", "count", "min", "max", "avg"})
DUAL = {"and": "or", "or": "and"}
MOST_BRANCHES = 16
NO_LIMIT = float("inf")


@dataclass(frozen=True)
class ClosureValue:
    """A value that depends on the chosen events: an aggregate, a value of the first or last event, or of the one before
    b[i]; or a value of b[i] itself, if it is a load at the current row."""

    variable: str
    of: Running | Load


@dataclass(frozen=True)
class EventValue:
    """A value of single events, as a floating point number."""

    expression: Expression


@dataclass(frozen=True)
class Summand:
    """A value times `factor`, which also brings decimals to one scale."""

    of: Union[ClosureValue, EventValue]
    factor: float = 1.0


@dataclass(frozen=True)
class Sum:
    """A sum. computed: by arithmetic, which may round. limit: greater numbers may be null (overflow)."""

    parts: tuple[Summand, ...]
    computed: bool
    limit: float

    @property
    def terms(self) -> list[ClosureValue]:
        return [part.of for part in self.parts if isinstance(part.of, ClosureValue)]


@dataclass(frozen=True)
class SumComparison:
    operation: str
    left: Sum
    right: Sum

    @property
    def terms(self) -> list[ClosureValue]:
        return [*self.left.terms, *self.right.terms]


@dataclass(frozen=True)
class BoundBranch:
    """Comparisons that all must hold. whole: the branch has no further conditions."""

    comparisons: tuple[SumComparison, ...]
    whole: bool


@dataclass(frozen=True)
class ClosureBound:
    """One of the branches must hold for the events chosen for the closure `variable`, if the match has events of
    `needs`. (A match has the events of one alternative; conditions on the others do not apply.)

    each: for each event, but the first `back` ones of a choice. condition: the condition that it is part of."""

    variable: str
    branches: tuple[BoundBranch, ...]
    needs: frozenset[str]
    condition: Expression
    each: bool = False
    back: int = 0

    @property
    def comparisons(self) -> list[SumComparison]:
        return [comparison for branch in self.branches for comparison in branch.comparisons]

    @property
    def parts(self) -> list[Summand]:
        return [part for one in self.comparisons for side in (one.left, one.right) for part in side.parts]


@dataclass(frozen=True)
class ClosureBounds:
    """Bounds of the conditions of an automaton. by_check: by number of the check, the bounds that hold exactly when it
    holds; else empty."""

    all: tuple[ClosureBound, ...] = ()
    by_check: tuple[tuple[int, ...], ...] = ()

    @property
    def fixed(self) -> list[EventValue]:
        """Values of single events in the bounds, each once."""
        parts = [part.of for bound in self.all for part in bound.parts]
        return list(dict.fromkeys(part for part in parts if isinstance(part, EventValue)))


def bounds_of(automaton: AutomatonPlan, closures: frozenset[str], singles: frozenset[str]) -> ClosureBounds:
    """Return the bounds that decide conditions of an automaton, all of which must hold."""
    numbers: dict[ClosureBound, int] = {}
    by_check: list[tuple[int, ...]] = []
    tested = {check for transition in automaton.transitions for check in transition.checks}  # not those of negations
    tested |= {check for checks in automaton.end_checks for check in checks}
    for number, check in enumerate(automaton.checks):
        found = _bounds_of_check(check, closures, singles) if number in tested else [None]
        mine = [numbers.setdefault(bound, len(numbers)) for bound in found if bound is not None]
        by_check.append(tuple(mine) if len(mine) == len(found) else ())
    return ClosureBounds(tuple(numbers), tuple(by_check))


def _bounds_of_check(check: Check, closures: frozenset[str], singles: frozenset[str]) -> list[ClosureBound | None]:
    """Return a bound for each part of a check that must hold, or None for parts without one."""
    reading = _Reading(closures, singles, check.loop)
    needs, each = event_variables(check.expression) & singles, check.loop is not None
    found: list[ClosureBound | None] = []
    for part in conjuncts(check.expression):
        branches = reading.branches(part, False) or []
        comparisons = [comparison for branch in branches for comparison in branch.comparisons]
        names = {term.variable for comparison in comparisons for term in comparison.terms}
        if len(names) == 1:
            found.append(ClosureBound(names.pop(), tuple(branches), needs, check.expression, each, check.back))
        else:
            found.append(None)
    return found


@dataclass(frozen=True)
class _Reading:
    """loop: the closure whose event b[i] a condition is on, if it is."""

    closures: frozenset[str]
    singles: frozenset[str]
    loop: str | None

    def branches(self, part: Expression, turned: bool) -> list[BoundBranch] | None:
        """The branches of a condition, or of its negation; None where nothing bounds one of them."""
        if is_operation(part, "not"):
            return self.branches(part.operands[0], not turned)
        if is_operation(part, *DUAL):
            several = [self.branches(operand, turned) for operand in part.operands]
            if (DUAL[part.operation] if turned else part.operation) == "or":
                if any(one is None for one in several):
                    return None
                found = [branch for one in several for branch in one or ()]
            else:
                known = [one for one in several if one is not None]
                if not known:
                    return None
                found = [BoundBranch((), len(known) == len(several))]
                for one in known:
                    found = [
                        BoundBranch((*first.comparisons, *second.comparisons), first.whole and second.whole)
                        for first in found
                        for second in one
                    ][: MOST_BRANCHES + 1]
            return found if len(found) <= MOST_BRANCHES else None
        comparison = self.comparison(part, turned)
        return None if comparison is None else [BoundBranch((comparison,), True)]

    def comparison(self, part: Expression, turned: bool) -> SumComparison | None:
        if not is_operation(part, *COMPARISONS):
            return None
        left, right = part.operands
        if is_operation(left, "order") and right == Constant(0, "int"):
            left, right = left.operands  # decimals in two words
        one, other = self.side(left), self.side(right)
        if one is None or other is None:
            return None
        return SumComparison(NEGATED[part.operation] if turned else part.operation, one, other)

    def side(self, expression: Expression) -> Sum | None:
        parts = self.parts(expression)
        if parts is None:
            return None
        computing = [node for node in walk(expression) if is_operation(node, *ARITHMETIC)]
        runnings = [node for node in walk(expression) if isinstance(node, Running)]
        computed = bool(computing) and any(isinstance(part.of, ClosureValue) for part in parts)
        types = [*(node.type for node in computing), *(node.type for node in runnings)]
        return Sum(tuple(parts), computed, min(map(_limit, types), default=NO_LIMIT))

    def parts(self, expression: Expression) -> list[Summand] | None:
        """Return the summands of an expression; None if it is not a sum of known values."""
        fixed = self.event_value(expression)
        if fixed is not None:
            return [Summand(fixed)]
        term = self.term(expression)
        if term is not None:
            return [Summand(term)]
        if not isinstance(expression, Apply):
            return None
        operation, operands = expression.operation, expression.operands
        if operation in ("to_float", "widen", "copy"):
            return self.parts(operands[0])
        if operation == "scale":
            digits = operands[1]
            if not isinstance(digits, Constant) or not isinstance(digits.value, int) or digits.value < 0:
                return None
            return _times(self.parts(operands[0]), 10.0**digits.value)
        if operation == "negate":
            return _times(self.parts(operands[0]), -1.0)
        if operation in ("add", "subtract"):
            left, right = self.parts(operands[0]), self.parts(operands[1])
            if left is None or right is None:
                return None
            return [*left, *(_times(right, 1.0 if operation == "add" else -1.0) or ())]
        if operation == "multiply" and (is_float(expression.type) or is_integer(expression.type)):
            for factor, other in (operands, operands[::-1]):
                number = _number(factor)
                if number is not None:
                    return _times(self.parts(other), number)
        return None

    def event_value(self, expression: Expression) -> EventValue | None:
        for node in walk(expression):
            if not isinstance(node, (Load, Constant, Apply)):
                return None
            if isinstance(node, Load) and not (
                isinstance(node.at, Navigated) and node.at.labels is not None and node.at.labels <= self.singles
            ):
                return None
        if is_wide(expression):
            return EventValue(Apply("wide_to_float", (expression,), "double"))
        lane = lane_of(expression.type)
        if lane == "float":
            return EventValue(expression)
        return EventValue(Apply("to_float", (expression,), "double")) if lane == "int" else None

    def term(self, expression: Expression) -> ClosureValue | None:
        if isinstance(expression, Running):
            reaches = ("all",) if self.loop is None else ("before", "current")
            labels = expression.labels or frozenset()
            if expression.function not in FUNCTIONS or expression.reach not in reaches:
                return None
            if not labels <= self.closures or len(labels) != 1:
                return None
            argument = expression.argument
            if argument is not None and expression.function != "count" and not _is_number(argument.type):
                return None
            return self._of(next(iter(labels)), expression)
        if not isinstance(expression, Load) or expression.missing is not None or not _is_number(expression.type):
            return None
        at = expression.at
        if at == Current(0):
            return None if self.loop is None else ClosureValue(self.loop, expression)
        if (
            isinstance(at, Navigated)
            and at.labels is not None
            and len(at.labels & self.closures) == 1
            and at.shift == 0
        ):
            before = self.loop is not None and not at.first and at.offset == 1
            if before or (self.loop is None and at.offset == 0):
                return self._of(next(iter(at.labels)), expression)
        return None

    def _of(self, variable: str, expression: Running | Load) -> ClosureValue | None:
        """Conditions on b[i] are about the closure of b[i] alone."""
        return ClosureValue(variable, expression) if self.loop in (None, variable) else None


ARITHMETIC = ("add", "subtract", "negate", "multiply")


def _is_number(type_: str) -> bool:
    return lane_of(type_) in ("int", "float")


def _times(parts: list[Summand] | None, factor: float) -> list[Summand] | None:
    return None if parts is None else [replace(part, factor=part.factor * factor) for part in parts]


def _number(expression: Expression) -> float | None:
    """The value of a constant, if it is one."""
    while is_operation(expression, "to_float", "copy"):
        expression = expression.operands[0]
    if not isinstance(expression, Constant) or not isinstance(expression.value, (int, float)):
        return None
    number = float(expression.value)
    return number if abs(number) < NO_LIMIT else None


def _limit(type_: str) -> float:
    """Numbers of this size or greater may be null."""
    if type_ in INTEGER_LIMITS:
        return float(INTEGER_LIMITS[type_])
    decimal = decimal_of(type_)
    return NO_LIMIT if decimal is None else 10.0 ** decimal[0]
