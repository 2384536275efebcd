"""From a demand to a cluster; and the same in words, held against files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from episode.cli import app
from episode.errors import EpisodeAnalysisError
from episode.sizing import constants as known
from episode.sizing import measuring as calibrating
from episode.sizing.answer import Demand, size
from episode.sizing.profile import HeldPerKey
from episode.sizing.rendering import as_json, as_text, count, share
from episode.words import binary_size, duration_in_full
from tests.unit.sizing.fixed import constants, profile

HERE = Path(__file__).parent
DEMAND = Demand(1e7, 1e6, window=600.0)
QUERY = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) DEFINE B AS B.x > A.x)"


@pytest.fixture(autouse=True)
def fixed_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "load_constants", constants)


def asked(*options: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["size", *options])
    return done.exit_code, done.stdout, done.stderr


# ---- the cluster -------------------------------------------------------------------------------------------------


def test_more_events_need_more() -> None:
    some = [size(Demand(rate, 1e6, window=60.0), profile(), constants()) for rate in (1e4, 1e5, 1e6, 1e7)]
    for way in ("batch", "micro", "live"):
        cores = [getattr(one, way).machines.cores for one in some]
        memory = [getattr(one, way).machines.together for one in some]
        assert cores == sorted(cores)
        assert memory == sorted(memory)


def test_a_longer_window_needs_more_memory() -> None:
    some = [size(Demand(1e6, 1e6, window=window), profile(), constants()) for window in (1.0, 60.0, 6_000.0)]
    assert [one.state.bytes for one in some if one.state] == sorted(one.state.bytes for one in some if one.state)
    assert some[0].live.machines.executors < some[2].live.machines.executors
    assert some[2].live.bottleneck == "memory of the state"
    for one in some:
        assert one.live.machines.memory <= 64 * 2**30


def test_the_network_is_what_crosses_machines() -> None:
    one = size(Demand(1e6, 1e6, executor_cores=1000), profile(), constants()).micro.machines
    assert (one.executors, one.network) == (1, 0)
    several = size(Demand(1e6, 1e6, executor_cores=1), profile(), constants()).micro.machines
    assert several.network == pytest.approx(1e6 * 10 * 0.5 * (1 - 1 / several.executors))


def test_a_slow_network_is_the_bottleneck() -> None:
    assert size(DEMAND, profile(), constants(network=1e6)).micro.bottleneck == "network"


def test_without_a_window_nothing_bounds_the_state() -> None:
    answer = size(Demand(1e5, 1e3), replace(profile(), bounded=False), constants())
    assert answer.state is None
    assert "may grow for ever" in as_text(answer)


def test_the_querys_own_window_is_taken() -> None:
    own = replace(profile(), within=30.0)
    assert size(Demand(1e5, 1e3), own, constants()).window == 30
    asked_for = size(Demand(1e5, 1e3, window=60.0), own, constants())
    assert asked_for.window == 60
    assert "The query has WITHIN 30 s; this is for 1 minute." in as_text(asked_for)


def test_one_key_is_bounded_in_streams() -> None:
    answer = size(Demand(1e7, 1e6, window=10.0, hottest=0.5), profile(), constants())
    assert answer.micro.too_hot
    assert (answer.micro.bottleneck, answer.live.bottleneck) == ("one key", "one key")
    said = as_text(answer)
    assert "micro-batches: the busiest key has 5,000,000 events/s" in said
    assert "batch: one key has 50% of the rows, more than a task should: it is to be cut" in said


def test_a_busy_key_of_a_sample_counts() -> None:
    uneven = replace(profile(), hottest=0.5, keys=1000)
    assert size(DEMAND, uneven, constants()).hottest == 0.5
    assert size(DEMAND, replace(uneven, hottest=0.002), constants()).hottest == 1e-6


def test_no_keys_at_all() -> None:
    answer = size(Demand(1e7, 1e6, window=10.0), replace(profile(), keyed=False), constants())
    assert answer.live.median == float("inf")
    assert "never" in as_text(answer)
    assert json.loads(as_json(answer))["ways"]["live tasks"]["median"] is None
    endless = size(Demand(1e5, 1e6), replace(profile(), keyed=False, bounded=False), constants())
    assert endless.batch.machines.cores == 1
    assert "it is not cut" in as_text(endless)


def test_executors_that_are_too_small() -> None:
    with pytest.raises(EpisodeAnalysisError, match="--executor-memory 1"):
        size(Demand(1e7, 1e6, executor_memory=2.0**30), profile(), constants())


# ---- in words ----------------------------------------------------------------------------------------------------


def test_the_text() -> None:
    code, out, _ = asked("--events-per-second", "1e7", "--keys", "1e6", "--window", "10 minutes", "--delay", "5 s")
    assert code == 0
    assert out == (HERE / "size.txt").read_text(encoding="utf-8")


def test_the_json() -> None:
    code, out, _ = asked("-e", "1e7", "-k", "1e5", "-w", "1 minute", "--hot-key", "0.3", "--json")
    assert code == 0
    assert out == (HERE / "size.json").read_text(encoding="utf-8")
    assert json.loads(out)["ways"]["micro-batches"]["too_hot"]


def test_a_query_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(QUERY)
    code, out, _ = asked("-e", "1e4", "-k", "10", "-w", "1 minute", "-q", str(path))
    assert code == 0
    assert "row pattern: not measured" in out


def test_calibrating(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = constants().scaled_by(0.5, 1.1, "another", "2026-02-02")
    monkeypatch.setattr(calibrating, "calibrate_constants", lambda _: scaled)
    code, out, _ = asked("-e", "1e6", "-k", "1e5", "-w", "1 minute", "--calibrate")
    assert code == 0
    assert "its cores take 0.50 times as long as a machine of tests" in out


def test_made_up_columns() -> None:
    columns = "key int, ts timestamp, x double"
    query = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts PATTERN (A B) DEFINE B AS B.x > A.x)"
    code, out, _ = asked("-e", "1e4", "-k", "100", "-w", "1 minute", "-q", query, "--columns", columns)
    assert code == 0
    assert "measured on 1,000,000 rows (made-up rows)" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-e", "many", "-k", "1"], "--events-per-second 'many' is not a number"),
        (["-e", "1", "-k", "0"], "--keys '0' must be a number of at least 1"),
        (["-e", "1", "-k", "1", "-w", "10"], "--window '10' is not a duration above zero with a unit"),
        (["-e", "1", "-k", "1", "-w", "soon"], "--window 'soon' is not a duration"),
        (["-e", "1", "-k", "9", "--hot-key", "2"], "--hot-key 2: the share of one key"),
        (["-e", "1", "-k", "9", "-q", "SELECT * FROM t"], "There is no pattern in this query"),
        (["-e", "1", "-k", "9", "-q", "SELECT * FROM t MATCH_RECOGNIZE ("], "line 1"),
        (["-e", "1", "-k", "9", "--sample", "x"], "--sample is to measure a query"),
        (["-e", "1", "-k", "9", "-q", QUERY, "--sample", "/nothing/there"], "there are no files"),
        (["-e", "1e12", "-k", "9", "--finish", "1 s"], "No number of cores"),
    ],
)
def test_errors(options: list[str], said: str) -> None:
    code, out, error = asked(*options)
    assert (code, out) == (2, "")
    assert said in " ".join(error.split())
    assert "Traceback" not in error


def test_words() -> None:
    assert [duration_in_full(value) for value in (0.0, 0.0165, 2.5, 59.94, 60.0, 3_540.0, 3_600.0, 86_400.0)] == [
        "0 s", "16.5 ms", "2.5 s", "59.9 s", "1 minute", "59 minutes", "1 hour", "1 day",
    ]  # fmt: skip
    assert [share(value) for value in (0.0, 0.0001, 0.02, 0.7)] == ["0%", "0.0001", "2.0%", "70%"]
    assert [binary_size(value) for value in (10.0, 2048.0, 5e9)] == ["10 B", "2.0 KiB", "4.7 GiB"]
    assert [count(value) for value in (0.25, 5.0, 1e7)] == ["0.25", "5", "10,000,000"]


def test_a_measured_state_says_what_it_could_be() -> None:
    one = replace(profile(), held=HeldPerKey(2.0, 20.0, 0.0, 40.0, measured=True), rows=10)
    assert "The state at the most" in as_text(size(DEMAND, one, constants()))
