"""One attempt of a row pattern taken step by step, with the matcher's own conditions: the base of explanations.

Rows are taken one after the other, and after each one the condition of its label, or any other expression of the query,
can be evaluated as the kernel does it. Slow, and for few steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from episode.kernels.rows.arrays import A_NAV, A_VALID, B_NAV, B_VALID, COMPARE, FLOATING, A, B
from episode.kernels.rows.conditions import navigate, residual_holds, take_into_aggregates
from episode.matchers.comparing import accepts, compare_floats, compare_ints
from episode.matchers.lowering import simple_test
from episode.matchers.prepare import needs_of, prepare
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.prepare import lower_residuals
from episode.matchers.rows.program import lower_program
from episode.plan.expressions import Apply, Condition, Constant, Expression, Navigated
from episode.plan.labels import Labels
from episode.plan.output import MeasurePlan
from episode.plan.rows.plan import RowPatternPlan

_TRUE = Constant(1, "boolean")


class Trial:
    """An attempt over the rows of one partition, which are all rows of the batch.

    further: expressions that may be evaluated beside the conditions; they are numbered in this order.
    """

    def __init__(self, plan: RowPatternPlan, events: EventBatch, further: Sequence[Expression] = ()) -> None:
        self.plan = plan
        self.events = events
        self.labels = len(plan.labels.names)
        with_further = _with_programs(plan, further)
        prepared = prepare(with_further, needs_of(with_further), events.table, events.key)
        self.bits = prepared.bits
        self.lanes = prepared.lanes
        self.program = lower_program(plan.program, plan.labels.names, False)
        self._tests, self._residuals, self._navigations, self._aggregates, arrays = lower_residuals(
            with_further, prepared
        )
        rows = len(events)
        deep = rows + 2
        running = (len(self._aggregates.function) + arrays.arrays, max(deep, arrays.room.elements(rows)) + 1)
        self._agg_i, self._agg_n = np.empty(running, np.int64), np.empty(running, np.int64)
        self._agg_f, self._agg_m = np.empty(running, np.float64), np.empty(running, np.float64)
        self._path = np.zeros(deep, np.int32)
        self._first = np.full(max(1, self.labels + len(further)), -1, np.int64)
        self._last = self._first.copy()
        self._previous: list[int] = []
        values = len(self._aggregates.function) + int(self._residuals.array_from[-1])
        self._run = np.zeros(values, np.int64), np.zeros(values, np.float64), np.zeros(values, np.uint8)
        navigations = len(self._navigations.first)
        self._nav = np.full(navigations, -1, np.int64), np.full(navigations, -1, np.int64)
        registers = (self._residuals.registers, 1)
        self._registers = np.zeros(registers, np.int64), np.zeros(registers, np.float64), np.zeros(registers, np.uint8)
        self._label_of: list[int] = self.program.label_of.tolist()
        self.start = 0
        self.number = 0

    # ---- rows ----------------------------------------------------------------------------------------

    def begin(self, start: int, number: int) -> None:
        """An attempt from a start row. number: of the last match before it."""
        self.start, self.number = start, number
        self._last[:] = -1
        self._first[:] = -1
        self._previous.clear()

    @property
    def row(self) -> int:
        """The row that was taken last."""
        return self.start + len(self._previous) - 1

    def take(self, instruction: int) -> None:
        """Map the next row to the label of an instruction, whether its condition holds or not."""
        place = len(self._previous)
        row, label = self.start + place, self._label_of[instruction]
        self._path[place] = instruction
        last = int(self._last[label])
        self._previous.append(last)
        if last < 0:
            self._first[label] = row
        self._last[label] = row
        if len(self._aggregates.function):
            self._aggregate(row, place, label)

    def back_to(self, row: int) -> None:
        """Give rows back, so that the next row to take is this one."""
        while self.start + len(self._previous) > row:
            label = self._label_of[self._path[len(self._previous) - 1]]
            self._last[label] = self._previous.pop()

    def _aggregate(self, row: int, place: int, label: int) -> None:
        one, residuals, navigations = self._aggregates, self._residuals, self._navigations
        take_into_aggregates(
            place == 0, place, row, label, self.number, one.function, one.set, one.column, one.valid, one.floating,
            one.from_, one.to, one.result, one.nav, self._agg_i, self._agg_f, self._agg_m, self._agg_n,
            navigations.sets, navigations.label_codes, *self._nav, residuals.code, *self._registers, self.events.key,
            self.lanes.ints, self.lanes.floats, self.lanes.valid, residuals.const_i, residuals.const_f, *self._run,
        )  # fmt: skip

    # ---- conditions ----------------------------------------------------------------------------------

    def offers(self, row: int, label: int) -> bool:
        """Do the row-local conditions of a label hold at a row?"""
        return bool((int(self.bits[row]) >> label) & 1)

    def holds(self, label: int) -> bool:
        """Does what the condition of a label says of other rows hold, where the last row taken has the label?"""
        for test in range(self._tests.from_[label], self._tests.from_[label + 1]):
            if not self._passes(self._tests.tests[test]):
                return False
        if self._residuals.from_[label] < self._residuals.to[label]:
            return bool(self._evaluate(label))
        return True

    def value(self, further: int) -> tuple[bool, int, float, int]:
        """Of a further expression at the last row taken: is it null?, and its value in the lane of whole numbers, in
        that of floats, and its high word."""
        label = self.labels + further
        self._evaluate(label)
        register = self._residuals.result[label]
        ints, floats, nulls = self._registers
        high = int(ints[register + 1, 0]) if register + 1 < len(ints) else 0
        return bool(nulls[register, 0]), int(ints[register, 0]), float(floats[register, 0]), high

    def row_of(self, at: Navigated) -> int | None:
        """The row that a navigation leads to, if there is one."""
        label = -1
        if at.labels is not None:
            label = self.plan.labels.names.index(next(iter(at.labels))) if len(at.labels) == 1 else -2
        members = [[at.labels is None or name in at.labels for name in self.plan.labels.names] or [True]]
        found = self._navigate(at.first, at.offset, at.shift, label, np.array(members, np.uint8), 0)
        return None if found < 0 else found

    def label_at(self, row: int) -> str | None:
        """The label of a row of the match so far."""
        if not self.start <= row <= self.row:
            return None
        return self.plan.labels.names[self._label_of[self._path[row - self.start]]]

    def _evaluate(self, label: int) -> Any:
        residuals, navigations, one = self._residuals, self._navigations, self._aggregates
        return residual_holds(
            label, self.start, self.start, self.row, 0, len(self.events), self.number, residuals.from_, residuals.to,
            residuals.result, residuals.nav_from, residuals.nav_ids, navigations.first, navigations.offset,
            navigations.shift, navigations.label, navigations.set, navigations.sets, navigations.label_codes,
            self.program.label_of, self._path, self._first, self._last, one.function, one.floating, one.high,
            self._agg_i, self._agg_f, self._agg_m, self._agg_n, *self._nav, residuals.code, *self._registers,
            self.events.key, self.lanes.ints, self.lanes.floats, self.lanes.valid, residuals.const_i,
            residuals.const_f, *self._run, residuals.array_from, self.start,
        )  # fmt: skip

    def _passes(self, test: np.ndarray) -> bool:
        """A comparison of two values, each of one row."""
        sides = []
        lane = self.lanes.floats if test[FLOATING] else self.lanes.ints
        for column, check, nav in ((A, A_VALID, A_NAV), (B, B_VALID, B_NAV)):
            row = self.row if test[nav] < 0 else self._row_of_navigation(test[nav])
            if row < 0 or (test[check] >= 0 and self.lanes.valid[test[check], row] == 0):
                return False
            sides.append(lane[test[column], row])
        order = compare_floats(*sides) if test[FLOATING] else compare_ints(*sides)
        return accepts(int(test[COMPARE]), order)

    def _row_of_navigation(self, nav: int) -> int:
        one = self._navigations
        if one.plain[nav]:
            return int(self._last[one.label[nav]])
        return self._navigate(one.first[nav], one.offset[nav], one.shift[nav], one.label[nav], one.sets, one.set[nav])

    def _navigate(self, first: Any, offset: Any, shift: Any, label: Any, sets: np.ndarray, which: Any) -> int:
        found: Any = navigate(
            np.bool_(first), np.int64(offset), np.int64(shift), np.int64(label), sets, np.int64(which), self.start,
            self.start, self.row, 0, len(self.events), self._path, self.program.label_of, self._first, self._last,
        )  # fmt: skip
        return int(found)


def _with_programs(plan: RowPatternPlan, further: Sequence[Expression]) -> RowPatternPlan:
    """The plan with a label more for each expression, so that the machine has a program for each of them."""
    names = [f"\0{number}" for number in range(len(further))]
    conditions = dict(plan.conditions)
    for name, expression in zip(names, further, strict=True):
        alone = expression if simple_test(expression) is None else Apply("and", (expression, _TRUE), "boolean")
        conditions[name] = Condition(name, (), (alone,))
    labels = Labels((*plan.labels.names, *names), plan.labels.subsets)
    return replace(plan, output=replace(plan.output, labels=labels, measures=MeasurePlan([])), conditions=conditions)
