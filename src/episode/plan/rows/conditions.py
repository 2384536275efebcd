"""DEFINE: each condition split into a row-local part (tested once per row) and a residual (tested while matching)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.lang.rows.scalar import conjuncts_of
from episode.lang.rows.syntax import Classifier, Definition, MatchNumber, MatchRecognize, Navigation, row_atoms
from episode.lang.syntax import Aggregate, Atom, ColumnRef, Mode, Scalar, Source, Span
from episode.lang.trees import exp
from episode.plan.array_functions import ArrayFunctions, CollectedFrom
from episode.plan.arrays import Collected
from episode.plan.compilable import Mistake, NativeCompiler, NotCompilable
from episode.plan.expressions import (
    COMPARISONS,
    Apply,
    Condition,
    Constant,
    Current,
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
    is_row_local,
    walk,
)
from episode.plan.measures import COLLECTING, require, require_column, running_aggregate
from episode.plan.output import Labels
from episode.plan.places import is_placeholder, place_of, placeholders_in
from episode.plan.rows.inputs import known_names
from episode.plan.scalars import ACROSS_ROWS, DerivedColumns, Operand, RowLocalScalars, Text
from episode.plan.schema import InputSchema
from episode.plan.types import is_wide, is_words, lane_of

if TYPE_CHECKING:
    from episode.plan.rows.plan import RowPatternPlan


# Necessary conditions on a row alone, of a condition with PREV and NEXT, wherever the frame around the row lies.
#
# In a window, PREV and NEXT of the tried row end with its frame, so that a condition with them is tested while
# matching. But it can hold only if it holds with the rows that they name, or with some of them missing: that can be
# tested once for each row, and most rows fail there.

MOST_VARIANTS = 4
STRICT = frozenset((*COMPARISONS, "add", "subtract", "multiply", "divide", "negate", "abs", "copy", "to_float"))
"""Operations that are null where an operand is."""


def possible(part: Expression) -> Expression | None:
    """Return a condition on a row and the rows around it that holds if the part holds; None if nothing is known."""
    shifts: set[int] = set()
    for node in walk(part):
        if isinstance(node, (Load, Exists)):
            if isinstance(node.at, Navigated) and (node.at.labels, node.at.first, node.at.offset) == (None, False, 0):
                shifts.add(node.at.shift)
            elif node.at != Current(0):
                return None
        elif not isinstance(node, (Apply, Constant)):
            return None
        if is_wide(node) or is_words(node):
            return None
    before, after = sorted(one for one in shifts if one < 0), sorted((one for one in shifts if one > 0), reverse=True)
    if (len(before) + 1) * (len(after) + 1) > MOST_VARIANTS:
        return None
    variants: dict[Expression, None] = {}
    for few in range(len(before) + 1):
        for many in range(len(after) + 1):
            variants[_with_missing(part, frozenset((*before[:few], *after[:many])))] = None
    found = tuple(one for one in variants if not (isinstance(one, Constant) and not one.value))
    if not found:
        return Constant(0, "boolean")
    return found[0] if len(found) == 1 else Apply("or", found, "boolean")


def _with_missing(node: Expression, missing: frozenset[int]) -> Expression:
    """The expression with rows at fixed distances, of which those in `missing` are not there."""
    if isinstance(node, Apply):
        operands = tuple(_with_missing(operand, missing) for operand in node.operands)
        if node.operation in STRICT and any(isinstance(one, Constant) and one.value is None for one in operands):
            return Constant(None, node.type)
        return Apply(node.operation, operands, node.type)
    if not isinstance(node, (Load, Exists)) or not isinstance(node.at, Navigated):
        return node
    shift = node.at.shift
    if isinstance(node, Exists):
        return Constant(0, "boolean") if shift in missing else Exists(Current(shift))
    if shift not in missing:
        return Load(node.column, Current(shift), node.type, node.missing)
    return Constant(None, node.type) if node.missing is None else Load(node.missing, Current(0), node.type)


MOST_LABELS = 16
"""Most labels for which Spark computes a function of a row and its label: each takes one column."""
EXTREMES = {"min": "min_by", "max": "max_by", "min_by": "min_by", "max_by": "max_by"}
"""Aggregates whose value is a value of one of the rows, and how that row is found."""


def operand_of(atom: Atom) -> Atom | Scalar | None:
    """Return what an atom reads on one row: a column, its label, or an expression of columns; None for other atoms."""
    if isinstance(atom, (ColumnRef, Classifier)):
        return atom
    if isinstance(atom, MatchNumber) or (isinstance(atom, Aggregate) and atom.star):
        return None
    assert isinstance(atom, (Navigation, Aggregate))
    scalar = atom.argument if isinstance(atom, Navigation) else atom.arguments[0]
    if scalar.atoms and scalar.text.strip() == scalar.atoms[0][0]:
        inner = scalar.atoms[0][1]
        return inner if isinstance(inner, (ColumnRef, Classifier)) else None
    return scalar if scalar.atoms and all(isinstance(inner, ColumnRef) for _, inner in scalar.atoms) else None


def plan_conditions(
    clause: MatchRecognize,
    schema: InputSchema,
    labels: Labels,
    derived: DerivedColumns,
    framed: tuple[bool, bool] = (False, False),
) -> dict[str, Condition]:
    """Conditions by label; labels without DEFINE are left out.

    framed: in a window, does what PREV and what NEXT see end with the frame, before the partition does? Then they
    relate the row to the match.
    """
    return {
        definition.label: LabelCondition(clause, schema, labels, derived, definition, framed).plan()
        for definition in clause.definitions
    }


def of_the_row(source: Source, label_here: Expression | None) -> Callable[[Atom], Expression]:
    """CLASSIFIER() and MATCH_NUMBER() inside a call; `label_here` is the label of the row that is read."""

    def resolve(atom: Atom) -> Expression:
        if isinstance(atom, MatchNumber):
            return Number()
        assert isinstance(atom, Classifier)
        if label_here is None:
            raise source.error(EpisodeUnsupportedError, "CLASSIFIER() is not evaluated in this place.", atom.span)
        return label_here

    return resolve


class LabelCondition:
    """One label's condition."""

    def __init__(
        self,
        clause: MatchRecognize,
        schema: InputSchema,
        labels: Labels,
        derived: DerivedColumns,
        definition: Definition,
        framed: tuple[bool, bool],
    ) -> None:
        self.source = clause.source
        self.schema = schema
        self.labels = labels
        self.label = definition.label
        self.framed = framed
        self.condition = definition.condition
        self.rows = RowLocalScalars(clause.source, schema, derived, known_names(clause))
        self.atoms = row_atoms(self.condition)
        self.arrays = ArrayFunctions(self._is_collected, self._relates_rows, self.rows.by_spark)
        self._collected: dict[tuple[frozenset[str] | None, Expression], Collected] = {}

    def expression(self) -> Expression:
        """The whole of it, true or false or null."""
        compiler = NativeCompiler(self.value_of, self._fallback, self.schema.utc, self.arrays, self.schema.arguments)
        try:
            expression = self.rows.not_too_deep(compiler.compile(self.condition.tree), self.condition)
        except Mistake as error:
            raise self.rows.mistaken(error, self.condition) from None
        except NotCompilable as error:
            for name in self.atoms:
                self.value_of(name)  # a call that is wrong by itself is the better thing to complain of
            what = f"The condition of {self.label} relates several rows in a way that is not evaluated"
            place = place_of(error.node, self.condition, self.source)
            hint = error.hint or ACROSS_ROWS
            raise self.source.error(EpisodeUnsupportedError, f"{what}: {error.reason}.", place, hint) from None
        return self.rows.as_condition(expression, self.condition.span, self.label)

    def plan(self) -> Condition:
        parts = conjuncts(self.expression())
        local = [part for part in parts if is_row_local(part)]
        residual = tuple(part for part in parts if not is_row_local(part))
        if any(self.framed):
            local += [found for found in map(possible, residual) if found is not None]
        return Condition(self.label, tuple(local), residual)

    def _row(self, labels: frozenset[str] | None, first: bool, offset: int, shift: int) -> RowRef:
        """The row under trial is the last one of every label set that holds its label."""
        if not first and offset == 0 and (labels is None or self.label in labels):
            return Navigated(None, False, 0, shift) if shift and self.framed[shift > 0] else Current(shift)
        return Navigated(labels, first, offset, shift)

    def _place(self, atom: Atom) -> RowRef | None:
        """The row an atom reads, if it reads exactly one."""
        if isinstance(atom, (ColumnRef, Classifier)):
            return self._row(self.labels.members(atom.label), False, 0, 0)
        if isinstance(atom, Navigation) and atom.mode is not Mode.FINAL:
            members = self.labels.common(self.source, (atom.argument,), "navigation", atom.span)
            return self._row(members, atom.logical == "FIRST", atom.logical_offset, atom.physical_offset)
        if not isinstance(atom, Aggregate) or atom.star or atom.mode is Mode.FINAL:
            return None
        members = self.labels.common(self.source, atom.arguments, "aggregate", atom.span)
        if atom.function in ("first_value", "last_value"):
            return self._row(members, atom.function == "first_value", 0, 0)
        if atom.function not in EXTREMES:
            return None
        by = self._argument(atom.arguments[-1], Current(0), LabelAt(Current(0)))
        require(self.source, lane_of(by.type) is not None, atom.function, by.type, atom.span)
        return ExtremeRow(Running(EXTREMES[atom.function], members, by, by.type))

    def _fallback(self, node: exp.Expression) -> Expression | None:
        """A column computed by Spark, where everything in the subtree is read at one row."""
        if self.arrays.free_variables(node):
            return self.arrays.of_one_element(node)
        found = None if is_placeholder(node) else self._of_one_row(node)
        if found is None:
            return None
        operands, at = found
        return self._by_label(node, operands, self._label_at(at), at, self.condition)

    def _of_one_row(self, node: exp.Expression) -> tuple[dict[str, Operand], RowRef] | None:
        """Return the meaning of the placeholders in the subtree for Spark, and the row that they are read at; None if
        there are several rows."""
        operands: dict[str, Operand] = {}
        places: set[RowRef] = set()
        for name in placeholders_in(node):
            atom = self.atoms[name]
            place = None if isinstance(atom, ColumnRef) and self._is_match_number(atom) else self._place(atom)
            operand = operand_of(atom)
            if place is None or operand is None:
                return None
            places.add(place)
            operands[name] = operand
        if len(places) > 1:
            return None
        return operands, places.pop() if places else Current(0)

    def _relates_rows(self, node: exp.Expression) -> bool:
        return self._of_one_row(node) is None

    def _argument(self, scalar: Scalar, at: RowRef, label: Expression) -> Expression:
        """The argument of a call at a row that carries a label."""

        def by_spark(node: exp.Expression) -> Expression | None:
            operands = {name: operand_of(row_atoms(scalar)[name]) for name in placeholders_in(node)}
            found = {name: operand for name, operand in operands.items() if operand is not None}
            if is_placeholder(node) or len(found) < len(operands):
                return None
            return self._by_label(node, found, label, at, scalar)

        return self.rows.compile(scalar, at, of_the_row(self.source, label), by_spark)

    def _by_label(
        self, node: exp.Expression, operands: Mapping[str, Operand], label: Expression, at: RowRef, scalar: Scalar
    ) -> Expression | None:
        """Return a subtree of one row as a column of Spark's; if the row's label is in it, as a choice of such columns,
        as labels are few. label: that of the row. scalar: what the node is a part of."""
        labels = [name for name, operand in operands.items() if isinstance(operand, Classifier)]
        if not labels:
            return self.rows.spark_load(node, operands, at, scalar)

        def of(name: str | None) -> Expression:
            return self.rows.spark_load(node, {**operands, **dict.fromkeys(labels, Text(name))}, at, scalar)

        if isinstance(label, Constant):
            assert label.value is None or isinstance(label.value, str)
            return of(label.value)
        if len(self.labels.names) > MOST_LABELS:
            return None
        value = of(None)
        for name in reversed(self.labels.names):
            is_it = Apply("eq", (label, Constant(name, "string")), "boolean")
            value = Apply("if", (is_it, of(name), value), value.type)
        return value

    def value_of(self, name: str) -> Expression:
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
            hint = "In DEFINE the match is still running; drop FINAL."
            raise self.source.error(EpisodeAnalysisError, "FINAL is not allowed in DEFINE.", atom.span, hint)
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
        at = self._place(atom)
        require_column(self.source, atom.argument, atom.span, "navigation")
        return self._at(atom.argument, at)

    def _at(self, scalar: Scalar, at: RowRef | None) -> Expression:
        """Compile a scalar at a row; null if the row does not exist."""
        assert at is not None
        value = self._argument(scalar, at, self._label_at(at))
        if at == Current(0) or (isinstance(value, (Load, LabelAt)) and getattr(value, "missing", None) is None):
            return value
        return Apply("if", (Exists(at), value, Constant(None, value.type)), value.type)

    def _aggregate(self, atom: Aggregate) -> Expression:
        if atom.star:
            return Running("count", self.labels.members(atom.star_label), None, "bigint")
        members = self.labels.common(self.source, atom.arguments, "aggregate", atom.span)
        if atom.function in ("first_value", "last_value"):
            require_column(self.source, atom.arguments[0], atom.span, "aggregate")
        if atom.function in ("first_value", "last_value", "max_by", "min_by"):
            return self._at(atom.arguments[0], self._place(atom))
        argument = self._argument(atom.arguments[-1], Current(0), LabelAt(Current(0)))
        if atom.function in COLLECTING:
            array = self._array(atom, members, argument)
            return array if atom.function == "collect_list" else self.arrays.distinct(array)
        return running_aggregate(self.source, atom.function, members, argument, atom.span)

    def _is_collected(self, name: str) -> bool:
        atom = self.atoms[name]
        return isinstance(atom, Aggregate) and atom.function in COLLECTING

    def _array(self, atom: Aggregate, members: frozenset[str] | None, argument: Expression) -> Collected:
        """The array of a value over rows; `argument` is the value at the current row. Equal arrays are one."""
        if (members, argument) not in self._collected:
            row = self.arrays.new_row()
            element = self._argument(atom.arguments[0], row, LabelAt(row))

            def running(function: str) -> Expression:
                return running_aggregate(self.source, function, members, argument, atom.span)

            array = Collected(members, element, row, f"array<{element.type}>")
            self._collected[members, argument] = self.arrays.collect(array, CollectedFrom(atom.arguments[0], running))
        return self._collected[members, argument]


