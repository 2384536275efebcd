"""What closures cost, by runs or postponed: in the units of the cost model, per window and partition.

A run is a choice of events: with n closure events in its window there are 2 ** n of them for one start, whether they
end in a match or not. Pattern matching has one record for all of them, and reads each closure event once for it; the
result construction then makes the choices of those few that are between its single events.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from episode.plan.events.conditions import JoinTest

if TYPE_CHECKING:
    from episode.plan.events.cost import Statistics
    from episode.plan.events.plan import EventPlan

SCAN_WEIGHT, RUN_WEIGHT = 2.0, 100.0
"""The automaton passes over an event; takes one."""
MEMBER_WEIGHT = 4.0
"""An event is read into a group, and summed up."""
MOST_DOUBLINGS = 60.0
"""Beyond so many closure events all costs are out of reach, and still numbers."""


def choices(events: float) -> float:
    """How many choices there are of so many events; none of them is one, too."""
    return 2.0 ** min(events, MOST_DOUBLINGS)


def runs_cost(plan: EventPlan, statistics: Statistics) -> float:
    """One run for each choice of events: every prefix of a match looks at the rest of its window."""
    assert plan.construction is not None
    total = statistics.rows * SCAN_WEIGHT
    for places in plan.construction.places:
        prefixes = 1.0
        for count, (name, needed) in enumerate(places, start=1):
            events = statistics.card(name) / max(1, count - 1)
            if name in plan.closures:
                prefixes *= max(choices(events) - (1.0 if needed else 0.0), min(events, 1.0))
            else:
                prefixes *= events
            total += prefixes * RUN_WEIGHT
            known = frozenset(one for one, _ in places[:count])
            for number, test in enumerate(plan.tests):
                if name in test.variables and test.variables <= known:
                    prefixes *= statistics.selectivity.get(number, 0.5)
            if count < len(places):
                total += prefixes * statistics.rows / count * SCAN_WEIGHT
    return total


def construction_cost(plan: EventPlan, statistics: Statistics, records: float) -> float:
    """What is made of so many intermediate matches."""
    assert plan.construction is not None
    total = 0.0
    alternatives = len(plan.construction.places)
    for places in plan.construction.places:
        singles = sum(name not in plan.closures for name, _ in places)
        members, made = 0.0, 1.0
        for name, _ in places:
            if name in plan.closures:
                events = statistics.card(name) / (singles + 1)
                members += events
                made *= choices(events * statistics.between.get(name, 1.0))
        total += records / alternatives * (members * MEMBER_WEIGHT + made * RUN_WEIGHT)
    return total


def without_early_tests(plan: EventPlan) -> EventPlan:
    """The plan whose pattern matching relates no values: what postponing everything would cost."""
    nothing: dict[str, tuple[JoinTest, ...]] = dict.fromkeys(plan.group_tests, ())
    return replace(plan, tests=(), group_tests=nothing)


def shown(cost: float) -> str:
    """A cost in words."""
    return f"{cost:,.0f}" if cost < 1e15 else f"about 10^{math.log10(cost):.0f}"
