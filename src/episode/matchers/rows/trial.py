"""One attempt of a row pattern taken step by step, with the matcher's own conditions: the base of explanations.

Rows are taken one after the other, and after each one the condition of its label, or any other expression of the query,
can be evaluated as the search does it. Slow, and for few steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from episode.matchers.prepare import needs_of, prepare
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.code.arrays import AGGREGATE_ROWS, ROWS, SETTINGS
from episode.matchers.rows.code.condition_traits import ColumnPlaces
from episode.matchers.rows.code.trial import EVALUATE, HIGH, NULL, TAKE, TEST, WHOLE, trial_code
from episode.matchers.rows.program import lower_program
from episode.native.running import compiled
from episode.plan.expressions import Condition, Expression, Navigated
from episode.plan.labels import Labels
from episode.plan.output import MeasurePlan
from episode.plan.rows.plan import RowPatternPlan


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
        code = trial_code(with_further, self.labels, ColumnPlaces.of(prepared))
        self._step = compiled(code.program)
        rows = len(events)
        traits = code.traits
        columns = max(rows + 2, traits.array_room.elements(rows)) + 1
        running = (len(traits.aggregates) + traits.array_rows) * columns
        settings = np.zeros(SETTINGS, np.int64)
        settings[ROWS], settings[AGGREGATE_ROWS] = prepared.lanes.valid.shape[1], columns
        self._path = np.zeros(rows + 2, np.int32)
        self._first = np.full(max(1, self.labels + len(further)), -1, np.int64)
        self._last = self._first.copy()
        self._previous: list[int] = []
        self._whole, self._real = np.zeros(3, np.int64), np.zeros(1, np.float64)
        lanes = self.lanes
        arrays = {
            "settings": settings, "key": events.key, "path": self._path, "label_of": self.program.label_of,
            "ints": lanes.ints.reshape(-1), "floats": lanes.floats.reshape(-1), "valid": lanes.valid.reshape(-1),
            **code.constants.arrays(lanes),
            "last_row": self._last, "first_row": self._first, "value_i": self._whole, "value_f": self._real,
            "agg_i": np.zeros(running, np.int64), "agg_n": np.zeros(running, np.int64),
            "agg_f": np.zeros(running, np.float64), "agg_m": np.zeros(running, np.float64),
        }  # fmt: skip
        self._arrays = [arrays[name] for name, _, _ in self._step.arrays]
        self._aggregates = bool(traits.aggregates)
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
        if self._aggregates:
            self._run(TAKE, label)

    def back_to(self, row: int) -> None:
        """Give rows back, so that the next row to take is this one."""
        while self.start + len(self._previous) > row:
            label = self._label_of[self._path[len(self._previous) - 1]]
            self._last[label] = self._previous.pop()

    def _run(self, what: int, label: int) -> None:
        self._step(self._arrays, 3 * label + what, self.start, self.row, self.number)

    # ---- conditions ----------------------------------------------------------------------------------

    def offers(self, row: int, label: int) -> bool:
        """Do the row-local conditions of a label hold at a row?"""
        return bool((int(self.bits[row]) >> label) & 1)

    def holds(self, label: int) -> bool:
        """Does what the condition of a label says of other rows hold, where the last row taken has the label?"""
        self._run(TEST, label)
        return bool(self._whole[WHOLE])

    def value(self, further: int) -> tuple[bool, int, float, int]:
        """Of a further expression at the last row taken: is it null?, and its value in the lane of whole numbers, in
        that of floats, and its high word."""
        self._run(EVALUATE, self.labels + further)
        return bool(self._whole[NULL]), int(self._whole[WHOLE]), float(self._real[0]), int(self._whole[HIGH])

    def row_of(self, at: Navigated) -> int | None:
        """The row that a navigation leads to, if there is one."""
        labels = [self.plan.labels.names[self._label_of[one]] for one in self._path[: len(self._previous)]]
        rows = [row for row, label in enumerate(labels, self.start) if at.labels is None or label in at.labels]
        if at.offset >= len(rows):
            return None
        found = (rows if at.first else rows[::-1])[at.offset] + at.shift
        return found if 0 <= found < len(self.events) else None

    def label_at(self, row: int) -> str | None:
        """The label of a row of the match so far."""
        if not self.start <= row <= self.row:
            return None
        return self.plan.labels.names[self._label_of[self._path[row - self.start]]]


def _with_programs(plan: RowPatternPlan, further: Sequence[Expression]) -> RowPatternPlan:
    """The plan with a label more for each expression, which is its condition."""
    names = [f"\0{number}" for number in range(len(further))]
    conditions = dict(plan.conditions)
    for name, expression in zip(names, further, strict=True):
        conditions[name] = Condition(name, (), (expression,))
    labels = Labels((*plan.labels.names, *names), plan.labels.subsets)
    return replace(plan, output=replace(plan.output, labels=labels, measures=MeasurePlan([])), conditions=conditions)
