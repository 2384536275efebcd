"""Arguments of the public functions that cannot be right, before Spark is asked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import episode
from episode.cli.inputs import read_arguments
from episode.errors import EpisodeAnalysisError
from episode.queries.tables import checked_tables


def test_a_query_is_a_text() -> None:
    nothing: Any = None
    with pytest.raises(EpisodeAnalysisError, match="A query is a text, not a NoneType"):
        episode.sql(nothing)


@pytest.mark.parametrize("key", [5, [5], ("a", None)])
def test_keys_are_names(key: Any) -> None:
    with pytest.raises(EpisodeAnalysisError, match="is not the name of a column"):
        episode.match("events.parquet", "PATTERN A; B", key=key)


def test_tables_are_given_once_and_by_names() -> None:
    wrong: Any = ["trades.parquet"]
    with pytest.raises(EpisodeAnalysisError, match="tables is a list"):
        episode.sql("SELECT 1", tables=wrong)
    with pytest.raises(EpisodeAnalysisError, match="The table t is given twice"):
        episode.sql("SELECT * FROM t", tables={"t": "a.parquet"}, t="b.parquet")
    with pytest.raises(EpisodeAnalysisError, match="'' is not a name for a table"):
        checked_tables({"": "a.parquet"})


def test_a_session_is_no_table() -> None:
    table: Any = pa.table({"a": [1]})
    with pytest.raises(EpisodeAnalysisError, match="spark=Table: a SparkSession is needed") as raised:
        episode.sql("SELECT * FROM spark", spark=table)
    assert raised.value.hint == "A table of this name is given as tables={'spark': …}."


def test_values_of_parameters_have_names() -> None:
    positional: Any = [5]
    with pytest.raises(EpisodeAnalysisError, match="given by their names"):
        episode.sql("SELECT ?", positional)


@pytest.mark.parametrize("run", [episode.sql, episode.sql_local, episode.explain])
def test_a_table_is_no_value_of_parameters(run: Any) -> None:
    """The message has no rows of it."""
    frame = pa.table({"a": list(range(500))})
    for table in (frame, frame.to_pandas()):
        with pytest.raises(EpisodeAnalysisError, match="is given as args") as raised:
            run("SELECT * FROM ticks MATCH_RECOGNIZE (PATTERN (A))", table)
        assert len(str(raised.value)) < 200
        assert "tables={'t': df}" in str(raised.value)
    with pytest.raises(EpisodeAnalysisError, match="given by their names") as raised:
        run("SELECT ?", frame.to_pylist())
    assert len(str(raised.value)) < 400


def test_values_on_the_command_line() -> None:
    given = ["a=5", "b=2.50", "c=1e3", "d=true", "e=NULL", "f=x=y", "g='5'", "h="]
    shown = {name: repr(value) for name, value in read_arguments(given).items()}
    assert shown == {
        "a": "5", "b": "Decimal('2.50')", "c": "1000.0", "d": "True", "e": "None", "f": "'x=y'", "g": "'5'", "h": "''",
    }  # fmt: skip
