"""MEASURES: what the matcher must deliver (navigated values, aggregates), and the Spark expressions around it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Union

from episode.errors import EpisodeAnalysisError
from episode.lang.lifting import PLACEHOLDER
from episode.lang.syntax import (
    Aggregate,
    Atom,
    Classifier,
    ColumnRef,
    MatchNumber,
    MatchRecognize,
    Measure,
    Mode,
    Navigation,
    RowsPerMatch,
    Scalar,
    Span,
)
from episode.plan import gathered
from episode.plan.conditions import RowLocalScalars, require_column
from episode.plan.derived import DerivedColumns
from episode.plan.expressions import Current, Expression, Load
from episode.plan.labels import Labels, common_label
from episode.plan.native import to_float
from episode.plan.schema import InputSchema, quote
from episode.plan.types import decimal_of, is_float, is_integer, is_numeric, is_year_month_interval, lane_of

ATOM_PREFIX = "__atom_"
MATCHED_COLUMN = "__episode_matched"
TIMED_OUT_COLUMN = "timed_out"
"""The last output column with EMIT TIMED OUT MATCHES."""

ROW_FUNCTION_NAMES = ("MATCH_NUMBER", "CLASSIFIER")


@dataclass(frozen=True)
class Place:
    """A row of the match by navigation; `final` looks at the whole match, else up to the output row."""

    labels: frozenset[str] | None
    first: bool
    offset: int
    shift: int
    final: bool


@dataclass(frozen=True)
class ColumnAtPlace:
    """The value of an input column at a place."""

    column: str
    place: Place


@dataclass(frozen=True)
class LabelAtPlace:
    """The label of the row at a place: CLASSIFIER."""

    place: Place


@dataclass(frozen=True)
class PlaceExists:
    place: Place


@dataclass(frozen=True)
class NumberOfMatch:
    """MATCH_NUMBER()."""


@dataclass(frozen=True)
class RowAggregate:
    """count, count_if, sum, avg, var_*, stddev_* of a row-local argument; None counts rows. `type` is the result's."""

    function: str
    labels: frozenset[str] | None
    final: bool
    argument: Expression | None
    type: str


@dataclass(frozen=True)
class DecimalSum:
    """Exact sum of a decimal column, as decimal(38, scale)."""

    column: str
    labels: frozenset[str] | None
    final: bool
    scale: int


@dataclass(frozen=True)
class DecimalAverage:
    """Exact average of a decimal column in the type of Spark's avg: four more digits, rounded half up."""

    column: str
    labels: frozenset[str] | None
    final: bool
    precision: int
    scale: int


@dataclass(frozen=True)
class Extreme:
    """`value` on the row where `by` is least or greatest: min, max, min_by, max_by. The later row wins ties of *_by."""

    function: str
    labels: frozenset[str] | None
    final: bool
    value: Expression
    by: Expression


@dataclass(frozen=True)
class Gathered:
    """Array of a row-local value (None: of labels) over rows; nulls are dropped where `drop_nulls`."""

    labels: frozenset[str] | None
    final: bool
    value: Expression | None
    drop_nulls: bool


OutputAtom = Union[
    ColumnAtPlace,
    LabelAtPlace,
    PlaceExists,
    NumberOfMatch,
    RowAggregate,
    DecimalSum,
    DecimalAverage,
    Extreme,
    Gathered,
]


@dataclass(frozen=True)
class PlannedMeasure:
    """`sql` over the matcher's output columns; `original` and `span` for messages."""

    name: str
    sql: str
    original: str
    span: Span


@dataclass
class MeasurePlan:
    measures: list[PlannedMeasure]
    atoms: dict[OutputAtom, str] = field(default_factory=dict)


def plan_measures(clause: MatchRecognize, schema: InputSchema, labels: Labels, derived: DerivedColumns) -> MeasurePlan:
    """Plan all measures; equal atoms are computed once."""
    planner = Measures(clause, schema, labels, derived)
    measures = [planner.plan(measure) for measure in clause.measures]
    return MeasurePlan(measures, planner.atoms)


