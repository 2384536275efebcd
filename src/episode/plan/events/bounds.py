"""Conditions over a whole closure that bounds can decide while its events are still being chosen.

`sum(b[].x) > c.y` can no longer hold when the sum so far and all that is left to choose from come to no more than c.y.
So of a comparison each side must be a term, something of the closure whose least and greatest value are known from the
events that are left, or depend on single events alone, which one intermediate match has fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Union

from episode.plan.events.conditions import event_variables
from episode.plan.expressions import (
    COMPARISONS,
    Apply,
    Constant,
    Expression,
    Load,
    Navigated,
    Running,
    conjuncts,
    walk,
)
from episode.plan.types import lane_of
from episode.plan.wide import is_wide

FUNCTIONS = frozenset({"sum", "count", "min", "max", "avg"})
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@dataclass(frozen=True)
class Term:
    """What a choice of events comes to: an aggregate over all of them, or a value of the first or last one; times
    `factor`, where decimals of different scales are compared."""

    variable: str
    of: Running | Load
    factor: float = 1.0


@dataclass(frozen=True)
class Fixed:
    """A value that single events give, as a floating point number."""

    expression: Expression


Side = Union[Term, Fixed]


@dataclass(frozen=True)
class Bound:
    """A comparison that must hold for the events chosen for the closure `variable`, where there are events of `needs`.
    (Of alternatives a match has the events of one; what is said of others rests.) condition: what it is part of."""

    variable: str
    comparison: str
    left: Side
    right: Side
    needs: frozenset[str]
    condition: Expression


def bounds_of(conditions: Iterable[Expression], closures: frozenset[str], singles: frozenset[str]) -> tuple[Bound, ...]:
    """The comparisons among conditions, all of which must hold, that bounds can decide."""
    found: dict[Bound, None] = {}
    for condition in conditions:
        for part in conjuncts(condition):
            bound = _bound(part, closures, singles, condition)
            if bound is not None:
                found[bound] = None
    return tuple(found)


def _bound(part: Expression, closures: frozenset[str], singles: frozenset[str], condition: Expression) -> Bound | None:
    turned = False
    while isinstance(part, Apply) and part.operation == "not":
        part, turned = part.operands[0], not turned
    if not isinstance(part, Apply) or part.operation not in COMPARISONS:
        return None
    comparison = OPPOSITE[part.operation] if turned else part.operation
    left, right = part.operands
    if isinstance(left, Apply) and left.operation == "order" and right == Constant(0, "int"):
        left, right = left.operands  # decimals in two words
    sides = _side(left, closures, singles), _side(right, closures, singles)
    variables = {side.variable for side in sides if isinstance(side, Term)}
    if None in sides or len(variables) != 1:
        return None
    needs = event_variables(condition) & singles
    return Bound(variables.pop(), comparison, *sides, needs, condition)  # type: ignore[arg-type]


def _side(expression: Expression, closures: frozenset[str], singles: frozenset[str]) -> Side | None:
    inner, factor = expression, 1.0
    while isinstance(inner, Apply) and inner.operation in ("to_float", "widen", "scale"):
        if inner.operation == "scale":
            digits = inner.operands[1]
            if not isinstance(digits, Constant) or not isinstance(digits.value, int):
                return None
            factor *= 10.0**digits.value
        inner = inner.operands[0]
    term = _term(inner, closures)
    if term is not None:
        return replace(term, factor=factor)
    for node in walk(expression):
        if not isinstance(node, (Load, Constant, Apply)):
            return None
        if isinstance(node, Load) and not (
            isinstance(node.at, Navigated) and node.at.labels is not None and node.at.labels <= singles
        ):
            return None
    if is_wide(expression):
        return Fixed(Apply("wide_to_float", (expression,), "double"))
    lane = lane_of(expression.type)
    if lane == "float":
        return Fixed(expression)
    return Fixed(Apply("to_float", (expression,), "double")) if lane == "int" else None


def _term(expression: Expression, closures: frozenset[str]) -> Term | None:
    if isinstance(expression, Running):
        if expression.function not in FUNCTIONS or expression.reach != "all" or expression.labels is None:
            return None
        if not expression.labels <= closures or len(expression.labels) != 1:
            return None
        argument = expression.argument
        if argument is not None and expression.function != "count" and lane_of(argument.type) not in ("int", "float"):
            return None
        return Term(next(iter(expression.labels)), expression)
    if isinstance(expression, Load) and isinstance(expression.at, Navigated):
        at = expression.at
        plain = at.offset == 0 and at.shift == 0 and expression.missing is None
        if plain and at.labels is not None and at.labels <= closures and lane_of(expression.type) in ("int", "float"):
            return Term(next(iter(at.labels)), expression)
    return None
