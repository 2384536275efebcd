"""How closures of SEQ are evaluated, in words: the engine and why, what the others would cost, what is tested where."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from episode.plan.events.closures import runs_cost, shown, without_early_tests
from episode.plan.events.cost import cost_of, search
from episode.plan.events.postponed import ON_THE_FLY, POSTPONED, RUNS

if TYPE_CHECKING:
    from episode.plan.events.cost import PhysicalPlan, Statistics
    from episode.plan.events.plan import EventPlan

WORDS = {
    POSTPONED: "all choices of events share the matching; conditions are tested when choices are made",
    ON_THE_FLY: "all choices of events share the matching; conditions are tested as early as they can be",
    RUNS: "a run for each choice of events",
}


def closure_lines(plan: EventPlan, physical: PhysicalPlan | None, statistics: Statistics) -> list[str]:
    """Lines for the closures of SEQ, if there are any. physical: the plan in use, if there is a tree."""
    if plan.why_runs is not None:
        return [f"  closures: {RUNS} ({WORDS[RUNS]}), as {plan.why_runs}"]
    if plan.construction is None or physical is None or plan.collapse is not None:
        return []
    engine = RUNS if physical.automaton else plan.construction.engine
    lines = [f"  closures: {engine} ({WORDS[engine]})", f"    {cost_line(plan, physical, statistics)}"]
    bounded = bounded_conditions(plan)
    tested = [f"{text} (by bounds, too)" if text in bounded else text for text in plan.construction.postponed]
    if tested and engine != RUNS:
        lines.append(f"    left for the choices: {', '.join(tested)}")
    return lines


def bounded_conditions(plan: EventPlan) -> set[str]:
    """Conditions that bounds decide while events are still being chosen."""
    assert plan.construction is not None
    return {
        check.text
        for check in plan.construction.automaton.checks
        if any(bound.condition == check.expression for bound in plan.construction.bounds.all)
    }


def cost_line(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> str:
    """What each engine costs, the one in use first."""
    costs = engine_costs(plan, physical, statistics)
    return "cost per window: " + "; ".join(f"{engine} {shown(cost)}" for engine, cost in costs.items())


def engine_costs(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> dict[str, float]:
    """What each engine costs, the one in use first, then the cheapest."""
    made = plan.construction
    assert made is not None
    tree = physical.shapes and cost_of(plan, statistics, replace(physical, automaton=False))
    costs = {made.engine: tree or 0.0, RUNS: runs_cost(plan, statistics)}
    if made.engine == ON_THE_FLY:
        costs[POSTPONED] = search(_alone(without_early_tests(plan)), statistics).cost
    elif made.tests or any(made.group_tests.values()):
        early = replace(plan, tests=made.tests, group_tests=made.group_tests)
        costs[ON_THE_FLY] = search(_alone(early), statistics).cost
    used = RUNS if physical.automaton else made.engine
    return {engine: costs[engine] for engine in sorted(costs, key=lambda one: (one != used, costs[one]))}


def _alone(plan: EventPlan) -> EventPlan:
    """The plan without runs as the other way."""
    return replace(plan, automaton=None)
