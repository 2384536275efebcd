"""Plans of event patterns in words: where conditions are tested, trees and automata."""

from __future__ import annotations

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import EventQuery
from episode.plan.events.explain import aggregated_section, event_section
from episode.plan.sections import lines_of
from tests.golden.cases import Case, check, parametrized, plan_aggregates, plan_events


@parametrized("event_plan")
def test_plan(case: Case) -> None:
    check(case, lambda text: "\n".join(explained(parse_event_query(text))))


def explained(query: EventQuery) -> list[str]:
    if query.aggregate is not None:
        return lines_of(aggregated_section(plan_aggregates(query)))
    return lines_of(event_section(plan_events(query)))
