"""Plans of event patterns in words: where conditions are tested, trees and automata."""

from __future__ import annotations

from episode.lang.events.parser import parse_event_query
from episode.plan.events.explain import explain_event_pattern
from tests.golden.cases import Case, check, parametrized, plan_events


@parametrized("event_plan")
def test_plan(case: Case) -> None:
    check(case, lambda text: "\n".join(explain_event_pattern(plan_events(parse_event_query(text)))))
