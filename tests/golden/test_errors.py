"""Bad queries and the full text of what a user is shown: what is wrong, where, and what would be right."""

from __future__ import annotations

import re

import pytest

from episode.errors import EpisodeError
from episode.lang.events.syntax import EventQuery
from episode.lang.statement import parse_statement
from episode.lang.streams import CreateStream
from episode.plan.options import RunOptions
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.rows.windows import plan_window
from episode.plan.schema import InputSchema
from episode.plan.streams import check_stream_store
from episode.queries.language import Given, Input
from episode.queries.languages.correlation import Correlations, correlation_of
from episode.store.declaration import OPTIONS as STORE_OPTIONS
from tests.golden.cases import SCHEMA, Case, check, parametrized, plan_aggregates, plan_events, plan_situations

LEAKS = re.compile(r"sqlglot|__episode|__derived|__atom|<class|Token\(|Traceback|object at 0x|None\b|exp\.")


def plan(query: str) -> None:
    statement = parse_statement(query)
    if isinstance(statement.streams, CreateStream):
        check_stream_store(statement.streams, STORE_OPTIONS)
    for recency in statement.recencies:
        correlation, _ = correlation_of(statement, recency)
        Correlations().bind(correlation, Input(InputSchema(SCHEMA)), Given(), RunOptions())
    for pattern in statement.patterns:
        names = tuple(name for name in (pattern.alias or pattern.name,) if name)
        plan_row_pattern(pattern.clause, InputSchema(SCHEMA), names)
    for select in statement.windowed:
        for window in select.windows:
            plan_window(window, InputSchema(SCHEMA), tuple(name for name in (select.alias or select.name,) if name))
    for whole in [*(table.query for table in statement.tables), *([statement.whole] if statement.whole else [])]:
        if isinstance(whole, EventQuery) and whole.aggregate is not None:
            plan_aggregates(whole)
        elif isinstance(whole, EventQuery):
            plan_events(whole)
        else:
            plan_situations(whole)


def error_of(query: str) -> str:
    with pytest.raises(EpisodeError) as raised:
        plan(query)
    error = raised.value
    assert error.position is not None, "an error of a query has a place in it"
    assert not LEAKS.search(error.message + (error.hint or "")), "nothing of our insides is shown"
    return f"{type(error).__name__}: {error}"


@parametrized("errors")
def test_error(case: Case) -> None:
    check(case, error_of)
