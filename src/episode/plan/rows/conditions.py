"""DEFINE: each condition split into a row-local part (tested once per row) and a residual (tested while matching)."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.rows.syntax import Classifier, Definition, MatchNumber, MatchRecognize, Navigation, row_atoms
from episode.lang.source import Source
from episode.lang.syntax import Aggregate, Atom, ColumnRef, Mode, Scalar
from episode.plan.aggregates import COLLECTING, require, require_column, running_aggregate
from episode.plan.array_functions import ArrayFunctions, CollectedFrom
from episode.plan.arrays import Collected
from episode.plan.compilable import Mistake, NativeCompiler, NotCompilable
from episode.plan.derived import DerivedColumns
from episode.plan.expressions import (
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
)
from episode.plan.labels import Labels
from episode.plan.places import is_placeholder, place_of, placeholders_in
from episode.plan.rows.frames import possible
from episode.plan.rows.labels import common_label, known_names
from episode.plan.rows.tabulated import operand_of, tabulated
from episode.plan.scalars import ACROSS_ROWS, Operand, RowLocalScalars
from episode.plan.schema import InputSchema
from episode.plan.types import VOID, lane_of

EXTREMES = {"min": "min_by", "max": "max_by", "min_by": "min_by", "max_by": "max_by"}
"""Aggregates whose value is a value of one of the rows, and how that row is found."""


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

    def compiled(atom: Atom) -> Expression:
        if isinstance(atom, MatchNumber):
            return Number()
        assert isinstance(atom, Classifier)
        if label_here is None:
            raise source.error(EpisodeUnsupportedError, "CLASSIFIER() is not evaluated in this place.", atom.span)
        return label_here

    return compiled


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
            raise self._not_evaluated(error) from None
        if expression.type == VOID:
            expression = Constant(None, "boolean")
        if expression.type != "boolean":
            raise self.source.error(
                EpisodeAnalysisError,
                f"The condition of {self.label} must be true or false, but it is of type {expression.type}.",
                self.condition.span,
                "Compare it with something: x > 0.",
            )
        return expression

    def plan(self) -> Condition:
        parts = conjuncts(self.expression())
        local = [part for part in parts if is_row_local(part)]
        residual = tuple(part for part in parts if not is_row_local(part))
        if any(self.framed):
            local += [found for found in map(possible, residual) if found is not None]
        return Condition(self.label, tuple(local), residual)

    def _not_evaluated(self, error: NotCompilable) -> EpisodeUnsupportedError:
        for name in self.atoms:
            self.value_of(name)  # a call that is wrong by itself is the better thing to complain of
        return self.source.error(
            EpisodeUnsupportedError,
            f"The condition of {self.label} relates several rows in a way that is not evaluated: {error.reason}.",
            place_of(error.node, self.condition, self.source),
            error.hint or ACROSS_ROWS,
        )

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
            members = self.labels.members(common_label(self.source, (atom.argument,), "navigation", atom.span))
            return self._row(members, atom.logical == "FIRST", atom.logical_offset, atom.physical_offset)
        if not isinstance(atom, Aggregate) or atom.star or atom.mode is Mode.FINAL:
            return None
        members = self.labels.members(common_label(self.source, atom.arguments, "aggregate", atom.span))
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
        return tabulated(self.rows, self.labels.names, node, operands, self._label_at(at), at, self.condition)

    def _of_one_row(self, node: exp.Expression) -> tuple[dict[str, Operand], RowRef] | None:
        """What placeholders in the subtree mean to Spark, and the one row that they are read at; None if there are
        several."""
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
            return tabulated(self.rows, self.labels.names, node, found, label, at, scalar)

        return self.rows.compile(scalar, at, of_the_row(self.source, label), by_spark)

    def value_of(self, name: str) -> Expression:
        """What a placeholder stands for."""
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
            raise self.source.error(
                EpisodeAnalysisError,
                "FINAL is not allowed in DEFINE.",
                atom.span,
                "In DEFINE the match is still running; drop FINAL.",
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
        label = common_label(self.source, (atom.argument,), "navigation", atom.span)
        require_column(self.source, atom.argument, atom.span, "navigation")
        at = self._row(self.labels.members(label), atom.logical == "FIRST", atom.logical_offset, atom.physical_offset)
        return self._at(atom.argument, at)

    def _at(self, scalar: Scalar, at: RowRef) -> Expression:
        """A scalar at a row; null where there is no such row."""
        value = self._argument(scalar, at, self._label_at(at))
        if at == Current(0) or (isinstance(value, (Load, LabelAt)) and getattr(value, "missing", None) is None):
            return value
        return Apply("if", (Exists(at), value, Constant(None, value.type)), value.type)

    def _aggregate(self, atom: Aggregate) -> Expression:
        if atom.star:
            return Running("count", self.labels.members(atom.star_label), None, "bigint")
        label = common_label(self.source, atom.arguments, "aggregate", atom.span)
        members = self.labels.members(label)
        if atom.function in ("first_value", "last_value"):
            first = atom.function == "first_value"
            require_column(self.source, atom.arguments[0], atom.span, "aggregate")
            return self._at(atom.arguments[0], self._row(members, first, 0, 0))
        argument = self._argument(atom.arguments[-1], Current(0), LabelAt(Current(0)))
        if atom.function in ("max_by", "min_by"):
            require(self.source, lane_of(argument.type) is not None, atom.function, argument.type, atom.span)
            return self._at(atom.arguments[0], ExtremeRow(Running(atom.function, members, argument, argument.type)))
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
