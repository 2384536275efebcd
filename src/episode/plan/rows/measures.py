"""MEASURES: navigation, CLASSIFIER and MATCH_NUMBER on top of the columns and aggregates of a match."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
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
from episode.lang.syntax import Aggregate, Atom, ColumnRef, Scalar, Span
from episode.lang.user_aggregates import user_aggregate
from episode.plan.aggregates import require, require_column
from episode.plan.derived import DerivedColumns
from episode.plan.expressions import Current
from episode.plan.labels import Labels
from episode.plan.measures import Measures
from episode.plan.output import (
    MATCHED_COLUMN,
    Gathered,
    LabelAtPlace,
    MeasurePlan,
    NumberOfMatch,
    Place,
    PlannedMeasure,
    RowAggregate,
)
from episode.plan.places import substitute
from episode.plan.rows import gathered
from episode.plan.rows.labels import common_label, known_names
from episode.plan.schema import InputSchema, quote
from episode.plan.types import is_year_month_interval

ROW_FUNCTION_NAMES = ("MATCH_NUMBER", "CLASSIFIER")


def plan_measures(clause: MatchRecognize, schema: InputSchema, labels: Labels, derived: DerivedColumns) -> MeasurePlan:
    """Plan all measures; equal atoms are computed once."""
    planner = RowMeasures(clause, schema, labels, derived)
    measures = [planner.plan(measure) for measure in clause.measures]
    return MeasurePlan(measures, planner.atoms)


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

    def _navigation(self, atom: Navigation) -> str:
        label = self._common_label((atom.argument,), "navigation", atom.span)
        require_column(self.source, atom.argument, atom.span, "navigation")
        place = Place(
            self.labels.members(label),
            atom.logical == "FIRST",
            atom.logical_offset,
            atom.physical_offset,
            self._final(atom.mode),
        )
        return self._at_place(atom.argument, place)

    def _atom_at_place(self, atom: Atom, place: Place) -> str:
        if isinstance(atom, Classifier):
            return self._output(LabelAtPlace(place))
        return self._output(NumberOfMatch()) if isinstance(atom, MatchNumber) else super()._atom_at_place(atom, place)

    def _is_null_without_row(self, atom: Atom) -> bool:
        return isinstance(atom, (ColumnRef, Classifier))

    def _common_label(self, scalars: tuple[Scalar, ...], call: str, span: Span) -> str | None:
        return common_label(self.source, scalars, call, span)

    # ---- aggregates of expressions with CLASSIFIER() or MATCH_NUMBER() ---------------------------------

    def _aggregate_of_others(self, atom: Aggregate, members: frozenset[str] | None, final: bool) -> str:
        """The matcher gathers arrays, and Spark applies the expression and the aggregate to them."""
        function, scalar = atom.function, atom.arguments[0]
        if user_aggregate(function) is not None:
            raise self.source.error(
                EpisodeUnsupportedError,
                f"{function} of an expression with CLASSIFIER() or MATCH_NUMBER() is not evaluated in MEASURES.",
                atom.span,
                "Give it values of the row alone.",
            )
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
        require(self.source, gathered.takes(function, type_), function, type_, atom.span)
        if not gathered.keeps_digits(function, type_):
            raise self.source.error(
                EpisodeUnsupportedError,
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
            raise clause.source.error(
                EpisodeAnalysisError,
                f"The measure {measure.name} has the name of a column of the output.",
                measure.span,
                "Give the measure another name.",
            )
