"""MEASURES: navigation, CLASSIFIER and MATCH_NUMBER on top of the columns and aggregates of a match."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.functions import user_aggregate
from episode.lang.rows.syntax import (
    Classifier,
    MatchNumber,
    MatchRecognize,
    Measure,
    Navigation,
    RowAtom,
    RowsPerMatch,
    row_atoms,
)
from episode.lang.syntax import Aggregate, Atom, ColumnRef, Scalar
from episode.plan.expressions import Current
from episode.plan.measures import DOUBLE_AGGREGATES, Measures, require, require_column
from episode.plan.output import (
    MATCHED_COLUMN,
    LabelAtPlace,
    Labels,
    NumberOfMatch,
    PlannedMeasure,
    RowAggregate,
    RowArray,
    RowPlace,
)
from episode.plan.places import substitute
from episode.plan.rows.inputs import known_names
from episode.plan.scalars import DerivedColumns
from episode.plan.schema import InputSchema, quote
from episode.plan.types import WIDEST_DECIMAL, decimal_of, is_integer, is_numeric, is_year_month_interval, lane_of

# Aggregates that Spark finishes on arrays which the matcher gathers, with the types that Spark gives them.
#
# They replace aggregates of expressions with CLASSIFIER() or MATCH_NUMBER(), which are known with the match: Spark
# evaluates the expression for each of its rows.


UNTYPED = {
    "count": "CAST(size(filter({0}, x -> x IS NOT NULL)) AS BIGINT)",
    "count_if": "CAST(size(filter({0}, x -> x)) AS BIGINT)",
    "min": "array_min({0})",
    "max": "array_max({0})",
    "collect_list": "filter({0}, x -> x IS NOT NULL)",
    "collect_set": "array_distinct(filter({0}, x -> x IS NOT NULL))",
    "bool_and": "array_min({0})",
    "bool_or": "array_max({0})",
}
"""Aggregates of an array of values, whatever its type."""

BY_TYPE = ("sum", *DOUBLE_AGGREGATES)
"""Aggregates that start with a value of a type."""

MOST_DIGITS = 37
"""Digits of a running sum: one less than Spark's decimals have, or adding would cut off digits after the point."""


def takes(function: str, type_: str) -> bool:
    """Can values of a type be added up by a function of BY_TYPE?"""
    interval = type_.startswith("interval") and lane_of(type_) == "int"
    return is_numeric(type_) or (interval and function in ("sum", "avg"))


def keeps_digits(function: str, type_: str) -> bool:
    """Can the result have all the digits that Spark's has? Averages of the widest decimals cannot."""
    decimal = decimal_of(type_)
    if function != "avg" or decimal is None or has_exact_quotient(*decimal):
        return True
    precision, scale = decimal
    return scale <= 22 and precision - scale <= 26


def total_type(type_: str) -> str:
    """The type of Spark's sum of values of a type."""
    decimal = decimal_of(type_)
    if decimal is not None:
        return f"DECIMAL({min(38, decimal[0] + 10)}, {decimal[1]})"
    if type_.startswith("interval"):
        return "INTERVAL YEAR TO MONTH" if is_year_month_interval(type_) else "INTERVAL DAY TO SECOND"
    return "BIGINT" if is_integer(type_) else "DOUBLE"


def aggregate_sql(function: str, values: str, type_: str) -> str:
    """Return the SQL of an aggregate of BY_TYPE over an array of values of a type.

    A sum that does not fit is null, as all sums are: nothing here fails, also with ANSI mode on.
    """
    if function == "sum":
        return _sum(values, type_)
    if function != "avg":
        return _moment(function, values)
    decimal = decimal_of(type_)
    running = _running_type(type_ if type_.startswith(("interval", "decimal")) else "double")
    return _total(values, running, "x", "try_divide(s.t, s.n)" if decimal is None else _decimal_quotient(*decimal))


def _sum(values: str, type_: str) -> str:
    decimal = decimal_of(type_)
    if decimal is not None and decimal[0] + 10 > MOST_DIGITS:
        # A decimal without its point, as text: whole numbers of 38 digits are added without the loss of one.
        digits = f"translate(format_number(x, {decimal[1]}), ',.', '')"
        return _total(values, "DECIMAL(38, 0)", digits, _with_point("s.t", decimal[1]))
    if is_integer(type_):
        return _total(values, f"DECIMAL({MOST_DIGITS}, 0)", "x", "try_cast(s.t AS BIGINT)")
    return _total(values, _running_type(type_), "x", f"CAST(s.t AS {total_type(type_)})")


