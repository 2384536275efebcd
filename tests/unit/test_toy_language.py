"""A further language is a folder and a registration: nothing in the source knows the one of `tests.support`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import episode
from episode.queries.languages import register, unregister
from tests.support.toy_language.language import EveryLanguage

TABLE = pa.table({"k": ["a", "b", "a", "a", "b", "a"], "ts": [1, 2, 3, 4, 5, 6]})
FOUND = [{"k": "a", "at": 3}, {"k": "a", "at": 6}, {"k": "b", "at": 5}]


@pytest.fixture(autouse=True)
def every_rows() -> Iterator[EveryLanguage]:
    language = EveryLanguage()
    register(language)
    yield language
    unregister(language)


def test_it_is_matched_in_process() -> None:
    found = episode.match_local(TABLE, "EVERY 2 ROWS", time="ts", key="k")
    assert sorted(found.to_pylist(), key=str) == sorted(FOUND, key=str)


def test_its_errors_show_their_place() -> None:
    with pytest.raises(episode.EpisodeSyntaxError, match="This is not EVERY n ROWS"):
        episode.match_local(TABLE, "EVERY second ROWS", time="ts", key="k")


def test_arguments_and_options_of_other_languages_are_refused() -> None:
    with pytest.raises(episode.EpisodeAnalysisError, match="has no meaning for a row count"):
        episode.match_local(TABLE, "EVERY 2 ROWS", time="ts", strategy="skip-till-next-match")
    with pytest.raises(episode.EpisodeAnalysisError, match="step_budget"):
        episode.match_local(
            TABLE, "EVERY 2 ROWS", time="ts", options=episode.Options(tuning=episode.Tuning(step_budget=5))
        )


def test_it_is_gone_without_its_registration(every_rows: EveryLanguage) -> None:
    unregister(every_rows)
    try:
        with pytest.raises(episode.EpisodeSyntaxError):
            episode.match_local(TABLE, "EVERY 2 ROWS", time="ts", key="k")
    finally:
        register(every_rows)
