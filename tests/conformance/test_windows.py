"""Row patterns in windows, in process: every case that needs no Spark must give the rows that it says."""

from __future__ import annotations

import pyarrow as pa
import pytest

import episode
from episode import errors
from episode.matchers.spark_types import spark_name
from tests.conformance.cases import Case, all_cases, comparable

CASES = [case for case in all_cases("windows") if "process" in case.runs_on]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_in_process(case: Case) -> None:
    tables = {table.name: table.arrow for table in case.used_tables()}
    if case.error is not None:
        with pytest.raises(getattr(errors, case.error)) as raised:
            episode.sql_local(case.query, **tables)
        for part in case.message:
            assert part in str(raised.value)
        return
    found = episode.sql_local(case.query, **tables)
    assert isinstance(found, pa.Table)
    assert {field.name: spark_name(field.type) for field in found.schema} == case.types
    assert comparable(found.to_pylist(), case.types, False) == case.expected(False)


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60
    assert len(all_cases("windows")) >= 80
