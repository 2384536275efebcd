"""Decimals of more than 18 digits that the machine computes: values of two words.

Sums and averages of decimals are such values, and what is made of them. Of a column of such decimals the machine knows
the order of its values only, so that it is compared with values of its own type.
"""

from __future__ import annotations

from episode.plan.expressions import Apply, Constant, Expression, Running
from episode.plan.types import NARROW_DECIMAL, WIDEST_DECIMAL, decimal_of, lane_of

NOTHING = Constant(0, "int")


def is_wide(expression: Expression) -> bool:
    """Is the value held in two words?"""
    decimal = decimal_of(expression.type)
    if decimal is None or decimal[0] <= NARROW_DECIMAL:
        return False
    if isinstance(expression, Running):
        return has_words(expression)
    if isinstance(expression, Apply) and expression.operation in ("if", "coalesce", "least", "greatest"):
        return any(is_wide(operand) for operand in expression.operands)
    return isinstance(expression, Apply)


def has_words(running: Running) -> bool:
    """Does the aggregate add up decimals to something of two words?"""
    decimal = decimal_of(running.type)
    return decimal is not None and (
        running.function == "avg" or (running.function == "sum" and decimal[0] > NARROW_DECIMAL)
    )


def is_ranked(expression: Expression) -> bool:
    """Is only the order of the values known?"""
    return lane_of(expression.type) == "code" and not is_wide(expression)


def order_of(
    left: Expression, first: tuple[int, int], right: Expression, second: tuple[int, int]
) -> tuple[Expression, Expression] | None:
    """What to compare in place of two decimals of these types (precision, scale); None if they have too many digits."""
    scale = max(first[1], second[1])
    if max(first[0] - first[1], second[0] - second[1]) + scale > WIDEST_DECIMAL:
        return None
    operands = (_widened(left, first[1], scale), _widened(right, second[1], scale))
    return Apply("order", operands, "int"), NOTHING


def _widened(value: Expression, scale: int, target: int) -> Expression:
    """A value of two words with `target` digits after the point instead of `scale`."""
    type_ = f"decimal({WIDEST_DECIMAL},{target})"
    wide = value if is_wide(value) else Apply("widen", (value,), type_)
    return wide if scale == target else Apply("scale", (wide, Constant(target - scale, "int")), type_)


def magnitude(value: Expression) -> Expression:
    """abs of a value of two words."""
    order = Apply("order", (value, Apply("widen", (NOTHING,), value.type)), "int")
    is_negative = Apply("lt", (order, NOTHING), "boolean")
    return Apply("if", (is_negative, Apply("negate", (value,), value.type), value), value.type)
