"""Trends: how the value of an expression changes when the events of a closure are replaced by some of them.

A value *grows* if it is never greater for a subset of the events S, and *falls* if it is never less; what does not
depend on S does both. `AGGREGATES` has the trends of aggregates, `THROUGH` what arithmetic makes of them. What is in no
table is mixed. An overflow of integers is null, so that arithmetic with integers is mixed; numbers of events are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from episode.plan.expressions import (
    FLIPPED,
    Apply,
    Constant,
    Current,
    Exists,
    Expression,
    Load,
    Navigated,
    Running,
    conjuncts,
    is_operation,
    walk,
)
from episode.plan.types import is_float

# ---- what every event satisfies ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnFacts:
    """Columns of an event that local conditions prove to be not null (known), >= 0 (least_zero) or <= 0 (most_zero)."""

    known: frozenset[str] = frozenset()
    least_zero: frozenset[str] = frozenset()
    most_zero: frozenset[str] = frozenset()


CASTS = ("copy", "to_float", "wide_to_float")
STRICT = ("add", "subtract", "multiply", "divide", "negate", "abs", *CASTS)
"""Null where an operand is."""


def facts_of(local: Iterable[Expression]) -> ColumnFacts:
    """Return the facts that conditions on single rows prove."""
    known: set[str] = set()
    least: set[str] = set()
    most: set[str] = set()
    for condition in (part for whole in local for part in conjuncts(whole)):
        if not isinstance(condition, Apply):
            continue
        inner = condition.operands[0]
        if condition.operation == "not" and is_operation(inner, "is_null"):
            known |= _columns_inside(inner.operands[0])
        if condition.operation not in FLIPPED:
            continue
        for operand in condition.operands:
            known |= _columns_inside(operand)
        left, right = (without_casts(operand) for operand in condition.operands)
        for one, other, operation in ((left, right, condition.operation), (right, left, FLIPPED[condition.operation])):
            if isinstance(one, Load) and one.at == Current(0) and isinstance(other, Constant):
                if operation in ("gt", "ge", "eq") and _sign(other, ColumnFacts()) in (0, 1):
                    least.add(one.column)
                if operation in ("lt", "le", "eq") and _sign(other, ColumnFacts()) in (0, -1):
                    most.add(one.column)
    return ColumnFacts(frozenset(known), frozenset(least), frozenset(most))


def _columns_inside(expression: Expression) -> set[str]:
    """Columns whose null would make the expression null."""
    if isinstance(expression, Load) and expression.at == Current(0):
        return {expression.column}
    if is_operation(expression, *STRICT):
        return {name for operand in expression.operands for name in _columns_inside(operand)}
    return set()


def without_casts(expression: Expression) -> Expression:
    while is_operation(expression, *CASTS):
        expression = expression.operands[0]
    return expression


def _is_known(argument: Expression, facts: ColumnFacts) -> bool:
    """Is it never null?"""
    if isinstance(argument, Load):
        return argument.column in facts.known
    if isinstance(argument, Constant):
        return argument.value is not None
    if is_operation(argument, *STRICT) and argument.operation != "divide":
        exact = argument.operation in CASTS or is_float(argument.type)
        return exact and all(_is_known(operand, facts) for operand in argument.operands)
    return False


def _sign(argument: Expression, facts: ColumnFacts) -> int | None:
    """1: never below zero; -1: never above; 0: zero; None: nothing is known."""
    if isinstance(argument, Constant):
        if not isinstance(argument.value, (int, float)) or argument.value != argument.value:
            return None
        return (argument.value > 0) - (argument.value < 0)
    if isinstance(argument, Load):
        if argument.column in facts.least_zero:
            return 1
        return -1 if argument.column in facts.most_zero else None
    if not isinstance(argument, Apply):
        return None
    signs = [_sign(operand, facts) for operand in argument.operands]
    if argument.operation == "abs":
        return 1
    if argument.operation in CASTS:
        return signs[0]
    if argument.operation == "negate" and (signs[0] == -1 or not is_float(argument.type)):  # -NaN is NaN
        return None if signs[0] is None else -signs[0]
    if argument.operation == "add":
        return 1 if all(sign in (0, 1) for sign in signs) else -1 if all(sign in (0, -1) for sign in signs) else None
    return None


# ---- trends -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trend:
    """The change of a value from S to its subsets.

    grows: it is never greater for a subset. falls: never less. stays_known: not null for S, not null for any subset,
    provided that `known` are not null. stays_null: null for S, null for every subset. All provided that `finite` are
    finite.
    """

    grows: bool
    falls: bool
    stays_known: bool = True
    stays_null: bool = True
    known: frozenset[Expression] = frozenset()
    finite: frozenset[Expression] = frozenset()

    @property
    def reversed(self) -> Trend:
        return replace(self, grows=self.falls, falls=self.grows)


CONSTANT = Trend(True, True)
GROWS = Trend(True, False)
FALLS = Trend(False, True)
MIXED = Trend(False, False, False, False)

AGGREGATES = {"max": GROWS, "min": FALLS, "count": GROWS, "count_if": GROWS}
"""sum: by the sign of its argument. avg, first, last, b[i-1], b[1], b[last] and all others: mixed."""
NEVER_NULL = ("count", "count_if")
NARROW = ("tinyint", "smallint", "int")
"""Integers whose sum over a closure fits bigint. Sums of others can overflow, and are null then."""

THROUGH = {
    "copy": (False,),
    "to_float": (False,),
    "add": (False, False),
    "subtract": (False, True),
    "negate": (True,),
    "order": (False, True),
}
"""Operations that keep the order of each operand (False) or turn it round (True)."""


def trend_of(expression: Expression, closures: frozenset[str], facts: Mapping[str, ColumnFacts]) -> Trend:
    """Return the change of an expression's value with the events of closures."""
    if isinstance(expression, Running):
        return _trend_of_aggregate(expression, closures, facts)
    if not _depends(expression, closures):
        return CONSTANT
    if not isinstance(expression, Apply):
        return MIXED
    trends = [trend_of(operand, closures, facts) for operand in expression.operands]
    if expression.operation in THROUGH:
        turned = THROUGH[expression.operation]
        trends = [one.reversed if turn else one for one, turn in zip(trends, turned, strict=True)]
    elif expression.operation in ("multiply", "divide"):
        trends = _scale(expression, trends)
    else:
        return MIXED
    joined = reduce(together, trends)
    if is_float(expression.type) and not _keeps_order_of_all(expression):
        joined = replace(joined, finite=joined.finite | _read(expression))
    exact = expression.operation in (*CASTS, "order") or is_float(expression.type) or _is_small_count(expression)
    return joined if exact else MIXED  # an overflow is null, for S or for a subset


