"""One attempt of a row pattern taken step by step, with the matcher's own conditions: the base of explanations.

Rows are taken one after the other, and after each one the condition of its label, or any other expression of the query,
can be evaluated as in the search. Slow, and for few steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np

from episode.matchers.prepare import needs_of, prepare
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.code.arrays import AGGREGATE_ROWS, ROWS, SETTINGS
from episode.matchers.rows.code.row_code import EVALUATE, HIGH, NULL, TAKE, TEST, WHOLE, step_code
from episode.matchers.rows.code.shape import ColumnPlaces
from episode.matchers.rows.program import lower_program
from episode.native.running import compile_program
from episode.plan.expressions import Condition, Current, Expression, LabelAt, Load, Navigated, Running, walk
from episode.plan.output import Labels, MeasurePlan
from episode.plan.pattern import Span
from episode.plan.rows.conditions import LabelConjunct
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.types import decimal_of, is_day_time_interval, is_float, lane_of


class StepwiseAttempt:
    """An attempt over the rows of one partition, which are all rows of the batch.

    further: expressions to evaluate in addition to the conditions; they are numbered in this order.
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
        code = step_code(with_further, self.labels, ColumnPlaces.of(prepared))
        self._step = compile_program(code.program)
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

    def begin(self, start: int, number: int) -> None:
        """Begin an attempt at a start row. number: of the last match before it."""
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

    def offers(self, row: int, label: int) -> bool:
        """Do the row-local conditions of a label hold at a row?"""
        return bool((int(self.bits[row]) >> label) & 1)

    def holds(self, label: int) -> bool:
        """Do the conditions of a label on other rows hold, if the last row taken has the label?"""
        self._run(TEST, label)
        return bool(self._whole[WHOLE])

    def value(self, further: int) -> tuple[bool, int, float, int]:
        """The value of a further expression at the last row taken: is it null?, and the value in the lane of whole
        numbers, in that of floats, and its high word."""
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
    """The plan with an additional label for each expression, which is its condition."""
    names = [f"\0{number}" for number in range(len(further))]
    conditions = dict(plan.conditions)
    for name, expression in zip(names, further, strict=True):
        conditions[name] = Condition(name, (), (expression,))
    labels = Labels((*plan.labels.names, *names), plan.labels.subsets)
    return replace(plan, output=replace(plan.output, labels=labels, measures=MeasurePlan([])), conditions=conditions)


# Values of the conjuncts of conditions, and of their parts, at a row of an attempt.


_EPOCH = datetime(1970, 1, 1)
UNKNOWN = object()
"""A value that cannot be shown."""


@dataclass(frozen=True)
class ConjunctReading:
    """The value of a conjunct at a row: True, False or None. values: the values that it read, with their places."""

    conjunct: LabelConjunct
    holds: bool | None
    values: tuple[tuple[Span, Any], ...]


class ConjunctReadings:
    """Attempts of a query whose conditions can be read part by part."""

    def __init__(
        self, plan: RowPatternPlan, events: EventBatch, conjuncts: Mapping[str, tuple[LabelConjunct, ...]]
    ) -> None:
        self.conjuncts = conjuncts
        self._numbers: dict[Expression, int] = {}
        for expression in _machine_expressions(conjuncts, set(events.table.column_names)):
            self._numbers.setdefault(expression, len(self._numbers))
        self.trial = StepwiseAttempt(plan, events, tuple(self._numbers))

    def at_last_row(self, label: str) -> list[ConjunctReading]:
        """All conjuncts of a label, if the last row taken has it."""
        found = []
        for one in self.conjuncts.get(label, ()):
            null, whole, _, _ = self.trial.value(self._numbers[one.holds])
            values = tuple((read.span, self._value(read.value)) for read in one.values)
            found.append(ConjunctReading(one, None if null else whole != 0, values))
        return found

    def _value(self, expression: Expression) -> Any:
        trial = self.trial
        if isinstance(expression, Load) and isinstance(expression.at, (Current, Navigated)):
            row = self._row(expression.at)
            missing = expression.missing is not None and row is None
            if missing or expression.column not in trial.events.table.column_names:
                return UNKNOWN
            return None if row is None else trial.events.table.column(expression.column)[row].as_py()
        if isinstance(expression, LabelAt) and isinstance(expression.at, (Current, Navigated)):
            row = self._row(expression.at)
            return None if row is None else trial.label_at(row)
        if expression not in self._numbers:
            return UNKNOWN
        null, whole, real, high = trial.value(self._numbers[expression])
        return None if null else self._decode(expression, whole, real, high)

    def _row(self, at: Current | Navigated) -> int | None:
        if isinstance(at, Navigated):
            return self.trial.row_of(at)
        row = self.trial.row + at.offset
        return row if 0 <= row < len(self.trial.events) else None

    def _decode(self, expression: Expression, whole: int, real: float, high: int) -> Any:
        type_ = expression.type
        decimal = decimal_of(type_)
        if lane_of(type_) == "code":
            if decimal is None:
                return self._text(expression, whole)
            return Decimal((high << 64) | (whole & (2**64 - 1))).scaleb(-decimal[1])
        if decimal is not None:
            return Decimal(whole).scaleb(-decimal[1])
        if is_float(type_):
            return real
        if type_ == "boolean":
            return whole != 0
        if type_ == "date":
            return date(1970, 1, 1) + timedelta(days=whole)
        if type_ in ("timestamp", "timestamp_ntz"):
            time = _EPOCH + timedelta(microseconds=whole)
            return time.replace(tzinfo=timezone.utc) if type_ == "timestamp" else time
        return timedelta(microseconds=whole) if is_day_time_interval(type_) else whole

    def _text(self, expression: Expression, code: int) -> Any:
        """The value with a rank among those of the columns that the expression reads."""
        lanes, table = self.trial.lanes, self.trial.events.table
        for load in _loads(expression):
            if load.column in lanes.at and lane_of(load.type) == "code":
                found = np.flatnonzero(lanes.ints[lanes.at[load.column]] == code)
                values = (table.column(load.column)[int(row)].as_py() for row in found[:8])
                value = next((value for value in values if value is not None), None)
                if value is not None:
                    return value
        return UNKNOWN


def _machine_expressions(conjuncts: Mapping[str, tuple[LabelConjunct, ...]], columns: set[str]) -> Iterator[Expression]:
    for parts in conjuncts.values():
        for part in parts:
            yield part.holds
            for read in part.values:
                plain = isinstance(read.value, (Load, LabelAt)) and isinstance(read.value.at, (Current, Navigated))
                known = all(load.column in columns and lane_of(load.type) for load in _loads(read.value))
                if not plain and known and lane_of(read.value.type) is not None:
                    yield read.value


def _loads(expression: Expression) -> Iterator[Load]:
    for node in walk(expression):
        if isinstance(node, Load):
            yield node
        elif isinstance(node, Running) and node.argument is not None:
            yield from _loads(node.argument)
