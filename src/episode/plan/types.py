"""Spark types, as their simple strings, and how the expression machine holds their values.

Lanes: "int" (int64: integers, booleans, dates in days, times and timestamps and intervals in microseconds, months,
unscaled decimals of up to 18 digits), "float" (float64), "code" (order-preserving ranks of strings, binary and
wide decimals, made when the rows are at hand).
"""

from __future__ import annotations

import re

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
    """(precision, scale) of a decimal type."""
    parsed = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", type_)
    return (int(parsed.group(1)), int(parsed.group(2))) if parsed else None


def is_numeric(type_: str) -> bool:
    return is_integer(type_) or is_float(type_) or decimal_of(type_) is not None


def is_day_time_interval(type_: str) -> bool:
    return type_.startswith("interval") and not is_year_month_interval(type_)


def is_year_month_interval(type_: str) -> bool:
    return type_.startswith("interval") and ("year" in type_ or "month" in type_)


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
    """The type of one family that holds all values of both; None where there is none."""
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
