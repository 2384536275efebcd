"""Rules that are looked at: what is entered into the log, what is refused, and what the table of rules says."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from episode.errors import EpisodeAnalysisError
from episode.matchers.rules.one_rule import Effect, Failure, RuleChange
from episode.queries.rules.streaming import rules_table
from episode.queries.rules.watching import RuleWatcher, Watch, reader_of
from episode.store.rule_log import RuleLog, active_of
from tests.support.changing_rules import PLANNER, TEXTS


@pytest.fixture
def log(tmp_path: Path) -> RuleLog:
    return RuleLog(tmp_path / "log")


def test_rules_are_added_replaced_and_removed(log: RuleLog) -> None:
    rules = {"one": TEXTS[0], "two": TEXTS[1]}
    watcher = RuleWatcher(lambda: rules, PLANNER, log)
    assert [(one.number, one.name, one.text) for one in watcher.look()] == [(1, "one", TEXTS[0]), (2, "two", TEXTS[1])]
    assert watcher.look() == []
    rules["two"] = TEXTS[2]
    del rules["one"]
    assert watcher.look() == [RuleChange(3, "one", None), RuleChange(4, "two", TEXTS[2])]
    assert active_of(log.changes()) == {"two": TEXTS[2]}


def test_a_text_that_is_no_rule_leaves_all_others_and_its_own_rule_running(log: RuleLog) -> None:
    rules = {"one": TEXTS[0], "two": "PATTERN SEQ(A a, B b) RETURN c.v"}
    watcher = RuleWatcher(lambda: rules, PLANNER, log)
    assert [one.name for one in watcher.look()] == ["one"]
    assert "c is not a variable" in log.problems()["two"]
    rules["one"] = "PATTERN"
    assert watcher.look() == []
    assert active_of(log.changes()) == {"one": TEXTS[0]}
    assert set(log.problems()) == {"one", "two"}
    rules |= {"one": TEXTS[0], "two": TEXTS[2]}
    assert [one.name for one in watcher.look()] == ["two"]
    assert log.problems() == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MATCH_RECOGNIZE (PARTITION BY type ORDER BY ts PATTERN (A) DEFINE A AS v > 1)", "partitions events by type"),
        ("MATCH_RECOGNIZE (PARTITION BY k ORDER BY v PATTERN (A) DEFINE A AS v > 1)", "orders events by v"),
        ("PATTERN SEQ(A a, B b) RETURN a.v", "needs WITHIN"),
        ("PATTERN SEQ(A a, B b) WHERE regexp_like(a.type, 'x') WITHIN 5 RETURN a.v", "needs Spark"),
        ("PATTERN SEQ(A a, B b) WITHIN 5 RETURN initcap(a.type) AS t", "needs Spark"),
        ("SELECT count(*) FROM events", "There is no pattern in this query; a rule has one pattern"),
        ("PATTERN SEQ(A a, B b) WITHIN 5 RETURN a.nothing", "no column nothing"),
    ],
)
def test_what_is_no_rule_of_a_stream(log: RuleLog, text: str, message: str) -> None:
    RuleWatcher(lambda: {"rule": text}, PLANNER, log).look()
    assert message in log.problems()["rule"]
    assert log.changes() == []


def test_rules_that_cannot_be_read_stay_as_they_are(log: RuleLog) -> None:
    RuleWatcher(lambda: {"one": TEXTS[0]}, PLANNER, log).look()

    def read() -> dict[str, str]:
        raise EpisodeAnalysisError("The folder is gone.")

    assert RuleWatcher(read, PLANNER, log).look() == []
    assert active_of(log.changes()) == {"one": TEXTS[0]}
    assert "The folder is gone." in log.problems()[""]


def test_two_who_look_enter_a_change_once(log: RuleLog) -> None:
    rules = {f"rule {number}": TEXTS[number % 3] for number in range(20)}
    threads = [threading.Thread(target=RuleWatcher(lambda: rules, PLANNER, log).look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.number for one in log.changes()] == list(range(1, 21))
    assert active_of(log.changes()) == rules


def test_a_folder_is_read_as_it_is(tmp_path: Path) -> None:
    read = reader_of(tmp_path, None)
    assert read() == {}
    (tmp_path / "one.pattern").write_text(TEXTS[2])
    (tmp_path / "two.sql").write_text(TEXTS[1])
    (tmp_path / "notes.txt").write_text("not a rule")
    assert read() == {"one": TEXTS[2], "two": TEXTS[1]}
    (tmp_path / "one.pattern").unlink()
    (tmp_path / "two.sql").unlink()
    assert read() == {}


def test_a_mapping_and_a_table_are_read_again() -> None:
    rules = {"one": TEXTS[0]}
    read = reader_of(rules, None)
    rules["two"] = TEXTS[1]
    assert read() == rules
    table = pa.table({"name": ["a", "b"], "text": [TEXTS[0], TEXTS[1]], "enabled": [True, False]})
    assert reader_of(table, None)() == {"a": TEXTS[0]}


def test_a_thread_looks_until_it_is_stopped(log: RuleLog) -> None:
    looked = threading.Semaphore(0)

    def read() -> dict[str, str]:
        looked.release()
        return {"one": TEXTS[0]}

    watch = Watch(RuleWatcher(read, PLANNER, log), 0.001, lambda: True)
    watch.start()
    for _ in range(3):
        assert looked.acquire(timeout=60)
    watch.stop()
    assert active_of(log.changes()) == {"one": TEXTS[0]}


def test_the_table_of_rules(log: RuleLog) -> None:
    log.follow({"one": "text 1", "two": "text 2"})
    log.follow({"one": "text 3", "two": "text 2"})
    log.follow({"one": "text 3"})
    log.follow({"one": "text 3", "new": "text 5"})
    for number, after in [(1, None), (2, None), (3, 40), (4, 50)]:
        log.write_effect(Effect(number, after, "q"))
    log.write_failure("q", 0, Failure(3, "one", 2, 45, "no row to skip to"))
    log.write_failure("q", 1, Failure(3, "one", 1, 47, "no row to skip to"))
    log.write_failure("q", 1, Failure(3, "one", 2, 47, "no row to skip to"))  # the shard once more
    log.write_problems({"broken": "what is wrong"})
    rows = rules_table(log, pa.int64()).to_pylist()
    columns = ("name", "version", "status", "active_from", "active_until", "failed_keys", "error")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("one", 1, "replaced", None, 40, 0, None),
        ("two", 2, "removed", None, 50, 0, None),
        ("one", 3, "active", 41, None, 4, "no row to skip to"),
        ("new", 5, "waiting", None, None, 0, None),
        ("broken", None, "refused", None, None, 0, "what is wrong"),
    ]


def test_times_of_rules_are_of_the_type_of_event_time(log: RuleLog) -> None:
    log.follow({"one": "text"})
    log.follow({})
    day = 86_400_000_000
    log.write_effect(Effect(1, 3 * day + 5, "q"))
    log.write_effect(Effect(2, 4 * day, "q"))
    (row,) = rules_table(log, pa.date32()).to_pylist()
    assert (row["active_from"].isoformat(), row["active_until"].isoformat()) == ("1970-01-05", "1970-01-05")
    (row,) = rules_table(log, pa.timestamp("us", "UTC")).to_pylist()
    assert row["active_from"].isoformat() == "1970-01-04T00:00:00.000006+00:00"


def test_a_log_elsewhere_is_refused() -> None:
    with pytest.raises(EpisodeAnalysisError, match="file system of this machine"):
        RuleLog("s3://bucket/log")


def test_a_table_of_rules_at_a_path_is_no_folder(tmp_path: Path) -> None:
    from episode.queries.rules.watching import _is_folder

    pq.write_table(pa.table({"name": ["a"], "text": [TEXTS[0]]}), tmp_path / "rules.parquet")
    assert not _is_folder(str(tmp_path))
    assert not _is_folder(str(tmp_path / "rules.parquet"))
