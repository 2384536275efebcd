"""Every single-clause case in process: the matcher, and the oracle, must give the rows that the case says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from episode import errors
from episode.lang.statement import parse_statement
from episode.matchers.rows.spec import RowPatternSpec
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema
from tests.conformance import oracles
from tests.conformance.cases import LANGUAGES, Case, all_cases, cases_for, comparable
from tests.support import rows as in_process


def parameters(place: str, *languages: str) -> list[Any]:
    """Cases of a place; known gaps (a case names its own, none does now) are strictly expected to fail."""
    found = []
    for case in [case for language in languages for case in cases_for(place, language)]:
        reason = case.fails_on.get(place)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        found.append(pytest.param(case, id=case.id, marks=marks))
    return found


def by_matcher(case: Case) -> list[dict[str, Any]]:
    pattern = parse_statement(case.query).patterns[0]
    table = case.tables[pattern.name]
    names = tuple(name for name in (pattern.alias or pattern.name,) if name)
    plan = plan_row_pattern(pattern.clause, InputSchema(table.types), names)
    spec = RowPatternSpec(plan, table.arrow.schema, case.options.tuning.step_budget)
    output = in_process.run_whole(spec, table.rows)
    assert isinstance(output, pa.Table)
    return in_process.finished(spec, output)


def check(case: Case, rows: list[dict[str, Any]]) -> None:
    pattern = case.clause() if case.language == "rows" else None
    ordered = pattern is not None and not pattern.clause.partition_by  # one partition: matches come in their order
    for row in rows:
        assert list(row) == list(case.types)
    assert comparable(rows, case.types, ordered) == case.expected(ordered)


@pytest.mark.parametrize("case", parameters("process", "rows"))
def test_in_process(case: Case) -> None:
    if case.error is None:
        check(case, by_matcher(case))
        return
    with pytest.raises(getattr(errors, case.error)) as raised:
        by_matcher(case)
    for part in case.message:
        assert part in str(raised.value)


@pytest.mark.parametrize("case", [p for p in parameters("oracle", *LANGUAGES) if p.values[0].error is None])
def test_oracle(case: Case) -> None:
    check(case, oracles.answer(case))


def test_there_are_enough_cases() -> None:
    assert len(all_cases("rows")) >= 500
    assert len(all_cases("events")) >= 40
    assert len(all_cases("situations")) >= 40