def _total(values: str, running: str, value: str, result: str) -> str:
    """Fold values to a sum s.t and a count s.n; null without values, and after a sum that is too large."""
    zero = {"INTERVAL YEAR TO MONTH": "make_ym_interval()", "INTERVAL DAY TO SECOND": "make_dt_interval()"}
    added = f"try_add(s.t, {value})"
    if running not in zero:
        added = f"try_cast(try_add(s.t, try_cast({value} AS {running})) AS {running})"
    return (
        f"aggregate({values}, "
        f"named_struct('t', {zero.get(running, f'CAST(0 AS {running})')}, 'n', CAST(0 AS BIGINT)), "
        f"(s, x) -> CASE WHEN x IS NULL THEN s ELSE named_struct('t', {added}, 'n', s.n + 1) END, "
        f"s -> CASE WHEN s.n > 0 THEN {result} END)"
    )


def _with_point(whole: str, scale: int) -> str:
    """A whole number with the point put back."""
    target = f"DECIMAL({WIDEST_DECIMAL}, {scale})"
    if scale == 0:
        return f"CAST({whole} AS {target})"
    digits = f"CAST(abs({whole}) AS STRING)"
    digits = f"lpad({digits}, greatest(length({digits}), {scale + 1}), '0')"
    sign = f"CASE WHEN {whole} < 0 THEN '-' ELSE '' END"
    return (
        f"CAST(concat({sign}, left({digits}, length({digits}) - {scale}), '.', right({digits}, {scale})) AS {target})"
    )


def _running_type(type_: str) -> str:
    decimal = decimal_of(type_)
    return total_type(type_) if decimal is None else f"DECIMAL({min(MOST_DIGITS, decimal[0] + 10)}, {decimal[1]})"


def _decimal_quotient(precision: int, scale: int) -> str:
    """s.t / s.n in the type of Spark's avg.

    The digits that Spark gives to a quotient of wide decimals are too few. There the quotient is taken in two parts: a
    whole number, and what is left by the count.
    """
    target = f"DECIMAL({min(38, precision + 4)}, {min(38, scale + 4)})"
    if has_exact_quotient(precision, scale):
        return f"try_cast(try_divide(s.t, s.n) AS {target})"
    whole = f"try_cast(try_divide(s.t, s.n) AS DECIMAL({min(precision - scale + 1, 33 - scale, 26)}, 0))"
    multiple = f"try_cast({whole} * CAST(s.n AS DECIMAL(11, 0)) AS DECIMAL({MOST_DIGITS}, {scale}))"
    left = f"try_cast(s.t - {multiple} AS DECIMAL({12 + scale}, {scale}))"
    part = f"try_cast(try_divide({left}, CAST(s.n AS DECIMAL(11, 0))) AS DECIMAL({scale + 6}, {scale + 4}))"
    return f"try_cast({whole} + {part} AS {target})"


def has_exact_quotient(precision: int, scale: int) -> bool:
    """Does a sum of such decimals by a count keep at least the digits of Spark's avg?"""
    return precision <= 18 or scale <= 2


def _moment(function: str, values: str) -> str:
    """Count, mean and sum of squared distances in one pass, as Spark adds them up."""
    start = "named_struct('n', 0e0, 'mean', 0e0, 'm2', 0e0)"
    mean = "s.mean + (CAST(x AS DOUBLE) - s.mean) / (s.n + 1)"
    merged = (
        f"named_struct('n', s.n + 1, 'mean', {mean}, "
        f"'m2', s.m2 + (CAST(x AS DOUBLE) - s.mean) * (CAST(x AS DOUBLE) - ({mean})))"
    )
    variance = "try_divide(s.m2, s.n - 1)" if function.endswith("_samp") else "try_divide(s.m2, s.n)"
    result = f"sqrt({variance})" if function.startswith("stddev") else variance
    return (
        f"aggregate({values}, {start}, (s, x) -> CASE WHEN x IS NULL THEN s ELSE {merged} END, "
        f"s -> CASE WHEN s.n > 0 THEN {result} END)"
    )


def best(function: str, pairs: str) -> str:
    """min_by and max_by over an array of structs (value, by): nulls of `by` do not count, of equals the later row."""
    extreme, sign = ("array_max", "") if function == "max_by" else ("array_min", "-")
    places = f"filter(transform({pairs}, (x, i) -> named_struct('by', x.by, 'at', {sign}i)), x -> x.by IS NOT NULL)"
    return f"try_element_at({pairs}, {sign}{extreme}({places}).at + 1).value"


