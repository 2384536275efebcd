"""Options of a query: what is wrong by itself, and what means nothing for the query at hand."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest

from episode.api import Options
from episode.errors import EpisodeAnalysisError
from episode.plan.correlation.plan import CorrelationStrategy
from episode.plan.events.postponed import ENGINES
from episode.plan.options import StreamOptions, Tuning
from episode.queries.options import check_streams

TABLE = SimpleNamespace(is_stream=False)
STREAM = SimpleNamespace(is_stream=True, takes_watermark=True, over_matches=False)
GIVEN: list[dict[str, Any]] = [
    {"end": "2026-11-01"},
    {"event_id": "id"},
    {"late_path": "late/"},
    {"max_state_rows": 10},
    {"max_state_rows": 10, "when_full": "drop"},
    {"counters": "mine"},
    {"time_unit": "nanoseconds"},
    {"on_error": "skip key"},
]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: " ".join(given))
def test_options_of_streams_need_a_stream(given: dict[str, Any]) -> None:
    options = Options(match_times=True, tuning=Tuning(step_budget=5, shards=2), stream=StreamOptions(**given))
    for patterns in ([], [TABLE], [TABLE, TABLE]):
        with pytest.raises(EpisodeAnalysisError, match="no pattern of this query is over a stream") as raised:
            check_streams(options, patterns)
        shown = ", ".join(f"StreamOptions({name}={value!r})" for name, value in given.items())
        assert raised.value.message.startswith(f"{shown}: ")
    check_streams(options, [TABLE, STREAM])


def test_every_option_of_streams_is_tried() -> None:
    assert {name for given in GIVEN for name in given} == {one.name for one in fields(StreamOptions)}


def test_a_watermark_needs_a_stream() -> None:
    with pytest.raises(EpisodeAnalysisError, match="no pattern of this query is over a stream"):
        check_streams(Options(watermark=0), [TABLE])
    check_streams(Options(watermark=0), [TABLE, STREAM])


def test_strategies_of_correlation_are_those_of_the_plan() -> None:
    choices = get_args(get_type_hints(Tuning)["correlation"])
    assert choices == ("auto", *(strategy.value for strategy in CorrelationStrategy))
    assert get_args(get_type_hints(Tuning)["closure"]) == ENGINES


def test_other_options_are_for_tables_too() -> None:
    check_streams(Options(), [TABLE])
    check_streams(
        Options(match_times=True, detect="complete", tuning=Tuning(step_budget=5, shards=2, shard_bytes=10)), []
    )


@pytest.mark.parametrize(
    ("group", "given", "complaint"),
    [
        (Tuning, {"shards": 0}, "a whole number of at least 1"),
        (Tuning, {"shards": True}, "a whole number is needed"),
        (Tuning, {"counts": "float"}, "'exact' or 'double'"),
        (Tuning, {"result_cache": 1}, "True or False"),
        (StreamOptions, {"when_full": "stop"}, "'error' or 'drop'"),
        (StreamOptions, {"when_full": "drop"}, "max_state_rows, which is not given"),
        (StreamOptions, {"late_path": 5}, "a text is needed"),
        (Options, {"detect": "soon"}, "'earliest' or 'complete'"),
        (Options, {"tuning": StreamOptions()}, "Tuning\\(…\\) is needed"),
    ],
)
def test_options_that_are_wrong_by_themselves(group: type, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=complaint):
        group(**given)


def test_a_watermark_is_for_streams_or_for_matches() -> None:
    over_matches = SimpleNamespace(is_stream=True, takes_watermark=False, over_matches=True)
    unknown = SimpleNamespace(is_stream=True, takes_watermark=True, over_matches=True)
    options = Options(watermark=5)
    check_streams(options, [STREAM, over_matches])
    check_streams(options, [unknown])
    with pytest.raises(EpisodeAnalysisError, match="come with its watermark"):
        check_streams(options, [over_matches])
    with pytest.raises(EpisodeAnalysisError, match="not known how late"):
        check_streams(options, [STREAM, unknown])
