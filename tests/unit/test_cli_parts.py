"""Parts of the command line: Spark's settings, completion, interrupts, events without effect."""

from __future__ import annotations

import inspect
import signal
import threading
from pathlib import Path

import pytest
import typer

from episode.cli import options
from episode.cli.inputs import read_session
from episode.terminal.errors import run_interruptibly
from episode.terminal.progress import add_counters, dropped_of, in_words

# ---- Spark -------------------------------------------------------------------------------------------


def test_without_a_word_spark_is_started_later() -> None:
    assert not read_session(None, [], [], [])
    assert read_session("local[2]", [], [], []).master == "local[2]"


def test_settings_packages_and_jars() -> None:
    given = read_session(None, ["spark.a=1=2", "spark.jars=x.jar"], ["a:b:1,c:d:2", "e:f:3"], ["y.jar", "z.jar"])
    assert given.settings == {
        "spark.a": "1=2",
        "spark.jars": "x.jar,y.jar,z.jar",
        "spark.jars.packages": "a:b:1,c:d:2,e:f:3",
    }


def test_delta_lake_needs_more_than_its_package() -> None:
    mine = {"spark.sql.extensions": "mine"}
    given = read_session(None, ["spark.sql.extensions=mine"], ["io.delta:delta-spark_2.13:4.0.0"], [])
    assert {**given.settings, **mine} == given.settings
    assert given.settings["spark.sql.catalog.spark_catalog"].endswith("DeltaCatalog")


@pytest.mark.parametrize(
    ("conf", "package", "message"),
    [
        ("memory=4g", "a:b:1", "spark.NAME=VALUE"),
        ("spark.memory", "a:b:1", "spark.NAME=VALUE"),
        ("spark.a=1", "delta", "GROUP:ARTIFACT:VERSION"),
        ("spark.a=1", "a:b", "GROUP:ARTIFACT:VERSION"),
    ],
)
def test_wrong_settings(conf: str, package: str, message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        read_session(None, [conf], [package], [])


# ---- groups of options -------------------------------------------------------------------------------


def test_a_group_is_spread_into_its_options() -> None:
    given: list[object] = []

    def command(name: str, *, before: int = 1, spark: options.SparkOptions, after: int = 2) -> None:
        given.append((name, before, spark, after))

    spread = options.spread_groups(command)
    parameters = inspect.signature(spread).parameters
    assert list(parameters) == ["name", "before", "master", "conf", "package", "jars", "after"]
    assert [one.default for one in parameters.values()] == [inspect.Parameter.empty, 1, None, None, None, None, 2]
    spread(name="n", before=3, master="local[1]", conf=None, package=None, jars=["x.jar"], after=4)
    assert given == [("n", 3, options.SparkOptions(master="local[1]", jars=["x.jar"]), 4)]


# ---- completion --------------------------------------------------------------------------------------


def test_files_and_tables_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("query.sql", "ticks.parquet", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "queries").mkdir()
    monkeypatch.chdir(tmp_path)
    assert options.complete_queries("") == ["queries/", "query.sql"]
    assert options.complete_queries("query.") == ["query.sql"]
    assert options.complete_tables("ti") == []
    assert options.complete_tables("t=ti") == ["t=ticks.parquet"]
    assert options.complete_tables(f"t={tmp_path}/q") == [f"t={tmp_path}/queries/", f"t={tmp_path}/query.sql"]
    assert options.complete_tables("t=/no/such/place/") == []
    assert options.complete_masters("sp") == ["spark://"]


def test_declared_streams_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "nowhere"))
    assert options.complete_streams("t") == []


# ---- interrupts --------------------------------------------------------------------------------------


def test_work_is_done_in_a_thread_of_its_own() -> None:
    assert run_interruptibly(lambda: threading.current_thread() is not threading.main_thread())
    with pytest.raises(ValueError, match="as it is"):
        run_interruptibly(lambda: int("as it is"))


def test_an_interrupt_ends_the_work() -> None:
    ended = threading.Event()

    def work() -> None:
        signal.raise_signal(signal.SIGINT)  # reaches the main thread
        ended.wait(5)

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work, cancel=ended.set)


# ---- events without effect ---------------------------------------------------------------------------


def test_events_without_effect_in_words() -> None:
    one = dropped_of({"late": 0, "null_times": 2, "duplicates": None})
    assert in_words(one) == "0 late, 2 without a time"
    both = add_counters([one, dropped_of({"late": 1_500, "skipped": 3})])
    assert in_words(both) == "1,500 late, 2 without a time, 3 of skipped keys"
