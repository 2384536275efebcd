"""Scalar expressions over the columns of a table, without Spark: by the expression machine, and by Arrow around it.

The machine computes numbers, times and conditions. Values that it only compares (strings, wide decimals), structs and
arrays are moved by Arrow. What neither knows is `NeedsSpark`.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from episode.matchers.spark_types import spark_name
from episode.plan.compilable import NativeCompiler, NotCompilable
from episode.plan.expressions import Apply, Constant, Current, Expression, Load
from episode.plan.types import VOID
from episode.plan.wide import is_ranked, is_ranked_constant, is_wide

COMPUTED = "__computed_"


class NeedsSpark(Exception):
    """Only Spark evaluates this node."""

    def __init__(self, node: exp.Expression) -> None:
        super().__init__(node.sql("spark"))
        self.node = node


class Scalars:
    """Evaluates trees over a table (held as Spark would: `spark_types.retyped`).

    utc: see `plan.compilable`. arguments: the values of parameters.
    """

    def __init__(self, table: pa.Table, utc: bool = True, arguments: Mapping[str, object] | None = None) -> None:
        self.rows = table.num_rows
        self.utc = utc
        self.arguments = arguments or {}
        self._names = {name.lower(): name for name in reversed(table.column_names)}
        self._columns: dict[str, pa.Array] = {
            name: one_chunk(column) for name, column in zip(table.column_names, table.columns, strict=True)
        }

    def evaluate(self, tree: exp.Expression) -> pa.Array:
        """The value of a tree for every row. Raises NeedsSpark, or what `plan.compilable` has for mistakes."""
        try:
            return self.run(self._compiler().compile(tree))
        except NotCompilable as error:
            raise NeedsSpark(error.node) from None

    def column(self, name: str) -> pa.Array | None:
        """A column by its name, in any case."""
        own = name if name in self._columns else self._names.get(name.lower())
        return None if own is None else self._columns[own]

    # ---- compiling -------------------------------------------------------------------------------------------

    def _compiler(self) -> NativeCompiler:
        return NativeCompiler(self._load, self._by_arrow, self.utc, arguments=self.arguments)

    def _load(self, name: str) -> Expression:
        own = name if name in self._columns else self._names.get(name.lower())
        if own is None:
            raise NotCompilable(exp.column(name), f"there is no column {name}")
        return Load(own, Current(0), spark_name(self._columns[own].type))

    def _by_arrow(self, node: exp.Expression) -> Expression | None:
        """A subtree that Arrow evaluates, as a further column; None where it does not."""
        try:
            array = arrow_functions.evaluate(self, node)
        except NeedsSpark:
            return None
        if array is None:
            return None
        name = f"{COMPUTED}{len(self._columns)}"
        self._columns[name] = array
        return Load(name, Current(0), spark_name(array.type))

    # ---- running ---------------------------------------------------------------------------------------------

    def run(self, expression: Expression) -> pa.Array:
        """The value of a compiled expression over the columns."""
        if isinstance(expression, Load):
            return self._columns[expression.column]
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
        table = _table({name: self._columns[name] for name in (*columns, *words)})
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
