"""DEFINE: each condition split into a row-local part (tested once per row) and a residual (tested while matching)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.rows.pattern import labels_of
from episode.lang.spark_expression import Unreadable, write_expression
from episode.lang.syntax import (
    Aggregate,
    Atom,
    Classifier,
    ColumnRef,
    Definition,
    MatchNumber,
    MatchRecognize,
    Mode,
    Navigation,
    Scalar,
    Span,
)
from episode.plan.array_functions import ArrayFunctions, Source
from episode.plan.arrays import Collected
from episode.plan.derived import DerivedColumns
from episode.plan.expressions import (
    Apply,
    Constant,
    Current,
    ElementRow,
    Exists,
    Expression,
    ExtremeRow,
    LabelAt,
    Load,
    Navigated,
    Number,
    RowRef,
    Running,
    conjuncts,
    depth,
    is_row_local,
)
from episode.plan.labels import Labels, common_label
from episode.plan.native import Mistake, NativeCompiler, NotNative
from episode.plan.places import is_placeholder, place_of, placeholders_in
from episode.plan.schema import InputSchema, quote
from episode.plan.types import NARROW_DECIMAL, VOID, decimal_of, is_float, is_integer, is_numeric, lane_of

COLLECTING = ("collect_list", "collect_set")
BOOLEAN_AGGREGATES = {"bool_and": "min", "bool_or": "max"}
MAXIMUM_DEPTH = 150
NUMBERS = "It takes numbers: cast the argument, for example to double."
COMPARABLE = "It takes values that can be compared across rows: numbers, strings, times, booleans."
CONDITIONS = "It takes a condition: compare the argument, for example x > 0."
TAKES = {
    **dict.fromkeys(("count_if", "bool_and", "bool_or"), CONDITIONS),
    **dict.fromkeys(("min", "max", "min_by", "max_by"), COMPARABLE),
}
ACROSS_ROWS = (
    "Across rows: arithmetic, comparison, AND/OR/NOT, CASE, COALESCE, BETWEEN, IN, ABS, LEAST/GREATEST, "
    "time differences. On the columns of one row: any Spark function."
)
DOUBLE_AGGREGATES = ("avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")


@dataclass(frozen=True)
class Condition:
    """The condition of one label; empty parts always hold."""

    label: str
    row_local: tuple[Expression, ...]
    residual: tuple[Expression, ...]


def plan_conditions(
    clause: MatchRecognize, schema: InputSchema, labels: Labels, derived: DerivedColumns
) -> dict[str, Condition]:
    """Conditions by label; labels without DEFINE are left out."""
    return {
        definition.label: _Conditions(clause, schema, labels, derived, definition).plan()
        for definition in clause.definitions
    }


@dataclass
class RowLocalScalars:
    """Compiles scalars in which every column is read at one row: arguments of navigation and aggregates."""

    clause: MatchRecognize
    schema: InputSchema
    derived: DerivedColumns

    def compile(self, scalar: Scalar, at: RowRef, label_here: Expression | None) -> Expression:
        """The scalar at a row; `label_here` is the meaning of CLASSIFIER() there."""
        atoms = dict(scalar.atoms)

        def resolve(name: str) -> Expression:
            atom = atoms[name]
            if isinstance(atom, ColumnRef):
                return self.load(atom, at)
            if isinstance(atom, Classifier):
                if label_here is None:
                    raise self.unsupported("CLASSIFIER() is not evaluated in this place.", atom.span)
                return label_here
            assert isinstance(atom, MatchNumber)
            return Number()

        compiler = NativeCompiler(resolve, lambda node: self.by_spark(node, scalar, at), self.schema.utc)
        try:
            return self.not_too_deep(compiler.compile(scalar.tree), scalar)
        except NotNative as error:
            place = place_of(error.node, scalar, self.clause.source)
            raise self.unsupported(f"This cannot be evaluated: {error.reason}.", place, error.hint) from None
        except Mistake as error:
            raise self.mistaken(error, scalar) from None

    def resolve(self, reference: ColumnRef) -> tuple[str, tuple[str, ...]]:
        """Column and struct fields behind a reference."""
        names = [*labels_of(self.clause.pattern), *(subset.name for subset in self.clause.subsets)]
        return self.schema.resolve(reference, self.clause.source, names)

    def not_too_deep(self, expression: Expression, scalar: Scalar) -> Expression:
        if depth(expression) > MAXIMUM_DEPTH:
            hint = "Compute parts of it as columns in a subquery: FROM (SELECT …) MATCH_RECOGNIZE (…)."
            raise self.unsupported("This expression is nested too deeply.", scalar.span, hint)
        return expression

    def mistaken(self, error: Mistake, scalar: Scalar) -> EpisodeAnalysisError:
        return self.analysis_error(error.message, place_of(error.node, scalar, self.clause.source), error.hint)

    def load(self, reference: ColumnRef, at: RowRef) -> Expression:
        column, fields = self.resolve(reference)
        if fields:
            name, type_ = self.add_derived(".".join(quote(part) for part in (column, *fields)), reference.span)
            return Load(name, at, type_)
        return Load(column, at, self.schema.columns[column])

    def add_derived(self, sql: str, span: Span) -> tuple[str, str]:
        """A column computed by Spark."""
        with self._complaints_at(span):
            return self.derived.add(sql)

    def type_of(self, sql: str, span: Span) -> str:
        """The type that Spark gives to an expression over the input."""
        with self._complaints_at(span):
            return self.schema.type_of(sql)

    @contextmanager
    def _complaints_at(self, span: Span) -> Iterator[None]:
        """Spark's complaint is shown at the place in the query."""
        try:
            yield
        except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
            raise type(error)(
                error.message,
                source=self.clause.source,
                position=span.start,
                length=span.end - span.start,
                hint=error.hint,
            ) from None

    def by_spark(self, node: exp.Expression, scalar: Scalar, at: RowRef) -> Expression | None:
        """A Spark column for a subtree whose atoms are all columns (they are all read at the same row)."""
        atoms = dict(scalar.atoms)
        names = placeholders_in(node)
        if is_placeholder(node) or any(not isinstance(atoms[name], ColumnRef) for name in names):
            return None
        return self.spark_load(node, {name: atoms[name] for name in names}, at, scalar)

    def spark_load(self, node: exp.Expression, atoms: Mapping[str, Atom], at: RowRef, scalar: Scalar) -> Expression:
        """A column that Spark computes from the columns of one row; `scalar` is what the node is a part of."""

        def text(null: bool) -> str:
            def replace(part: exp.Expression) -> exp.Expression:
                if not isinstance(part, exp.Column):
                    return part
                name, *further = (identifier.name for identifier in part.parts)
                reference = atoms[name]
                assert isinstance(reference, ColumnRef)
                column, fields = self.resolve(reference)
                value = f"CAST(NULL AS {self.schema.columns[column]})" if null else quote(column)
                return exp.Var(this=".".join([value, *(quote(field) for field in (*fields, *further))]))

            return write_expression(node.copy().transform(replace))

        span = place_of(node, scalar, self.clause.source)
        try:
            present, absent = text(null=False), text(null=True)
        except Unreadable as error:
            raise self.unsupported(error.message, span, error.hint) from None
        name, type_ = self.add_derived(present, span)
        missing = None
        if at != Current(0) and not isinstance(at, ElementRow):
            missing = self.add_derived(absent, span)[0]
        return Load(name, at, type_, missing)

    def require(self, holds: bool, function: str, type_: str, span: Span) -> None:
        """An aggregate that does not take values of a type says what it takes."""
        if not holds:
            written = re.match(
                r"(?:(?:RUNNING|FINAL)\s+)?(\w+)", self.clause.source[span.start : span.end], re.IGNORECASE
            )
            name = written.group(1) if written else function
            raise self.analysis_error(f"{name} cannot be applied to {type_}.", span, TAKES.get(function, NUMBERS))

    def unsupported(self, message: str, span: Span, hint: str | None = None) -> EpisodeUnsupportedError:
        return EpisodeUnsupportedError(
            message, source=self.clause.source, position=span.start, length=span.end - span.start, hint=hint
        )

    def analysis_error(self, message: str, span: Span, hint: str | None = None) -> EpisodeAnalysisError:
        return EpisodeAnalysisError(
            message, source=self.clause.source, position=span.start, length=span.end - span.start, hint=hint
        )


