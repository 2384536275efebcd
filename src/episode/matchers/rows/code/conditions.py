"""Emits residual conditions of row patterns: the conditions of DEFINE on rows of the match so far.

A condition reads rows that it navigates to, running aggregates over the rows taken, labels of rows, and arrays of
values. Cheap tests come first; parts that walk the path or an array run only if they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, cast

from episode.matchers.code.aggregates import AggregateShape, AggregateState, choose_state
from episode.matchers.code.expressions import Emitted, LaneArrays
from episode.matchers.prepare import running_argument
from episode.matchers.rows.code.array_code import ArrayEmitter, ArrayPlaces
from episode.matchers.rows.code.arrays import AGGREGATE_ROWS, ROWS, RunningMatch, find_first, find_last, label_at
from episode.matchers.rows.code.shape import ConditionTraits
from episode.native.builder import Scope
from episode.native.ir import BOOL, I64, I128, U64, Value
from episode.plan import expressions as ex
from episode.plan.expressions import Expression
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.types import is_wide

if TYPE_CHECKING:
    from episode.matchers.rows.code.shape import ColumnPlaces

_ARRAY_OF = {"count": "agg_n", "whole": "agg_i", "real": "agg_f", "more": "agg_m"}


class RowConditions(ArrayEmitter):
    """The conditions of a query over one running match, in one function.

    ints, floats: the constants that the code reads from const_i and const_f; a string is a pair, whose rank depends on
    the rows. `within` gives the same conditions for another function of the program.
    """

    def __init__(self, s: Scope, plan: RowPatternPlan, places: ColumnPlaces, match: RunningMatch) -> None:
        super().__init__(s.f, places.lanes, cast(LaneArrays, s), s.settings[ROWS])
        self.s, self.match, self.column_places = s, match, places
        self.traits = ConditionTraits.of(plan)
        self.first_array = len(self.traits.aggregates)
        self._label: int | None = None
        self._label_constants: list[int] = []
        self._calls = True

    def within(self, s: Scope, match: RunningMatch) -> RowConditions:
        """The same conditions, with the same constants, in another function."""
        made = RowConditions.__new__(RowConditions)
        made.__dict__.update(self.__dict__)
        made.f, made.s, made.match, made.arrays = s.f, s, match, cast(LaneArrays, s)
        return made

    # ---- running aggregates ----------------------------------------------------------------------------------------

    def take(self, label: int, begins: Value | bool) -> None:
        """Emit the running aggregates with the row under trial. begins: is it the first row of the match?"""
        self._begin(label, ArrayPlaces())
        before = self.row - self.match.origin
        for number, (running, aggregate) in enumerate(zip(self.traits.runnings, self.traits.aggregates)):
            at = self.columns * number + before
            state = self._state_before(aggregate, at, begins)
            if running.labels is None or label in self.traits.numbers_of(running.labels):
                value, null = self._argument(running, aggregate)
                after = aggregate.fold(self.f, state, value, self.row)
                state = after if null is None else choose_state(self.f, null, state, after)
            for name in aggregate.fields:
                self.s.array(_ARRAY_OF[name])[at + 1] = getattr(state, name)

    def _state_before(self, aggregate: AggregateShape, at: Value, begins: Value | bool) -> AggregateState:
        if begins is True:
            return aggregate.empty(self.f)
        state = self._state(aggregate, at)
        return state if begins is False else choose_state(self.f, begins, aggregate.empty(self.f), state)

    def _state(self, aggregate: AggregateShape, at: Value) -> AggregateState:
        return AggregateState(**{name: self.s.array(_ARRAY_OF[name])[at] for name in aggregate.fields})

    def _argument(self, running: ex.Running, aggregate: AggregateShape) -> tuple[Value | None, Value | None]:
        """The value that an aggregate takes of the row, and whether it is null; COUNT needs no value."""
        argument = running_argument(running)
        if argument is None:
            return None, None
        if not ex.is_row_local(argument):
            return self.emit(argument)
        floating, column, check = self.column_places.column(argument)
        null = None if check < 0 else self._cell(self.s.valid, check, self.row).equals(0)
        if running.function == "count":
            return None, null
        value = self._cell(self.s.floats if floating else self.s.ints, column, self.row)
        if aggregate.takes_words:
            high = self._cell(self.s.ints, column + 1, self.row)
            value = high.to(I128) << 64 | value.bits_as(U64).to(I128)
        return value, null

    # ---- conditions ------------------------------------------------------------------------------------------------

    def label_holds(self, label: int) -> Value | None:
        """Emit the residual condition of a label for the row under trial; None without such a condition."""
        if not self.traits.residuals[label]:
            return None
        if self.traits.is_large(label) and self._calls:
            return self._call(f"condition_{label}", lambda inner: inner._holds(label))
        return self._holds(label)

    def _holds(self, label: int) -> Value:
        f = self.f
        self._begin(label, self.traits.arrays[label])
        cheap, dear = self.traits.parts(label)
        holds = reduce(and_, [self.holds(part) for part in cheap]) if cheap else None
        if not dear:
            assert holds is not None
            return holds
        result = f.variable("residual_holds", False)
        refused = f.block("refused")
        for part in dear:
            if holds is not None:
                f.jump_unless(holds, refused)
            holds = self.holds(part)
        assert holds is not None
        result.set(holds)
        f.join(refused)
        return result.value

    def value(self, label: int) -> Emitted:
        """Emit the single expression in place of a label's condition, at a row of any label."""
        (expression,) = self.traits.residuals[label]
        self._begin(None, self.traits.arrays[label])
        return self.emit(expression)

    def _call(self, name: str, emit: Callable[[RowConditions], Value]) -> Value:
        """A condition as a function, so that its code is in the program once."""
        match, tracked = self.match, sorted(self.match.last_row)
        numbers = [match.start, match.row, match.origin, match.lo, match.hi, match.number, match.known_from]
        rows = [match.last_row[label] for label in tracked] + [match.first_row[label] for label in tracked]

        def build(s: Scope, *scalars: Value) -> None:
            start, row, origin, lo, hi, number, known_from, *kept = scalars
            variables = [s.f.variable("row", one) for one in kept]
            last, first = variables[: len(tracked)], variables[len(tracked) :]
            of_labels = dict(zip(tracked, last)), dict(zip(tracked, first))
            inner = self.within(s, RunningMatch(start, row, origin, lo, hi, number, known_from, *of_labels))
            inner._calls = False
            s.f.give(emit(inner))

        return self.s.call(name, build, *numbers, *rows, result=BOOL)

    def _begin(self, label: int | None, arrays: ArrayPlaces) -> None:
        """Begin the code for the row under trial. label: its label; None: that of the path."""
        self._label = label
        self.rows = self.s.settings[ROWS]
        self.begin_row(self.f.value(self.match.row), True)
        self.begin_arrays(arrays, self.s.settings[AGGREGATE_ROWS])

    # ---- rows and values of the match --------------------------------------------------------------------------------

    def _neighbour(self, offset: int) -> tuple[Value, Value | None]:
        return self._shift_row(self.row, None, offset)

    def find_row(self, at: ex.RowRef) -> tuple[Value, Value | None]:
        if isinstance(at, ex.Navigated):
            return self._shift_row(*self._navigate(at), at.shift)
        assert isinstance(at, ex.ExtremeRow), at
        state = self._state_now(at.by)
        return self._shift_row(state.more.to(I64), state.count.differs(0), 0)

    def _navigate(self, at: ex.Navigated) -> tuple[Value, Value | None]:
        match, f = self.match, self.f
        start = f.value(match.start)
        if at.labels is None:
            row = start + at.offset if at.first else self.row - at.offset
            if at.offset == 0:
                return row, None
            return row, row <= self.row if at.first else row >= start
        members = self.traits.numbers_of(at.labels)
        if len(members) == 1 and at.offset == 0:
            (label,) = members
            last = f.value(match.last_row[label])
            return f.value(match.first_row[label]) if at.first else last, last >= 0
        find = find_first if at.first else find_last
        row = find(self.s, start, self.row, match.origin, self.mask_of(at.labels), at.offset)
        return row, row >= 0

    def _shift_row(self, row: Value, present: Value | None, shift: int) -> tuple[Value, Value | None]:
        """The row `shift` rows away, if it is in the partition; the one under trial, which can be read, if not."""
        if shift != 0:
            row = row + shift
            inside = row < self.match.hi if shift > 0 else row >= self.match.lo
            present = inside if present is None else present & inside
        return (row if present is None else self.f.select(present, row, self.row)), present

    def emit_value(self, expression: Expression) -> Emitted:
        if isinstance(expression, ex.Number):
            return self.match.number + 1, None
        if isinstance(expression, ex.LabelAt):
            return self._label_value(expression.at)
        if isinstance(expression, ex.Running):
            aggregate = self.traits.aggregates[self.traits.runnings.index(expression)]
            value, null = aggregate.finish(self.f, self._state_now(expression))
            return value if value.type is not I128 or is_wide(expression) else value.to(I64), null
        return self.emit_array_value(expression)

    def _state_now(self, running: ex.Running) -> AggregateState:
        number = self.traits.runnings.index(running)
        at = self.columns * number + (self.row - self.match.origin + 1)
        return self._state(self.traits.aggregates[number], at)

    def _label_value(self, at: ex.RowRef) -> Emitted:
        """The label of a row as a value; null if the path has no such row."""
        f = self.f
        if not self._label_constants:
            self._label_constants.append(len(self.constants.ints))
            self.constants.ints += [("string", name) for name in self.traits.names]
        first = self._label_constants[0]
        if at == ex.Current(0) and self._label is not None:
            return self.arrays.const_i[first + self._label], None
        row, present = self._row_at(at)
        known = (row >= self.match.known_from) & (row <= self.row)
        known = known if present is None else known & present
        row = f.select(known, row, self.row)
        return self.arrays.const_i[label_at(self.s, row - self.match.origin) + first], ~known

    def mask_of(self, labels: frozenset[str]) -> int:
        mask = sum(1 << number for number in self.traits.numbers_of(labels))
        return mask - 2**64 if mask >= 2**63 else mask
