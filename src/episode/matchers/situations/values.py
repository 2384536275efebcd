"""What RETURN asks of situations: values as of a row, kept between batches as columns of the state.

Every output atom about a situation's events is an accumulator: a few columns for each situation so far (a sum and a
count, say). They are computed for the rows that are asked for, going on from what the situation had in earlier batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.kernels.situations import values as kernels
from episode.matchers.assembly import arrow_type, average_type, decimals, gather, typed
from episode.matchers.columns import one_chunk, raw_values, valid_mask
from episode.matchers.encoding import as_int64
from episode.matchers.measure_code import divide_decimals
from episode.matchers.prepare import Prepared, measure_argument
from episode.plan.expressions import Expression, Load
from episode.plan.output import (
    ColumnAtPlace,
    DecimalAverage,
    DecimalSum,
    Extreme,
    OutputAtom,
    RowAggregate,
)
from episode.plan.types import is_float, lane_of

NO_FLOATS = np.zeros(0, np.float64)
NO_INTS = np.zeros(0, np.int64)
NO_FLAGS = np.zeros(0, np.uint8)
VARIANCES = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")


@dataclass(frozen=True)
class Asked:
    """Situations of one symbol, as of rows: see kernels.situation_values. `opened` are rows of the table `before`."""

    first: np.ndarray
    last: np.ndarray
    opened: np.ndarray
    before: pa.Table

    def __len__(self) -> int:
        return len(self.last)


def symbol_of(atom: OutputAtom) -> str | None:
    """The symbol over whose situations an atom is computed."""
    if isinstance(atom, ColumnAtPlace):
        labels = atom.place.labels
    elif isinstance(atom, (RowAggregate, DecimalSum, DecimalAverage, Extreme)):
        labels = atom.labels
    else:
        return None
    assert labels is not None
    (symbol,) = labels
    return symbol


def state_fields(atom: OutputAtom, name: str, schema: pa.Schema) -> list[pa.Field]:
    """The columns that keep an atom between batches."""
    count = pa.field(f"{name}.n", pa.int64())
    if isinstance(atom, ColumnAtPlace):
        return [pa.field(name, schema.field(atom.column).type)]
    if isinstance(atom, RowAggregate):
        if atom.function in ("count", "count_if"):
            return [pa.field(name, pa.int64())]
        kinds = (pa.float64(), pa.float64()) if atom.function in VARIANCES else (pa.int64(), pa.float64())
        return [count, pa.field(f"{name}.a", kinds[0]), pa.field(f"{name}.b", kinds[1])]
    if isinstance(atom, (DecimalSum, DecimalAverage)):
        return [count, pa.field(f"{name}.low", pa.uint64()), pa.field(f"{name}.high", pa.int64())]
    assert isinstance(atom, Extreme)
    fields = [pa.field(f"{name}.by", _value_type(atom.by, schema))]
    return fields if atom.value == atom.by else [*fields, pa.field(f"{name}.value", _value_type(atom.value, schema))]


def _value_type(expression: Expression, schema: pa.Schema) -> pa.DataType:
    return schema.field(expression.column).type if isinstance(expression, Load) else arrow_type(expression.type)


@dataclass
class Accumulators:
    """Computes atoms over the rows of one batch."""

    table: pa.Table
    prepared: Prepared
    schema: pa.Schema

    def columns(self, atom: OutputAtom, name: str, asked: Asked) -> list[pa.Array]:
        """The state columns of an atom for what is asked."""
        if isinstance(atom, ColumnAtPlace):
            return [self._at_place(atom, name, asked)]
        if isinstance(atom, RowAggregate):
            return self._aggregate(atom, name, asked)
        if isinstance(atom, (DecimalSum, DecimalAverage)):
            return self._decimals(atom, name, asked)
        assert isinstance(atom, Extreme)
        return self._extreme(atom, name, asked)

    def _at_place(self, atom: ColumnAtPlace, name: str, asked: Asked) -> pa.Array:
        began_here = asked.opened < 0
        if atom.place.first:
            rows = np.where(began_here, asked.first, -1)
        else:
            rows = np.where(asked.last >= asked.first, asked.last, -1)
        here = gather(self.table.column(atom.column), rows)
        from_before = rows < 0
        if not from_before.any():
            return here
        there = gather(asked.before.column(name), np.where(from_before, asked.opened, -1))
        return pc.if_else(pa.array(from_before), there, here)

    def _lane(self, argument: Expression | None) -> tuple[bool, bool, np.ndarray, np.ndarray, np.ndarray]:
        """(is float, has nulls, ints, floats, validity) of an argument; empty arrays for what there is not."""
        if argument is None:
            return False, False, NO_INTS, NO_FLOATS, NO_FLAGS
        floating, row, check = self.prepared.column(argument)
        lanes = self.prepared.lanes
        ints = lanes.ints[row] if not floating and row >= 0 else NO_INTS
        floats = lanes.floats[row] if floating and row >= 0 else NO_FLOATS
        return floating, check >= 0, ints, floats, lanes.valid[check] if check >= 0 else NO_FLAGS

    def _aggregate(self, atom: RowAggregate, name: str, asked: Asked) -> list[pa.Array]:
        argument = None if atom.argument is None else measure_argument(atom)
        floating, has_nulls, ints, floats, valid = self._lane(argument)
        places = (asked.first, asked.last, asked.opened, has_nulls, valid)
        if atom.function in ("count", "count_if"):
            before = _numbers(asked.before, name, np.int64)
            return [pa.array(kernels.count_so_far(*places, atom.function == "count_if", ints, before))]
        n = _numbers(asked.before, f"{name}.n", np.int64)
        b = _numbers(asked.before, f"{name}.b", np.float64)
        if atom.function in VARIANCES:
            a = _numbers(asked.before, f"{name}.a", np.float64)
            return [pa.array(array) for array in kernels.variance_so_far(*places, floats, n, a, b)]
        a = _numbers(asked.before, f"{name}.a", np.int64)
        return [pa.array(array) for array in kernels.sum_so_far(*places, floating, ints, floats, n, a, b)]

    def _decimals(self, atom: DecimalSum | DecimalAverage, name: str, asked: Asked) -> list[pa.Array]:
        array = one_chunk(self.table.column(atom.column))
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
        words, valid = raw_values(array, np.int64), valid_mask(array)
        found = kernels.sum_decimals_so_far(
            asked.first, asked.last, asked.opened, len(valid) > 0, valid.view(np.uint8),
            np.ascontiguousarray(words[0::2]).view(np.uint64), np.ascontiguousarray(words[1::2]),
            _numbers(asked.before, f"{name}.n", np.int64), _numbers(asked.before, f"{name}.low", np.uint64),
            _numbers(asked.before, f"{name}.high", np.int64),
        )  # fmt: skip
        return [pa.array(array) for array in found]

    def _extreme(self, atom: Extreme, name: str, asked: Asked) -> list[pa.Array]:
        values = self._with_before(atom.by, asked.before.column(f"{name}.by"))
        shift = asked.before.num_rows
        floating, ints, floats = is_float(atom.by.type), NO_INTS, NO_FLOATS
        if lane_of(atom.by.type) == "code":
            ints = _ranks(values)
        elif floating:
            floats = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        else:
            ints = _whole_numbers(values)
        greatest = atom.function.startswith("max")
        valid = valid_mask(values)
        rows = kernels.extreme_so_far(
            asked.first, asked.last, asked.opened, shift, len(valid) > 0, valid.view(np.uint8), floating, ints, floats,
            greatest,
        )  # fmt: skip
        found = [gather(values, rows)]
        if atom.value != atom.by:
            found.append(gather(self._with_before(atom.value, asked.before.column(f"{name}.value")), rows))
        return found

    def _with_before(self, expression: Expression, before: pa.ChunkedArray) -> pa.Array:
        """Values of earlier batches, then those of the rows."""
        if isinstance(expression, Load) and expression not in self.prepared.computed:
            here = one_chunk(self.table.column(expression.column))
        else:
            here = typed_lane(self.prepared, expression)
        return pa.concat_arrays([one_chunk(before).cast(here.type), here]) if len(before) else here


def typed_lane(prepared: Prepared, expression: Expression) -> pa.Array:
    """A computed row-local value as an Arrow array."""
    floating, row, check = prepared.computed[expression]
    lanes = prepared.lanes
    values = lanes.floats[row] if floating else lanes.ints[row]
    return typed(values, lanes.valid[check] == 0, expression.type)


def result(atom: OutputAtom, columns: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """An atom's output from its state columns."""
    if isinstance(atom, (ColumnAtPlace, Extreme)):
        return columns[-1].cast(kind)
    if isinstance(atom, (DecimalSum, DecimalAverage)):
        n, low, high = (column.to_numpy(zero_copy_only=False) for column in columns)
        if isinstance(atom, DecimalSum):
            return decimals(low, high, n, kind)
        low, high = divide_decimals(low, high, n, kind.scale - atom.scale)
        return decimals(low, high, n, average_type(atom))
    assert isinstance(atom, RowAggregate)
    if atom.function in ("count", "count_if"):
        return columns[0]
    n, a, b = (column.to_numpy(zero_copy_only=False) for column in columns)
    if atom.function in VARIANCES:
        degrees = n - 1 if atom.function.endswith("samp") else n
        variance = b / np.maximum(degrees, 1)
        return pa.array(np.sqrt(variance) if atom.function.startswith("stddev") else variance, mask=degrees < 1)
    assert atom.argument is not None
    if atom.function == "avg":
        return pa.array((a + b) / np.maximum(n, 1), pa.float64(), mask=n == 0)
    if is_float(atom.argument.type):
        array = pa.array(b, mask=n == 0)
    else:
        array = pa.array(a, mask=(n == 0) | (b != 0))
    return array if array.type == kind else array.view(kind) if kind.bit_width == 64 else array.cast(kind)


def _numbers(table: pa.Table, name: str, dtype: type) -> np.ndarray:
    """A column without nulls as a writable array: kernels are compiled for those."""
    return np.array(one_chunk(table.column(name)), dtype=dtype)


def _ranks(values: pa.Array) -> np.ndarray:
    """Order-preserving numbers of strings, binary and wide decimals."""
    encoded = values.dictionary_encode()
    if len(encoded.dictionary) == 0:
        return np.zeros(len(values), np.int64)
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    return rank[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]


def _whole_numbers(values: pa.Array) -> np.ndarray:
    """Values of the int lane in their order; what is null does not matter."""
    return np.ascontiguousarray(as_int64(values))
