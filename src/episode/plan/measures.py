"""Aggregates and columns of a finished match: the values that the matcher must deliver, and Spark's expressions around
them.

All languages plan their output in these terms: a match is a few rows with a label each. See decision 14.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.functions import UserAggregate, user_aggregate
from episode.lang.syntax import Aggregate, Atom, ColumnRef, Mode, Scalar, Source, Span
from episode.plan.compilable import to_float
from episode.plan.expressions import Current, Expression, Load, Running
from episode.plan.output import (
    ATOM_PREFIX,
    ColumnAtPlace,
    DecimalAverage,
    DecimalSum,
    Extreme,
    Labels,
    OutputAtom,
    PlaceExists,
    PlannedMeasure,
    RowAggregate,
    RowArray,
    RowPlace,
)
from episode.plan.places import substitute
from episode.plan.scalars import DerivedColumns, RowLocalScalars
from episode.plan.schema import InputSchema, quote
from episode.plan.types import (
    WIDEST_DECIMAL,
    decimal_of,
    in_words,
    is_float,
    is_integer,
    is_numeric,
    is_ranked,
    is_year_month_interval,
    lane_of,
)

# Aggregates that the machine keeps while it matches, with the types that they take and give.


COLLECTING = ("collect_list", "collect_set")
BOOLEAN_AGGREGATES = {"bool_and": "min", "bool_or": "max"}
NUMBERS = "It takes numbers: cast the argument, for example to double."
COMPARABLE = "It takes values that can be compared across rows: numbers, strings, times, booleans."
CONDITIONS = "It takes a condition: compare the argument, for example x > 0."
TAKES = {
    **dict.fromkeys(("count_if", "bool_and", "bool_or"), CONDITIONS),
    **dict.fromkeys(("min", "max", "min_by", "max_by"), COMPARABLE),
}
VARIANCES = ("stddev_samp", "stddev_pop", "var_samp", "var_pop")
DOUBLE_AGGREGATES = ("avg", *VARIANCES)


def require(source: Source, holds: bool, function: str, type_: str, span: Span) -> None:
    """Raise an error that lists the types an aggregate takes, unless `holds`."""
    if not holds:
        written = re.match(r"(?:(?:RUNNING|FINAL)\s+)?(\w+)", source.text_at(span), re.IGNORECASE)
        name = written.group(1) if written else function
        message = f"{name} cannot be applied to {type_}."
        raise source.error(EpisodeAnalysisError, message, span, TAKES.get(function, NUMBERS))


def require_column(source: Source, scalar: Scalar, span: Span, call: str) -> None:
    """Refuse a navigation without a column: it walks the rows of the column's label."""
    if not scalar.atoms:
        message = f"A{'n' if call[0] == 'a' else ''} {call} needs a column inside."
        raise source.error(EpisodeAnalysisError, message, span, "Write LAST(A.x).")


def user_argument(source: Source, user: UserAggregate, argument: Expression, span: Span) -> Expression:
    """The argument of an aggregate of a user, as its step takes it."""
    if user.takes == "bigint":
        require(source, is_integer(argument.type), user.name, argument.type, span)
        return argument
    values = in_words(argument) if is_ranked(argument) else argument
    require(source, is_numeric(argument.type) and values is not None, user.name, argument.type, span)
    return to_float(values or argument)


def running_aggregate(
    source: Source, function: str, members: frozenset[str] | None, argument: Expression, span: Span
) -> Expression:
    """A typed aggregate for the machine, or an error for types that it does not add up."""
    type_ = argument.type
    user = user_aggregate(function)
    if user is not None:
        return Running(function, members, user_argument(source, user, argument, span), user.gives, user=user)
    if function == "count":
        return Running("count", members, argument, "bigint")
    if function == "count_if":
        require(source, type_ == "boolean", function, type_, span)
        return Running("count_if", members, argument, "bigint")
    if function in BOOLEAN_AGGREGATES:
        require(source, type_ == "boolean", function, type_, span)
        return Running(BOOLEAN_AGGREGATES[function], members, argument, "boolean")
    if function in ("min", "max"):
        require(source, lane_of(type_) is not None, function, type_, span)
        return Running(function, members, argument, type_)
    decimal = decimal_of(type_)
    interval = type_.startswith("interval") and lane_of(type_) == "int"
    if function == "sum" and (is_integer(type_) or is_float(type_) or interval):
        total = "bigint" if is_integer(type_) else "double" if is_float(type_) else type_
        return Running("sum", members, argument, total)
    require(source, is_numeric(type_), function, type_, span)
    values = in_words(argument) if is_ranked(argument) else argument
    if decimal is not None and values is not None and function in ("sum", "avg"):
        precision, scale = decimal
        if function == "sum":
            return Running("sum", members, values, f"decimal({min(precision + 10, WIDEST_DECIMAL)},{scale})")
        more = (min(precision + 4, WIDEST_DECIMAL), min(scale + 4, WIDEST_DECIMAL))
        return Running("avg", members, values, f"decimal({more[0]},{more[1]})")
    if function in DOUBLE_AGGREGATES and values is not None:
        return Running(function, members, values, "double")
    message = f"{function} of {type_} is not evaluated in DEFINE."
    raise source.error(EpisodeUnsupportedError, message, span, "Cast it to double.")