def _trend_of_aggregate(running: Running, closures: frozenset[str], facts: Mapping[str, ColumnFacts]) -> Trend:
    covered = (running.labels or frozenset()) & closures
    if running.labels is not None and not covered:
        return CONSTANT
    known = ColumnFacts() if len(covered) != 1 else facts.get(next(iter(covered)), ColumnFacts())
    trend = AGGREGATES.get(running.function, MIXED)
    argument = running.argument
    if running.function == "sum" and argument is not None:
        sign = _sign(argument, known)
        trend = MIXED if sign is None else CONSTANT if sign == 0 else GROWS if sign > 0 else FALLS
        if trend is not MIXED and not (is_float(argument.type) or without_casts(argument).type in NARROW):
            trend = replace(trend, stays_null=argument.type.startswith("decimal"))
    if trend is MIXED or running.function in NEVER_NULL or argument is None or _is_known(argument, known):
        return trend
    return replace(trend, known=frozenset((argument,)))


def _depends(expression: Expression, closures: frozenset[str]) -> bool:
    """Does it read selected events of a closure, other than the current one?"""
    for node in walk(expression):
        if isinstance(node, Running) and (node.labels is None or node.labels & closures):
            return True
        if isinstance(node, (Load, Exists)) and isinstance(node.at, Navigated):
            if node.at.labels is None or node.at.labels & closures:
                return True
        elif isinstance(node, (Load, Exists)) and not isinstance(node.at, Current):
            return True
    return False


def _scale(expression: Apply, trends: list[Trend]) -> list[Trend]:
    """A product with, or a quotient by, a constant."""
    for at in (0, 1) if expression.operation == "multiply" else (1,):
        sign = _sign(without_casts(expression.operands[at]), ColumnFacts())
        if isinstance(without_casts(expression.operands[at]), Constant) and sign in (1, -1):
            other = trends[1 - at]
            return [other if sign == 1 else other.reversed]
    return [MIXED]


def _keeps_order_of_all(expression: Apply) -> bool:
    """Does it keep the order of NaN and the infinite, too?"""
    if expression.operation in CASTS:
        return True
    constants = [_sign(operand, ColumnFacts()) for operand in map(without_casts, expression.operands)]
    if expression.operation == "add":
        return any(sign is not None for sign in constants)
    return expression.operation in ("multiply", "divide") and 1 in constants


def _read(expression: Expression) -> frozenset[Expression]:
    """The values of events that an expression is made of, as expressions of one row."""
    found = set[Expression]()
    for node in walk(expression):
        if isinstance(node, Load):
            found.add(replace(node, at=Current(0), missing=None))
        elif isinstance(node, Running) and node.argument is not None:
            found.add(node.argument)
    return frozenset(found)


def together(one: Trend, other: Trend) -> Trend:
    return Trend(
        one.grows and other.grows,
        one.falls and other.falls,
        one.stays_known and other.stays_known,
        one.stays_null and other.stays_null,
        one.known | other.known,
        one.finite | other.finite,
    )


def _is_small_count(expression: Expression) -> bool:
    """Numbers of events and small constants: too small to overflow."""
    for node in walk(expression):
        if isinstance(node, Constant):
            if not isinstance(node.value, int) or abs(node.value) >= 1 << 15:
                return False
        elif isinstance(node, Running):
            if node.function not in NEVER_NULL:
                return False
        elif not is_operation(node, "add", "subtract", "negate", "multiply", "copy"):
            return False
    products = [node for node in walk(expression) if is_operation(node, "multiply")]
    return len(products) < 2 and expression.type == "bigint"
