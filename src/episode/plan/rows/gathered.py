"""Aggregates that Spark finishes on arrays which the matcher gathers, with the types that Spark gives them.

They stand in for aggregates of expressions with CLASSIFIER() or MATCH_NUMBER(): what these are is known with the match,
and Spark evaluates the expression for each of its rows.
"""

from __future__ import annotations

from episode.plan.types import WIDEST_DECIMAL, decimal_of, is_integer, is_numeric, is_year_month_interval, lane_of

UNTYPED = {
    "count": "CAST(size(filter({0}, x -> x IS NOT NULL)) AS BIGINT)",
    "count_if": "CAST(size(filter({0}, x -> x)) AS BIGINT)",
    "min": "array_min({0})",
    "max": "array_max({0})",
    "collect_list": "filter({0}, x -> x IS NOT NULL)",
    "collect_set": "array_distinct(filter({0}, x -> x IS NOT NULL))",
    "bool_and": "array_min({0})",
    "bool_or": "array_max({0})",
}
"""Aggregates of an array of values, whatever its type."""

BY_TYPE = ("sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
"""Aggregates that start with a value of a type."""

MOST_DIGITS = 37
"""Of a running sum: one less than Spark's decimals have, or adding to it would cut off digits after the point."""


def takes(function: str, type_: str) -> bool:
    """Can values of a type be added up by a function of BY_TYPE?"""
    interval = type_.startswith("interval") and lane_of(type_) == "int"
    return is_numeric(type_) or (interval and function in ("sum", "avg"))


def keeps_digits(function: str, type_: str) -> bool:
    """Can the result have all the digits that Spark's has? Averages of the widest decimals cannot."""
    decimal = decimal_of(type_)
    if function != "avg" or decimal is None or has_exact_quotient(*decimal):
        return True
    precision, scale = decimal
    return scale <= 22 and precision - scale <= 26


def total_type(type_: str) -> str:
    """The type of Spark's sum of values of a type."""
    decimal = decimal_of(type_)
    if decimal is not None:
        return f"DECIMAL({min(38, decimal[0] + 10)}, {decimal[1]})"
    if type_.startswith("interval"):
        return "INTERVAL YEAR TO MONTH" if is_year_month_interval(type_) else "INTERVAL DAY TO SECOND"
    return "BIGINT" if is_integer(type_) else "DOUBLE"


def finished(function: str, values: str, type_: str) -> str:
    """The SQL of an aggregate of BY_TYPE over an array of values of a type.

    A sum that does not fit is null, as all sums are: nothing here fails, whatever the session says of errors.
    """
    if function == "sum":
        return _sum(values, type_)
    if function == "avg":
        return _average(values, type_)
    return _moment(function, values)


def _sum(values: str, type_: str) -> str:
    decimal = decimal_of(type_)
    if decimal is not None and decimal[0] + 10 > MOST_DIGITS:
        return _total(values, "DECIMAL(38, 0)", _unscaled("x", decimal[1]), _scaled("s.t", decimal[1]))
    if is_integer(type_):
        return _total(values, f"DECIMAL({MOST_DIGITS}, 0)", "x", "try_cast(s.t AS BIGINT)")
    return _total(values, _running_type(type_), "x", f"CAST(s.t AS {total_type(type_)})")


def _average(values: str, type_: str) -> str:
    decimal = decimal_of(type_)
    running = _running_type(type_ if type_.startswith(("interval", "decimal")) else "double")
    return _total(values, running, "x", "try_divide(s.t, s.n)" if decimal is None else _decimal_quotient(*decimal))


def _total(values: str, running: str, value: str, result: str) -> str:
    """What is made of a sum s.t and a count s.n; null without a value, and from a sum on that is too large."""
    zero = {"INTERVAL YEAR TO MONTH": "make_ym_interval()", "INTERVAL DAY TO SECOND": "make_dt_interval()"}
    added = f"try_add(s.t, {value})"
    if running not in zero:
        added = f"try_cast(try_add(s.t, try_cast({value} AS {running})) AS {running})"
    return (
        f"aggregate({values}, "
        f"named_struct('t', {zero.get(running, f'CAST(0 AS {running})')}, 'n', CAST(0 AS BIGINT)), "
        f"(s, x) -> CASE WHEN x IS NULL THEN s ELSE named_struct('t', {added}, 'n', s.n + 1) END, "
        f"s -> CASE WHEN s.n > 0 THEN {result} END)"
    )


def _unscaled(value: str, scale: int) -> str:
    """A decimal without its point, as text: whole numbers of 38 digits are added without the loss of one."""
    return f"translate(format_number({value}, {scale}), ',.', '')"


def _scaled(whole: str, scale: int) -> str:
    """A whole number with the point put back."""
    target = f"DECIMAL({WIDEST_DECIMAL}, {scale})"
    if scale == 0:
        return f"CAST({whole} AS {target})"
    digits = f"CAST(abs({whole}) AS STRING)"
    digits = f"lpad({digits}, greatest(length({digits}), {scale + 1}), '0')"
    sign = f"CASE WHEN {whole} < 0 THEN '-' ELSE '' END"
    return (
        f"CAST(concat({sign}, left({digits}, length({digits}) - {scale}), '.', right({digits}, {scale})) AS {target})"
    )


def _running_type(type_: str) -> str:
    decimal = decimal_of(type_)
    return total_type(type_) if decimal is None else f"DECIMAL({min(MOST_DIGITS, decimal[0] + 10)}, {decimal[1]})"


def _decimal_quotient(precision: int, scale: int) -> str:
    """s.t / s.n in the type of Spark's avg.

    The digits that Spark gives to a quotient of wide decimals are too few. There the quotient is taken in two parts: a
    whole number, and what is left by the count.
    """
    target = f"DECIMAL({min(38, precision + 4)}, {min(38, scale + 4)})"
    if has_exact_quotient(precision, scale):
        return f"try_cast(try_divide(s.t, s.n) AS {target})"
    whole = f"try_cast(try_divide(s.t, s.n) AS DECIMAL({min(precision - scale + 1, 33 - scale, 26)}, 0))"
    multiple = f"try_cast({whole} * CAST(s.n AS DECIMAL(11, 0)) AS DECIMAL({MOST_DIGITS}, {scale}))"
    left = f"try_cast(s.t - {multiple} AS DECIMAL({12 + scale}, {scale}))"
    part = f"try_cast(try_divide({left}, CAST(s.n AS DECIMAL(11, 0))) AS DECIMAL({scale + 6}, {scale + 4}))"
    return f"try_cast({whole} + {part} AS {target})"


def has_exact_quotient(precision: int, scale: int) -> bool:
    """Does a sum of such decimals by a count keep at least the digits of Spark's avg?"""
    return precision <= 18 or scale <= 2


def _moment(function: str, values: str) -> str:
    """Count, mean and sum of squared distances in one pass, as Spark adds them up."""
    start = "named_struct('n', 0e0, 'mean', 0e0, 'm2', 0e0)"
    mean = "s.mean + (CAST(x AS DOUBLE) - s.mean) / (s.n + 1)"
    merged = (
        f"named_struct('n', s.n + 1, 'mean', {mean}, "
        f"'m2', s.m2 + (CAST(x AS DOUBLE) - s.mean) * (CAST(x AS DOUBLE) - ({mean})))"
    )
    variance = "try_divide(s.m2, s.n - 1)" if function.endswith("_samp") else "try_divide(s.m2, s.n)"
    result = f"sqrt({variance})" if function.startswith("stddev") else variance
    return (
        f"aggregate({values}, {start}, (s, x) -> CASE WHEN x IS NULL THEN s ELSE {merged} END, "
        f"s -> CASE WHEN s.n > 0 THEN {result} END)"
    )


def best(function: str, pairs: str) -> str:
    """min_by and max_by over an array of structs (value, by): nulls of `by` do not count, of equals the later row."""
    extreme, sign = ("array_max", "") if function == "max_by" else ("array_min", "-")
    places = f"filter(transform({pairs}, (x, i) -> named_struct('by', x.by, 'at', {sign}i)), x -> x.by IS NOT NULL)"
    return f"try_element_at({pairs}, {sign}{extreme}({places}).at + 1).value"
