"""Comparisons of two values that each come from one event: what joins and bounds take apart."""

from __future__ import annotations

from dataclasses import dataclass

from episode.matchers.comparing import BY_OPERATION
from episode.matchers.encoding import is_float_lane
from episode.plan.expressions import Apply, Expression, Load, Navigated, at_current_row, is_comparison, walk


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
        sides.append(Operand(at_current_row(operand), at if isinstance(at, Navigated) else None, operand))
    floating = is_float_lane(expression.operands[0].type)
    return EventComparison(BY_OPERATION[expression.operation], floating, sides[0], sides[1])
