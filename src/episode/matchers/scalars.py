"""Scalar expressions over the columns of a table, without Spark: by compiled code, and by Arrow around it.

The machine computes numbers, times and conditions. Values that it only compares (strings, wide decimals), structs and
arrays are moved by Arrow. What neither knows is `NotCompilable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from episode.matchers.assembly import arrow_type, decimals, to_arrow
from episode.matchers.code.rows import compute
from episode.matchers.columns import one_chunk
from episode.matchers.encoding import encode, is_float_lane
from episode.matchers.prepare import needs_in
from episode.matchers.spark_types import spark_name, to_spark_types
from episode.plan.compilable import NO_ARGUMENTS, NativeCompiler, NeedsSpark, NotCompilable
from episode.plan.expressions import Apply, Constant, Current, Expression, Load
from episode.plan.parameters import Arguments
from episode.plan.types import VOID, is_ranked, is_wide

# Arrow evaluates what the machine cannot: fields, structs, arrays, choices between them, casts; only functions whose
# results are Spark's to the last bit. A node is compiled to a function of arrays and the expressions whose values it
# takes; None if it is not for Arrow.


_NAMES_OF_TYPES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
Compiled = Union[tuple[Callable[..., pa.Array], tuple[Expression, ...]], None]


# ---- structs -------------------------------------------------------------------------------------------------


def _field(compiler: ScalarCompiler, node: exp.Expression) -> Compiled:
    """Compile a field of a struct, of a field of it …"""
    if isinstance(node, exp.Dot):
        names = [node.expression.name]
        value: Expression | None = compiler.compile(node.this)
    else:
        first, *names = (part.name for part in node.parts)
        value = compiler.column(first)
    if value is None:
        return None
    kind = compiler.type_of(value)
    path: list[str] = []
    for name in names:
        if not pa.types.is_struct(kind):
            return None
        own = next((field for field in kind if field.name.lower() == name.lower()), None)
        if own is None:
            return None
        kind = own.type
        path.append(own.name)
    return partial(_field_at, path=tuple(path)), (value,)


def _field_at(array: pa.Array, path: Sequence[str]) -> pa.Array:
    for name in path:
        array = pc.struct_field(array, name)
    return array


def _named_struct(compiler: ScalarCompiler, arguments: list[exp.Expression]) -> Compiled:
    names, values = arguments[::2], arguments[1::2]
    if not names or len(names) != len(values) or not all(name.is_string for name in names):
        return None
    return partial(_struct, names=[name.name for name in names]), tuple(map(compiler.compile, values))


def _struct(*arrays: pa.Array, names: list[str]) -> pa.Array:
    return pa.StructArray.from_arrays(arrays, names=names)


# ---- arrays --------------------------------------------------------------------------------------------------


def _size(compiler: ScalarCompiler, arguments: list[exp.Expression]) -> Compiled:
    if len(arguments) != 1:
        return None
    value = compiler.compile(arguments[0])
    return (_lengths, (value,)) if pa.types.is_list(compiler.type_of(value)) else None


def _lengths(array: pa.Array) -> pa.Array:
    return pc.list_value_length(array).cast(pa.int32())


def _element(compiler: ScalarCompiler, arguments: list[exp.Expression]) -> Compiled:
    """Compile try_element_at(array, n) for a literal n."""
    if len(arguments) != 2:
        return None
    place = _written_integer(arguments[1])
    value = compiler.compile(arguments[0])
    if not place or not pa.types.is_list(compiler.type_of(value)):
        return None
    return partial(_element_at, place=place), (value,)


def _element_at(value: pa.Array, place: int) -> pa.Array:
    """Return the element at a place of each array, counted from 1 or from its end; null if the array is shorter."""
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


def _zip(compiler: ScalarCompiler, node: exp.Cast) -> Compiled:
    """Compile CAST(arrays_zip(a, b …) AS ARRAY<STRUCT<…>>) of arrays of the same lengths: the events of a closure."""
    inner = node.to.expressions[0] if node.to.expressions else None
    if not isinstance(inner, exp.DataType) or inner.this is not exp.DataType.Type.STRUCT:
        return None
    arrays = tuple(map(compiler.compile, node.this.expressions))
    if not arrays or any(not pa.types.is_list(compiler.type_of(array)) for array in arrays):
        return None
    return partial(_structs, names=[field.name for field in inner.expressions]), arrays


def _structs(*arrays: pa.Array, names: list[str]) -> pa.Array:
    first = arrays[0]
    if any(not array.value_lengths().equals(first.value_lengths()) for array in arrays[1:]):
        raise NeedsSpark("arrays_zip of arrays of different lengths").as_error()
    values = pa.StructArray.from_arrays([array.flatten() for array in arrays], names=names)
    lengths = pc.fill_null(first.value_lengths(), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, values, mask=first.is_null() if first.null_count else None)


# ---- choices, tests ------------------------------------------------------------------------------------------


def _case(compiler: ScalarCompiler, node: exp.Case) -> Compiled:
    """Compile CASE WHEN over values that are not the machine's, all of one type."""
    if node.this is not None:
        return None
    branches = node.args["ifs"]
    values = [compiler.compile(branch.args["true"]) for branch in branches]
    default = node.args.get("default")
    values.append(Constant(None, VOID) if default is None else compiler.compile(default))
    kinds = {kind for kind in map(compiler.type_of, values) if not pa.types.is_null(kind)}
    conditions = [compiler.compile(branch.this) for branch in branches]
    if len(kinds) != 1 or not all(pa.types.is_boolean(compiler.type_of(condition)) for condition in conditions):
        return None
    return partial(_choose, kind=kinds.pop()), (*conditions, *values)


