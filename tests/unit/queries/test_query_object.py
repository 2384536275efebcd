"""A query is an object: what it can be asked in process, and which mistakes it names."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest

import episode
from episode import Events
from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError

T = pa.table({"k": ["x"] * 4 + ["y"] * 2, "ts": [1, 2, 3, 4, 1, 2], "v": [4, 3, 2, 5, 1, 2]})
FALLS = """SELECT k, low FROM t MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES LAST(B.v) AS low PATTERN (A B+) DEFINE B AS B.v < PREV(B.v))"""
AROUND = f"{FALLS} WHERE low < 3 ORDER BY low"
DROP = "PATTERN A; B WHERE A.v > B.v WITHIN 1 RETURN A.v AS high, B.v AS low"
HOT = "DEFINE hot AS v > 2, cold AS v < 3 PATTERN hot meets cold"
CLAUSE = "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS a {} MATCH PATTERN (A B) DEFINE B AS B.v {} A.v)"
EVENTS = Events(T, time="ts", key="k")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "episode.spark.startup.session", None)


def test_statements_and_patterns_run_in_process() -> None:
    assert episode.query(FALLS, t=T).local().to_pylist() == [{"k": "x", "low": 2}]
    assert episode.query(FALLS, t=T).local().equals(episode.sql_local(FALLS, t=T))
    found = episode.query(DROP, EVENTS).local()
    assert found.select(["high", "low"]).to_pylist() == [{"high": 4, "low": 3}, {"high": 3, "low": 2}]
    assert found.equals(episode.match_local(T, DROP, time="ts", key="k"))
    assert found.equals(episode.match_local(EVENTS, DROP))
    assert episode.query(DROP, Events(T.to_pandas(), time="ts", key="k")).local().low.to_list() == [3, 2]


def pairs(**given: Any) -> episode.Query:
    live = episode.query(CLAUSE.format("INCREMENTAL", ">"), T)
    archive = episode.query(CLAUSE.format("MAXIMAL", "<"), T)
    return live.correlate(archive, **{"recency": 5, "on": "k", **given})


def test_correlations_run_in_process() -> None:
    """The falls 4, 3 and 3, 2 of x come before its rise 2, 5."""
    live = episode.query("PATTERN A; B WHERE B.v > A.v + 2 WITHIN 1 RETURN A.k, B.v AS high", EVENTS)
    archive = episode.query("PATTERN A; B WHERE A.v > B.v WITHIN 1 RETURN A.k, B.v AS low", EVENTS)
    found = live.correlate(archive, recency=3, on="k").local()
    assert found.select(["live_k", "high", "low", "match_start", "match_end"]).to_pylist() == [
        {"live_k": "x", "high": 5, "low": 3, "match_start": 1, "match_end": 4},
        {"live_k": "x", "high": 5, "low": 2, "match_start": 2, "match_end": 4},
    ]
    args = {"least": 3}
    assert live.correlate(archive, args, recency=3, on="k", where="archive.low > :least").local().num_rows == 0
    with pytest.raises(EpisodeAnalysisError, match="the live pattern has no column lo"):
        live.correlate(archive, recency=3, on="lo").local()


@pytest.mark.parametrize(
    ("query", "title"),
    [
        (episode.query(FALLS, t=T), "x: 1 match"),
        (episode.query(AROUND, t=T), "x: 1 match"),
        (episode.query(DROP, EVENTS), "x: 2 matches"),
        (episode.query(HOT, EVENTS), "1 match"),
    ],
)
def test_queries_are_drawn_without_spark(query: episode.Query, title: str) -> None:
    pytest.importorskip("altair")
    assert title in str(query.plot().to_dict())
    assert query.plot(of="x", width=300).to_svg().startswith("<svg")


def test_correlations_are_drawn_without_spark() -> None:
    pytest.importorskip("altair")
    assert pairs().plot(of="x").to_svg().startswith("<svg")


def test_queries_say_why_there_is_no_match_without_spark() -> None:
    rows = episode.query(AROUND, t=T).why_not(of="y", at=1)
    assert "B.v 2 < PREV(B.v) 1 is false" in str(rows)
    events = episode.query(DROP, EVENTS).why_not(of="y")
    assert "A.v > B.v is true for none of 1 candidate; nearest: A.v = 1, B.v = 2" in str(events)
    assert str(episode.query(HOT, EVENTS).why_not(of="y")).startswith("Situation pattern with k = y")
    live, archive = pairs().why_not(of="y").answers
    assert (live.role, archive.role) == ("live", "archive")
    assert "There are no rows with k = 'z'." in str(episode.query(FALLS, t=T).why_not(of="z"))


def test_queries_are_explained_without_spark() -> None:
    for query in (episode.query(FALLS, t=T), episode.query(DROP, EVENTS), pairs()):
        assert "in process: " in query.explain()
        assert query.explain(format="svg").startswith("<svg")
    assert "in process: 6 rows" in episode.query(FALLS, t=T).explain()
    assert "function run(" in episode.query(FALLS, t=T).explain(format="native")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: episode.query(FALLS, t=T, option=1).local(), "option is not an option of query; did you mean"),
        (lambda: episode.query(FALLS, tt=T).explain(), "The table tt is given, but the statement does not use it."),
        (lambda: episode.query(FALLS, t=T, key="k").run(), "key is about events, and query runs a statement"),
        (lambda: episode.sql(FALLS, t=T, time="ts"), "time is about events, and sql runs a statement"),
        (lambda: episode.sql_local(FALLS, t=T, opions=None), "opions is not an option of sql_local; did"),
        (lambda: episode.match_local(T, DROP, tim="ts"), "tim is not an option of match_local; did you mean time?"),
        (lambda: episode.match_local(T, DROP, partition_by="k"), "partition_by is not an option of match_local.\n"),
        (lambda: episode.match_all_local(T, {"a": DROP}, keey="k"), "keey is not an option of match_all_local; did"),
        (lambda: episode.match(T, DROP, tim="ts"), "tim is not an option of match; did you mean time?"),
        (lambda: episode.match(T, DROP, partition_by="k"), "match has one table of all events, and further tables"),
        (lambda: Events(T, tiem="ts"), "tiem is not an option of Events; did you mean time?"),
        (lambda: Events(T, time=5), "time=5: the name of one column is needed"),
        (lambda: Events(T, time="ts", interval_width=5), "granularity, probabilities and interval_width are"),
        (lambda: episode.match_local(EVENTS, DROP, key="k"), "key= is given in addition to Events(…).\n  Write"),
        (lambda: episode.query(DROP, Events(time="ts")).local(), "query needs events and a pattern."),
        (lambda: pairs(on=5).local(), "on=5: names of columns are needed"),
        (lambda: episode.query(FALLS, t=T).correlate(pairs(), recency=5), "The live side of a correlation is not a"),
        (
            lambda: episode.query(DROP, EVENTS).correlate(
                episode.query(DROP, EVENTS, options=episode.Options(match_times=True)), recency=5
            ),
            "The archive pattern has options, which are for the whole correlation.",
        ),
        (lambda: episode.query(FALLS, t=T).start(into="found"), "The table t is given, but a live query reads"),
        (lambda: episode.query(FALLS, t=T).why_not(), "Which key? The events are partitioned by k.\n  Write of={'k'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(EpisodeAnalysisError) as raised:
        call()
    assert str(raised.value).startswith(message)


def test_what_is_not_in_process_is_refused() -> None:
    with pytest.raises(EpisodeUnsupportedError, match="In process, a pattern is over one table of all events"):
        episode.query(DROP, Events(time="ts"), A=T, B=T).local()
    with pytest.raises(EpisodeUnsupportedError, match="A live query is a statement over a declared stream"):
        episode.query(DROP, EVENTS).start(into="found")


def test_the_events_of_matches_are_described_once() -> None:
    events = Events(T, time=("ts", "ts"), key=["k"], probabilities="p", interval_width="5 seconds", granularity=1)
    given = events.given
    assert (given.time, given.interval, given.key) == (None, ("ts", "ts"), ("k",))
    assert (given.probabilities, given.interval_width, given.granularity) == ("p", "5 seconds", 1)
