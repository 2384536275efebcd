"""Comparisons of two values that each come from one event, and emitters of conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from episode.matchers.code.expressions import COMPARE, CodeConstants, Emitted, Emitter, LaneArrays, LanePlaces
from episode.matchers.codes import BY_OPERATION
from episode.matchers.encoding import is_float_lane
from episode.matchers.events.code.arrays import ROWS
from episode.native.builder import Scope
from episode.native.ir import I64, Value
from episode.plan.expressions import (
    FLIPPED,
    Apply,
    Expression,
    Load,
    Navigated,
    RowRef,
    Running,
    at_current_row,
    is_comparison,
    parts_of,
    walk,
)


@dataclass(frozen=True)
class Operand:
    """One side of a comparison: a value of the row of one variable (None: of the current row).

    expression: with its loads at the current row; written: as it is in the condition."""

    expression: Expression
    at: Navigated | None
    written: Expression

    @property
    def variable(self) -> str:
        assert self.at is not None
        return only_label(self.at)


def only_label(at: Navigated | Running) -> str:
    """The variable that an event, or an aggregate, is of."""
    assert at.labels is not None
    (name,) = at.labels
    return name


@dataclass(frozen=True)
class EventComparison:
    operation: str
    floating: bool
    left: Operand
    right: Operand

    @property
    def compare(self) -> int:
        return BY_OPERATION[self.operation]


def comparison_of(expression: Expression) -> EventComparison | None:
    """A comparison of two values that each come from one row; anything else is for the machine."""
    if not is_comparison(expression):
        return None
    assert isinstance(expression, Apply)
    sides = []
    for operand in expression.operands:
        at = next(node.at for node in walk(operand) if isinstance(node, Load))
        sides.append(Operand(at_current_row(operand), at if isinstance(at, Navigated) else None, operand))
    floating = is_float_lane(expression.operands[0].type)
    return EventComparison(expression.operation, floating, sides[0], sides[1])


# Emits conditions of WHERE. Where the events of a condition are found depends on the caller: in the records of a join,
# on the path of an automaton. So an emitter is given two functions: `find(at)` gives the row of an event and whether it
# exists (None: always), `running(aggregate)` the value of a running aggregate.


FindRow = Callable[[Navigated], "tuple[Value, Value | None]"]
EmitRunning = Callable[[Running], Emitted]


@dataclass(frozen=True)
class ConditionColumns:
    """The places of values: columns in lanes, and values computed of single rows.

    computed: expressions at the current row, each (is float, row in its lane, row of validity).
    """

    places: LanePlaces
    computed: tuple[tuple[Expression, tuple[bool, int, int]], ...] = ()


NO_COLUMNS = ConditionColumns(LanePlaces((), (), ()))


class EventConditions(Emitter):
    """Conditions in one function. It is made at the begin of the function: values that it reads there are used
    everywhere."""

    def __init__(
        self,
        s: Scope,
        columns: ConditionColumns,
        constants: CodeConstants,
        find: FindRow,
        running: EmitRunning | None = None,
    ) -> None:
        # The scope has the lanes by name, and declares those that are read.
        super().__init__(s.f, columns.places, cast(LaneArrays, s), s.settings[ROWS], constants)
        self.find, self.running = find, running
        self.computed = dict(columns.computed)

    def begin(self, current: Value) -> None:
        """Begin the code for the events that are bound now, with this row as the current one."""
        self.begin_row(current, guarded=True)

    def holds(self, condition: Expression) -> Value:
        """Is the condition true? A comparison of two events is not, if one does not exist."""
        comparison = comparison_of(condition)
        if comparison is None:
            return super().holds(condition)
        (one, no_one), (other, no_other) = self._side(comparison.left), self._side(comparison.right)
        holds = COMPARE[comparison.operation](one, other)
        for null in (no_one, no_other):
            holds = holds if null is None else holds & ~null
        return holds

    def _side(self, side: Operand) -> Emitted:
        if isinstance(side.written, Load):
            return self.emit(side.written)
        row, present = (self.row, None) if side.at is None else self._row_at(side.at)
        value, null = self.value_of(self.computed[side.expression], row)
        if present is not None:
            null = ~present if null is None else null | ~present
        return value, null

    def value_of(self, column: tuple[bool, int, int], row: Value) -> Emitted:
        """A value (is float, row in its lane, row of validity) of a row."""
        is_float, place, _ = column
        return self._cell(self.arrays.floats if is_float else self.arrays.ints, place, row), self.null_of(column, row)

    def null_of(self, column: tuple[bool, int, int], row: Value) -> Value | None:
        """Is it null?"""
        check = column[2]
        return None if check < 0 else self._cell(self.arrays.valid, check, row).equals(0)

    def find_row(self, at: RowRef) -> tuple[Value, Value | None]:
        assert isinstance(at, Navigated)
        return self.find(at)

    def emit_value(self, expression: Expression) -> Emitted:
        assert isinstance(expression, Running)
        assert self.running is not None
        return self.running(expression)


# Emits conditions on a pair of records: a left and a right one, or one alone. A record is a row of a matrix: the event
# of each variable, -1 if an alternative has left it out. A condition on an event that was left out holds.


LEFT, RIGHT = "l", "r"
"""Sides: first letters of the names of their arrays."""


@dataclass(frozen=True)
class RecordTests:
    """Conditions on records, with the variables of the left and of the right ones.

    conditions: each with the variables that it is about. optional: variables that records may be without.
    """

    columns: ConditionColumns
    conditions: tuple[tuple[Expression, frozenset[str]], ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    optional: frozenset[str] = frozenset()

    @cached_property
    def _hash(self) -> int:
        return hash((self.columns, self.conditions, self.left, self.right, self.optional))

    def __hash__(self) -> int:
        """Computed once: hashing an expression takes long."""
        return self._hash

    def place(self, variable: str) -> tuple[str, int]:
        """The side of a variable, and its column there."""
        return (LEFT, self.left.index(variable)) if variable in self.left else (RIGHT, self.right.index(variable))

    def without(self, condition: Expression) -> RecordTests:
        kept = tuple(one for one in self.conditions if one[0] is not condition)
        return replace(self, conditions=kept)


@dataclass(frozen=True)
class GatheredValues:
    """A comparison of a left with a right event, whose values are gathered before the pairs are tested.

    left, right: (is float, row in its lane, column of the records).
    """

    condition: Expression
    operation: str
    left: tuple[bool, int, int]
    right: tuple[bool, int, int]


def compared_values(tests: RecordTests) -> GatheredValues | None:
    """The first comparison of a left with a right event of which neither may be missing or null."""
    for condition, variables in tests.conditions:
        if not variables & tests.optional:
            found = _values(tests, condition, may_be_null=False)
            if found is not None:
                return found
    return None


def hashed_values(tests: RecordTests) -> tuple[GatheredValues, ...]:
    """The values that a hash table looks up: those of all equalities of two columns, except floats.

    None if an alternative may have left an event out: then equality means nothing.
    """
    found = []
    for condition, variables in () if tests.optional else tests.conditions:
        is_equality = isinstance(condition, Apply) and condition.operation == "eq" and len(variables) == 2
        if is_equality and all(isinstance(operand, Load) for operand in parts_of(condition)):
            values = _values(tests, condition, may_be_null=True)
            if values is not None and not values.left[0]:
                found.append(values)
    return tuple(found)


def _values(tests: RecordTests, condition: Expression, may_be_null: bool) -> GatheredValues | None:
    comparison = comparison_of(condition)
    if comparison is None:
        return None
    sides = {}
    for operand in (comparison.left, comparison.right):
        side, column = tests.place(operand.variable)
        place, check = _lane(tests.columns, operand)
        if check >= 0 and not may_be_null:
            return None
        sides[side] = comparison.floating, place, column
    if len(sides) < 2:
        return None
    operation = comparison.operation
    if tests.place(comparison.left.variable)[0] == RIGHT:
        operation = FLIPPED[operation]
    return GatheredValues(condition, operation, sides[LEFT], sides[RIGHT])


def _lane(columns: ConditionColumns, operand: Operand) -> tuple[int, int]:
    """(row in its lane, row of validity) of a value."""
    if isinstance(operand.expression, Load):
        column = operand.expression.column
        return dict(columns.places.at)[column], dict(columns.places.valid_at)[column]
    _, place, check = dict(columns.computed)[operand.expression]
    return place, check


class PairTests:
    """Emits the conditions in one function; it is made at the begin of the function."""

    def __init__(self, s: Scope, tests: RecordTests, constants: CodeConstants) -> None:
        self.s, self.tests = s, tests
        self._emitter = EventConditions(s, tests.columns, constants, self._find) if tests.conditions else None

    @contextmanager
    def holding(self, left: Value, right: Value) -> Iterator[None]:
        """Run the code built inside if the conditions hold for a left and a right record."""
        f, emitter = self.s.f, self._emitter
        if emitter is None:
            yield
            return
        self._records = {LEFT: left, RIGHT: right}
        emitter.begin(f.value(0))
        self._missing: dict[str, Value] = {}
        with ExitStack() as nested:
            for condition, variables in self.tests.conditions:
                holds = emitter.holds(condition)
                for name in sorted(variables & self.tests.optional):
                    holds = holds | self._missing[name]
                nested.enter_context(f.when(holds))
            yield

    def _find(self, at: Navigated) -> tuple[Value, Value | None]:
        name = only_label(at)
        side, column = self.tests.place(name)
        row = load_event(self.s, self.tests, side, self._records[side], column)
        if name in self.tests.optional:
            self._missing[name] = row < 0
            row = self.s.f.select(row < 0, 0, row)
        return row, None

    def share(self, left: Value, right: Value) -> Value:
        """Is an event in both records?"""
        s, tests = self.s, self.tests
        found = s.f.value(False)
        rights = [load_event(s, tests, RIGHT, right, column) for column in range(len(tests.right))]
        for column, name in enumerate(tests.left):
            row = load_event(s, tests, LEFT, left, column)
            same = s.f.value(False)
            for other in rights:
                same = same | row.equals(other)
            found = found | (same & (row >= 0) if name in tests.optional else same)
        return found


def load_event(s: Scope, tests: RecordTests, side: str, record: Value, column: int) -> Value:
    """The row of an event of a record."""
    width = len(tests.left if side == LEFT else tests.right)
    return s.array(f"{side}_rows")[record * width + column].to(I64)
