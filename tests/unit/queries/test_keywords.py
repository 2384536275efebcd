"""Keyword arguments that are typing mistakes: named before Spark starts."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import episode
from episode.errors import EpisodeAnalysisError
from episode.queries.events import EVENT_COLUMNS, OPTIONS

AB = "PATTERN A; B"
STATEMENT = "SELECT * FROM trades MATCH_RECOGNIZE (ORDER BY ts MEASURES 1 AS one PATTERN (A))"


def options_of(*functions: Any) -> set[str]:
    """The names that are no tables."""
    parameters = [one for function in functions for one in inspect.signature(function).parameters.values()]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {one.name for one in parameters if one.kind in kinds}


def test_the_known_options_are_those_of_the_functions() -> None:
    for name, known in OPTIONS.items():
        named = set(EVENT_COLUMNS) if name == "match" else set()
        assert set(known) == (options_of(getattr(episode, name)) | named) - {"text"} | {"text"} & set(known)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: episode.match(object(), AB, tim="ts"),
            "tim is not an option of match; did you mean time?",
        ),
        (
            lambda: episode.match("PATTERN A; B", A=1, B=2, typ_column="c"),
            "typ_column is not an option of match; did you mean type_column?",
        ),
        (
            lambda: episode.match("PATTERN A; Offer", A=1, Ofer=2),
            "The table Ofer is given, but the pattern has no class Ofer.\n"
            "  Did you mean Offer? Classes of the pattern: A, Offer.",
        ),
        (
            lambda: episode.sql(STATEMENT, trades=1, option=None),
            "option is not an option of sql; did you mean option",
        ),
        (
            lambda: episode.explain(STATEMENT, trades=1, analyse=True),
            "analyse is not an option of explain; did you mean",
        ),
        (
            lambda: episode.sql(STATEMENT, trade=1),
            "The table trade is given, but the statement does not use it.\n  Did you mean trades?",
        ),
        (
            lambda: episode.sql(STATEMENT, trades=1, customers=1),
            "The table customers is given, but the statement does not use it.\n  Leave it out, or name it in FROM.",
        ),
        (lambda: episode.sql_local(STATEMENT, trades=1, customers=1), "The table customers is given"),
        (lambda: episode.sql(None), "A query is a text, not a NoneType."),
        (lambda: episode.match(object(), AB, key=5), "key=5: 5 is not the name of a column."),
        (
            lambda: episode.match(object(), AB, type_column=5),
            "type_column=5: the name of a column is needed",
        ),
        (lambda: episode.match(object(), AB, strategy=5), "strategy=5: a text is needed."),
        (
            lambda: episode.sql(STATEMENT, trades=1, options={"shards": 2}),
            "options is a dict.\n  Write options=",
        ),
        (
            lambda: episode.Options(wathermark="1 second"),
            "Options(wathermark='1 second'): there is no such option.\n  Did you mean watermark?",
        ),
        (lambda: episode.Options(zzz=1), "Options(zzz=1): there is no such option.\n  Options: watermark, match_times"),
        (
            lambda: episode.sql(STATEMENT, trades="s3://b/trades", spark="local"),
            "spark='local': a SparkSession is needed.",
        ),
        (
            lambda: episode.Options(shards=8),
            "Options(shards=8): there is no such option.\n  Write Options(tuning=Tuning(shards=…)).",
        ),
        (
            lambda: episode.Tuning(watermark=8),
            "Tuning(watermark=8): there is no such option.\n  Write Options(watermark=…).",
        ),
        (
            lambda: episode.Options(late="keep"),
            "Options(late='keep'): there is no such option.\n  Late events are dropped unless they are kept",
        ),
        (lambda: episode.Options(tuning={"shards": 8}), "Options(tuning={'shards': 8}): Tuning(…) is needed."),
        (
            lambda: episode.Options(stream=episode.StreamOptions(on_error="skip")),
            "StreamOptions(on_error='skip'): 'stop' or 'skip key' is needed.",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(EpisodeAnalysisError) as raised:
        call()
    assert str(raised.value).startswith(message)


def test_a_table_may_have_any_name_that_is_no_option() -> None:
    with pytest.raises(EpisodeAnalysisError, match="The table text is given, but the statement does not use it"):
        episode.sql(STATEMENT, trades=1, text=1)
