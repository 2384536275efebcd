"""Rules from folders, mappings and tables; what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeAnalysisError, EpisodeRulesError
from episode.queries.rules.rule import Rule, rules_of

EVENTS = pa.table({"k": [1, 1], "ts": [1, 2], "kind": ["a", "b"], "v": [1.0, 2.0]})
GIVEN = {"time": "ts", "key": "k", "type_column": "kind"}
PAIR = "PATTERN SEQ(a x, b y) WITHIN 5 RETURN x.v + y.v AS total"
ROW = "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES B.v AS v PATTERN (A B) DEFINE B AS v > PREV(v))"


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b.pattern").write_text(PAIR)
    (tmp_path / "a.sql").write_text(f"SELECT v FROM events {ROW}")
    (tmp_path / "notes.txt").write_text("no rule")
    found = rules_of(tmp_path)
    assert [(rule.name, rule.origin) for rule in found] == [
        ("a", str(tmp_path / "a.sql")),
        ("b", str(tmp_path / "b.pattern")),
    ]
    matches = episode.match_all_local(EVENTS, str(tmp_path), **GIVEN)
    assert matches.of("a").to_pylist() == [{"v": 2.0}]
    assert matches.of("b").to_pylist() == [{"total": 3.0, "match_start": 1, "match_end": 2}]


@pytest.mark.parametrize("enabled", [None, [True, False, True]])
def test_a_table(enabled: list[bool] | None) -> None:
    table = pa.table({"name": ["x", "y", "z"], "text": [PAIR, "nonsense", ROW]})
    if enabled is None:
        with pytest.raises(EpisodeRulesError, match="1 of 3 rules cannot be used"):
            episode.match_all_local(EVENTS, table, **GIVEN)
        return
    matches = episode.match_all_local(EVENTS, table.append_column("enabled", pa.array(enabled)), **GIVEN)
    assert matches.counts == {"x": 1, "z": 1}


def test_other_forms() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": ["x"], "text": [PAIR]})
    assert rules_of(frame) == (Rule("x", PAIR),)
    assert rules_of([Rule("x", PAIR), Rule("y", PAIR, enabled=False)]) == (Rule("x", PAIR),)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "There are no rules"),
        ({"": PAIR}, "'' is not the name of a rule"),
        ({"x": 3}, "Rule x: its text is a int"),
        ("nowhere", "There is no folder nowhere of rules"),
        (7, "Rules cannot be a int"),
        (pa.table({"name": ["x"]}), "no column text"),
        (pa.table({"name": ["x", "x"], "text": [PAIR, PAIR]}), "Two rules are called x"),
        (pa.table({"name": ["x"], "text": [PAIR], "enabled": [False]}), "None of the 1 rules is enabled"),
        (pa.table({"name": ["x"], "text": [PAIR], "enabled": [1]}), "neither true nor false"),
        (pa.table({"name": ["x"], "text": pa.array([None], pa.string())}), "its text is a NoneType"),
    ],
)
def test_what_is_no_set_of_rules(given: object, message: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=message):
        rules_of(given)


def test_a_folder_without_rules(tmp_path: Path) -> None:
    with pytest.raises(EpisodeAnalysisError, match=r"has no \.sql and no \.pattern file"):
        rules_of(tmp_path)


def test_errors_of_all_rules_come_together_with_their_places() -> None:
    rules = {"fine": PAIR, "unreadable": "PATTERN SEQ(a x, ) WITHIN 5", "also": "DEFINE A AS v > PATTERN A before B"}
    with pytest.raises(EpisodeRulesError) as raised:
        episode.match_all_local(EVENTS, rules, **GIVEN)
    assert list(raised.value.errors) == ["unreadable", "also"]
    shown = str(raised.value)
    assert shown.startswith("2 of 3 rules cannot be used.\nRule unreadable: ")
    assert "at line 1, column" in shown
    columns = {"one": PAIR.replace("x.v", "x.w"), "two": ROW.replace("v > PREV", "u > PREV"), "fine": PAIR}
    with pytest.raises(EpisodeRulesError) as raised:
        episode.match_all_local(EVENTS, columns, **GIVEN)
    assert [error.line_and_column for error in raised.value.errors.values()] == [(1, 39), (1, 89)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT * FROM events {ROW} WHERE v > 1", "WHERE after the pattern cannot be in a rule"),
        ("SELECT * FROM events", "There is no pattern in this query; a rule has one pattern"),
        (f"SELECT * FROM (SELECT * FROM events) {ROW}", "A pattern over a query cannot be in a rule"),
        (f"SELECT nothing FROM events {ROW}", "There is no column nothing in the output"),
        (f"WITH t AS (SELECT 1) SELECT * FROM t {ROW}", "cannot be in a rule"),
    ],
)
def test_what_is_no_rule(text: str, message: str) -> None:
    with pytest.raises(EpisodeRulesError, match=message) as raised:
        episode.match_all_local(EVENTS, {"wrong": text})
    assert list(raised.value.errors) == ["wrong"]


def test_what_is_said_of_all_rules_must_mean_something() -> None:
    with pytest.raises(EpisodeAnalysisError, match="time='ts' has no meaning for these rules"):
        episode.match_all_local(EVENTS, {"row": ROW}, time="ts")
    with pytest.raises(EpisodeAnalysisError, match="detect='complete' has no meaning for any"):
        episode.match_all_local(EVENTS, {"row": ROW, "pair": PAIR}, **GIVEN, detect="complete")
    with pytest.raises(EpisodeAnalysisError, match="No rule has a parameter :y"):
        episode.match_all_local(EVENTS, {"row": ROW}, {"y": 1})


def test_arguments_are_for_the_rules_that_have_them() -> None:
    rules = {"low": PAIR.replace("WITHIN", "WHERE y.v > :low WITHIN"), "plain": PAIR}
    assert episode.match_all_local(EVENTS, rules, {"low": 1}, **GIVEN).counts == {"low": 1, "plain": 1}
    assert episode.match_all_local(EVENTS, rules, {"low": 2}, **GIVEN).counts == {"low": 0, "plain": 1}
    with pytest.raises(EpisodeRulesError, match="There is no value for the parameter :low"):
        episode.match_all_local(EVENTS, rules, **GIVEN)


def test_results_are_of_the_kind_that_came_in() -> None:
    pytest.importorskip("pandas")
    matches = episode.match_all_local(EVENTS.to_pandas(), {"row": ROW})
    assert type(matches.of("row")).__name__ == "DataFrame"
    with pytest.raises(EpisodeAnalysisError, match="There is no rule rwo") as raised:
        matches.of("rwo")
    assert raised.value.hint == "Rules: row."


def test_one_table_of_all_matches() -> None:
    chosen = f"SELECT v * 2 AS twice FROM t {ROW}"
    rules = {"pair": PAIR, "row": ROW, "none": PAIR.replace("b y", "c y"), "chosen": chosen}
    table = episode.match_all_local(EVENTS, rules, **GIVEN).table
    assert table.column_names == ["rule", "k", "match_start", "match_end", "result"]
    assert table.to_pylist() == [
        {"rule": "pair", "k": 1, "match_start": 1, "match_end": 2,
         "result": '{"total":3.0,"match_start":1,"match_end":2}'},
        {"rule": "row", "k": 1, "match_start": 1, "match_end": 2, "result": '{"k":1,"v":2.0}'},
        {"rule": "chosen", "k": 1, "match_start": 1, "match_end": 2, "result": '{"twice":4.0}'},
    ]  # fmt: skip
