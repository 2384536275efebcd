"""All cases over the same table as one set of rules, in process: each gives what its case says."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

import episode
from episode.errors import EpisodeError, EpisodeRulesError
from tests.conformance.cases import LANGUAGES, Case, all_cases
from tests.conformance.test_conformance_locally import has_year_months, verify

LEAST_RULES = 500
"""How many cases can be rules in process."""

Group = tuple[str, ...]


def table_of(case: Case) -> str | None:
    """The content of the one table that a case uses, with its options: cases that agree in these make a set."""
    tables = case.used_tables()
    if len(tables) != 1 or has_year_months(case) or "spark" in case.fails_on:
        return None
    table = tables[0]
    return repr((table.types, table.rows, case.options))


@cache
def groups() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in (case for language in LANGUAGES for case in all_cases(language)):
        table = table_of(case)
        if table is not None:
            found[table].append(case)
    return found


@cache
def usable(table: str) -> tuple[Case, ...]:
    """The cases of a table that are rules without Spark, and give rows."""
    return tuple(case for case in groups()[table] if case.error is None and _is_rule(case))


def _is_rule(case: Case) -> bool:
    try:
        matched(case.used_tables()[0].arrow, {case.id: case.query}, case.options)
    except EpisodeRulesError:
        return False
    return True


def matched(table: Any, rules: dict[str, str], options: episode.Options) -> Any:
    return episode.match_all_local(table, rules, options=options)


TABLES = list(groups())


@pytest.mark.parametrize("number", range(len(TABLES)))
def test_each_as_its_case_says(number: int) -> None:
    cases = usable(TABLES[number])
    if not cases:
        return
    found = matched(cases[0].used_tables()[0].arrow, {case.id: case.query for case in cases}, cases[0].options)
    for case in cases:
        verify(case, found.of(case.id))


def test_most_cases_are_rules() -> None:
    rules = [len(usable(table)) for table in TABLES]
    print(f"{sum(rules)} rules in {len(rules)} sets, up to {max(rules)} in one")
    assert sum(rules) >= LEAST_RULES


def test_errors_of_all_cases_of_a_table_come_together() -> None:
    """Of the table with the most cases that are wrong."""
    wrong = {table: [case for case in cases if case.error is not None] for table, cases in groups().items()}
    table, cases = max(wrong.items(), key=lambda item: len(item[1]))
    alone: dict[str, EpisodeError] = {}
    for case in cases:
        try:
            matched(case.used_tables()[0].arrow, {case.id: case.query}, case.options)
        except EpisodeRulesError as error:
            alone |= error.errors
        except EpisodeError:
            continue  # of the data
    assert len(alone) > 1
    good = usable(table)[:3]
    rules = {case.id: case.query for case in (*good, *cases) if case in good or case.id in alone}
    with pytest.raises(EpisodeRulesError) as raised:
        matched(cases[0].used_tables()[0].arrow, rules, cases[0].options)
    first = raised.value.errors
    assert first.keys() <= alone.keys()  # texts that cannot be read are said before what does not fit the table
    for name, error in first.items():
        assert str(error) == str(alone[name])
