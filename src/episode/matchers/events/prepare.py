"""From an event plan and a batch to the lanes that its code reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from episode.matchers.encoding import Lanes, encode, is_float_lane
from episode.matchers.events.code.conditions import NO_COLUMNS, ConditionColumns
from episode.matchers.events.code.tests import RecordTests
from episode.matchers.events.comparisons import comparison_of
from episode.matchers.events.gaps import optional_variables
from episode.matchers.expression_code import LanePlaces
from episode.matchers.prepare import Known, Needs, loads_in, running_argument
from episode.matchers.row_code import compute_lane, set_bits
from episode.plan.events.conditions import JoinTest
from episode.plan.events.engines import evaluated_expressions
from episode.plan.events.plan import EventPlan
from episode.plan.expressions import Constant, Current, Expression, Load, Running, parts_of
from episode.plan.wide import is_ranked_constant, is_words


def event_needs(plan: EventPlan, local: bool = True) -> Needs:
    """What a plan needs of a batch; computed once per plan. local: also for conditions on single events?"""
    columns: dict[str, str] = {}
    null_tests: dict[str, None] = {}
    constants: dict[tuple[str, object], None] = {}
    computed: dict[Expression, None] = {}
    words: dict[str, Any] = {}

    def read(expression: Expression) -> None:
        for node in loads_in(expression, columns, words):
            if isinstance(node, Constant) and is_ranked_constant(node):
                constants[(node.type, node.value)] = None
            elif isinstance(node, Running):
                argument = running_argument(node)
                if isinstance(argument, Load) and argument.at == Current(0):
                    if node.function == "count":
                        null_tests[argument.column] = None
                    else:
                        columns[argument.column] = argument.type
                elif argument is not None:
                    if not is_words(argument):
                        computed[argument] = None
                    read(argument)

    for parts in plan.local.values() if local else ():
        for part in parts:
            read(part)
    for expression in conditions_of(plan):
        read(expression)
        comparison = comparison_of(expression)
        if comparison is not None:
            for side in (comparison.left, comparison.right):
                if not isinstance(side.expression, Load):
                    computed[side.expression] = None
    return Needs(columns, tuple(null_tests), tuple(constants), tuple(computed), tuple(words))


def conditions_of(plan: EventPlan) -> list[Expression]:
    """All conditions but those on single events."""
    tests: list[JoinTest] = list(plan.tests)
    for parts in (*plan.absent_tests.values(), *plan.group_tests.values()):
        tests += parts
    return evaluated_expressions(tests, plan.automaton, plan.construction, plan.collapse)


@dataclass
class EventArrays:
    """A batch in lanes. bits: which variables a row qualifies for. places: what was computed of single rows."""

    plan: EventPlan
    lanes: Lanes
    bits: np.ndarray
    places: dict[Expression, tuple[bool, int, int]] = field(default_factory=dict)
    _pairs: dict[tuple, RecordTests] = field(default_factory=dict)

    def operand(self, expression: Expression) -> tuple[int, int]:
        """(row of its lane, row of validity or -1)."""
        if isinstance(expression, Load):
            return self.lanes.at[expression.column], self.lanes.valid_at[expression.column]
        _, row, check = self.places[expression]
        return row, check

    def argument(self, running: Running) -> tuple[int, int, int]:
        """(lane row, validity, is float) of an aggregate's argument."""
        argument = running_argument(running)
        if argument is None:
            return 0, -1, 0
        if isinstance(argument, Load):
            row = self.lanes.at.get(argument.column, 0)
            return row, self.lanes.valid_at[argument.column], int(is_float_lane(argument.type))
        if is_words(argument):
            (load,) = parts_of(argument)
            assert isinstance(load, Load)
            return self.lanes.words_at[load.column], self.lanes.valid_at[load.column], 0
        floating, row, check = self.places[argument]
        return row, check, int(floating)

    @cached_property
    def columns(self) -> ConditionColumns:
        """Where compiled conditions find values."""
        return ConditionColumns(LanePlaces.of(self.lanes), tuple(self.places.items()))

    @cached_property
    def _optional(self) -> frozenset[str]:
        return frozenset() if self.plan.tree is None else frozenset(optional_variables(self.plan.tree))

    def pair_tests(
        self, tests: tuple[JoinTest, ...] | list[JoinTest], left: tuple[str, ...], right: tuple[str, ...]
    ) -> RecordTests:
        """The tests on a left and a right record with these variables."""
        # By identity: the tests are those of the plan, and hashing an expression takes long.
        which = (tuple(id(test) for test in tests), left, right)
        if which not in self._pairs:
            conditions = tuple((test.expression, test.variables) for test in tests)
            self._pairs[which] = RecordTests(
                self.columns if tests else NO_COLUMNS, conditions, left, right, self._optional & {*left, *right}
            )
        return self._pairs[which]


def prepare_events(
    plan: EventPlan, needs: Needs, table: pa.Table, key: np.ndarray, known: Known | None = None
) -> EventArrays:  # fmt: skip
    """Encode the columns, and evaluate what concerns single rows and is not known."""
    lanes = encode(table, needs.columns, needs.null_tests, needs.constants, needs.room, needs.words)
    all_bits = np.uint64(2 ** len(plan.variables) - 1)
    bits = np.full(len(key), all_bits, np.uint64) if known is None else known.bits & all_bits
    arrays = EventArrays(plan, lanes, bits)
    for expression in needs.computed:
        arrays.places[expression] = compute_lane(lanes, key, expression)
    if known is None:
        local = [(part, 1 << number) for number, name in enumerate(plan.variables) for part in plan.local[name]]
        set_bits(lanes, key, local, arrays.bits)
    return arrays