def substitute(text: str, replacements: dict[str, str]) -> str:
    """The text with its placeholders replaced."""
    return re.sub(rf"\b{PLACEHOLDER}\d+\b", lambda found: replacements[found.group(0)], text)


class Measures:
    def __init__(self, clause: MatchRecognize, schema: InputSchema, labels: Labels, derived: DerivedColumns) -> None:
        self.clause = clause
        self.schema = schema
        self.labels = labels
        self.rows = RowLocalScalars(clause, schema, derived)
        self.atoms: dict[OutputAtom, str] = {}
        self.always_final = clause.rows_per_match is RowsPerMatch.ONE_ROW

    def plan(self, measure: Measure) -> PlannedMeasure:
        scalar = measure.expression
        sql = substitute(scalar.text, {name: self._sql(atom) for name, atom in scalar.atoms})
        if self.clause.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED:
            sql = f"CASE WHEN {quote(MATCHED_COLUMN)} THEN {sql} END"
        return PlannedMeasure(measure.name, sql, scalar.original, measure.span)

    def _output(self, atom: OutputAtom) -> str:
        if atom not in self.atoms:
            self.atoms[atom] = f"{ATOM_PREFIX}{len(self.atoms)}"
        return quote(self.atoms[atom])

    def _final(self, mode: Mode | None) -> bool:
        return self.always_final or mode is Mode.FINAL

    def _sql(self, atom: Atom) -> str:
        if isinstance(atom, ColumnRef):
            if self._row_function(atom) == "MATCH_NUMBER":
                return self._output(NumberOfMatch())
            if self._row_function(atom) == "CLASSIFIER":
                return self._output(LabelAtPlace(Place(None, False, 0, 0, self.always_final)))
            return self._column(atom, Place(self.labels.members(atom.label), False, 0, 0, self.always_final))
        if isinstance(atom, MatchNumber):
            return self._output(NumberOfMatch())
        if isinstance(atom, Classifier):
            return self._output(LabelAtPlace(Place(self.labels.members(atom.label), False, 0, 0, self.always_final)))
        if isinstance(atom, Navigation):
            return self._navigation(atom)
        return f"({self._aggregate(atom)})"

    def _row_function(self, reference: ColumnRef) -> str | None:
        """MATCH_NUMBER or CLASSIFIER without parentheses, as the papers write it, where no column has that name."""
        name = reference.path[0].upper()
        if len(reference.path) == 1 and name in ROW_FUNCTION_NAMES and self.schema.find(name) is None:
            return name
        return None

    def _column(self, reference: ColumnRef, place: Place) -> str:
        column, fields = self.rows.resolve(reference)
        return ".".join([self._output(ColumnAtPlace(column, place)), *(quote(part) for part in fields)])

    def _navigation(self, atom: Navigation) -> str:
        label = common_label(self.clause, (atom.argument,), "navigation", atom.span)
        require_column(self.rows, atom.argument, atom.span, "navigation")
        place = Place(
            self.labels.members(label),
            atom.logical == "FIRST",
            atom.logical_offset,
            atom.physical_offset,
            self._final(atom.mode),
        )
        return self._at_place(atom.argument, place)

    def _at_place(self, scalar: Scalar, place: Place) -> str:
        """A row-local expression at a place: Spark applies it to the navigated columns, if the row exists."""
        parts: dict[str, str] = {}
        for name, inner in scalar.atoms:
            if isinstance(inner, ColumnRef):
                parts[name] = self._column(inner, place)
            elif isinstance(inner, Classifier):
                parts[name] = self._output(LabelAtPlace(place))
            else:
                parts[name] = self._output(NumberOfMatch())
        sql = substitute(scalar.text, parts)
        plain = scalar.text.strip() == scalar.atoms[0][0] and not isinstance(scalar.atoms[0][1], MatchNumber)
        return sql if plain else f"(CASE WHEN {self._output(PlaceExists(place))} THEN {sql} END)"

    # ---- aggregates ----------------------------------------------------------------------------------

    def _aggregate(self, atom: Aggregate) -> str:
        final = self._final(atom.mode)
        if atom.star:
            return self._output(RowAggregate("count", self.labels.members(atom.star_label), final, None, "bigint"))
        label = common_label(self.clause, atom.arguments, "aggregate", atom.span)
        members = self.labels.members(label)
        if any(not isinstance(inner, ColumnRef) for argument in atom.arguments for _, inner in argument.atoms):
            return self._aggregate_of_labels(atom, members, final)
        if atom.function in ("first_value", "last_value"):
            require_column(self.rows, atom.arguments[0], atom.span, "aggregate")
            return self._at_place(atom.arguments[0], Place(members, atom.function == "first_value", 0, 0, final))
        arguments = [self.rows.compile(argument, Current(0), None) for argument in atom.arguments]
        return self._planned_aggregate(atom, members, final, arguments)

    def _planned_aggregate(
        self, atom: Aggregate, members: frozenset[str] | None, final: bool, arguments: list[Expression]
    ) -> str:
        function, argument = atom.function, arguments[0]
        type_ = argument.type
        if function == "count":
            return self._output(RowAggregate("count", members, final, argument, "bigint"))
        if function == "count_if":
            self.rows.require(type_ == "boolean", function, type_, atom.span)
            return self._output(RowAggregate("count_if", members, final, argument, "bigint"))
        if function in ("collect_list", "collect_set"):
            gathered = self._output(Gathered(members, final, argument, True))
            if is_year_month_interval(type_):
                gathered = f"transform({gathered}, x -> make_ym_interval(0, x))"
            return gathered if function == "collect_list" else f"array_distinct({gathered})"
        if function in ("bool_and", "bool_or"):
            self.rows.require(type_ == "boolean", function, type_, atom.span)
            return self._output(Extreme("min" if function == "bool_and" else "max", members, final, argument, argument))
        if function in ("min", "max"):
            self.rows.require(lane_of(type_) is not None, function, type_, atom.span)
            return self._output(Extreme(function, members, final, argument, argument))
        if function in ("min_by", "max_by"):
            self.rows.require(lane_of(arguments[1].type) is not None, function, arguments[1].type, atom.span)
            return self._output(Extreme(function, members, final, argument, arguments[1]))
        if function in ("sum", "avg"):
            return self._sum_or_average(atom, members, final, argument)
        self.rows.require(is_numeric(type_), function, type_, atom.span)
        return self._output(RowAggregate(function, members, final, self._float_argument(argument, atom.span), "double"))

    def _sum_or_average(
        self, atom: Aggregate, members: frozenset[str] | None, final: bool, argument: Expression
    ) -> str:
        function, type_ = atom.function, argument.type
        decimal = decimal_of(type_)
        if decimal is not None:
            column = self._decimal_column(atom.arguments[0], argument)
            precision, scale = decimal
            if function == "sum":
                total = self._output(DecimalSum(column, members, final, scale))
                return f"CAST({total} AS DECIMAL({min(38, precision + 10)}, {scale}))"
            return self._output(DecimalAverage(column, members, final, precision, scale))
        if type_.startswith("interval") and lane_of(type_) == "int":
            total = self._output(RowAggregate("sum", members, final, argument, type_))
            if is_year_month_interval(type_):
                total = f"make_ym_interval(0, CAST({total} AS INT))"
            if function == "sum":
                return total
            count = self._output(RowAggregate("count", members, final, argument, "bigint"))
            return f"try_divide({total}, {count})"
        self.rows.require(is_integer(type_) or is_float(type_), function, type_, atom.span)
        if function == "avg":
            return self._output(RowAggregate("avg", members, final, argument, "double"))
        return self._output(RowAggregate("sum", members, final, argument, "bigint" if is_integer(type_) else "double"))

    def _decimal_column(self, scalar: Scalar, argument: Expression) -> str:
        """The column of decimals to add up; Spark computes it where it is not one of the input."""
        loaded = argument if isinstance(argument, Load) else self.rows.by_spark(scalar.tree, scalar, Current(0))
        assert isinstance(loaded, Load)
        return loaded.column

    def _float_argument(self, argument: Expression, span: Span) -> Expression:
        if lane_of(argument.type) == "code":
            raise self.rows.unsupported(f"Statistics of {argument.type} are not evaluated.", span, "Cast it to double.")
        return to_float(argument)

    # ---- aggregates of expressions with CLASSIFIER() or MATCH_NUMBER() ---------------------------------

    def _aggregate_of_labels(self, atom: Aggregate, members: frozenset[str] | None, final: bool) -> str:
        """The matcher gathers arrays, and Spark applies the expression and the aggregate to them."""
        function, scalar = atom.function, atom.arguments[0]
        if function in ("first_value", "last_value"):
            return self._at_place(scalar, Place(members, function == "first_value", 0, 0, final))
        if scalar.text.strip() == scalar.atoms[0][0] and isinstance(scalar.atoms[0][1], Classifier):
            if function == "count":
                return self._output(RowAggregate("count", members, final, None, "bigint"))
            if function == "collect_list":
                return self._output(Gathered(members, final, None, False))
        values = self._gathered(atom.arguments, members, final)
        if function in ("min_by", "max_by"):
            return gathered.best(function, values)
        if function in gathered.UNTYPED:
            return gathered.UNTYPED[function].format(values)
        type_ = self.rows.type_of(self._with_stand_ins(scalar), atom.span)
        self.rows.require(gathered.takes(function, type_), function, type_, atom.span)
        if not gathered.keeps_digits(function, type_):
            raise self.rows.unsupported(
                f"{function} of {type_} with CLASSIFIER() or MATCH_NUMBER() is not evaluated.",
                atom.span,
                "Cast it to a decimal of fewer digits, or to double.",
            )
        return gathered.finished(function, values, type_)

    def _gathered(self, scalars: tuple[Scalar, ...], members: frozenset[str] | None, final: bool) -> str:
        """The array of a scalar's values over rows; of two scalars, an array of structs (value, by)."""
        arrays: list[str] = []

        def of_row(atom: Atom) -> str:
            if isinstance(atom, MatchNumber):
                return self._output(NumberOfMatch())
            value = self.rows.load(atom, Current(0)) if isinstance(atom, ColumnRef) else None
            array = self._output(Gathered(members, final, value, False))
            if array not in arrays:
                arrays.append(array)
            field = f"__row.`{arrays.index(array)}`"
            months = value is not None and is_year_month_interval(value.type)
            return f"make_ym_interval(0, {field})" if months else field

        texts = [substitute(scalar.text, {name: of_row(atom) for name, atom in scalar.atoms}) for scalar in scalars]
        if not arrays:
            arrays.append(self._output(Gathered(members, final, None, False)))
        fields = ", ".join(f"'{index}', try_element_at({array}, __i)" for index, array in enumerate(arrays))
        rows = f"transform(filter(sequence(0, size({arrays[0]})), __i -> __i > 0), __i -> named_struct({fields}))"
        value = texts[0] if len(texts) == 1 else f"named_struct('value', {texts[0]}, 'by', {texts[1]})"
        return f"transform({rows}, __row -> {value})"

    def _with_stand_ins(self, scalar: Scalar) -> str:
        """The scalar over the input, with something of their types in place of labels and numbers of matches."""

        def stand_in(atom: Atom) -> str:
            if isinstance(atom, ColumnRef):
                column, fields = self.rows.resolve(atom)
                return ".".join(quote(part) for part in (column, *fields))
            return "CAST(1 AS BIGINT)" if isinstance(atom, MatchNumber) else "'A'"

        return substitute(scalar.text, {name: stand_in(atom) for name, atom in scalar.atoms})


def check_output_names(clause: MatchRecognize, taken: list[str]) -> None:
    """Measures may not hide the columns that come out beside them."""
    lower = {name.lower() for name in taken}
    for measure in clause.measures:
        if measure.name.lower() in lower:
            raise EpisodeAnalysisError(
                f"The measure {measure.name} has the name of a column of the output.",
                source=clause.source,
                position=measure.span.start,
                length=measure.span.end - measure.span.start,
                hint="Give the measure another name.",
            )
