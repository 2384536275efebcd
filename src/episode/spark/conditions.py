"""Conditions on single rows that a direct scan evaluates itself, with exactly the answers that Spark gives.

Only comparisons of a column with a literal of its type, IN, IS NULL and the logic around them are here. Logic has three
values. Floats compare as in Spark: NaN equals itself and is greater than all else, and -0.0 equals 0.0. Strings and
binary compare by their bytes, times by their instants. What is not here is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
SAME = "<=>"
OPERATORS = (*_COMPARE, SAME)
"""The comparisons there are; `<=>` also takes a null as a value, and is never null itself."""
_UNKNOWN = pa.scalar(None, pa.bool_())
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Comparison:
    """A column against a value of the same type, which is not null."""

    column: str
    operator: str
    value: pa.Scalar


@dataclass(frozen=True)
class Membership:
    """A column IN some values; has_null: null is one of them. Never of floats."""

    column: str
    values: pa.Array
    has_null: bool = False


@dataclass(frozen=True)
class Nullness:
    """A column IS NULL, or IS NOT NULL."""

    column: str
    null: bool


@dataclass(frozen=True)
class Truth:
    """A boolean column as a condition."""

    column: str


@dataclass(frozen=True)
class Constant:
    """True, false or unknown whatever the row."""

    value: bool | None


@dataclass(frozen=True)
class Negation:
    part: Condition


@dataclass(frozen=True)
class Conjunction:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Disjunction:
    parts: tuple[Condition, ...]


Condition = Comparison | Membership | Nullness | Truth | Constant | Negation | Conjunction | Disjunction


def columns_in(condition: Condition) -> Iterator[str]:
    """The columns that a condition reads."""
    match condition:
        case Conjunction(parts) | Disjunction(parts):
            for part in parts:
                yield from columns_in(part)
        case Negation(part):
            yield from columns_in(part)
        case Constant():
            return
        case _:
            yield condition.column


# ---- of rows -----------------------------------------------------------------------------------------------


def evaluate(condition: Condition, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """bool[rows], null where the condition is unknown."""
    match condition:
        case Conjunction(parts):
            return reduce(pc.and_kleene, (evaluate(part, columns, rows) for part in parts))
        case Disjunction(parts):
            return reduce(pc.or_kleene, (evaluate(part, columns, rows) for part in parts))
        case Negation(part):
            return pc.invert(evaluate(part, columns, rows))
        case Constant(value):
            return pa.repeat(pa.scalar(value, pa.bool_()), rows)
        case Truth(column):
            return columns[column]
        case Nullness(column, null):
            return columns[column].is_null() if null else columns[column].is_valid()
        case Membership(column, values, has_null):
            return _by_value(columns[column], lambda array: _is_in(array, values, has_null))
        case Comparison(column, operator, value):
            if operator == SAME:
                return pc.fill_null(_by_value(columns[column], lambda array: _compare(array, "=", value)), False)
            return _by_value(columns[column], lambda array: _compare(array, operator, value))


def _by_value(column: pa.Array, ask: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What is asked of a column whose answer to null is unknown: of a dictionary, once for each of its values."""
    if not pa.types.is_dictionary(column.type):
        return ask(column)
    return pc.take(ask(column.dictionary), column.indices)


def _is_in(array: pa.Array, values: pa.Array, has_null: bool) -> pa.Array:
    found = pc.is_in(array, value_set=values.cast(array.type))
    if has_null:
        found = pc.if_else(found, True, _UNKNOWN)
    return pc.if_else(array.is_valid(), found, _UNKNOWN)


def _compare(array: pa.Array, operator: str, value: pa.Scalar) -> pa.Array:
    if not pa.types.is_floating(array.type):
        return _COMPARE[operator](array, value)
    if isnan(value.as_py()):
        return _compare_with_nan(array, operator)
    answer = _COMPARE[operator](array, value)
    return pc.or_(answer, pc.is_nan(array)) if operator.startswith(">") else answer


def _compare_with_nan(array: pa.Array, operator: str) -> pa.Array:
    nan = pc.is_nan(array)
    if operator in ("=", ">="):
        return nan
    if operator == "<":
        return pc.invert(nan)
    return pc.if_else(array.is_valid(), operator == "<=", _UNKNOWN)


# ---- of row groups -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """What the statistics of a row group say of a column: the values are low .. high (integers, days, microseconds or
    bytes), and so many of them are null. None: not known."""

    rows: int
    nulls: int | None = None
    low: int | bytes | None = None
    high: int | bytes | None = None

    @property
    def is_null(self) -> bool:
        return self.nulls == self.rows


_ANYTHING = Range(0)


def excluded(condition: Condition, ranges: Mapping[str, Range]) -> bool:
    """Whether, by the ranges of columns (where they are known), the condition is true for no row of a row group."""
    match condition:
        case Conjunction(parts):
            return any(excluded(part, ranges) for part in parts)
        case Disjunction(parts):
            return all(excluded(part, ranges) for part in parts)
        case Constant(value):
            return value is not True
        case Nullness(column, null):
            found = ranges.get(column, _ANYTHING)
            return found.nulls == 0 if null else found.is_null
        case Membership(column, values, _):
            return all(_is_outside(ranges.get(column, _ANYTHING), "=", value) for value in values)
        case Comparison(column, operator, value):
            return _is_outside(ranges.get(column, _ANYTHING), operator, value)
        case _:
            return False


def _is_outside(found: Range, operator: str, value: pa.Scalar) -> bool:
    if found.is_null:
        return True
    wanted: Any = place(value)
    low: Any = found.low
    high: Any = found.high
    if wanted is None or low is None or high is None:
        return False
    if operator == "<":
        return bool(low >= wanted)
    if operator == "<=":
        return bool(low > wanted)
    if operator == ">":
        return bool(high <= wanted)
    if operator == ">=":
        return bool(high < wanted)
    return bool(wanted < low or wanted > high)


def place(value: pa.Scalar) -> int | bytes | None:
    """A value as ranges have it; None: ranges have no such values."""
    kind = value.type
    if pa.types.is_integer(kind):
        return int(value.as_py())
    if pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"):
        return int(value.value)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return bytes(value.as_buffer())
    return None


# ---- in words ----------------------------------------------------------------------------------------------


def text_of(condition: Condition) -> str:
    """The condition as one would write it."""
    match condition:
        case Conjunction(parts):
            return " AND ".join(_in_brackets(part) for part in parts)
        case Disjunction(parts):
            return " OR ".join(_in_brackets(part) for part in parts)
        case Negation(part):
            return f"NOT {_in_brackets(part)}"
        case Constant(value):
            return "NULL" if value is None else str(value).upper()
        case Truth(column):
            return column
        case Nullness(column, null):
            return f"{column} IS NULL" if null else f"{column} IS NOT NULL"
        case Membership(column, values, has_null):
            shown = [_literal(value) for value in values[:_MOST_SHOWN]]
            more = ["…"] if len(values) > _MOST_SHOWN else []
            return f"{column} IN ({', '.join([*shown, *more, *(['NULL'] if has_null else [])])})"
        case Comparison(column, operator, value):
            return f"{column} {operator} {_literal(value)}"


def _in_brackets(condition: Condition) -> str:
    text = text_of(condition)
    return f"({text})" if isinstance(condition, (Conjunction, Disjunction)) else text


def _literal(value: pa.Scalar) -> str:
    quoted = pa.types.is_string(value.type) or pa.types.is_temporal(value.type)
    return f"'{value}'" if quoted else str(value)