class _Conditions:
    """One label's condition."""

    def __init__(
        self,
        clause: MatchRecognize,
        schema: InputSchema,
        labels: Labels,
        derived: DerivedColumns,
        definition: Definition,
    ) -> None:
        self.clause = clause
        self.schema = schema
        self.labels = labels
        self.label = definition.label
        self.condition = definition.condition
        self.rows = RowLocalScalars(clause, schema, derived)
        self.atoms = dict(self.condition.atoms)
        self.arrays = ArrayFunctions(self._is_collected, self.rows.by_spark)
        self._collected: dict[tuple[frozenset[str] | None, Expression], Collected] = {}

    def plan(self) -> Condition:
        compiler = NativeCompiler(self._resolve, self._fallback, self.schema.utc, self.arrays)
        try:
            expression = self.rows.not_too_deep(compiler.compile(self.condition.tree), self.condition)
        except Mistake as error:
            raise self.rows.mistaken(error, self.condition) from None
        except NotNative as error:
            raise self._not_evaluated(error) from None
        if expression.type == VOID:
            expression = Constant(None, "boolean")
        if expression.type != "boolean":
            raise self.rows.analysis_error(
                f"The condition of {self.label} must be true or false, but it is of type {expression.type}.",
                self.condition.span,
                "Compare it with something: x > 0.",
            )
        parts = conjuncts(expression)
        return Condition(
            self.label,
            tuple(part for part in parts if is_row_local(part)),
            tuple(part for part in parts if not is_row_local(part)),
        )

    def _not_evaluated(self, error: NotNative) -> EpisodeUnsupportedError:
        for name in self.atoms:
            self._resolve(name)  # a call that is wrong by itself is the better thing to complain of
        return self.rows.unsupported(
            f"The condition of {self.label} relates several rows in a way that is not evaluated: {error.reason}.",
            place_of(error.node, self.condition, self.clause.source),
            error.hint or ACROSS_ROWS,
        )

    def _row(self, labels: frozenset[str] | None, first: bool, offset: int, shift: int) -> RowRef:
        """The row under trial is the last one of every label set that holds its label."""
        if not first and offset == 0 and (labels is None or self.label in labels):
            return Current(shift)
        return Navigated(labels, first, offset, shift)

    def _place(self, atom: Atom) -> RowRef | None:
        """The row an atom reads, if it reads exactly one and only columns."""
        if isinstance(atom, ColumnRef):
            return self._row(self.labels.members(atom.label), False, 0, 0)
        if isinstance(atom, Navigation) and all(isinstance(inner, ColumnRef) for _, inner in atom.argument.atoms):
            label = common_label(self.clause, (atom.argument,), "navigation", atom.span)
            return self._row(
                self.labels.members(label), atom.logical == "FIRST", atom.logical_offset, atom.physical_offset
            )
        return None

    def _fallback(self, node: exp.Expression) -> Expression | None:
        """A column computed by Spark, where everything in the subtree is read at one row as plain columns."""
        if self.arrays.free_variables(node):
            return self.arrays.of_one_element(node)
        names = placeholders_in(node)
        if is_placeholder(node):
            return None
        references: dict[str, Atom] = {}
        places: set[RowRef] = set()
        for name in names:
            atom = self.atoms[name]
            place = self._place(atom)
            if place is None:
                return None
            places.add(place)
            if isinstance(atom, Navigation):
                if atom.mode is Mode.FINAL:
                    return None
                inner = atom.argument
                if len(inner.atoms) != 1 or inner.text.strip() != inner.atoms[0][0]:
                    return None
                references[name] = inner.atoms[0][1]
            else:
                references[name] = atom
        if len(places) > 1:
            return None
        return self.rows.spark_load(node, references, places.pop() if places else Current(0), self.condition)

    def _resolve(self, name: str) -> Expression:
        atom = self.atoms[name]
        if isinstance(atom, ColumnRef):
            if self._is_match_number(atom):
                return Number()
            return self.rows.load(atom, self._row(self.labels.members(atom.label), False, 0, 0))
        if isinstance(atom, MatchNumber):
            return Number()
        if isinstance(atom, Classifier):
            return self._label_at(self._row(self.labels.members(atom.label), False, 0, 0))
        if atom.mode is Mode.FINAL:
            raise self.rows.analysis_error(
                "FINAL is not allowed in DEFINE.", atom.span, "In DEFINE the match is still running; drop FINAL."
            )
        return self._navigation(atom) if isinstance(atom, Navigation) else self._aggregate(atom)

    def _is_match_number(self, reference: ColumnRef) -> bool:
        """MATCH_NUMBER without parentheses, as the papers write it, where no column has that name."""
        return (
            len(reference.path) == 1
            and reference.path[0].upper() == "MATCH_NUMBER"
            and self.schema.find(reference.path[0]) is None
        )

    def _label_at(self, at: RowRef) -> Expression:
        if at == Current(0):
            return Constant(self.label, "string")
        if isinstance(at, Current) and at.offset > 0:
            return Constant(None, "string")
        return LabelAt(at)

    def _navigation(self, atom: Navigation) -> Expression:
        label = common_label(self.clause, (atom.argument,), "navigation", atom.span)
        require_column(self.rows, atom.argument, atom.span, "navigation")
        at = self._row(self.labels.members(label), atom.logical == "FIRST", atom.logical_offset, atom.physical_offset)
        return self._at(atom.argument, at)

    def _at(self, scalar: Scalar, at: RowRef) -> Expression:
        """A scalar at a row; null where there is no such row."""
        value = self.rows.compile(scalar, at, self._label_at(at))
        if at == Current(0) or (isinstance(value, (Load, LabelAt)) and getattr(value, "missing", None) is None):
            return value
        return Apply("if", (Exists(at), value, Constant(None, value.type)), value.type)

    def _aggregate(self, atom: Aggregate) -> Expression:
        if atom.star:
            return Running("count", self.labels.members(atom.star_label), None, "bigint")
        label = common_label(self.clause, atom.arguments, "aggregate", atom.span)
        members = self.labels.members(label)
        if atom.function in ("first_value", "last_value"):
            first = atom.function == "first_value"
            require_column(self.rows, atom.arguments[0], atom.span, "aggregate")
            return self._at(atom.arguments[0], self._row(members, first, 0, 0))
        argument = self.rows.compile(atom.arguments[-1], Current(0), LabelAt(Current(0)))
        if atom.function in ("max_by", "min_by"):
            self.rows.require(lane_of(argument.type) is not None, atom.function, argument.type, atom.span)
            return self._at(atom.arguments[0], ExtremeRow(Running(atom.function, members, argument, argument.type)))
        if atom.function in COLLECTING:
            array = self._array(atom, members, argument)
            return array if atom.function == "collect_list" else self.arrays.distinct(array)
        return running_aggregate(self.rows, atom.function, members, argument, atom.span)

    def _is_collected(self, name: str) -> bool:
        atom = self.atoms[name]
        return isinstance(atom, Aggregate) and atom.function in COLLECTING

    def _array(self, atom: Aggregate, members: frozenset[str] | None, argument: Expression) -> Collected:
        """The array of a value over rows; `argument` is the value at the current row. Equal arrays are one."""
        if (members, argument) not in self._collected:
            row = self.arrays.new_row()
            element = self.rows.compile(atom.arguments[0], row, LabelAt(row))

            def running(function: str) -> Expression:
                return running_aggregate(self.rows, function, members, argument, atom.span)

            array = Collected(members, element, row, f"array<{element.type}>")
            self._collected[members, argument] = self.arrays.collect(array, Source(atom.arguments[0], running))
        return self._collected[members, argument]


