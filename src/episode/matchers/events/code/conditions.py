"""Emits conditions of event patterns: comparisons of events, and anything else that WHERE says.

Where the events of a condition are found depends on what asks for it: in the records of a join, on the path of an
automaton. So an emitter is given two functions: `find(at)` gives the row of an event and whether there is one (None:
there is), `running(aggregate)` the value of a running aggregate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from episode.matchers.events.code.arrays import ROWS
from episode.matchers.events.comparisons import Operand, comparison_of
from episode.matchers.expression_code import COMPARE, CodeConstants, Emitted, Emitter, LaneArrays, LanePlaces
from episode.native.ir import Value
from episode.native.scope import Scope
from episode.plan.expressions import Apply, Expression, Load, Navigated, RowRef, Running

FindRow = Callable[[Navigated], "tuple[Value, Value | None]"]
EmitRunning = Callable[[Running], Emitted]


@dataclass(frozen=True)
class ConditionColumns:
    """Where conditions find values: columns in lanes, and what was computed of single rows.

    computed: expressions at the current row, each (is float, row in its lane, row of validity).
    """

    places: LanePlaces
    computed: tuple[tuple[Expression, tuple[bool, int, int]], ...] = ()


NO_COLUMNS = ConditionColumns(LanePlaces((), (), ()))


class EventConditions(Emitter):
    """Conditions in one function. It is made where the function begins: what it reads there is used everywhere."""

    def __init__(
        self,
        s: Scope,
        columns: ConditionColumns,
        constants: CodeConstants,
        find: FindRow,
        running: EmitRunning | None = None,
    ) -> None:
        # The scope has the lanes by name, and declares those that are read.
        lanes = cast(LaneArrays, s)
        super().__init__(s.f, columns.places, lanes, s.settings[ROWS], constants)
        self.columns = columns
        self.find, self.running = find, running
        self.computed = dict(columns.computed)

    def in_function(self, s: Scope) -> EventConditions:
        """The same in another function of the program."""
        return EventConditions(s, self.columns, self.constants, self.find, self.running)

    def begin(self, current: Value) -> None:
        """What follows is of the events that are bound now, with this row as the current one."""
        self.begin_row(current, guarded=True)

    def holds(self, condition: Expression) -> Value:
        """Is the condition true? One that compares two events is not, if there is no such event."""
        comparison = comparison_of(condition)
        if comparison is None:
            return super().holds(condition)
        assert isinstance(condition, Apply)
        (one, no_one), (other, no_other) = self._side(comparison.left), self._side(comparison.right)
        holds = COMPARE[condition.operation](one, other)
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
