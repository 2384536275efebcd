"""Options: what is no value of theirs, and what no pattern of a query has a use for, is refused."""

from __future__ import annotations

from typing import Any

import pytest

from episode.errors import EpisodeAnalysisError
from episode.queries.bound_statement import bind_statement
from episode.queries.language import Language
from episode.queries.languages import LANGUAGES
from episode.queries.options import check_use
from episode.queries.statement import StatementQuery
from tests.support.flat_options import grouped

ROWS, EVENTS, SITUATIONS, CORRELATION, WINDOWS = LANGUAGES.values()
WINDOW = "WINDOW w AS (ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A))"


@pytest.mark.parametrize(
    ("given", "kinds", "message"),
    [
        ({"closure": "runs"}, [SITUATIONS], "Tuning(closure='runs') has no meaning for a situation pattern."),
        ({"detect": "complete"}, [EVENTS], "Options(detect='complete') has no meaning for an event pattern."),
        ({"detect": "complete"}, [ROWS], "Options(detect='complete') has no meaning for a row pattern."),
        ({"match_times": True}, [WINDOWS], "Options(match_times=True) has no meaning for a pattern window."),
        ({"detect": "complete"}, [ROWS, EVENTS], "Options(detect='complete') has no meaning for an event pattern."),
        ({"match_times": True}, [SITUATIONS], "Options(match_times=True) has no meaning for a situation pattern."),
        ({"step_budget": 5}, [SITUATIONS], "Tuning(step_budget=5) has no meaning for a situation pattern."),
    ],
)
def test_options_without_a_meaning_are_refused(given: dict[str, Any], kinds: list[Language[Any]], message: str) -> None:
    with pytest.raises(EpisodeAnalysisError) as raised:
        check_use(grouped(**given), kinds)
    assert raised.value.message == message
    assert (raised.value.hint or "").startswith("It is for ")


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({}, [ROWS]),
        ({"step_budget": 5}, [WINDOWS]),
        ({"detect": "earliest", "step_budget": 10_000_000}, [ROWS, EVENTS, SITUATIONS]),
        ({"detect": "complete"}, [ROWS, SITUATIONS]),
        ({"match_times": True, "step_budget": 5}, [EVENTS]),
        ({"match_times": True, "step_budget": 5, "detect": "complete"}, [ROWS, SITUATIONS]),
        ({"detect": "complete"}, []),
    ],
)
def test_what_one_pattern_of_the_query_can_use_may_be_given(given: dict[str, Any], kinds: list[Language[Any]]) -> None:
    check_use(grouped(**given), kinds)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS true)", {"detect": "complete"}),
        ("SELECT * FROM EVENTS (FROM t ORDER BY ts PATTERN A; B)", {"detect": "complete"}),
        ("FROM t ORDER BY ts PATTERN A; B", {"detect": "complete"}),
        (f"SELECT count(*) OVER w FROM t {WINDOW}", {"match_times": True}),
        ("FROM t DEFINE A AS x > 1, B AS x < 1 PATTERN A before B", {"match_times": True}),
        ("SELECT * FROM SITUATIONS (FROM t DEFINE A AS x > 1, B AS x < 1 PATTERN A before B)", {"step_budget": 5}),
    ],
)
def test_statements_refuse_them_before_anything_runs(text: str, given: dict[str, Any]) -> None:
    no_session: Any = None
    with pytest.raises(EpisodeAnalysisError, match="has no meaning for a"):
        StatementQuery(bind_statement(text), no_session, grouped(**given), {}).result()
