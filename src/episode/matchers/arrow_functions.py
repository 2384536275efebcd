"""What Arrow evaluates of an expression where the machine cannot: fields, structs, arrays, choices between them, casts.

Only functions whose results are Spark's to the last bit are here.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

_NAMES_OF_TYPES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


class Evaluator(Protocol):
    """See `matchers.scalars`."""

    rows: int

    def evaluate(self, tree: exp.Expression) -> pa.Array: ...

    def column(self, name: str) -> pa.Array | None: ...


def evaluate(scalars: Evaluator, node: exp.Expression) -> pa.Array | None:
    """The value of a node; None where it is not for Arrow."""
    if isinstance(node, (exp.Column, exp.Dot)):
        return _field(scalars, node)
    if isinstance(node, exp.Anonymous):
        function = FUNCTIONS.get(node.name.lower())
        return None if function is None else function(scalars, node.expressions)
    handler = NODES.get(type(node))
    return None if handler is None else handler(scalars, node)


# ---- structs -------------------------------------------------------------------------------------------------


def _field(scalars: Evaluator, node: exp.Expression) -> pa.Array | None:
    """A field of a struct, of a field of it …"""
    if isinstance(node, exp.Dot):
        names = [node.expression.name]
        value = scalars.evaluate(node.this)
    else:
        first, *names = (part.name for part in node.parts)
        column = scalars.column(first)
        if column is None:
            return None
        value = column
    for name in names:
        if not pa.types.is_struct(value.type):
            return None
        own = next((field.name for field in value.type if field.name.lower() == name.lower()), None)
        if own is None:
            return None
        value = pc.struct_field(value, own)
    return value


def _named_struct(scalars: Evaluator, arguments: list[exp.Expression]) -> pa.Array | None:
    names, values = arguments[::2], arguments[1::2]
    if len(names) != len(values) or not all(name.is_string for name in names):
        return None
    arrays = [scalars.evaluate(value) for value in values]
    return pa.StructArray.from_arrays(arrays, names=[name.name for name in names])


# ---- arrays --------------------------------------------------------------------------------------------------


def _size(scalars: Evaluator, arguments: list[exp.Expression]) -> pa.Array | None:
    if len(arguments) != 1:
        return None
    value = scalars.evaluate(arguments[0])
    return pc.list_value_length(value).cast(pa.int32()) if pa.types.is_list(value.type) else None


def _element(scalars: Evaluator, arguments: list[exp.Expression]) -> pa.Array | None:
    """try_element_at(array, n) of a written n; null where there is no such element."""
    if len(arguments) != 2:
        return None
    place = _written_integer(arguments[1])
    value = scalars.evaluate(arguments[0])
    if not place or not pa.types.is_list(value.type):
        return None
    lengths = pc.list_value_length(value)
    within = pc.fill_null(pc.greater_equal(lengths, abs(place)), False)
    first = value.value_lengths().cast(pa.int64())
    starts = pc.subtract(pc.cumulative_sum(pc.fill_null(first, 0)), pc.fill_null(first, 0))
    at = pc.add(starts, place - 1) if place > 0 else pc.add(pc.add(starts, pc.fill_null(first, 0)), place)
    return value.flatten().take(pc.if_else(within, at, pa.scalar(None, pa.int64())))


def _written_integer(node: exp.Expression) -> int | None:
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal) or literal.is_string or not literal.this.isdigit():
        return None
    return -int(literal.this) if negative else int(literal.this)


def _zipped(scalars: Evaluator, node: exp.Cast) -> pa.Array | None:
    """CAST(arrays_zip(a, b …) AS ARRAY<STRUCT<…>>) of arrays of the same lengths: the events of a closure."""
    inner = node.to.expressions[0] if node.to.expressions else None
    if not isinstance(inner, exp.DataType) or inner.this is not exp.DataType.Type.STRUCT:
        return None
    arrays = [scalars.evaluate(argument) for argument in node.this.expressions]
    first = arrays[0]
    if any(not pa.types.is_list(array.type) for array in arrays):
        return None
    if any(not array.value_lengths().equals(first.value_lengths()) for array in arrays[1:]):
        return None
    values = pa.StructArray.from_arrays(
        [array.flatten() for array in arrays], names=[f.name for f in inner.expressions]
    )
    lengths = pc.fill_null(first.value_lengths(), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, values, mask=first.is_null() if first.null_count else None)


# ---- choices, tests ------------------------------------------------------------------------------------------


def _case(scalars: Evaluator, node: exp.Case) -> pa.Array | None:
    """CASE WHEN over values that are not the machine's, all of one type."""
    if node.this is not None:
        return None
    branches = node.args["ifs"]
    values = [scalars.evaluate(branch.args["true"]) for branch in branches]
    default = node.args.get("default")
    values.append(pa.nulls(scalars.rows) if default is None else scalars.evaluate(default))
    kinds = {value.type for value in values if not pa.types.is_null(value.type)}
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    result = _as(values[-1], kind)
    for branch, value in zip(reversed(branches), reversed(values[:-1]), strict=True):
        condition = scalars.evaluate(branch.this)
        if not pa.types.is_boolean(condition.type):
            return None
        result = pc.if_else(condition.fill_null(False), _as(value, kind), result)
    return result


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(array), kind) if pa.types.is_null(array.type) else array


def _is_null(scalars: Evaluator, node: exp.Is) -> pa.Array | None:
    negated = isinstance(node.expression, exp.Not)
    target = node.expression.this if negated else node.expression
    if not isinstance(target, exp.Null):
        return None
    missing = scalars.evaluate(node.this).is_null()
    return pc.invert(missing) if negated else missing


# ---- casts ---------------------------------------------------------------------------------------------------


def _cast(scalars: Evaluator, node: exp.Cast) -> pa.Array | None:
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "arrays_zip":
        return _zipped(scalars, node)
    value = scalars.evaluate(node.this)
    target = node.to
    if target.this is exp.DataType.Type.DECIMAL and len(target.expressions) == 2:
        precision, scale = (int(part.name) for part in target.expressions)
        return _as_decimal(value, precision, scale)
    name = target.sql("spark").lower()
    if _NAMES_OF_TYPES.get(name, name) == "string":
        kind = value.type
        if pa.types.is_string(kind):
            return value
        plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)
        return value.cast(pa.string()) if plain else None
    return None


def _as_decimal(value: pa.Array, precision: int, scale: int) -> pa.Array | None:
    """An exact number as a decimal; null where it has too many digits."""
    kind = value.type
    if pa.types.is_integer(kind):
        value = value.cast(pa.decimal128(19, 0))
    elif not pa.types.is_decimal(kind):
        return None
    if scale < value.type.scale:
        value = pc.round(value, ndigits=scale, round_mode="half_towards_infinity")
    whole = precision - scale
    if value.type.precision - value.type.scale > whole:
        limit = Decimal(10) ** whole
        fits = pc.less(pc.abs(value), pa.scalar(limit, pa.decimal128(whole + 1, 0)))
        value = pc.if_else(pc.fill_null(fits, False), value, pa.scalar(None, value.type))
    return value.cast(pa.decimal128(precision, scale))


FUNCTIONS: dict[str, Callable[[Evaluator, list[exp.Expression]], pa.Array | None]] = {
    "named_struct": _named_struct,
    "size": _size,
    "cardinality": _size,
    "try_element_at": _element,
}
NODES: dict[type, Callable[[Evaluator, exp.Expression], pa.Array | None]] = {
    exp.Case: _case,
    exp.Is: _is_null,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
