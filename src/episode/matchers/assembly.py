"""Output of matchers: from matches to an Arrow table of output columns and atoms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError
from episode.matchers import codes as oc
from episode.matchers.code import measures as measure_code
from episode.matchers.code.aggregates import AggregateShape, UserFunctions
from episode.matchers.code.measures import ChosenRows, OutputRows
from episode.matchers.codes import TIMED_OUT, UNMATCHED
from episode.matchers.columns import ALL_VALID, from_numbers, from_texts, one_chunk, raw_values, take_array, valid_mask
from episode.matchers.prepare import FUNCTIONS, Prepared, measure_argument, membership
from episode.matchers.protocol import KEY_COLUMN
from episode.plan import output as atoms
from episode.plan.expressions import Expression, Load
from episode.plan.output import OutputAtom, RowAggregate, RowArray, RowMode, RowPlace
from episode.plan.pattern import PatternPlan
from episode.plan.types import decimal_of

NO_INTS = np.zeros(0, np.int64)
OVERFLOW = np.iinfo(np.int64).min
"""The high word of a decimal that has more than 38 digits."""
MOST_VALUES = 1 << 20
"""Output rows of one table, elements of their arrays included; a single row may have more."""
ROW_COLUMN = "__episode_row"
"""A column for outputs without any other: all measures are constants."""

ARROW = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


def arrow_type(type_: str) -> pa.DataType:
    """Return the Arrow type of a value that the machine computed."""
    decimal = decimal_of(type_)
    if decimal is not None:
        return pa.decimal128(*decimal)
    if type_.startswith("interval"):
        return pa.int64() if "month" in type_ or "year" in type_ else pa.duration("us")
    return ARROW[type_]


class PathLabels(NamedTuple):
    """Label of each instruction of a path, and whether its rows are hidden."""

    label_of: np.ndarray
    excluded: np.ndarray


_KINDS = {
    atoms.LabelAtPlace: pa.string(),
    atoms.PlaceExists: pa.bool_(),
    atoms.NumberOfMatch: pa.int64(),
    atoms.MatchConfidence: pa.float64(),
}


def output_schema(plan: PatternPlan, input_schema: pa.Schema) -> pa.Schema:
    """Return the schema of the output: input columns, the matched flag if needed, atoms."""
    fields = [input_schema.field(name).with_nullable(True) for name in plan.output.columns]
    if plan.output.rows is RowMode.ALL_WITH_UNMATCHED:
        fields.append(pa.field(atoms.MATCHED_COLUMN, pa.bool_()))
    for atom, name in plan.measures.atoms.items():
        fields.append(atom_field(atom, input_schema).with_name(name).with_nullable(True))
    if plan.output.timed_out:
        fields.append(pa.field(atoms.TIMED_OUT_COLUMN, pa.bool_()))
    return pa.schema(fields or [pa.field(ROW_COLUMN, pa.bool_())])


def atom_field(atom: OutputAtom, input_schema: pa.Schema) -> pa.Field:
    """Return the type of an atom, with the metadata of the column it copies."""

    def of(expression: Expression) -> pa.Field:
        if isinstance(expression, Load):
            return input_schema.field(expression.column)
        return pa.field("", arrow_type(expression.type))

    if isinstance(atom, atoms.ColumnAtPlace):
        return input_schema.field(atom.column)
    if isinstance(atom, atoms.Extreme):
        return of(atom.value)
    if type(atom) in _KINDS:
        kind = _KINDS[type(atom)]
    elif isinstance(atom, atoms.FinalMatches):
        kind = pa.decimal128(38, 0) if atom.exact else pa.float64()
    elif isinstance(atom, RowAggregate):
        kind = arrow_type(atom.type)
    elif isinstance(atom, atoms.DecimalSum):
        kind = pa.decimal128(38, atom.scale)
    elif isinstance(atom, atoms.DecimalAverage):
        kind = average_type(atom)
    else:
        assert isinstance(atom, RowArray)
        kind = pa.list_(pa.string() if atom.value is None else of(atom.value).type)
    return pa.field("", kind)


@dataclass(frozen=True)
class MatchRows:
    """Matches in output order; see `code.measures`. part_lo, part_hi: partition bounds by match. final: of collapsed
    matches, how many matches each represents. confidence: the probability of each match, if time is imprecise. key:
    codes of their keys, if the output is keyed. member: the rows of matches whose rows do not follow each other. alike:
    whether all matches have the same path, and one output row each. equivalents: atoms that have the values of others,
    and are computed in less time."""

    kind: np.ndarray
    start: np.ndarray
    length: np.ndarray
    number: np.ndarray
    path_from: np.ndarray
    path: np.ndarray
    part_lo: np.ndarray
    part_hi: np.ndarray
    final: pa.Array | None = None
    confidence: np.ndarray | None = None
    key: np.ndarray | None = None
    member: np.ndarray | None = None
    alike: bool = False
    equivalents: dict[OutputAtom, OutputAtom] = field(default_factory=dict)


def output_tables(
    plan: PatternPlan, schema: pa.Schema, program: PathLabels, table: pa.Table, prepared: Prepared, matches: MatchRows
) -> Iterator[pa.Table]:
    """Yield the output rows of matches in the rows of `table`, in tables of bounded size."""
    rows = plan.output.rows
    out_match, out_position = measure_code.output_rows(
        matches.kind,
        matches.length,
        matches.path_from,
        matches.path,
        program.excluded,
        rows is not RowMode.ALL_OMIT_EMPTY,
        rows is RowMode.ONE_ROW,
    )
    for at, end in output_ranges(plan, matches, out_match, out_position):
        found = OutputAssembler(
            plan, schema, program, table, prepared, matches, out_match[at:end], out_position[at:end]
        ).table_of_matches()
        yield found if matches.key is None else with_keys(found, matches.key[out_match[at:end]])


def output_ranges(
    plan: PatternPlan, matches: MatchRows, out_match: np.ndarray, out_position: np.ndarray
) -> Iterator[tuple[int, int]]:
    """Yield ranges of output rows of bounded size."""
    arrays = [atom for atom in plan.measures.atoms if isinstance(atom, RowArray)]
    if not arrays:
        for at in range(0, len(out_match), MOST_VALUES):
            yield at, min(at + MOST_VALUES, len(out_match))
        return
    values = np.ones(len(out_match), np.int64)
    for atom in arrays:
        values += matches.length[out_match] if atom.final else np.maximum(out_position + 1, 0)
    through = np.cumsum(values)
    at = 0
    while at < len(out_match):
        before = int(through[at - 1]) if at else 0
        end = max(at + 1, int(np.searchsorted(through, before + MOST_VALUES, side="right")))
        yield at, end
        at = end


def with_keys(matches: pa.Table, key: np.ndarray) -> pa.Table:
    """Add the key codes of a keyed matcher to its matches."""
    return matches.append_column(KEY_COLUMN, from_numbers(key.astype(np.int64, copy=False)))


@dataclass
class OutputAssembler:
    """Builds the table of some output rows of the matches of one feed: see `code.measures`."""

    plan: PatternPlan
    schema: pa.Schema
    program: PathLabels
    table: pa.Table
    prepared: Prepared
    matches: MatchRows
    out_match: np.ndarray
    out_position: np.ndarray

    def __post_init__(self) -> None:
        m = self.matches
        self.output = OutputRows(
            self.out_match, self.out_position, m.start, m.length, m.path_from, m.path, self.program.label_of, m.part_lo,
            m.part_hi, m.member, m.alike,
        )  # fmt: skip
        self._places: dict[RowPlace, np.ndarray] = {}
        self._label_names = from_texts(self.plan.labels.names)

    @cached_property
    def unmatched(self) -> np.ndarray:
        return self.matches.kind[self.out_match] == UNMATCHED

    @cached_property
    def timed_out(self) -> np.ndarray:
        return self.matches.number[self.out_match] == TIMED_OUT

    def table_of_matches(self) -> pa.Table:
        columns = []
        if self.plan.output.columns:
            m, at = self.matches, self.out_match
            shown = 0 if self.plan.output.rows is RowMode.ONE_ROW else np.maximum(self.out_position, 0)
            rows = m.start[at] + shown if m.member is None else m.member[m.path_from[at] + shown]
            columns = [gather(self.table.column(name), rows) for name in self.plan.output.columns]
        return self.table_with(columns, ~self.unmatched)

    def table_with(self, columns: list[pa.Array], matched: np.ndarray) -> pa.Table:
        """Return a table of input columns and matched values. matched: whether output rows have a match."""
        arrays = list(columns)
        if self.plan.output.rows is RowMode.ALL_WITH_UNMATCHED:
            arrays.append(from_numbers(matched))
        equivalents = self.matches.equivalents
        arrays += [self._atom(equivalents.get(atom, atom)) for atom in self.plan.measures.atoms]
        if self.plan.output.timed_out:
            arrays.append(from_numbers(self.timed_out))
        if not arrays:
            arrays = [from_numbers(np.ones(len(matched), np.bool_))]
        cast = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(arrays, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(cast, schema=self.schema)

    def _atom(self, atom: OutputAtom) -> pa.Array:
        if isinstance(atom, atoms.ColumnAtPlace):
            return gather(self.table.column(atom.column), self._place(atom.place))
        if isinstance(atom, atoms.LabelAtPlace):
            return gather(self._label_names, measure_code.labels_at(self.output, self._place(atom.place)))
        if isinstance(atom, atoms.PlaceExists):
            return from_numbers(self._place(atom.place) >= 0)
        if isinstance(atom, atoms.NumberOfMatch):
            return from_numbers(self.matches.number[self.out_match], self.unmatched | self.timed_out)
        if isinstance(atom, atoms.FinalMatches):
            assert self.matches.final is not None
            return self.matches.final.take(from_numbers(self.out_match))
        if isinstance(atom, atoms.MatchConfidence):
            assert self.matches.confidence is not None
            return from_numbers(self.matches.confidence[self.out_match])
        if isinstance(atom, RowAggregate):
            return self._aggregate(atom)
        if isinstance(atom, atoms.DecimalSum):
            return decimals(*self._sum_decimals(atom), pa.decimal128(38, atom.scale))
        if isinstance(atom, atoms.DecimalAverage):
            return self._decimal_average(atom)
        if isinstance(atom, atoms.Extreme):
            return self._extreme(atom)
        return self._gather(atom)

    def _place(self, place: RowPlace) -> np.ndarray:
        """Return the row of a place for every output row; -1 without one."""
        if place not in self._places:
            chosen = self._chosen_rows(place.labels, place.final)
            self._places[place] = measure_code.navigate(self.output, place.first, place.offset, place.shift, chosen)
        return self._places[place]

    def _chosen_rows(self, labels: frozenset[str] | None, final: bool, valid: np.ndarray | None = None) -> ChosenRows:
        members = None if labels is None else membership([labels], self.plan.labels)[0]
        return ChosenRows(final, members, valid)

    def _values(self, argument: Expression | None) -> tuple[bool, np.ndarray, np.ndarray | None]:
        """Return (is float, values, validity) of the aggregated values."""
        if argument is None:
            return False, NO_INTS, None
        floating, row, check = self.prepared.column(argument)
        lanes = self.prepared.lanes
        values = NO_INTS if row < 0 else lanes.floats[row] if floating else lanes.ints[row]
        return floating, values, lanes.valid[check] if check >= 0 else None

    def _aggregate(self, atom: RowAggregate) -> pa.Array:
        floating, values, valid = self._values(None if atom.argument is None else measure_argument(atom))
        if atom.user is None:
            function = AggregateShape(FUNCTIONS[atom.function], floating)
        else:
            function = AggregateShape(oc.COUNT, floating, user=cast(UserFunctions, atom.user.functions))
        chosen = self._chosen_rows(atom.labels, atom.final, valid)
        found, is_null = measure_code.aggregate(self.output, function, values, atom.type == "double", chosen)
        if atom.user is None and function.function in (oc.COUNT, oc.COUNT_IF):
            return from_numbers(found, self.unmatched)
        if atom.type == "boolean":
            return from_numbers(found != 0, is_null)
        array = from_numbers(found, is_null)
        kind = arrow_type(atom.type)
        return array if array.type == kind else array.view(kind) if kind.bit_width == 64 else array.cast(kind)

    def _sum_decimals(self, atom: atoms.DecimalSum | atoms.DecimalAverage) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (low words, high words, counts) of sums of a decimal column."""
        array = one_chunk(self.table.column(atom.column))
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
        valid = valid_mask(array)
        chosen = self._chosen_rows(atom.labels, atom.final, None if valid is ALL_VALID else valid.view(np.uint8))
        return measure_code.sum_decimals(self.output, raw_values(array, np.int64), chosen)

    def _decimal_average(self, atom: atoms.DecimalAverage) -> pa.Array:
        low, high, counts = self._sum_decimals(atom)
        kind = average_type(atom)
        low, high = measure_code.divide_decimals(low, high, counts, kind.scale - atom.scale)
        return decimals(low, high, counts, kind)

    def _extreme(self, atom: atoms.Extreme) -> pa.Array:
        floating, values, valid = self._values(atom.by)
        function = AggregateShape(oc.MIN_BY if atom.function in ("min", "min_by") else oc.MAX_BY, floating)
        chosen = self._chosen_rows(atom.labels, atom.final, valid)
        rows, is_null = measure_code.aggregate(self.output, function, values, False, chosen)
        return self._take_value(atom.value, np.where(is_null, -1, rows))

    def _take_value(self, value: Expression, rows: np.ndarray) -> pa.Array:
        """Return a row-local value at rows (-1: null)."""
        if isinstance(value, Load) and value not in self.prepared.computed:
            return gather(self.table.column(value.column), rows)
        floating, row, check = self.prepared.computed[value]
        lanes = self.prepared.lanes
        source = lanes.floats[row] if floating else lanes.ints[row]
        inside = np.maximum(rows, 0)
        empty = len(source) == 0
        values = np.zeros(len(rows), source.dtype) if empty else source[inside]
        missing = (rows < 0) | (True if empty else lanes.valid[check][inside] == 0)
        return to_arrow(values, missing, value.type)

    def _gather(self, atom: RowArray) -> pa.Array:
        valid = None
        if atom.value is not None and atom.drop_nulls:
            check = self.prepared.column(atom.value)[2]
            if check >= 0:
                valid = self.prepared.lanes.valid[check]
        offsets, rows, labels = measure_code.collect(self.output, self._chosen_rows(atom.labels, atom.final, valid))
        values = gather(self._label_names, labels) if atom.value is None else self._take_value(atom.value, rows)
        if offsets[-1] > np.iinfo(np.int32).max:
            raise EpisodeDataError("The arrays of a batch of matches hold more than 2 billion values.")
        mask = from_numbers(self.unmatched) if self.unmatched.any() else None
        return pa.ListArray.from_arrays(from_numbers(offsets.astype(np.int32)), values, mask=mask)


