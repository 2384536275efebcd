"""Options of a query: what is wrong by itself, and what means nothing for the query at hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from episode.api import Options
from episode.errors import EpisodeAnalysisError
from episode.queries.options import OF_STREAMS

TABLE = SimpleNamespace(is_stream=False)
STREAM = SimpleNamespace(is_stream=True, takes_watermark=True, of_matches=False)
GIVEN: list[dict[str, Any]] = [
    {"watermark": 0},
    {"end": "2026-11-01"},
    {"event_id": "id"},
    {"late": "keep", "late_path": "late/"},
    {"max_state_rows": 10},
    {"max_state_rows": 10, "when_full": "drop"},
    {"counters": "mine"},
    {"time_unit": "nanoseconds"},
    {"on_error": "skip key"},
]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: " ".join(given))
def test_options_of_streams_need_a_stream(given: dict[str, Any]) -> None:
    options = Options(step_budget=5, shards=2, match_times=True, **given)
    for patterns in ([], [TABLE], [TABLE, TABLE]):
        with pytest.raises(EpisodeAnalysisError, match="no pattern of this query is over a stream") as raised:
            options.check_streams(patterns)
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        assert raised.value.message.startswith(f"Options({shown}): ")
        assert raised.value.hint is not None
        assert all(f"{name}: {OF_STREAMS[name]}" in raised.value.hint for name in given)
    options.check_streams([TABLE, STREAM])


def test_every_option_of_streams_is_tried() -> None:
    assert {name for given in GIVEN for name in given} == set(OF_STREAMS)


def test_other_options_are_for_tables_too() -> None:
    Options().check_streams([TABLE])
    Options(step_budget=5, shards=2, shard_bytes=10, match_times=True, detect="complete").check_streams([])


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"shards": 0}, "a whole number of at least 1"),
        ({"when_full": "stop"}, "'error' or 'drop'"),
        ({"when_full": "drop"}, "max_state_rows, which is not given"),
        ({"late": "keep"}, "both are given"),
        ({"late_path": "late/"}, "both are given"),
        ({"detect": "soon"}, "'earliest' or 'complete'"),
        ({"results": "few"}, "'matches' or 'collapsed'"),
        ({"counts": "float"}, "'exact' or 'double'"),
    ],
)
def test_options_that_are_wrong_by_themselves(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=complaint):
        Options(**given)


def test_a_watermark_is_for_streams_or_for_matches() -> None:
    over_matches = SimpleNamespace(is_stream=True, takes_watermark=False, of_matches=True)
    unknown = SimpleNamespace(is_stream=True, takes_watermark=True, of_matches=True)
    options = Options(watermark=5)
    options.check_streams([STREAM, over_matches])
    options.check_streams([unknown])
    with pytest.raises(EpisodeAnalysisError, match="come with its watermark"):
        options.check_streams([over_matches])
    with pytest.raises(EpisodeAnalysisError, match="not known how late"):
        options.check_streams([STREAM, unknown])
