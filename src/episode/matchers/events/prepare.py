"""Lanes, comparisons and bounds that the code of an event plan reads, from the plan and a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from episode.matchers import codes as oc
from episode.matchers.code.expressions import LanePlaces
from episode.matchers.code.rows import compute_lane, set_bits
from episode.matchers.encoding import Lanes, encode, is_float_lane
from episode.matchers.events.code.bound_terms import BEFORE, FIRST, LAST, OWN, TermShape
from episode.matchers.events.code.bounds import MOST_MARKS, BoundShape, BoundsShape, SideShape
from episode.matchers.events.code.checks import PathShape
from episode.matchers.events.code.conditions import NO_COLUMNS, ConditionColumns, RecordTests, comparison_of
from episode.matchers.events.gaps import optional_variables
from episode.matchers.prepare import Needs, NeedsCollector, Precomputed, function_code, running_argument
from episode.plan.events.bounds import ClosureBound, ClosureValue, Sum
from episode.plan.events.conditions import JoinTest
from episode.plan.events.engines import evaluated_expressions
from episode.plan.events.plan import EventPlan
from episode.plan.events.postponed import Construction
from episode.plan.expressions import Current, Expression, Load, Navigated, Running, parts_of
from episode.plan.types import is_words

# Bounds of a construction as they are compiled in, for one batch.


KNOWN = frozenset({oc.SUM, oc.COUNT, oc.MIN, oc.MAX, oc.AVG, oc.AVG_WHOLE})
"""Aggregates with known bounds."""


def bounds_shape(
    plan: EventPlan, construction: Construction, arrays: EventArrays, path_shape: PathShape
) -> tuple[BoundsShape, np.ndarray]:
    """The bounds, without those on values of two words, of which nothing is known; factors of their parts."""
    bit = {name: number for number, name in enumerate(plan.variables)}
    bounds = [bound for bound in construction.bounds.all if _is_known(bound)]
    fixed = {part: number for number, part in enumerate(construction.bounds.fixed)}
    terms: dict[ClosureValue, int] = {}
    factors: list[float] = []

    def side_of(side: Sum) -> SideShape:
        first = len(factors)
        factors.extend(part.factor for part in side.parts)
        parts = tuple(
            terms.setdefault(part.of, len(terms)) if isinstance(part.of, ClosureValue) else -1 - fixed[part.of]
            for part in side.parts
        )
        return SideShape(parts, first, side.computed, side.limit)

    shapes = tuple(
        BoundShape(
            bit[bound.variable],
            bound.each,
            bound.back,
            tuple(sorted(bit[name] for name in bound.needs)),
            tuple(
                (one.whole, tuple((two.operation, side_of(two.left), side_of(two.right)) for two in one.comparisons))
                for one in bound.branches
            ),
        )
        for bound in bounds
    )
    places = tuple(tuple((bit[name], needed) for name, needed in one) for one in construction.places)
    shape = BoundsShape(
        tuple(_term(term, bit, arrays, path_shape) for term in terms),
        shapes,
        tuple(part.expression for part in construction.bounds.fixed),
        _by_check(construction, bounds),
        places,
        len(plan.variables),
    )
    return shape, np.array(factors, np.float64)


def _is_known(bound: ClosureBound) -> bool:
    of = [part.of.of for part in bound.parts if isinstance(part.of, ClosureValue)]
    return all(not isinstance(one, Running) or (one.user is None and function_code(one) in KNOWN) for one in of)


def _by_check(construction: Construction, bounds: list[ClosureBound]) -> tuple[tuple[tuple[int, ...], int], ...]:
    """By check: the bounds on whole closures that hold where it does, and those on each event as bits."""
    numbers = {bound: number for number, bound in enumerate(bounds)}
    out = []
    for places in construction.bounds.by_check:
        mine = [numbers.get(construction.bounds.all[place], -1) for place in places]
        known = bool(mine) and -1 not in mine
        each = known and bounds[mine[0]].each
        mask = sum(1 << number for number in set(mine)) if each and max(mine) < MOST_MARKS else 0
        out.append((tuple(mine) if known and not each else (), mask))
    return tuple(out)


def _term(term: ClosureValue, bit: dict[str, int], arrays: EventArrays, path_shape: PathShape) -> TermShape:
    of = term.of
    if isinstance(of, Running):
        row, check, is_float = arrays.argument(of)
        number = path_shape.runnings.index(of) if of.reach == "all" else -1
        reach = "" if of.reach == "all" else of.reach
        return TermShape(function_code(of), bit[term.variable], (bool(is_float), row, check), number, reach)
    if isinstance(of.at, Navigated):
        function = FIRST if of.at.first else LAST if of.at.offset == 0 else BEFORE
    else:
        assert of.at == Current(0)
        function = OWN
    column = (is_float_lane(of.type), arrays.lanes.at[of.column], arrays.lanes.valid_at[of.column])
    return TermShape(function, bit[term.variable], column)


def event_needs(plan: EventPlan, local: bool = True) -> Needs:
    """The columns and computed values that a plan reads; computed once per plan. local: also for conditions on single
    events?"""
    found = NeedsCollector()
    for parts in plan.local.values() if local else ():
        for part in parts:
            found.read(part)
    for expression in conditions_of(plan):
        found.read(expression)
        comparison = comparison_of(expression)
        if comparison is not None:
            for side in (comparison.left, comparison.right):
                if not isinstance(side.expression, Load):
                    found.computed[side.expression] = None
    return found.needs()


def conditions_of(plan: EventPlan) -> list[Expression]:
    """All conditions but those on single events."""
    tests: list[JoinTest] = list(plan.tests)
    for parts in (*plan.absent_tests.values(), *plan.group_tests.values()):
        tests += parts
    return evaluated_expressions(tests, plan.automaton, plan.construction, plan.collapse)


@dataclass
class EventArrays:
    """A batch in lanes. bits: the variables that a row qualifies for. places: lanes of values computed of single
    rows."""

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
        """The places of values for compiled conditions."""
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
    plan: EventPlan, needs: Needs, table: pa.Table, key: np.ndarray, known: Precomputed | None = None
) -> EventArrays:  # fmt: skip
    """Encode the columns, and evaluate the conditions on single rows that are not known."""
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
