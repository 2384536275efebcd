"""The search for the cheapest tree: against the costs of all trees, by the table of how-plans-are-chosen.md."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import END_OF_TIME
from episode.plan.events.cost import (
    PhysicalPlan,
    Shape,
    Statistics,
    TreeCosts,
    automaton_cost,
    cost_of,
    is_equality,
    left_deep,
    search,
)
from episode.plan.events.plan import EventPlan
from episode.plan.events.tree import Absent, Gap, Group, InSequence, Leaf, Node, Together
from tests.reference.event_patterns import Event
from tests.support.events import spec_of, table_of

PATTERNS = [
    "A a; B b",
    "A a; B b; C c",
    "A a; !D n; B b; C c",
    "A a; B b; C c; D d",
    "A a; B b; C+ g; D d; A e",
    "A a; B b; C c; D d; A e",
    "A a & B b & C c & D d",
    "A a & B b & C c & D d & A e",
    "!D n; A a; B b; C c",
]
SEEDS = range(25)


def every_shape(first: int, places: int) -> Iterator[Shape]:
    """All binary trees over places."""
    if places == 1:
        yield first
    for left in range(1, places):
        for one in every_shape(first, left):
            for other in every_shape(first + left, places - left):
                yield one, other


@dataclass(frozen=True)
class Naive:
    """The cost of one tree of single events."""

    plan: EventPlan
    statistics: Statistics

    def of(self, node: Node, shape: Shape) -> float:
        card, cost, _ = self._shape(node, shape)
        edges = node.gaps[0] + node.gaps[-1] if isinstance(node, InSequence) else ()
        for item in edges:
            cost += 10 * card
            card *= self._survive(item)
        return cost

    def _shape(self, node: Node, shape: Shape) -> tuple[float, float, list[str]]:
        """(records, cost, variables)"""
        assert isinstance(node, (InSequence, Together))
        if isinstance(shape, int):
            place = (node.places if isinstance(node, InSequence) else node.parts)[shape]
            assert isinstance(place, Leaf)
            return self.statistics.cards[place.variable], 0.0, [place.variable]
        left, left_cost, left_names = self._shape(node, shape[0])
        right, right_cost, right_names = self._shape(node, shape[1])
        tests = [
            (self.statistics.selectivity[number], is_equality(test))
            for number, test in enumerate(self.plan.tests)
            if test.variables & {*left_names} and test.variables & {*right_names}
            if test.variables <= {*left_names, *right_names}
        ]
        gap: Gap = ()
        a, b = len(left_names), len(right_names)
        tried = out = 2 * left * right
        if isinstance(node, InSequence):
            gap = node.gaps[_first(shape[1])]
            tried = left * right / b
            out = left * right * math.factorial(a - 1) * math.factorial(b - 1) / math.factorial(a + b - 1)
        cost = right * (10 if b == 1 else 25) + right * 10 * len(gap)
        for item in gap:
            tried, out = tried * self._survive(item), out * self._survive(item)
        looked_up = [share for share, equality in tests if equality]
        if looked_up:
            tried *= math.prod(looked_up)
            cost += 20 * (left + right)
        out *= math.prod(share for share, _ in tests)
        cost += tried * (1 + 2 * len(tests)) + 7 * out
        return out, left_cost + right_cost + cost, left_names + right_names

    def _survive(self, item: Absent | Group) -> float:
        name = item.variable if isinstance(item, Group) else item.node.variable  # type: ignore[union-attr]
        between = self.statistics.cards[name]
        none = (1 - math.exp(-between)) / between
        return none if isinstance(item, Absent) else 1 - none


def _first(shape: Shape) -> int:
    return shape if isinstance(shape, int) else _first(shape[0])


def plan_of(pattern: str, generator: random.Random) -> EventPlan:
    """The pattern with random conditions between its events."""
    names = [name for name in "abcde" if f" {name}" in pattern]
    pairs = [tuple(generator.sample(names, 2)) for _ in range(generator.randint(0, 4))]
    conditions = [f"{a}.x {generator.choice('=<')} {b}.y" for a, b in pairs]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return spec_of(f"PATTERN {pattern}{where} WITHIN 100").plan


def statistics_of(plan: EventPlan, generator: random.Random) -> Statistics:
    cards = {name: 10 ** generator.uniform(-1, 3) for name in plan.variables}
    selectivity = {number: 10 ** generator.uniform(-3, 0) for number in range(len(plan.tests))}
    return Statistics(cards, selectivity, sum(cards.values()))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_search_finds_the_cheapest_of_all_trees(pattern: str) -> None:
    chosen = set()
    for seed in SEEDS:
        generator = random.Random(seed)
        plan = plan_of(pattern, generator)
        statistics = statistics_of(plan, generator)
        tree = plan.tree
        assert isinstance(tree, (InSequence, Together))
        places = len(tree.places if isinstance(tree, InSequence) else tree.parts)
        costs = {}
        for shape in every_shape(0, places):
            costs[shape] = Naive(plan, statistics).of(tree, shape)
            assert cost_of(plan, statistics, PhysicalPlan(False, ((tree, shape),), 0.0)) == pytest.approx(costs[shape])
        best = search(plan, statistics)
        assert costs[best.shape(tree)] == pytest.approx(min(costs.values()))
        least = min(costs.values())
        if plan.automaton is not None:
            least = min(least, automaton_cost(plan, statistics))
        assert best.cost == pytest.approx(least)
        chosen.add(best.shape(tree))
    assert len(chosen) > 1 or places == 2


def test_the_automaton_is_taken_where_it_is_cheaper() -> None:
    plan = spec_of("PATTERN A; B; C; D WITHIN 100").plan
    rare = Statistics({"A": 1e-6, "B": 50.0, "C": 50.0, "D": 50.0}, {}, 2.0)
    assert search(plan, rare).automaton
    assert not search(plan, Statistics(dict.fromkeys("ABCD", 10.0), {}, 40.0)).automaton


def test_alternatives_are_planned_each_by_itself() -> None:
    plan = spec_of("PATTERN (A a; B b; C c) | (B d; C e; D f) WITHIN 100").plan
    statistics = Statistics({"a": 1.0, "b": 90.0, "c": 90.0, "d": 90.0, "e": 90.0, "f": 1.0}, {}, 180.0)
    assert [shape for _, shape in search(plan, statistics).shapes] == [((0, 1), 2), (0, (1, 2))]


def test_twenty_classes() -> None:
    generator = random.Random(20)
    pattern = "; ".join(f"{'ABCD'[number % 4]} v{number}" for number in range(20))
    conditions = " AND ".join(f"v{number}.x = v{number + 1}.x" for number in range(0, 19, 3))
    plan = spec_of(f"PATTERN {pattern} WHERE {conditions} WITHIN 100").plan
    assert isinstance(plan.tree, InSequence)
    statistics = statistics_of(plan, generator)
    best = search(plan, statistics)
    assert _places(best.shape(plan.tree)) == list(range(20))
    for shape in (left_deep(20), right_deep(20), *(_any_shape(0, 20, generator) for _ in range(50))):
        assert best.cost <= cost_of(plan, statistics, PhysicalPlan(False, ((plan.tree, shape),), 0.0)) * (1 + 1e-9)


def _places(shape: Shape) -> list[int]:
    return [shape] if isinstance(shape, int) else _places(shape[0]) + _places(shape[1])


def right_deep(places: int) -> Shape:
    shape: Shape = places - 1
    for place in range(places - 2, -1, -1):
        shape = (place, shape)
    return shape


def _any_shape(first: int, places: int, generator: random.Random) -> Shape:
    if places == 1:
        return first
    left = generator.randint(1, places - 1)
    return _any_shape(first, left, generator), _any_shape(first + left, places - left, generator)


@pytest.mark.parametrize(
    ("pattern", "where"),
    [
        ("A; !B; C", "A.x = B.x"),
        ("A; !B; C", "B.x = C.x AND B.x > A.x"),
        ("A; B+; C", "A.x = B.x"),
        ("A; !B; C", "A.x <= C.x"),
    ],
)
def test_conditions_of_negations_and_groups_are_in_the_estimate(pattern: str, where: str) -> None:
    """Records per window as they are, and as they are estimated from the events seen."""
    window, times = 60, 6_000
    generator = random.Random(4)
    events = [
        Event(t, t, t, {"type": generator.choice("ABC"), "k": 1, "x": generator.randrange(100), "y": 1, "s": ""})
        for t in range(times)
    ]
    spec = spec_of(f"PATTERN {pattern} WHERE {where} WITHIN {window}")
    matcher = spec.open()
    table = table_of(events).select(list(spec.input_columns))
    batch = events_of(table, spec.input_order, KeyCoder(spec.input_order.keys))
    found = sum(matches.num_rows for matches in matcher.feed(batch, END_OF_TIME)) * window / times
    assert spec.plan.tree is not None
    assert matcher.adaptation.statistics is not None
    estimated = TreeCosts(spec.plan, matcher.adaptation.statistics).cheapest(spec.plan.tree).card
    assert 0.6 * found < estimated < 1.6 * found
