"""The parts of the notebook extension that need no Spark: variables as tables and parameters, bars, results as HTML."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import episode
from episode.lang.lexer import tokenize
from episode.see.notebook import magic
from episode.see.notebook.magic import Shown, is_table, parameters_of, tables_of
from episode.see.reports.data import ResultPart

QUERY = "SELECT * FROM ticks JOIN `other table` ON a = :low AND b > : low AND c = x::int WHERE high = :high"


def test_tables_are_variables_that_the_query_names() -> None:
    frame = pd.DataFrame({"a": [1]})
    names = {
        "ticks": frame, "other table": pa.table({}), "a": 5, "b": "ticks.parquet", "unused": frame, "c": pd.DataFrame,
        "high": Path("x"),
    }  # fmt: skip
    assert set(tables_of(tokenize(QUERY), names)) == {"ticks", "other table", "high"}


def test_what_is_a_table() -> None:
    for table in (
        pd.DataFrame(),
        pl.DataFrame(),
        pa.table({}),
        Path("x"),
        SimpleNamespace(sparkSession=1, isStreaming=0),
    ):
        assert is_table(table)
    for other in (5, "ticks.parquet", None, [1], {"a": 1}, pd.Series([1]), pd.DataFrame):
        assert not is_table(other)


def test_parameters_are_variables_after_a_colon() -> None:
    names = {"low": 3, "high": [1], "int": 7}
    assert parameters_of(tokenize("a = :low AND b = :high AND c = :none"), names) == {"low": 3}
    assert parameters_of(tokenize("a = : low"), names) == {}


class Place:
    """What stands for the output of a cell."""

    def __init__(self, shown: list[dict[str, str]], done: Event, last: int) -> None:
        self.shown, self.done, self.last = shown, done, last

    def display(self, data: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(data)

    def update(self, data: dict[str, str], raw: bool) -> None:
        self.display(data, raw)
        if len(self.shown) == self.last:
            self.done.set()


class Tracker:
    def getActiveStageIds(self) -> list[int]:
        return [4, 7]

    def getStageInfo(self, stage: int) -> Any:
        return SimpleNamespace(numCompletedTasks=1, numTasks=2)


def test_a_bar_says_how_many_tasks_are_done_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(magic, "PERIOD", 0.0)
    shown: list[dict[str, str]] = []
    done = Event()
    magic._watch(Tracker(), lambda: Place(shown, done, 3), 0.0, done)
    words = [one["text/plain"] for one in shown]
    assert words == ["planning", "stage 4, 7: 2 of 4 tasks", "stage 4, 7: 2 of 4 tasks", ""]
    assert "width:50%" in shown[1]["text/html"]


def test_what_is_fast_shows_no_bar() -> None:
    done = Event()
    done.set()
    magic._watch(Tracker(), lambda: pytest.fail("a bar"), 60.0, done)


def test_nobody_looks_outside_of_a_kernel() -> None:
    with magic.notebook_progress(SimpleNamespace(sparkContext=None)):
        pass
    assert magic._publisher() is None


def test_results_as_html_and_as_text() -> None:
    shown = Shown(ResultPart(3, ("k", "<v>"), (("<b>", 1), (None, 2))), "<svg/>")
    page = shown._repr_html_()
    assert "3 rows, the first 2:" in page
    assert "&lt;b&gt;" in page
    assert "&lt;v&gt;" in page
    assert "<div><svg/></div>" in page
    assert "3 rows, the first 2:" in repr(shown)
    assert "<b>" in repr(shown)
    assert repr(Shown(ResultPart(0, ("k",), ()), None)) == "0 rows"
    assert "No plot: &lt;" in Shown(ResultPart(0, ("k",), ()), None, "No plot: <")._repr_html_()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    found = InteractiveShell()
    episode.load_ipython_extension(found)
    return found


def test_the_extension_comes_and_goes(shell: Any) -> None:
    assert shell.find_cell_magic("episode") is not None
    formatter = shell.display_formatter.formatters["text/html"]
    assert ("pyspark.sql.classic.dataframe", "DataFrame") in formatter.deferred_printers
    episode.unload_ipython_extension(shell)
    assert shell.find_cell_magic("episode") is None
    assert ("pyspark.sql.classic.dataframe", "DataFrame") not in formatter.deferred_printers


def test_plots_of_frames_can_be_switched_off(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(magic, "SETTINGS", magic.Settings())
    shell.run_line_magic("episode", "--plots off")
    assert not magic.SETTINGS.plots
    shell.run_line_magic("episode", "--plots on")
    assert magic.SETTINGS.plots


@pytest.mark.parametrize("line", ["1x", "a --limit -1", "a --table t", "a --table =p", "a b"])
def test_wrong_first_lines_are_named(shell: Any, line: str) -> None:
    with pytest.raises((UsageError, SystemExit)):
        shell.run_cell_magic("episode", line, "SELECT 1")
