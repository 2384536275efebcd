"""Plans that were not chosen: all other trees, with their costs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from episode.lang.events.parser import parse_event_query
from episode.plan.events.classes import EventClasses
from episode.plan.events.cost import Statistics, automaton_cost, cost_of, search
from episode.plan.events.physical_plan import MOST_RIVALS, _other_trees, rivals
from episode.plan.events.plan import EventPlan, plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema


def plan_of(text: str) -> EventPlan:
    query = parse_event_query(text)
    types = InputSchema({"ts": "int", "kind": "string", "x": "int"})
    return plan_event_pattern(query, EventClasses(query, types, "kind"), EventTimes("ts", None, "int"))


@pytest.mark.parametrize(("places", "trees"), [(2, 1), (3, 2), (4, 5), (5, 14), (6, 42), (7, 2)])
def test_all_trees_of_short_sequences(places: int, trees: int) -> None:
    """As many as Catalan's numbers say; of long sequences, those that lean to a side."""
    plan = plan_of(f"PATTERN {'; '.join('ABCDEFG'[:places])} WITHIN 100")
    physical = search(plan, Statistics({}, {}, 10.0))
    assert len({other.shapes for other in _other_trees(physical)}) == trees


@pytest.mark.parametrize("seed", range(12))
def test_the_plan_in_use_is_the_cheapest(seed: int) -> None:
    """No rival is cheaper than what the search found; each is as dear as the cost model says."""
    chance = random.Random(seed)
    plan = plan_of("PATTERN A; B; C; D; E WHERE A.x = B.x AND B.x < D.x AND C.x = E.x WITHIN 100")
    cards = {name: chance.choice([0.5, 1.0, 5.0, 30.0]) for name in "ABCDE"}
    statistics = Statistics(cards, {number: chance.random() for number in range(3)}, sum(cards.values()))
    physical = search(plan, statistics)
    mine, *others = rivals(plan, physical, statistics)
    assert mine.chosen
    assert mine.cost == pytest.approx(physical.cost) == pytest.approx(cost_of(plan, statistics, physical))
    assert len(others) == MOST_RIVALS
    assert not any(one.chosen for one in others)
    assert [one.cost for one in others] == sorted(one.cost for one in others)
    assert all(one.cost >= mine.cost for one in others)
    assert len({one.words for one in (mine, *others)}) == MOST_RIVALS + 1
    tree = replace(physical, automaton=False)
    costs = [cost_of(plan, statistics, other) for other in _other_trees(tree)]
    if not physical.automaton:
        costs.append(automaton_cost(plan, statistics))
    assert others[-1].cost == pytest.approx(max(costs))


def test_engines_of_closures() -> None:
    plan = plan_of("PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x AND a.x < c.x WITHIN 6")
    statistics = Statistics({"a": 2.0, "b": 8.0, "c": 2.0}, {0: 0.5}, 12.0)
    found = rivals(plan, search(plan, statistics), statistics)
    assert found[0].chosen
    assert {"runs", "postponed"} <= {one.words for one in found}
