"""How situation patterns are planned: triggers, orders of search, estimates."""

from __future__ import annotations

from episode.lang.situations.syntax import SituationQuery
from episode.lang.statement import parse_statement
from episode.plan.sections import lines_of
from episode.plan.situations.explain import situation_section
from tests.golden.cases import Case, check, parametrized, plan_situations


def words(text: str) -> str:
    query = parse_statement(text).whole
    assert isinstance(query, SituationQuery)
    return "\n".join(lines_of(situation_section(plan_situations(query))))


@parametrized("situation_plan")
def test_plan(case: Case) -> None:
    check(case, words)
