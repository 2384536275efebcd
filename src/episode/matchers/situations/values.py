"""Values that RETURN asks of situations, as of a row, kept between batches as columns of the state.

Every output atom about a situation's events is an accumulator: a few columns for each situation so far (for example
a sum and a count). They are computed for the rows that are asked for, from what the situation had in earlier batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers import codes as oc
from episode.matchers.assembly import arrow_type, average_type, decimals, gather, to_arrow, with_keys
from episode.matchers.code.aggregates import AggregateShape
from episode.matchers.code.measures import divide_decimals
from episode.matchers.columns import from_numbers, from_times, numbers, one_chunk, ranks, raw_values, valid_mask
from episode.matchers.encoding import as_int64
from episode.matchers.prepare import Prepared, measure_argument
from episode.matchers.situations.code.values import FIND, FOLD, SUM_WORDS, ValuesShape, accumulate
from episode.plan.expressions import Expression, Load
from episode.plan.measures import VARIANCES
from episode.plan.output import (
    ColumnAtPlace,
    DecimalAverage,
    DecimalSum,
    Extreme,
    OutputAtom,
    PlaceExists,
    RowAggregate,
)
from episode.plan.situations.plan import DETECTED_AT, MatchMoment, SituationMoment, SituationPlan
from episode.plan.types import is_float, lane_of

if TYPE_CHECKING:
    from episode.matchers.situations.prepare import SituationFeed
    from episode.matchers.situations.state import Symbol


@dataclass(frozen=True)
class AskedSituations:
    """Situations of one symbol, as of rows: see `code.values`. `opened` are rows of the table `before`."""

    first: np.ndarray
    last: np.ndarray
    opened: np.ndarray
    before: pa.Table

    def __len__(self) -> int:
        return len(self.last)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"first": self.first, "last": self.last, "opened": self.opened}

    def columns_before(self, **columns: str) -> dict[str, np.ndarray]:
        """Columns of what situations had before, by the names that they have in the code."""
        return {f"before_{name}": numbers(one_chunk(self.before.column(column))) for name, column in columns.items()}


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

    def columns(self, atom: OutputAtom, name: str, asked: AskedSituations) -> list[pa.Array]:
        """The state columns of an atom for what is asked."""
        if isinstance(atom, ColumnAtPlace):
            return [self._at_place(atom, name, asked)]
        if isinstance(atom, RowAggregate):
            return self._aggregate(atom, name, asked)
        if isinstance(atom, (DecimalSum, DecimalAverage)):
            return self._decimals(atom, name, asked)
        assert isinstance(atom, Extreme)
        return self._extreme(atom, name, asked)

    def _at_place(self, atom: ColumnAtPlace, name: str, asked: AskedSituations) -> pa.Array:
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

    def _lane(self, argument: Expression | None) -> tuple[bool, bool, dict[str, np.ndarray]]:
        """(is float, has nulls, the values and their validity) of an argument."""
        if argument is None:
            return False, False, {}
        floating, row, check = self.prepared.column(argument)
        lanes = self.prepared.lanes
        found: dict[str, np.ndarray] = {}
        if row >= 0:
            found |= {"floats": lanes.floats[row]} if floating else {"ints": lanes.ints[row]}
        if check >= 0:
            found["valid"] = lanes.valid[check]
        return floating, check >= 0, found

    def _aggregate(self, atom: RowAggregate, name: str, asked: AskedSituations) -> list[pa.Array]:
        argument = None if atom.argument is None else measure_argument(atom)
        floating, has_nulls, lane = self._lane(argument)
        given = asked.arrays | lane

        def fold(function: int, **before: str) -> list[np.ndarray]:
            return accumulate(
                ValuesShape(FOLD, AggregateShape(function, floating), has_nulls), given | asked.columns_before(**before)
            )

        n, a, b = f"{name}.n", f"{name}.a", f"{name}.b"
        if atom.function in ("count", "count_if"):
            found = fold(oc.COUNT if atom.function == "count" else oc.COUNT_IF, count=name)
        elif atom.function in VARIANCES:
            found = fold(oc.VAR_POP, count=n, real=a, more=b)
        elif floating:
            counts, sums = fold(oc.SUM, count=n, real=b)
            found = [counts, np.zeros(len(asked), np.int64), sums]
        else:
            found = fold(oc.SUM, count=n, whole=a, more=b)
        return list(map(from_numbers, found))

    def _decimals(self, atom: DecimalSum | DecimalAverage, name: str, asked: AskedSituations) -> list[pa.Array]:
        array = one_chunk(self.table.column(atom.column))
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
        words, valid = raw_values(array, np.int64), valid_mask(array)
        given = {
            "low_words": np.ascontiguousarray(words[0::2]).view(np.uint64),
            "high_words": np.ascontiguousarray(words[1::2]),
            "valid": valid.view(np.uint8),
        }
        before = asked.columns_before(count=f"{name}.n", low=f"{name}.low", high=f"{name}.high")
        shape = ValuesShape(SUM_WORDS, AggregateShape(oc.SUM_WIDE), len(valid) > 0)
        return list(map(from_numbers, accumulate(shape, asked.arrays | given | before)))

    def _extreme(self, atom: Extreme, name: str, asked: AskedSituations) -> list[pa.Array]:
        values = self._with_before(atom.by, asked.before.column(f"{name}.by"))
        floating, valid = is_float(atom.by.type), valid_mask(values)
        given = {"shift": np.array([asked.before.num_rows]), "valid": valid.view(np.uint8)}
        if lane_of(atom.by.type) == "code":
            given["ints"] = ranks(values)
        elif floating:
            given["floats"] = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        else:
            given["ints"] = np.ascontiguousarray(as_int64(values))  # what is null does not matter
        function = oc.MAX_BY if atom.function.startswith("max") else oc.MIN_BY
        shape = ValuesShape(FIND, AggregateShape(function, floating), len(valid) > 0)
        (rows,) = accumulate(shape, asked.arrays | given)
        found = [gather(values, rows)]
        if atom.value != atom.by:
            found.append(gather(self._with_before(atom.value, asked.before.column(f"{name}.value")), rows))
        return found

    def _with_before(self, expression: Expression, before: pa.ChunkedArray) -> pa.Array:
        """Values of earlier batches, then those of the rows."""
        if isinstance(expression, Load) and expression not in self.prepared.computed:
            here = one_chunk(self.table.column(expression.column))
        else:
            floating, row, check = self.prepared.computed[expression]
            lanes = self.prepared.lanes
            here = to_arrow(
                lanes.floats[row] if floating else lanes.ints[row], lanes.valid[check] == 0, expression.type
            )
        return pa.concat_arrays([one_chunk(before).cast(here.type), here]) if len(before) else here


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


# From matches as places in buffers to tables of output columns.


class SituationOutput:
    """Makes the tables of a matcher's matches. input_schema: of the events."""

    def __init__(self, plan: SituationPlan, schema: pa.Schema, input_schema: pa.Schema) -> None:
        self.plan = plan
        self.schema = schema
        self.input_schema = input_schema
        self.keyed = False

    def table(self, feed: SituationFeed, symbols: Sequence[Symbol], found: np.ndarray, rows: np.ndarray) -> pa.Table:
        """found int64[matches, symbols + 1]: slots, and bits of those that last. rows int64[matches, 2]: the row with
        which a match was certain, and its group."""
        names = self.plan.symbols
        row, group = rows[:, 0], rows[:, 1]
        lasts = found[:, -1]
        starts = {name: feed.starts[found[:, number]] for number, name in enumerate(names)}
        values: dict[str, pa.Array] = {}
        for symbol in symbols:
            if symbol.atoms:
                slots = found[:, symbol.number]
                lasting = lasts >> symbol.number & 1 == 1
                as_of = np.where(lasting, row, feed.last[slots])
                columns, index = feed.values(symbol, slots, as_of, group)
                taken = iter([column.take(from_numbers(index)) for column in columns])
                for atom, name in symbol.atoms:
                    own = [next(taken) for _ in state_fields(atom, name, self.input_schema)]
                    values[name] = result(atom, own, self.schema.field(name).type)
        arrays = []
        for atom, name in self.plan.measures.atoms.items():
            kind = self.schema.field(name).type
            if isinstance(atom, SituationMoment):
                number = names.index(atom.symbol)
                missing = lasts >> number & 1 == 1 if atom.end else None
                times = feed.ends[found[:, number]] if atom.end else starts[atom.symbol]
                arrays.append(from_times(times, kind, missing))
            elif isinstance(atom, MatchMoment):
                moment = feed.events.time[row] if atom.name == DETECTED_AT else np.min(list(starts.values()), axis=0)
                arrays.append(from_times(moment, kind))
            elif isinstance(atom, PlaceExists):
                arrays.append(pa.array(np.ones(len(found), np.bool_)))
            else:
                arrays.append(values[name])
        cast = [
            array if array.type == one.type else array.cast(one.type)
            for array, one in zip(arrays, self.schema, strict=True)
        ]
        matches = pa.Table.from_arrays(cast, schema=self.schema)
        return with_keys(matches, feed.keys[group]) if self.keyed else matches
