"""Emits conditions on a pair of records: a left and a right one, or one alone.

A record is a row of a matrix: the event of each variable, -1 if an alternative has left it out. A condition on an event
that was left out holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from episode.matchers.events.code.conditions import ConditionColumns, EventConditions
from episode.matchers.events.comparisons import Operand, comparison_of
from episode.matchers.expression_code import CodeConstants
from episode.native.ir import Value
from episode.native.scope import Scope
from episode.native.types import I64
from episode.plan.expressions import Apply, Expression, Load, Navigated, parts_of

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

    def place(self, variable: str) -> tuple[str, int]:
        """The side of a variable, and its column there."""
        return (LEFT, self.left.index(variable)) if variable in self.left else (RIGHT, self.right.index(variable))

    def without(self, condition: Expression) -> RecordTests:
        kept = tuple(one for one in self.conditions if one[0] is not condition)
        return replace(self, conditions=kept)


@dataclass(frozen=True)
class GatheredValues:
    """A comparison of a left with a right event, whose values are gathered before the pairs are looked at.

    left, right: (is float, row in its lane, column of the records).
    """

    condition: Expression
    operation: str
    left: tuple[bool, int, int]
    right: tuple[bool, int, int]


_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def compared_values(tests: RecordTests) -> GatheredValues | None:
    """The first comparison of a left with a right event of which neither may be missing or null."""
    for condition, variables in tests.conditions:
        if not variables & tests.optional:
            found = _values(tests, condition, may_be_null=False)
            if found is not None:
                return found
    return None


def hashed_values(tests: RecordTests) -> GatheredValues | None:
    """The values that a hash table looks up: those of the first equality of two columns, unless they are floats.

    If an alternative may have left an event out, equality says nothing, and a hash table would.
    """
    for condition, variables in () if tests.optional else tests.conditions:
        is_equality = isinstance(condition, Apply) and condition.operation == "eq" and len(variables) == 2
        if is_equality and all(isinstance(operand, Load) for operand in parts_of(condition)):
            found = _values(tests, condition, may_be_null=True)
            return None if found is None or found.left[0] else found
    return None


def _values(tests: RecordTests, condition: Expression, may_be_null: bool) -> GatheredValues | None:
    comparison = comparison_of(condition)
    if comparison is None:
        return None
    assert isinstance(condition, Apply)
    operation = condition.operation
    sides = {}
    for operand in (comparison.left, comparison.right):
        side, column = tests.place(_variable(operand))
        place, check = _lane(tests.columns, operand)
        if check >= 0 and not may_be_null:
            return None
        sides[side] = comparison.floating, place, column
    if len(sides) < 2:
        return None
    if tests.place(_variable(comparison.left))[0] == RIGHT:
        operation = _TURNED.get(operation, operation)
    return GatheredValues(condition, operation, sides[LEFT], sides[RIGHT])


def _variable(operand: Operand) -> str:
    assert operand.at is not None
    assert operand.at.labels is not None
    (name,) = operand.at.labels
    return name


def _lane(columns: ConditionColumns, operand: Operand) -> tuple[int, int]:
    """(row in its lane, row of validity) of a value."""
    if isinstance(operand.expression, Load):
        column = operand.expression.column
        return dict(columns.places.at)[column], dict(columns.places.valid_at)[column]
    _, place, check = dict(columns.computed)[operand.expression]
    return place, check


class PairTests:
    """Emits the conditions in one function; it is made where the function begins."""

    def __init__(self, s: Scope, tests: RecordTests, constants: CodeConstants) -> None:
        self.s, self.tests = s, tests
        self._emitter = EventConditions(s, tests.columns, constants, self._find) if tests.conditions else None

    @contextmanager
    def holding(self, left: Value, right: Value) -> Iterator[None]:
        """What is built inside runs if the conditions hold for a left and a right record."""
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
        assert at.labels is not None
        (name,) = at.labels
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
