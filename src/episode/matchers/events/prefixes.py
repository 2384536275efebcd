"""The first places of sequences, which several patterns may share: the events that are in a match of these alone.

Under skip-till-any-match, the first events of every match of a pattern are a match of the pattern's first places, with
the conditions between them. So an event that is in none of these is in no match, and this is known for all patterns
that begin alike, whatever comes after or between the places. Patterns whose windows differ share the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from episode.matchers.events.adapt import Adaptation, statistics_of
from episode.matchers.events.prepare import EventArrays, event_needs, prepare_events
from episode.matchers.events.records import TooManyRecords
from episode.matchers.events.rounds import ROUND_ROWS, Horizon, Round, Rounds, horizon_of
from episode.matchers.events.tree import TreeRun
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.screening import ROW_NANOSECONDS
from episode.matchers.times import EVER, NEVER
from episode.plan.events.conditions import JoinTest
from episode.plan.events.cost import TreeCosts
from episode.plan.events.plan import EventPlan, Strategy
from episode.plan.events.tree import InSequence, Leaf
from episode.plan.expressions import Apply, Constant, Expression, Load, Navigated
from episode.plan.output import columns_read

MOST_RECORDS = 1 << 20
"""Records of one round; with more, time alone decides which events stay."""


@dataclass(frozen=True)
class EventPrefix:
    """See `Prefix`. plan: of the places alone, whose variables are named by their numbers."""

    plan: EventPlan
    at: tuple[int, ...]

    @cached_property
    def same(self) -> object:
        """Equal for prefixes that differ in their windows at most."""
        classes = tuple(frozenset(parts) for parts in self.plan.local.values())
        return classes, frozenset(test.expression for test in self.plan.tests)

    @property
    def within(self) -> int:
        return EVER if self.plan.within is None else self.plan.within

    @property
    def columns(self) -> tuple[str, ...]:
        read = columns_read([test.expression for test in self.plan.tests], self.plan.measures)
        wanted = {*self.plan.keys, self.plan.times.end, *read}
        return tuple(name for name in self.plan.input_columns if name in wanted)

    @property
    def words(self) -> str:
        return f"{len(self.at)} places, {len(self.plan.tests)} conditions between them"

    def gain(self, sample: EventBatch, counts: Sequence[int], windows: float, rules: float) -> float:
        """See `Prefix.gain`; by the cost model of trees."""
        arrays = self._arrays(sample)
        everything = Round(
            sample.bounds, sample.time, sample.time, np.full(len(sample.bounds) - 1, NEVER), END_OF_TIME, arrays.bits
        )
        seen = statistics_of(self.plan, arrays, everything, seed=1)
        cards = {name: count / windows for name, count in zip(self.plan.variables, counts, strict=True)}
        tree = self.plan.tree
        assert tree is not None
        estimate = TreeCosts(self.plan, replace(seen, cards=cards)).cheapest(tree)
        costs = estimate.cost * windows + sum(counts) * ROW_NANOSECONDS
        records = estimate.card * windows
        spared = sum(max(0.0, count - records) for count in counts)
        return rules * spared * ROW_NANOSECONDS - costs

    def left(self, events: EventBatch) -> np.ndarray:
        """See `Prefix.left`."""
        arrays = self._arrays(events)
        horizon = horizon_of(self.plan)
        rounds, adaptation = Rounds(horizon, ROUND_ROWS), Adaptation(self.plan)
        left = np.zeros(len(events), np.uint64)
        for round_ in rounds.of(events, events.time, arrays.bits, NEVER, END_OF_TIME):
            self._mark(arrays, horizon, rounds, adaptation, round_, left)
        return left

    def _mark(
        self, arrays: EventArrays, horizon: Horizon, rounds: Rounds, adaptation: Adaptation, round_: Round,
        left: np.ndarray,
    ) -> None:  # fmt: skip
        """Mark the events of a round that are in a match."""
        reduced = horizon.viable(round_)
        run = TreeRun(self.plan, adaptation.plan_for(arrays, reduced), arrays, reduced, MOST_RECORDS)
        try:
            found = run.records()
        except TooManyRecords:
            rounds.fit(round_, MOST_RECORDS)
            left[round_.rows] |= reduced.bits[round_.rows]
            return
        adaptation.note(run.counted, len(found.rows), run.events)
        rounds.fit(round_, run.most_records)
        for number, name in enumerate(self.plan.variables):
            left[found.rows[:, found.variables.index(name)]] |= np.uint64(1 << number)

    def _arrays(self, events: EventBatch) -> EventArrays:
        return prepare_events(self.plan, event_needs(self.plan, local=False), events.table, events.key, events.known)


def event_prefixes(plan: EventPlan) -> tuple[EventPrefix, ...]:
    """The prefixes of a pattern that have conditions between their places, the shortest first. (Conditions of time
    alone are cheap to test for every pattern by itself.)"""
    tree = plan.tree
    if plan.strategy is not Strategy.ANY or plan.times.start is not None or plan.times.imprecise is not None:
        return ()
    if not isinstance(tree, InSequence) or plan.construction is not None or plan.collapse is not None:
        return ()
    names: list[str] = []
    for place in tree.places:
        if not isinstance(place, Leaf):
            break
        names.append(place.variable)
    found = [_prefix(plan, names[:count]) for count in range(2, len(names) + 1)]
    return tuple(one for one in found if one.plan.tests)


def _prefix(plan: EventPlan, names: Sequence[str]) -> EventPrefix:
    number = {name: str(at) for at, name in enumerate(names)}
    tests = [
        JoinTest(renamed, frozenset(number[name] for name in test.variables), "")
        for test in plan.tests
        if test.variables <= number.keys() and (renamed := _rename_variables(test.expression, number)) is not None
    ]
    own = replace(
        plan,
        variables=tuple(number.values()),
        closures=frozenset(),
        local={number[name]: plan.local[name] for name in names},
        tree=InSequence(tuple(map(Leaf, number.values())), ((),) * (len(names) + 1)),
        tests=tuple(sorted(tests, key=lambda test: repr(test.expression))),
        absent_tests={},
        group_tests={},
        automaton=None,
        predicates=(),
        conditions={},
    )
    return EventPrefix(own, tuple(plan.variables.index(name) for name in names))


def _rename_variables(expression: Expression, number: dict[str, str]) -> Expression | None:
    """A condition with other names of variables; None if it reads more than values of their events."""
    if isinstance(expression, Constant):
        return expression
    if isinstance(expression, Load) and isinstance(expression.at, Navigated) and expression.at.labels is not None:
        labels = frozenset(number[name] for name in expression.at.labels)
        return replace(expression, at=replace(expression.at, labels=labels))
    if isinstance(expression, Apply):
        operands = [_rename_variables(operand, number) for operand in expression.operands]
        return None if None in operands else replace(expression, operands=tuple(operands))  # type: ignore[arg-type]
    return None
