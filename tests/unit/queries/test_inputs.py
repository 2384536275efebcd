"""Arguments of the public functions that cannot be right, before Spark is asked."""

from __future__ import annotations

from typing import Any

import pytest

import episode
from episode.cli_inputs import read_arguments
from episode.errors import EpisodeAnalysisError
from episode.queries.inputs import keyword_tables


def test_a_query_is_a_text() -> None:
    nothing: Any = None
    with pytest.raises(EpisodeAnalysisError, match="A query is a text, not a NoneType"):
        episode.sql(nothing)


@pytest.mark.parametrize("key", [5, [5], ("a", None)])
def test_keys_are_names(key: Any) -> None:
    with pytest.raises(EpisodeAnalysisError, match="is no name of a column"):
        episode.match("events.parquet", "PATTERN A; B", key=key)


@pytest.mark.parametrize("name", ["a.b", "a{0}", "a[0]", "a!r", ""])
def test_names_of_keyword_tables(name: str) -> None:
    no_session: Any = None
    with pytest.raises(EpisodeAnalysisError, match="is no name for a keyword table"):
        keyword_tables(no_session, {name: "events.parquet"})


def test_values_of_parameters_have_names() -> None:
    positional: Any = [5]
    with pytest.raises(EpisodeAnalysisError, match="given by their names"):
        episode.sql("SELECT ?", positional)


def test_values_on_the_command_line() -> None:
    given = ["a=5", "b=2.50", "c=1e3", "d=true", "e=NULL", "f=x=y", "g='5'", "h="]
    shown = {name: repr(value) for name, value in read_arguments(given).items()}
    assert shown == {
        "a": "5", "b": "Decimal('2.50')", "c": "1000.0", "d": "True", "e": "None", "f": "'x=y'", "g": "'5'", "h": "''",
    }  # fmt: skip
