"""Comparisons of two values that each come from one event: what joins and bounds take apart."""

from __future__ import annotations

from dataclasses import dataclass, replace

from episode.matchers.comparing import BY_OPERATION
from episode.matchers.encoding import is_float_lane
from episode.plan.expressions import Apply, Current, Expression, Load, Navigated, is_comparison, walk


@dataclass(frozen=True)
class Operand:
    """One side of a comparison: a value of the row of one variable (None: of the current row).

    expression: with its loads at the current row; written: as it is in the condition."""

    expression: Expression
    at: Navigated | None
    written: Expression


@dataclass(frozen=True)
class EventComparison:
    compare: int
    floating: bool
    left: Operand
    right: Operand


def comparison_of(expression: Expression) -> EventComparison | None:
    """A comparison of two values that each come from one row; anything else is for the machine."""
    if not is_comparison(expression):
        return None
    assert isinstance(expression, Apply)
    sides = []
    for operand in expression.operands:
        at = next(node.at for node in walk(operand) if isinstance(node, Load))
        sides.append(Operand(_at_row(operand), at if isinstance(at, Navigated) else None, operand))
    floating = is_float_lane(expression.operands[0].type)
    return EventComparison(BY_OPERATION[expression.operation], floating, sides[0], sides[1])


def _at_row(expression: Expression) -> Expression:
    """The expression with every load at the current row."""
    if isinstance(expression, Load):
        return replace(expression, at=Current(0))
    if isinstance(expression, Apply):
        return replace(expression, operands=tuple(_at_row(operand) for operand in expression.operands))
    return expression
