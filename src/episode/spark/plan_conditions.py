"""Filters of a plan as conditions that a direct scan evaluates; any other filter is refused, and left to Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from episode.plan.types import decimal_of
from episode.spark.classic import Refused, class_of, items
from episode.spark.conditions import (
    Comparison,
    Condition,
    Conjunction,
    Constant,
    Disjunction,
    Membership,
    Negation,
    Nullness,
    Truth,
)

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
    """A filter of the plan; refused where it is not among those whose meaning is known to be the same."""
    kind = class_of(expression)
    if kind == "And":
        return Conjunction(tuple(condition_of(part, names) for part in conjuncts(expression)))
    if kind == "Or":
        return Disjunction((condition_of(expression.left(), names), condition_of(expression.right(), names)))
    if kind == "Not":
        return Negation(condition_of(expression.child(), names))
    if kind in ("IsNull", "IsNotNull"):
        return Nullness(_column(expression.child(), names, expression), kind == "IsNull")
    if kind == "AttributeReference" and _type(expression) == "boolean":
        return Truth(names[expression.exprId().id()])
    if kind == "Literal" and _type(expression) == "boolean":
        return Constant(expression.value())
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
    return Comparison(column, operator, _values([right.value()], left, expression)[0])


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
    name = _type(column)
    decimal = decimal_of(name)
    kind = pa.decimal128(*decimal) if decimal is not None else _LITERALS.get(name)
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