# The conditions of a row pattern in pieces, for explanations: conjuncts with their places, and the values in them.


@dataclass(frozen=True)
class ReadValue:
    """A column, a navigation or an aggregate that a conjunct reads: where it stands, and what it is."""

    span: Span
    value: Expression


@dataclass(frozen=True)
class LabelConjunct:
    """A part of a label's condition that must hold. holds: as an expression, true or false or null."""

    span: Span
    holds: Expression
    values: tuple[ReadValue, ...]


def plan_conjuncts(
    clause: MatchRecognize, schema: InputSchema, plan: RowPatternPlan
) -> dict[str, tuple[LabelConjunct, ...]]:
    """Return the conjuncts of each label's condition, in written order, in terms of the plan's columns, also those that
    Spark computes."""
    return {one.label: _Pieces(clause, schema, plan, one).conjuncts() for one in clause.definitions}


@dataclass(frozen=True)
class _Pieces:
    """The conjuncts of one label."""

    clause: MatchRecognize
    schema: InputSchema
    plan: RowPatternPlan
    definition: Definition

    def conjuncts(self) -> tuple[LabelConjunct, ...]:
        condition = self.definition.condition
        names = frozenset(known_names(self.clause))
        parts = [self._conjunct(part) for part in conjuncts_of(condition, self.clause.source, names)]
        found = tuple(part for part in parts if part is not None)
        return found if len(found) == len(parts) else (self._whole(condition),)

    def _conjunct(self, part: Scalar) -> LabelConjunct | None:
        """None where Spark would have to compute more than the plan asks it for."""
        derived = self._derived_columns()
        known = len(derived.by_sql)
        compiled = self._label_condition(part, derived)
        try:
            holds = compiled.expression()
        except EpisodeError:
            return None
        return LabelConjunct(part.span, holds, self._values(part)) if len(derived.by_sql) == known else None

    def _whole(self, condition: Scalar) -> LabelConjunct:
        planned = self.plan.conditions[self.definition.label]
        parts = (*planned.row_local, *planned.residual, Constant(1, "boolean"))
        return LabelConjunct(condition.span, Apply("and", parts, "boolean"), self._values(condition))

    def _values(self, part: Scalar) -> tuple[ReadValue, ...]:
        """Return the values to show: all that can be read from the plan's own columns, or columns of the input."""
        found = []
        for name, atom in part.atoms:
            derived = self._derived_columns()
            known = len(derived.by_sql)
            try:
                value = self._label_condition(part, derived).value_of(name)
            except EpisodeError:
                continue
            if len(derived.by_sql) == known:
                found.append(ReadValue(atom.span, value))
        return tuple(found)

    def _label_condition(self, part: Scalar, derived: DerivedColumns) -> LabelCondition:
        definition = replace(self.definition, condition=part)
        return LabelCondition(self.clause, self.schema, self.plan.labels, derived, definition, (False, False))

    def _derived_columns(self) -> DerivedColumns:
        known = {sql: (name, self.plan.types[name]) for sql, name in self.plan.derived}
        return DerivedColumns(self.schema, known)
