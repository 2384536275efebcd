"""Scalar expressions over the columns of a table, without Spark: by the expression machine, and by Arrow around it.

The machine computes numbers, times and conditions. Values that it only compares (strings, wide decimals), structs and
arrays are moved by Arrow. What neither knows is `NotCompilable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from episode.matchers import arrow_functions
from episode.matchers.assembly import arrow_type, decimals, typed
from episode.matchers.columns import one_chunk
from episode.matchers.encoding import encode, is_float_lane
from episode.matchers.prepare import loads_in
from episode.matchers.row_code import compute
from episode.matchers.spark_types import retyped, spark_name
from episode.plan.compilable import NO_ARGUMENTS, NativeCompiler, NotCompilable
from episode.plan.expressions import Apply, Constant, Current, Expression, Load
from episode.plan.parameters import Arguments
from episode.plan.types import VOID
from episode.plan.wide import is_ranked, is_ranked_constant, is_wide

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

    def in_utc(self) -> ScalarCompiler:
        """The same with times of day in UTC."""
        return ScalarCompiler(self.schema, True, self.arguments)

    def compile(self, tree: exp.Expression) -> Expression:
        """The expression of a tree. Raises NotCompilable if only Spark evaluates it, and Mistake if nobody does."""
        return NativeCompiler(self._load, self._by_arrow, self.utc, arguments=self.arguments).compile(tree)

    def column(self, name: str) -> Load | None:
        """A column by its name, in any case."""
        own = name if name in self._types else self._names.get(name.lower())
        if own is None:
            return None
        self.read[own] = self._types[own]
        return Load(own, Current(0), spark_name(self._types[own]))

    def call(self, call: ArrowCall) -> Load:
        """A further column, that Arrow computes."""
        name = f"{COMPUTED}{len(self.calls)}"
        nothing = [pa.array([], self.type_of(operand)) for operand in call.operands]
        self.calls[name] = call
        self._types[name] = call.function(*nothing).type
        return Load(name, Current(0), spark_name(self._types[name]))

    def type_of(self, expression: Expression) -> pa.DataType:
        """The type of an expression's values."""
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
        """A subtree that Arrow evaluates, as a further column; None where it does not."""
        try:
            found = arrow_functions.compile_node(self, node)
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

    def given(self, name: str) -> pa.Array | pa.ChunkedArray:
        """A column, in as many chunks as it has."""
        if name in self.calls:
            return self._column(name)
        at = self.table.schema.get_all_field_indices(name)[-1]
        column = self.table.column(at)
        if self.types.get(name, column.type) == column.type:
            return column
        return retyped(self.table.select([at])).column(0)

    def _column(self, name: str) -> pa.Array:
        if name not in self._held:
            call = self.calls.get(name)
            if call is None:
                self._held[name] = one_chunk(self.given(name))
            else:
                self._held[name] = call.function(*(self.run(operand) for operand in call.operands))
        return self._held[name]

    def run(self, expression: Expression) -> pa.Array:
        """The value of a compiled expression for every row."""
        if isinstance(expression, Load):
            return self._column(expression.column)
        if isinstance(expression, Constant):
            return self._constant(expression)
        assert isinstance(expression, Apply)
        return self._chosen(expression) if is_ranked(expression) else self._computed(expression)

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
        return typed(values, np.full(self.rows, constant.value is None), constant.type)

    def _chosen(self, apply: Apply) -> pa.Array:
        """A choice between values that the machine can only compare."""
        if apply.operation == "if":
            condition, one, other = (self.run(operand) for operand in apply.operands)
            return pc.if_else(condition.fill_null(False), one, _like(other, one))
        first, second = (self.run(operand) for operand in apply.operands)
        if apply.operation == "coalesce":
            return pc.coalesce(first, _like(second, first))
        order = "le" if apply.operation == "least" else "ge"
        best = self.run(Apply(order, apply.operands, "boolean"))
        either = pc.coalesce(first, _like(second, first))  # where one is null, the other
        return pc.if_else(best.is_null(), either, pc.if_else(best, first, _like(second, first)))

    def _computed(self, apply: Apply) -> pa.Array:
        columns: dict[str, str] = {}
        words: dict[str, Any] = {}
        constants = dict.fromkeys(
            (node.type, node.value)
            for node in loads_in(apply, columns, words)
            if isinstance(node, Constant) and is_ranked_constant(node)
        )
        table = _table({name: self._column(name) for name in (*columns, *words)})
        lanes = encode(table, columns, (), constants, (0, 0), words)
        values, high, valid = compute(lanes, np.zeros(self.rows, np.int64), apply)
        if is_wide(apply):
            return decimals(values, high, valid.astype(np.int64), arrow_type(apply.type))
        return typed(values, valid == 0, apply.type)


def _table(columns: Mapping[str, pa.Array]) -> pa.Table:
    return pa.Table.from_arrays([pa.chunked_array([array]) for array in columns.values()], names=list(columns))


def _like(array: pa.Array, other: pa.Array) -> pa.Array:
    return array if array.type == other.type else array.cast(other.type)


def _words_of(value: int) -> tuple[int, int]:
    """The words of a number of 128 bits, with signs."""
    low = value & (2**64 - 1)
    return low - 2**64 if low >= 2**63 else low, value >> 64
