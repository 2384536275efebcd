"""What the conjuncts of conditions say of a row, and the values that they read there, in a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np

from episode.matchers.protocol import EventBatch
from episode.matchers.rows.trial import Trial
from episode.plan.expressions import Current, Expression, LabelAt, Load, Navigated, Running, walk
from episode.plan.pattern import Span
from episode.plan.rows.conjuncts import Conjunct
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.types import decimal_of, is_day_time_interval, is_float, lane_of

_EPOCH = datetime(1970, 1, 1)
UNKNOWN = object()
"""In the place of a value that cannot be shown."""


@dataclass(frozen=True)
class Reading:
    """What a conjunct is at a row: True, False or None. values: what it read, with their places."""

    conjunct: Conjunct
    holds: bool | None
    values: tuple[tuple[Span, Any], ...]


class Readings:
    """Trials of a query whose conditions can be looked at part by part."""

    def __init__(self, plan: RowPatternPlan, events: EventBatch, conjuncts: Mapping[str, tuple[Conjunct, ...]]) -> None:
        self.conjuncts = conjuncts
        self._numbers: dict[Expression, int] = {}
        for expression in _machine_expressions(conjuncts, set(events.table.column_names)):
            self._numbers.setdefault(expression, len(self._numbers))
        self.trial = Trial(plan, events, tuple(self._numbers))

    def at_last_row(self, label: str) -> list[Reading]:
        """All conjuncts of a label, where the last row taken has it."""
        return [
            Reading(one, self._holds(one), tuple((read.span, self._value(read.value)) for read in one.values))
            for one in self.conjuncts.get(label, ())
        ]

    def _holds(self, conjunct: Conjunct) -> bool | None:
        null, whole, _, _ = self.trial.value(self._numbers[conjunct.holds])
        return None if null else whole != 0

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
        return None if null else self._decoded(expression, whole, real, high)

    def _row(self, at: Current | Navigated) -> int | None:
        if isinstance(at, Navigated):
            return self.trial.row_of(at)
        row = self.trial.row + at.offset
        return row if 0 <= row < len(self.trial.events) else None

    def _decoded(self, expression: Expression, whole: int, real: float, high: int) -> Any:
        type_ = expression.type
        decimal = decimal_of(type_)
        if lane_of(type_) == "code":
            return self._text(expression, whole) if decimal is None else _decimal(whole, high, decimal[1])
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


def _machine_expressions(conjuncts: Mapping[str, tuple[Conjunct, ...]], columns: set[str]) -> Iterator[Expression]:
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


def _decimal(low: int, high: int, scale: int) -> Decimal:
    return Decimal((high << 64) | (low & (2**64 - 1))).scaleb(-scale)
