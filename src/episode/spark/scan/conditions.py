"""Conditions on single rows that a direct scan evaluates itself, with exactly the answers that Spark gives.

Only comparisons of a column with a literal of its type, IN, IS NULL and the logic around them are here. Logic has three
values. Floats compare as in Spark: NaN equals itself and is greater than all else, and -0.0 equals 0.0. Strings and
binary compare by their bytes, times by their instants. What is not here is left to Spark.

See decision 143.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, reduce
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from episode.plan.types import decimal_of
from episode.spark.classic import Refused, class_of, items

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
_MOST_SHOWN = 5


@dataclass(frozen=True)
class ComparisonFilter:
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
class ConstantFilter:
    """True, false or unknown whatever the row."""

    value: bool | None


@dataclass(frozen=True)
class NotFilter:
    part: Condition


@dataclass(frozen=True)
class AndFilter:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class OrFilter:
    parts: tuple[Condition, ...]


Condition = ComparisonFilter | Membership | Nullness | Truth | ConstantFilter | NotFilter | AndFilter | OrFilter


@cache
def _unknown() -> pa.Scalar:
    """Null as a truth value. Made on first use, because making a scalar imports pandas."""
    return pa.scalar(None, pa.bool_())


def columns_in(condition: Condition) -> Iterator[str]:
    """The columns that a condition reads."""
    match condition:
        case AndFilter(parts) | OrFilter(parts):
            for part in parts:
                yield from columns_in(part)
        case NotFilter(part):
            yield from columns_in(part)
        case ConstantFilter():
            return
        case _:
            yield condition.column


# ---- of rows -----------------------------------------------------------------------------------------------


def evaluate(condition: Condition, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """bool[rows], null where the condition is unknown."""
    match condition:
        case AndFilter(parts):
            return reduce(pc.and_kleene, (evaluate(part, columns, rows) for part in parts))
        case OrFilter(parts):
            return reduce(pc.or_kleene, (evaluate(part, columns, rows) for part in parts))
        case NotFilter(part):
            return pc.invert(evaluate(part, columns, rows))
        case ConstantFilter(value):
            return pa.repeat(pa.scalar(value, pa.bool_()), rows)
        case Truth(column):
            return columns[column]
        case Nullness(column, null):
            return columns[column].is_null() if null else columns[column].is_valid()
        case Membership(column, values, has_null):
            return _by_value(columns[column], lambda array: _is_in(array, values, has_null))
        case ComparisonFilter(column, operator, value):
            if operator == SAME:
                return pc.fill_null(_by_value(columns[column], lambda array: _compare(array, "=", value)), False)
            return _by_value(columns[column], lambda array: _compare(array, operator, value))


def _by_value(column: pa.Array, ask: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Test a column; null gives unknown. Dictionaries are tested once per value."""
    if not pa.types.is_dictionary(column.type):
        return ask(column)
    return pc.take(ask(column.dictionary), column.indices)


def _is_in(array: pa.Array, values: pa.Array, has_null: bool) -> pa.Array:
    found = pc.is_in(array, value_set=values.cast(array.type))
    return pc.if_else(array.is_valid(), pc.if_else(found, True, _unknown()) if has_null else found, _unknown())


def _compare(array: pa.Array, operator: str, value: pa.Scalar) -> pa.Array:
    if not pa.types.is_floating(array.type):
        return _COMPARE[operator](array, value)
    if not isnan(value.as_py()):
        answer = _COMPARE[operator](array, value)
        return pc.or_(answer, pc.is_nan(array)) if operator.startswith(">") else answer
    if operator in ("=", ">="):
        return pc.is_nan(array)
    if operator == "<":
        return pc.invert(pc.is_nan(array))
    return pc.if_else(array.is_valid(), operator == "<=", _unknown())