class RowMeasures(Measures):
    """Plans MEASURES."""

    def __init__(self, clause: MatchRecognize, schema: InputSchema, labels: Labels, derived: DerivedColumns) -> None:
        one_row = clause.rows_per_match is RowsPerMatch.ONE_ROW
        super().__init__(clause.source, schema, labels, derived, known_names(clause), one_row)
        self.clause = clause
        self.with_unmatched = clause.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED

    def plan(self, measure: Measure) -> PlannedMeasure:
        scalar = measure.expression
        sql = self.text_of(scalar)
        if self.with_unmatched:
            sql = f"CASE WHEN {quote(MATCHED_COLUMN)} THEN {sql} END"
        return PlannedMeasure(measure.name, sql, scalar.original, measure.span)

    def text_of(self, scalar: Scalar) -> str:
        """A scalar as Spark's text over the matcher's columns."""
        return substitute(scalar.text, {name: self._sql(atom) for name, atom in row_atoms(scalar).items()})

    def _sql(self, atom: RowAtom) -> str:
        if isinstance(atom, ColumnRef) and len(atom.path) == 1:
            # Without parentheses, as the papers write them, if no column has that name.
            functions: dict[str, RowAtom] = {"MATCH_NUMBER": MatchNumber(), "CLASSIFIER": Classifier(None)}
            name = atom.path[0].upper()
            atom = functions[name] if name in functions and self.schema.find(name) is None else atom
        if isinstance(atom, (ColumnRef, Classifier)):
            place = RowPlace(self.labels.members(atom.label), False, 0, 0, self.always_final)
            return self._atom_at_place(atom, place)
        if isinstance(atom, MatchNumber):
            return self._output(NumberOfMatch())
        return self._navigation(atom) if isinstance(atom, Navigation) else f"({self._aggregate(atom)})"

    def _navigation(self, atom: Navigation) -> str:
        members = self.labels.common(self.source, (atom.argument,), "navigation", atom.span)
        require_column(self.source, atom.argument, atom.span, "navigation")
        first, final = atom.logical == "FIRST", self._final(atom.mode)
        return self._at_place(atom.argument, RowPlace(members, first, atom.logical_offset, atom.physical_offset, final))

    def _atom_at_place(self, atom: Atom, place: RowPlace) -> str:
        if isinstance(atom, Classifier):
            return self._output(LabelAtPlace(place))
        return self._output(NumberOfMatch()) if isinstance(atom, MatchNumber) else super()._atom_at_place(atom, place)

    def _is_null_without_row(self, atom: Atom) -> bool:
        return isinstance(atom, (ColumnRef, Classifier))

    # ---- aggregates of expressions with CLASSIFIER() or MATCH_NUMBER() ---------------------------------

    def _aggregate_of_others(self, atom: Aggregate, members: frozenset[str] | None, final: bool) -> str:
        """The matcher gathers arrays, and Spark applies the expression and the aggregate to them."""
        function, scalar = atom.function, atom.arguments[0]
        if user_aggregate(function) is not None:
            message = f"{function} of an expression with CLASSIFIER() or MATCH_NUMBER() is not evaluated in MEASURES."
            raise self.source.error(EpisodeUnsupportedError, message, atom.span, "Give it values of the row alone.")
        if function in ("first_value", "last_value"):
            return self._at_place(scalar, RowPlace(members, function == "first_value", 0, 0, final))
        if scalar.text.strip() == scalar.atoms[0][0] and isinstance(scalar.atoms[0][1], Classifier):
            if function == "count":
                return self._output(RowAggregate("count", members, final, None, "bigint"))
            if function == "collect_list":
                return self._output(RowArray(members, final, None, False))
        values = self._array_of_values(atom.arguments, members, final)
        if function in ("min_by", "max_by"):
            return best(function, values)
        if function in UNTYPED:
            return UNTYPED[function].format(values)
        type_ = self.rows.type_of(self._with_stand_ins(scalar), atom.span)
        require(self.source, takes(function, type_), function, type_, atom.span)
        if not keeps_digits(function, type_):
            message = f"{function} of {type_} with CLASSIFIER() or MATCH_NUMBER() is not evaluated."
            hint = "Cast it to a decimal of fewer digits, or to double."
            raise self.source.error(EpisodeUnsupportedError, message, atom.span, hint)
        return aggregate_sql(function, values, type_)

    def _array_of_values(self, scalars: tuple[Scalar, ...], members: frozenset[str] | None, final: bool) -> str:
        """The array of a scalar's values over rows; of two scalars, an array of structs (value, by)."""
        arrays: list[str] = []

        def of_row(atom: Atom) -> str:
            if isinstance(atom, MatchNumber):
                return self._output(NumberOfMatch())
            value = self.rows.load(atom, Current(0)) if isinstance(atom, ColumnRef) else None
            array = self._output(RowArray(members, final, value, False))
            if array not in arrays:
                arrays.append(array)
            field = f"__row.`{arrays.index(array)}`"
            months = value is not None and is_year_month_interval(value.type)
            return f"make_ym_interval(0, {field})" if months else field

        texts = [substitute(scalar.text, {name: of_row(atom) for name, atom in scalar.atoms}) for scalar in scalars]
        if not arrays:
            arrays.append(self._output(RowArray(members, final, None, False)))
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
    """Refuse measures with the name of another output column."""
    lower = {name.lower() for name in taken}
    for measure in clause.measures:
        if measure.name.lower() in lower:
            message = f"The measure {measure.name} has the name of a column of the output."
            raise clause.source.error(EpisodeAnalysisError, message, measure.span, "Give the measure another name.")
