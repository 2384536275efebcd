"""Weights of conditions in the cost of event patterns."""

from __future__ import annotations

import pytest

from episode.lang.events.parser import parse_event_query
from episode.plan.events.classes import EventClasses
from episode.plan.events.cost import PREDICATE_WEIGHT, PROGRAM_WEIGHT, Statistics, search, weight_of
from episode.plan.events.plan import EventPlan, plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema


def plan_of(pattern: str, where: str) -> EventPlan:
    query = parse_event_query(f"PATTERN {pattern} WHERE {where} WITHIN 100")
    types = InputSchema({"ts": "int", "kind": "string", "x": "int", "y": "int"})
    return plan_event_pattern(query, EventClasses(query, types, "kind"), EventTimes("ts", None, "int"))


@pytest.mark.parametrize(
    ("where", "weight"),
    [
        ("A.x > B.x", PREDICATE_WEIGHT),
        ("A.x > B.x + 5", PREDICATE_WEIGHT),
        ("A.x + A.y = 2 * B.x", PREDICATE_WEIGHT),
        ("A.x - B.x > 5", PROGRAM_WEIGHT),
        ("A.x > B.x OR A.y > B.y", PROGRAM_WEIGHT),
    ],
)
def test_weight_of_a_test(where: str, weight: float) -> None:
    (test,) = plan_of("A; B", where).tests
    assert weight_of(test) == weight


def test_programs_make_a_join_dearer() -> None:
    """By their weight for every pair that is tried."""
    statistics = Statistics({"A": 20.0, "B": 30.0}, {0: 0.5}, 1000.0)
    plain, program = (search(plan_of("A; B", where), statistics).cost for where in ("A.x > B.x + 5", "A.x - B.x > 5"))
    assert program - plain == pytest.approx(20 * 30 * (PROGRAM_WEIGHT - PREDICATE_WEIGHT))
