"""Decimals of more than 18 digits that the machine computes: values of two words.

Sums and averages of decimals are such values, and what is made of them. A column of such decimals is at hand in two
forms: as the ranks of its values, which are all that is needed to compare it with values of its own type, and in words.
"""

from __future__ import annotations

from dataclasses import replace

from episode.plan.expressions import Apply, Constant, Expression, Load, Running
from episode.plan.types import NARROW_DECIMAL, WIDEST_DECIMAL, decimal_of, lane_of

NOTHING = Constant(0, "int")
CHOICES = ("if", "coalesce", "least", "greatest")
"""Operations whose result is one of their operands: they keep ranks comparable."""


def is_wide(expression: Expression) -> bool:
    """Is the value held in two words?"""
    decimal = decimal_of(expression.type)
    if decimal is None or decimal[0] <= NARROW_DECIMAL:
        return False
    if isinstance(expression, Running):
        return has_words(expression)
    if isinstance(expression, Constant):
        return expression.value is not None
    if isinstance(expression, Apply) and expression.operation in CHOICES:
        return any(is_wide(operand) for operand in expression.operands)
    return isinstance(expression, Apply)


def has_words(running: Running) -> bool:
    """Does the aggregate come to something of two words?"""
    decimal = decimal_of(running.type)
    if decimal is None or running.function in ("min", "max"):
        return decimal is not None and running.argument is not None and is_wide(running.argument)
    return running.function == "avg" or (running.function == "sum" and decimal[0] > NARROW_DECIMAL)


def is_ranked(expression: Expression) -> bool:
    """Is only the order of the values known?"""
    return lane_of(expression.type) == "code" and not is_wide(expression)


def in_words(value: Expression) -> Expression | None:
    """A value of a wide decimal in words; None where there are ranks only."""
    if is_wide(value) or (isinstance(value, Constant) and value.value is None):
        return value
    if isinstance(value, Load):
        return Apply("words", (value,), value.type)
    if isinstance(value, Running) and value.argument is not None and value.function in ("min", "max"):
        argument = in_words(value.argument)
        return None if argument is None else replace(value, argument=argument)
    if isinstance(value, Apply) and value.operation in ("if", "coalesce"):
        condition = value.operands[:-2]
        chosen = [in_words(operand) for operand in value.operands[-2:]]
        found = tuple(operand for operand in chosen if operand is not None)
        return replace(value, operands=(*condition, *found)) if len(found) == len(chosen) else None
    return None


def order_of(
    left: Expression, first: tuple[int, int], right: Expression, second: tuple[int, int]
) -> tuple[Expression, Expression] | None:
    """What to compare in place of two decimals of these types (precision, scale); None if they have too many digits.

    As in Spark, digits after the point make way for those before it, and values are rounded.
    """
    scale = max(first[1], second[1])
    whole = max(first[0] - first[1], second[0] - second[1])
    scale = max(0, min(scale, WIDEST_DECIMAL - whole))
    if max(first[1], second[1]) - scale > NARROW_DECIMAL:
        return None
    return Apply("order", (with_scale(left, first[1], scale), with_scale(right, second[1], scale)), "int"), NOTHING


def with_scale(value: Expression, scale: int, target: int) -> Expression:
    """A value of two words with `target` digits after the point instead of `scale`."""
    type_ = f"decimal({WIDEST_DECIMAL},{target})"
    wide = value if is_wide(value) else Apply("widen", (value,), type_)
    return wide if scale == target else Apply("scale", (wide, Constant(target - scale, "int")), type_)


def magnitude(value: Expression) -> Expression:
    """abs of a value of two words."""
    order = Apply("order", (value, Apply("widen", (NOTHING,), value.type)), "int")
    is_negative = Apply("lt", (order, NOTHING), "boolean")
    return Apply("if", (is_negative, Apply("negate", (value,), value.type), value), value.type)


def is_ranked_constant(expression: Expression) -> bool:
    """Does a constant need a rank among the values of a batch?"""
    return isinstance(expression, Constant) and expression.value is not None and is_ranked(expression)


def is_words(expression: Expression) -> bool:
    """Is it a column in words?"""
    return isinstance(expression, Apply) and expression.operation == "words"
