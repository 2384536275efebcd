"""Spark types, as their simple strings, and how the expression machine holds their values.

Lanes: "int" (int64: integers, booleans, dates in days, times and timestamps and intervals in microseconds, months,
unscaled decimals of up to 18 digits), "float" (float64), "code" (order-preserving ranks of strings, binary and
wide decimals, made when the rows are at hand).
"""

from __future__ import annotations

import re
from dataclasses import replace

from episode.plan.expressions import Apply, Constant, Expression, Load, Running

INTEGERS = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
INTEGER_LIMITS = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
NARROW_DECIMAL = 18
WIDEST_DECIMAL = 38
VOID = "void"
DAY_TIME = "interval day to second"


def is_integer(type_: str) -> bool:
    return type_ in INTEGERS


def is_float(type_: str) -> bool:
    return type_ in FLOATS


def decimal_of(type_: str) -> tuple[int, int] | None:
    parsed = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", type_)
    return (int(parsed.group(1)), int(parsed.group(2))) if parsed else None


def is_numeric(type_: str) -> bool:
    return is_integer(type_) or is_float(type_) or decimal_of(type_) is not None


def is_day_time_interval(type_: str) -> bool:
    return type_.startswith("interval") and not is_year_month_interval(type_)


def is_year_month_interval(type_: str) -> bool:
    return type_.startswith("interval") and ("year" in type_ or "month" in type_)


NOT_EVENT_TIME = "Order by a timestamp, a date or an integer first."
"""The remedy if the order of events is of another type."""


def is_event_time(type_: str) -> bool:
    """Types that WITHIN can measure."""
    return is_integer(type_) or type_ in ("date", "timestamp", "timestamp_ntz")


def is_string(type_: str) -> bool:
    return type_ == "string" or type_.startswith(("string ", "varchar", "char"))


def lane_of(type_: str) -> str | None:
    """ "int", "float" or "code"; None where values cannot be compared by the machine (arrays, maps, structs …)."""
    decimal = decimal_of(type_)
    if decimal is not None:
        return "int" if decimal[0] <= NARROW_DECIMAL else "code"
    if is_integer(type_) or type_ in ("boolean", "date", "timestamp", "timestamp_ntz", VOID):
        return "int"
    if is_float(type_):
        return "float"
    if type_ == "interval":
        return None
    if type_.startswith(("interval", "time(")):
        return "int"
    if is_string(type_) and "collate" not in type_:
        return "code"
    if type_ == "binary":
        return "code"
    return None


def wider_integer(left: str, right: str) -> str:
    return INTEGERS[max(INTEGERS.index(left), INTEGERS.index(right))]


def as_decimal(type_: str) -> tuple[int, int] | None:
    """An exact numeric type as Spark widens it to a decimal."""
    return (INTEGER_DIGITS[type_], 0) if is_integer(type_) else decimal_of(type_)


def wider(left: str, right: str) -> str | None:
    """Return the type of one family that holds all values of both; None if no type does."""
    if left == right:
        return left
    if is_integer(left) and is_integer(right):
        return wider_integer(left, right)
    if is_float(left) and is_float(right):
        return "double"
    one, other = decimal_of(left), decimal_of(right)
    if one is None or other is None:
        return None
    scale = max(one[1], other[1])
    precision = max(one[0] - one[1], other[0] - other[1]) + scale
    return f"decimal({precision},{scale})" if precision <= WIDEST_DECIMAL else None


# Decimals of more than 18 digits that the machine computes: values of two words.
#
# Sums and averages of decimals are such values, and expressions of them. A column of such decimals has two forms: the
# ranks of its values, which suffice to compare it with values of the same type, and words.

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
    """Return a value of a wide decimal in words; None if it has ranks only."""
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
    """Return what to compare for two decimals of these types (precision, scale); None if they have too many digits.

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
