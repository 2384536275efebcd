"""Every case through `episode.sql_local`: the rows that the case says, with Spark's types, or a plain refusal."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeError, EpisodeUnsupportedError
from episode.matchers.spark_types import spark_name
from tests.conformance.cases import LANGUAGES, Case, all_cases, comparable
from tests.conformance.values import YEAR_MONTH

LEAST_ACCEPTED = {"rows": 500, "events": 60, "situations": 45}
"""How many cases of each language need no Spark; errors that a case expects count, too."""

CASES = [case for language in LANGUAGES for case in all_cases(language) if "spark" not in case.fails_on]


def has_year_months(case: Case) -> bool:
    """Arrow has no year-month intervals that Spark would take."""
    return any(YEAR_MONTH in table.types.values() for table in case.used_tables())


@cache
def refusal_of(number: int) -> str | None:
    """Runs a case and checks its result; what is said where it is refused, though Spark would run it."""
    case = CASES[number]
    tables = {table.name: table.arrow for table in case.tables.values()}
    try:
        found = episode.sql_local(case.query, options=case.options, **tables)
    except EpisodeError as error:
        if type(error).__name__ == case.error and all(part in str(error) for part in case.message):
            return None
        if not isinstance(error, EpisodeUnsupportedError):
            raise
        return str(error)
    assert case.error is None, case.error
    verify(case, found)
    return None


def verify(case: Case, found: pa.Table) -> None:
    assert {field.name: spark_name(field.type) for field in found.schema} == case.types
    assert found.column_names == list(case.types)
    assert comparable(found.to_pylist(), case.types, case.ordered) == case.expected(case.ordered)


NUMBERS = [number for number, case in enumerate(CASES) if not has_year_months(case)]


@pytest.mark.filterwarnings("ignore:No event is of the class")
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: CASES[number].id)
def test_in_process_as_on_spark(number: int) -> None:
    refusal = refusal_of(number)
    assert refusal is None or "episode.sql" in refusal


@pytest.mark.filterwarnings("ignore:No event is of the class")
@pytest.mark.parametrize("language", LANGUAGES)
def test_few_cases_are_refused(language: str) -> None:
    numbers = [n for n in NUMBERS if CASES[n].language == language]
    accepted = [number for number in numbers if refusal_of(number) is None]
    print(f"{language}: {len(accepted)} of {len(numbers)} cases need no Spark")
    assert len(accepted) >= LEAST_ACCEPTED[language]