def average_type(atom: atoms.DecimalAverage) -> pa.DataType:
    return pa.decimal128(min(38, atom.precision + 4), min(38, atom.scale + 4))


def decimals(low: np.ndarray, high: np.ndarray, counts: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return decimals of 128-bit words; null if nothing was counted, or with too many digits."""
    words = np.empty((len(low), 2), np.int64)
    words[:, 0], words[:, 1] = low.view(np.int64), high
    array = pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(words)])
    return pc.if_else(from_numbers((counts > 0) & (high != OVERFLOW)), array, pa.scalar(None, kind))


def to_arrow(values: np.ndarray, missing: np.ndarray, type_: str) -> pa.Array:
    kind = arrow_type(type_)
    if type_ == "boolean":
        return from_numbers(values != 0, missing)
    if decimal_of(type_) is not None:
        return decimals(values, values >> 63, ~missing, kind)
    array = from_numbers(values, missing)
    if array.type == kind:
        return array
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).view(kind)
    return array.view(kind) if pa.types.is_temporal(kind) else array.cast(kind)


def gather(column: pa.ChunkedArray | pa.Array, rows: np.ndarray) -> pa.Array:
    """Return the values at rows; null if the row is negative."""
    array = one_chunk(column) if isinstance(column, pa.ChunkedArray) else column
    if len(array) == 0:
        return pa.nulls(len(rows), array.type)
    if len(rows) and rows.min() < 0:
        return array.take(from_numbers(rows, rows < 0))
    return take_array(array, rows)