def _choose(*arrays: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the value of the first condition that holds, else the last. arrays: conditions, then values."""
    branches = len(arrays) // 2
    *values, result = (
        pa.nulls(len(value), kind) if pa.types.is_null(value.type) else value for value in arrays[branches:]
    )
    for condition, value in zip(reversed(arrays[:branches]), reversed(values), strict=True):
        result = pc.if_else(condition.fill_null(False), value, result)
    return result


def _is_null(compiler: ScalarCompiler, node: exp.Is) -> Compiled:
    negated = isinstance(node.expression, exp.Not)
    target = node.expression.this if negated else node.expression
    if not isinstance(target, exp.Null):
        return None
    return pc.is_valid if negated else pc.is_null, (compiler.compile(node.this),)


# ---- casts ---------------------------------------------------------------------------------------------------


def _cast(compiler: ScalarCompiler, node: exp.Cast) -> Compiled:
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "arrays_zip":
        return _zip(compiler, node)
    value = compiler.compile(node.this)
    kind, target = compiler.type_of(value), node.to
    if target.this is exp.DataType.Type.DECIMAL and len(target.expressions) == 2:
        precision, scale = (int(part.name) for part in target.expressions)
        exact = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
        return (partial(_as_decimal, precision=precision, scale=scale), (value,)) if exact else None
    name = target.sql("spark").lower()
    if _NAMES_OF_TYPES.get(name, name) != "string":
        return None
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32)
    return (partial(pc.cast, target_type=pa.string()), (value,)) if any(test(kind) for test in tests) else None


def _as_decimal(value: pa.Array, precision: int, scale: int) -> pa.Array:
    """Cast an exact number to a decimal; null if it has too many digits."""
    if pa.types.is_integer(value.type):
        value = value.cast(pa.decimal128(19, 0))
    if scale < value.type.scale:
        value = pc.round(value, ndigits=scale, round_mode="half_towards_infinity")
    whole = precision - scale
    if value.type.precision - value.type.scale > whole:
        limit = Decimal(10) ** whole
        fits = pc.less(pc.abs(value), pa.scalar(limit, pa.decimal128(whole + 1, 0)))
        value = pc.if_else(pc.fill_null(fits, False), value, pa.scalar(None, value.type))
    return value.cast(pa.decimal128(precision, scale))


FUNCTIONS: dict[str, Callable[[ScalarCompiler, list[exp.Expression]], Compiled]] = {
    "named_struct": _named_struct,
    "size": _size,
    "cardinality": _size,
    "try_element_at": _element,
}
NODES: dict[type, Callable[[ScalarCompiler, exp.Expression], Compiled]] = {
    exp.Column: _field,
    exp.Dot: _field,
    exp.Case: _case,
    exp.Is: _is_null,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}


COMPUTED = "__computed_"
NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class ArrowCall:
    """A column that Arrow computes: a function of arrays, and the expressions whose values it takes."""

    function: Callable[..., pa.Array]
    operands: tuple[Expression, ...]


class ScalarCompiler:
    """Compiles trees over columns of a schema (of the types that Spark has: `spark_types.held_as`).

    utc: see `plan.compilable`. arguments: the values of parameters. Afterwards `calls` has the columns that expressions
    read and Arrow computes, and `read` the types of the others.
    """

    def __init__(self, schema: pa.Schema, utc: bool = True, arguments: Arguments = NO_ARGUMENTS) -> None:
        self.schema = schema
        self.utc = utc
        self.arguments = arguments
        self.calls: dict[str, ArrowCall] = {}
        self.read: dict[str, pa.DataType] = {}
        self._types: dict[str, pa.DataType] = {field.name: field.type for field in schema}
        self._names = {name.lower(): name for name in reversed(schema.names)}

    def compile(self, tree: exp.Expression) -> Expression:
        """Compile a tree. Raises NotCompilable if only Spark evaluates it, and Mistake if it is wrong."""
        return NativeCompiler(self._load, self._by_arrow, self.utc, arguments=self.arguments).compile(tree)

    def column(self, name: str) -> Load | None:
        """Return a column by its name, in any case."""
        own = name if name in self._types else self._names.get(name.lower())
        if own is None:
            return None
        self.read[own] = self._types[own]
        return Load(own, Current(0), spark_name(self._types[own]))

    def call(self, call: ArrowCall) -> Load:
        """Add a column that Arrow computes."""
        name = f"{COMPUTED}{len(self.calls)}"
        nothing = [pa.nulls(0, self.type_of(operand)) for operand in call.operands]
        self.calls[name] = call
        self._types[name] = call.function(*nothing).type
        return Load(name, Current(0), spark_name(self._types[name]))

    def type_of(self, expression: Expression) -> pa.DataType:
        """Return the type of an expression's values."""
        if isinstance(expression, Load):
            return self._types[expression.column]
        if isinstance(expression, Apply) and is_ranked(expression):
            return self.type_of(expression.operands[1 if expression.operation == "if" else 0])
        return pa.null() if expression.type == VOID else arrow_type(expression.type)

    def _load(self, name: str) -> Expression:
        column = self.column(name)
        if column is None:
            raise NotCompilable(exp.column(name), f"there is no column {name}")
        return column

    def _by_arrow(self, node: exp.Expression) -> Expression | None:
        """Compile a subtree that Arrow evaluates, as a further column; None if it does not."""
        try:
            if isinstance(node, exp.Anonymous):
                function = FUNCTIONS.get(node.name.lower())
                found = None if function is None else function(self, node.expressions)
            else:
                handler = NODES.get(type(node))
                found = None if handler is None else handler(self, node)
        except NotCompilable:
            return None
        return None if found is None else self.call(ArrowCall(*found))


class Scalars:
    """Values of compiled expressions over the rows of a table. calls, types: those of their compiler; the columns of
    the table are read in these types."""

    def __init__(
        self, table: pa.Table, calls: Mapping[str, ArrowCall] = NOTHING, types: Mapping[str, pa.DataType] = NOTHING
    ) -> None:
        self.table = table
        self.rows = table.num_rows
        self.calls = calls
        self.types = types
        self._held: dict[str, pa.Array] = {}

    def input_column(self, name: str) -> pa.Array | pa.ChunkedArray:
        """Return a column, in its chunks."""
        if name in self.calls:
            return self._column(name)
        at = self.table.schema.get_all_field_indices(name)[-1]
        column = self.table.column(at)
        if self.types.get(name, column.type) == column.type:
            return column
        return to_spark_types(self.table.select([at])).column(0)

    def _column(self, name: str) -> pa.Array:
        if name not in self._held:
            call = self.calls.get(name)
            if call is None:
                self._held[name] = one_chunk(self.input_column(name))
            else:
                self._held[name] = call.function(*(self.run(operand) for operand in call.operands))
        return self._held[name]

    def run(self, expression: Expression) -> pa.Array:
        """Return the value of a compiled expression for every row."""
        if isinstance(expression, Load):
            return self._column(expression.column)
        if isinstance(expression, Constant):
            return self._constant(expression)
        assert isinstance(expression, Apply)
        return self._choose(expression) if is_ranked(expression) else self._compute(expression)

    def _constant(self, constant: Constant) -> pa.Array:
        if constant.type == VOID:
            return pa.nulls(self.rows)
        if isinstance(constant.value, str):
            return pa.repeat(pa.scalar(constant.value, pa.string()), self.rows)
        if is_wide(constant):
            assert isinstance(constant.value, int)
            low, high = (np.full(self.rows, word, np.int64) for word in _words_of(constant.value))
            return decimals(low, high, np.ones(self.rows, np.int64), arrow_type(constant.type))
        floating = is_float_lane(constant.type)
        values = np.full(self.rows, constant.value or 0, np.float64 if floating else np.int64)
        return to_arrow(values, np.full(self.rows, constant.value is None), constant.type)

    def _choose(self, apply: Apply) -> pa.Array:
        """Compute a choice between values that the machine can only compare."""
        if apply.operation == "if":
            condition, one, other = (self.run(operand) for operand in apply.operands)
            return pc.if_else(condition.fill_null(False), one, _like(other, one))
        first, second = (self.run(operand) for operand in apply.operands)
        if apply.operation == "coalesce":
            return pc.coalesce(first, _like(second, first))
        order = "le" if apply.operation == "least" else "ge"
        best = self.run(Apply(order, apply.operands, "boolean"))
        either = pc.coalesce(first, _like(second, first))  # if one is null, the other
        return pc.if_else(best.is_null(), either, pc.if_else(best, first, _like(second, first)))

    def _compute(self, apply: Apply) -> pa.Array:
        needs = needs_in([apply])
        read = {name: self._column(name) for name in (*needs.columns, *needs.words)}
        table = pa.Table.from_arrays([pa.chunked_array([array]) for array in read.values()], names=list(read))
        lanes = encode(table, needs.columns, (), needs.constants, (0, 0), needs.words)
        values, high, valid = compute(lanes, np.zeros(self.rows, np.int64), apply)
        if is_wide(apply):
            return decimals(values, high, valid.astype(np.int64), arrow_type(apply.type))
        return to_arrow(values, valid == 0, apply.type)


def _like(array: pa.Array, other: pa.Array) -> pa.Array:
    return array if array.type == other.type else array.cast(other.type)


def _words_of(value: int) -> tuple[int, int]:
    """Return the words of a number of 128 bits, with signs."""
    low = value & (2**64 - 1)
    return low - 2**64 if low >= 2**63 else low, value >> 64