@dataclass
class Measures:
    """Plans measures. atoms: the values that the matcher delivers, with the names of its columns; equal atoms are
    computed once.

    names: names that may qualify a column, for messages. always_final: does a match have one output row?
    """

    source: Source
    schema: InputSchema
    labels: Labels
    derived: DerivedColumns
    names: tuple[str, ...] = ()
    always_final: bool = True

    def __post_init__(self) -> None:
        self.rows = RowLocalScalars(self.source, self.schema, self.derived, self.names)
        self.atoms: dict[OutputAtom, str] = {}

    def _output(self, atom: OutputAtom) -> str:
        if atom not in self.atoms:
            self.atoms[atom] = f"{ATOM_PREFIX}{len(self.atoms)}"
        return quote(self.atoms[atom])

    def measure_of(self, name: str, atom: OutputAtom) -> PlannedMeasure:
        return PlannedMeasure(name, self._output(atom), name, self.source.span)

    def _final(self, mode: Mode | None) -> bool:
        return self.always_final or mode is Mode.FINAL

    def _column(self, reference: ColumnRef, place: RowPlace) -> str:
        column, fields = self.rows.resolve(reference)
        return ".".join([self._output(ColumnAtPlace(column, place)), *(quote(part) for part in fields)])

    def _at_place(self, scalar: Scalar, place: RowPlace) -> str:
        """A row-local expression at a place: Spark applies it to the navigated columns, if the row exists."""
        sql = substitute(scalar.text, {name: self._atom_at_place(inner, place) for name, inner in scalar.atoms})
        plain = scalar.text.strip() == scalar.atoms[0][0] and self._is_null_without_row(scalar.atoms[0][1])
        return sql if plain else f"(CASE WHEN {self._output(PlaceExists(place))} THEN {sql} END)"

    def _atom_at_place(self, atom: Atom, place: RowPlace) -> str:
        assert isinstance(atom, ColumnRef)
        return self._column(atom, place)

    def _is_null_without_row(self, atom: Atom) -> bool:
        return isinstance(atom, ColumnRef)

    # ---- aggregates ----------------------------------------------------------------------------------

    def _aggregate(self, atom: Aggregate) -> str:
        final = self._final(atom.mode)
        if atom.star:
            return self._output(RowAggregate("count", self.labels.members(atom.star_label), final, None, "bigint"))
        members = self.labels.common(self.source, atom.arguments, "aggregate", atom.span)
        if any(not isinstance(inner, ColumnRef) for argument in atom.arguments for _, inner in argument.atoms):
            return self._aggregate_of_others(atom, members, final)
        if atom.function in ("first_value", "last_value"):
            require_column(self.source, atom.arguments[0], atom.span, "aggregate")
            return self._at_place(atom.arguments[0], RowPlace(members, atom.function == "first_value", 0, 0, final))
        arguments = [self.rows.value(argument) for argument in atom.arguments]
        return self._planned_aggregate(atom, members, final, arguments)

    def _aggregate_of_others(self, atom: Aggregate, members: frozenset[str] | None, final: bool) -> str:
        """An aggregate of an expression with other atoms than columns, in languages that have such."""
        raise NotImplementedError  # each language has its own

    def _planned_aggregate(
        self, atom: Aggregate, members: frozenset[str] | None, final: bool, arguments: list[Expression]
    ) -> str:
        function, argument = atom.function, arguments[0]
        type_ = argument.type
        user = user_aggregate(function)
        if user is not None:
            value = user_argument(self.source, user, argument, atom.span)
            return self._output(RowAggregate(function, members, final, value, user.gives, user))
        if function == "count":
            return self._output(RowAggregate("count", members, final, argument, "bigint"))
        if function == "count_if":
            require(self.source, type_ == "boolean", function, type_, atom.span)
            return self._output(RowAggregate("count_if", members, final, argument, "bigint"))
        if function in COLLECTING:
            gathered = self._output(RowArray(members, final, argument, True))
            if is_year_month_interval(type_):
                gathered = f"transform({gathered}, x -> make_ym_interval(0, x))"
            return gathered if function == "collect_list" else f"array_distinct({gathered})"
        if function in BOOLEAN_AGGREGATES:
            require(self.source, type_ == "boolean", function, type_, atom.span)
            return self._output(Extreme(BOOLEAN_AGGREGATES[function], members, final, argument, argument))
        if function in ("min", "max"):
            require(self.source, lane_of(type_) is not None, function, type_, atom.span)
            return self._output(Extreme(function, members, final, argument, argument))
        if function in ("min_by", "max_by"):
            require(self.source, lane_of(arguments[1].type) is not None, function, arguments[1].type, atom.span)
            return self._output(Extreme(function, members, final, argument, arguments[1]))
        if function in ("sum", "avg"):
            return self._sum_or_average(atom, members, final, argument)
        require(self.source, is_numeric(type_), function, type_, atom.span)
        if lane_of(type_) == "code":
            message = f"Statistics of {type_} are not evaluated."
            raise self.source.error(EpisodeUnsupportedError, message, atom.span, "Cast it to double.")
        return self._output(RowAggregate(function, members, final, to_float(argument), "double"))

    def _sum_or_average(
        self, atom: Aggregate, members: frozenset[str] | None, final: bool, argument: Expression
    ) -> str:
        function, type_ = atom.function, argument.type
        decimal = decimal_of(type_)
        if decimal is not None:
            scalar, (precision, scale) = atom.arguments[0], decimal
            loaded = argument if isinstance(argument, Load) else self.rows.by_spark(scalar.tree, scalar, Current(0))
            assert isinstance(loaded, Load)
            column = loaded.column
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
        require(self.source, is_integer(type_) or is_float(type_), function, type_, atom.span)
        if function == "avg":
            return self._output(RowAggregate("avg", members, final, argument, "double"))
        return self._output(RowAggregate("sum", members, final, argument, "bigint" if is_integer(type_) else "double"))