# ---- of row groups -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """Statistics of a column in a row group: the values are low .. high (integers, days, microseconds or bytes), and
    `nulls` of them are null. None: unknown."""

    rows: int
    nulls: int | None = None
    low: int | bytes | None = None
    high: int | bytes | None = None

    @property
    def is_null(self) -> bool:
        return self.nulls == self.rows


_ANYTHING = Range(0)


def excludes_all(condition: Condition, ranges: Mapping[str, Range]) -> bool:
    """Whether the condition is true for no row of a row group, by the known ranges of its columns."""
    match condition:
        case AndFilter(parts):
            return any(excludes_all(part, ranges) for part in parts)
        case OrFilter(parts):
            return all(excludes_all(part, ranges) for part in parts)
        case ConstantFilter(value):
            return value is not True
        case Nullness(column, null):
            found = ranges.get(column, _ANYTHING)
            return found.nulls == 0 if null else found.is_null
        case Membership(column, values, _):
            return all(_is_outside(ranges.get(column, _ANYTHING), "=", value) for value in values)
        case ComparisonFilter(column, operator, value):
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
    outside = {"<": low >= wanted, "<=": low > wanted, ">": high <= wanted, ">=": high < wanted}
    return outside.get(operator, wanted < low or wanted > high)


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
        case AndFilter(parts):
            return " AND ".join(_in_brackets(part) for part in parts)
        case OrFilter(parts):
            return " OR ".join(_in_brackets(part) for part in parts)
        case NotFilter(part):
            return f"NOT {_in_brackets(part)}"
        case ConstantFilter(value):
            return "NULL" if value is None else str(value).upper()
        case Truth(column):
            return column
        case Nullness(column, null):
            return f"{column} IS NULL" if null else f"{column} IS NOT NULL"
        case Membership(column, values, has_null):
            shown = [_literal(value) for value in values[:_MOST_SHOWN]]
            more = ["…"] if len(values) > _MOST_SHOWN else []
            return f"{column} IN ({', '.join([*shown, *more, *(['NULL'] if has_null else [])])})"
        case ComparisonFilter(column, operator, value):
            return f"{column} {operator} {_literal(value)}"


def _in_brackets(condition: Condition) -> str:
    text = text_of(condition)
    return f"({text})" if isinstance(condition, (AndFilter, OrFilter)) else text


def _literal(value: pa.Scalar) -> str:
    quoted = pa.types.is_string(value.type) or pa.types.is_temporal(value.type)
    return f"'{value}'" if quoted else str(value)


# Filters of a plan as conditions that a direct scan evaluates; any other filter is refused, and left to Spark.

_LITERALS = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NOT_IN = ("float", "double")
_COMPARISONS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TURNED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_VALUES = 1000


def conjuncts(expression: Any) -> list[Any]:
    """The parts of a condition that must all hold."""
    if class_of(expression) != "And":
        return [expression]
    return conjuncts(expression.left()) + conjuncts(expression.right())


def condition_of(expression: Any, names: dict[int, str]) -> Condition:
    """Translate a filter of the plan; refuses expressions whose meaning may differ."""
    kind = class_of(expression)
    if kind == "And":
        return AndFilter(tuple(condition_of(part, names) for part in conjuncts(expression)))
    if kind == "Or":
        return OrFilter((condition_of(expression.left(), names), condition_of(expression.right(), names)))
    if kind == "Not":
        return NotFilter(condition_of(expression.child(), names))
    if kind in ("IsNull", "IsNotNull"):
        return Nullness(_column(expression.child(), names, expression), kind == "IsNull")
    if kind == "AttributeReference" and _type(expression) == "boolean":
        return Truth(names[expression.exprId().id()])
    if kind == "Literal" and _type(expression) == "boolean":
        return ConstantFilter(expression.value())
    if kind in _COMPARISONS:
        return _comparison(expression, _COMPARISONS[kind], names)
    if kind in ("In", "InSet"):
        return _membership(expression, kind, names)
    raise _only_spark(expression)


def _comparison(expression: Any, operator: str, names: dict[int, str]) -> Condition:
    left, right = expression.left(), expression.right()
    if class_of(left) == "Literal":
        left, right, operator = right, left, _TURNED[operator]
    if class_of(right) != "Literal" or right.value() is None or _type(left) != _type(right):
        raise _only_spark(expression)
    column = _column(left, names, expression)
    return ComparisonFilter(column, operator, _values([right.value()], left, expression)[0])


def _membership(expression: Any, kind: str, names: dict[int, str]) -> Condition:
    tested = expression.value() if kind == "In" else expression.child()
    given = items(expression.list()) if kind == "In" else items(expression.hset().toSeq())
    if not 0 < len(given) <= _MOST_VALUES or _type(tested) in _NOT_IN or decimal_of(_type(tested)) is not None:
        raise _only_spark(expression)
    if kind == "In":
        if any(class_of(one) != "Literal" or _type(one) != _type(tested) for one in given):
            raise _only_spark(expression)
        given = [one.value() for one in given]
    column = _column(tested, names, expression)
    values = [value for value in given if value is not None]
    return Membership(column, _values(values, tested, expression), len(values) < len(given))


def _column(expression: Any, names: dict[int, str], whole: Any) -> str:
    if class_of(expression) != "AttributeReference":
        raise _only_spark(whole)
    return names[expression.exprId().id()]


def _values(values: list[Any], column: Any, whole: Any) -> pa.Array:
    decimal = decimal_of(_type(column))
    kind = pa.decimal128(*decimal) if decimal is not None else _LITERALS.get(_type(column))
    if kind is None:
        raise _only_spark(whole)
    return array_of([python_value(value) for value in values], kind)


def _type(expression: Any) -> str:
    return str(expression.dataType().simpleString())


def _only_spark(expression: Any) -> Refused:
    text = str(expression.sql())
    return Refused(f"only Spark evaluates the filter {text if len(text) <= 80 else text[:79] + '…'}")


# ---- values ------------------------------------------------------------------------------------------------


def python_value(value: Any) -> Any:
    """A value of Spark's rows and literals: numbers, booleans and bytes as they are, others as text."""
    return value.toString() if hasattr(value, "toString") else value


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as Spark holds them inside, as Arrow has them."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(value) for value in values], kind)
    if kind in _LITERALS.values():
        return pa.array(values, kind)
    raise Refused(f"a partition column is {kind}")