def require_column(rows: RowLocalScalars, scalar: Scalar, span: Span, call: str) -> None:
    """A navigation needs a column to say whose rows it walks."""
    if not scalar.atoms:
        raise rows.analysis_error(
            f"A{'n' if call[0] == 'a' else ''} {call} needs a column inside.", span, "Write LAST(A.x)."
        )


def running_aggregate(
    rows: RowLocalScalars, function: str, members: frozenset[str] | None, argument: Expression, span: Span
) -> Expression:
    """A typed aggregate for the machine, or an error for types that it does not add up."""
    type_ = argument.type
    if function == "count":
        return Running("count", members, argument, "bigint")
    if function == "count_if":
        rows.require(type_ == "boolean", function, type_, span)
        return Running("count_if", members, argument, "bigint")
    if function in BOOLEAN_AGGREGATES:
        rows.require(type_ == "boolean", function, type_, span)
        return Running(BOOLEAN_AGGREGATES[function], members, argument, "boolean")
    if function in ("min", "max"):
        rows.require(lane_of(type_) is not None, function, type_, span)
        return Running(function, members, argument, type_)
    decimal = decimal_of(type_)
    if function == "sum":
        if is_integer(type_):
            return Running("sum", members, argument, "bigint")
        if is_float(type_):
            return Running("sum", members, argument, "double")
        if type_.startswith("interval") and lane_of(type_) == "int":
            return Running("sum", members, argument, type_)
    if decimal is not None and decimal[0] <= NARROW_DECIMAL and function in ("sum", "avg"):
        total = Running("sum", members, argument, f"decimal({min(NARROW_DECIMAL, decimal[0] + 10)},{decimal[1]})")
        if function == "sum":
            return total
        if decimal[0] + 4 <= NARROW_DECIMAL:
            return _decimal_average(total, Running("count", members, argument, "bigint"), decimal)
    rows.require(is_numeric(type_), function, type_, span)
    if function in DOUBLE_AGGREGATES and (decimal is None or function != "avg") and lane_of(type_) != "code":
        return Running(function, members, argument, "double")
    raise rows.unsupported(f"{function} of {type_} is not evaluated in DEFINE.", span, "Cast it to double.")


def _decimal_average(total: Running, count: Running, decimal: tuple[int, int]) -> Expression:
    """Spark's avg of decimals: four more digits, rounded half up (away from zero); null without a value."""

    def whole(operation: str, left: Expression, right: Expression) -> Expression:
        return Apply(operation, (left, right), "bigint")

    doubled = whole("multiply", total, Constant(2 * 10**4, "bigint"))
    upwards = whole("add", doubled, count)
    downwards = whole("subtract", doubled, count)
    is_positive = Apply("ge", (total, Constant(0, "bigint")), "boolean")
    numerator = Apply("if", (is_positive, upwards, downwards), "bigint")
    divisor = whole("multiply", count, Constant(2, "bigint"))
    return Apply("int_divide", (numerator, divisor), f"decimal({decimal[0] + 4},{decimal[1] + 4})")
