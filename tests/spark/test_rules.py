"""Sets of rules on Spark: each gives what it gives alone, in one result, from one reading of the input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import episode
from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError, EpisodeRulesError

KINDS = ["login", "fail", "pay", "view"]
COUNT = 4_000
EVENTS = pa.table(
    {
        "user": pa.array([at * 7 % 23 for at in range(COUNT)], pa.int64()),
        "ts": pa.array([1_767_225_600_000_000 + at * 1_000_000 for at in range(COUNT)], pa.timestamp("us", tz="UTC")),
        "kind": [KINDS[at * 2654435761 % 2**32 >> 30] for at in range(COUNT)],
        "amount": [float(at * 37 % 1000) for at in range(COUNT)],
        "place": [{"city": "ABC"[at % 3], "zone": at % 5} for at in range(COUNT)],
    }
)
GIVEN = {"time": "ts", "key": "user", "type_column": "kind"}
ROW = (
    "MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES {} PATTERN (A B+) DEFINE A AS amount < 300, "
    "B AS amount > PREV(amount))"
)
RULES = {
    "rising": ROW.format("count(*) AS n, LAST(B.amount) AS top, A.place AS place"),
    "rows": ROW.format("CLASSIFIER() AS label ALL ROWS PER MATCH"),
    "pay": (
        "PATTERN SEQ(login a, pay b) WHERE b.amount > 800 WITHIN 10 minutes RETURN a.ts AS at, b.amount * 2 AS twice"
    ),
    "whole": "PATTERN SEQ(fail a, pay b) WHERE a.place.city = b.place.city WITHIN 3 minutes",
    "closure": (
        "PATTERN SEQ(login a, fail+ b[], pay c) WHERE b[i].amount > b[i-1].amount WITHIN 2 minutes RETURN "
        "b[].amount AS amounts"
    ),
    "counted": "PATTERN SEQ(fail a, pay b) WITHIN 10 minutes AGGREGATE count(*) AS n EVERY 1 hour",
    "states": (
        "DEFINE H AS amount > 700, F AS kind = 'fail' PATTERN H before F; H meets F WITHIN 5 minutes RETURN "
        "H.start AS s, max(H.amount) AS most"
    ),
    "chosen": (
        "SELECT user, upper(concat('n', n)) AS name, top + 1 AS more FROM events "
        + ROW.format("count(*) AS n, LAST(B.amount) AS top")
    ),
    "upper": (
        "MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES date_format(A.ts, 'HH') AS h PATTERN (A B) "
        "DEFINE A AS upper(kind) = 'FAIL', B AS amount > 500)"
    ),
    "everyone": (
        "MATCH_RECOGNIZE (ORDER BY ts MEASURES A.user AS who, B.ts - A.ts AS gap PATTERN (A B) DEFINE A AS "
        "amount > 990, B AS amount < 300)"
    ),
    "never": "PATTERN SEQ(login a, refund b) WITHIN 10 minutes",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("rules") / "events.parquet"
    pq.write_table(EVENTS, place, row_group_size=500)
    return str(place)


def alone(spark: Any, path: str, name: str) -> Any:
    text = RULES[name]
    if text.startswith("SELECT"):
        return episode.sql(text, spark=spark, events=path)
    if text.startswith("MATCH"):
        return episode.match(path, text, spark=spark)
    given = {"time": "ts", "key": "user"} if text.startswith("DEFINE") else GIVEN
    return episode.match(path, text, spark=spark, **given)


def rows_of(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


def test_each_rule_as_alone(spark: Any, path: str) -> None:
    matches = episode.match_all(
        path, RULES, spark=spark, options=episode.Options(tuning=episode.Tuning(shards=5)), **GIVEN
    ).persist()
    found = {row.rule: row.n for row in matches.groupBy("rule").agg({"*": "count"}).toDF("rule", "n").collect()}
    for name in RULES:
        own, among = alone(spark, path, name), matches.of(name)
        assert among.schema == own.schema, name
        assert rows_of(among) == rows_of(own), name
        assert found.get(name, 0) == own.count()
    assert found.keys() == RULES.keys() - {"never"}
    matches.unpersist()


def test_the_result(spark: Any, path: str, tmp_path: Path) -> None:
    matches = episode.match_all(path, RULES, spark=spark, **GIVEN)
    assert matches.columns == ["rule", "user", "match_start", "match_end", "result"]
    types = [field.dataType.simpleString() for field in matches.frame.schema]
    assert types == ["string", "bigint", "timestamp", "timestamp", "variant"]
    matches.frame.write.parquet(str(tmp_path / "out"))
    stored = spark.read.parquet(str(tmp_path / "out"))
    shown = stored.selectExpr("rule", "user", "match_start", "match_end", "to_json(result) AS result").collect()
    by_rule: dict[str, list[Any]] = {}
    for row in shown:
        by_rule.setdefault(row.rule, []).append(row)
    for name in ("pay", "states"):
        for row in by_rule[name]:
            assert row.match_start <= row.match_end
            assert "match_start" in json.loads(row.result)
    own = {str(row.asDict()) for row in alone(spark, path, "rising").selectExpr("user", "n", "top").collect()}
    among = {
        str({"user": row.user, **{k: json.loads(row.result)[k] for k in ("n", "top")}}) for row in by_rule["rising"]
    }
    assert among == own
    assert all(row.user is None for row in by_rule["everyone"])
    one = stored.where("rule = 'rising'").selectExpr("result:place.city::string AS city").distinct().collect()
    assert {row.city for row in one} <= {"A", "B", "C"}


def test_explain(spark: Any, path: str) -> None:
    matches = episode.match_all(path, RULES, spark=spark, **GIVEN)
    text = matches.explain(analyze=True)
    assert "11 rules (5 row patterns, 5 event patterns, 1 situation pattern) over one input" in text
    assert "group 1: 10 rules by user, in order of ts; packed and sorted once" in text
    assert "(kind = 'fail'): 4 rules" in text
    assert "run: 8,000 events in 2 batches" in text
    assert [line.strip() for line in text.splitlines() if line.startswith("  rule ")] == [
        f"rule {name}:" for name in RULES
    ]


def test_errors(spark: Any, path: str) -> None:
    wrong = {
        **RULES,
        "no column": RULES["pay"].replace("b.amount >", "b.amuont >"),
        "text": "PATTERN SEQ(",
        "sql": "SELECT 1",
    }
    with pytest.raises(EpisodeRulesError) as raised:
        episode.match_all(path, wrong, spark=spark, **GIVEN)
    assert list(raised.value.errors) == ["text", "sql"]
    measured = {"good": RULES["pay"], "bad": RULES["rising"].replace("count(*)", "date_format(count(*), 'x', 'y')")}
    with pytest.raises(EpisodeRulesError, match="The measure n cannot be computed") as raised:
        episode.match_all(path, measured, spark=spark, **GIVEN).frame  # noqa: B018 - planned here
    assert list(raised.value.errors) == ["bad"]
    with pytest.raises(EpisodeAnalysisError, match="There is no rule payy"):
        episode.match_all(path, RULES, spark=spark, **GIVEN).of("payy")
    with pytest.raises(EpisodeRulesError, match="The rule reads events, and the events of the rules are trades"):
        episode.match_all(path, RULES, spark=spark, table="trades", **GIVEN)
    failing = {"pay": RULES["pay"], "stuck": ROW.format("count(*) AS n AFTER MATCH SKIP TO A")}
    with pytest.raises(EpisodeError, match="Rule stuck: ") as data:
        episode.match_all(path, failing, spark=spark, **GIVEN).collect()
    assert isinstance(data.value, EpisodeDataError)


def test_streams_need_a_log(spark: Any, path: str) -> None:
    stream = spark.readStream.schema(spark.read.parquet(path).schema).parquet(str(Path(path).parent))
    with pytest.raises(EpisodeError, match="Rules over a stream need a rule log"):
        episode.match_all(stream, RULES, spark=spark, **GIVEN)


def test_rules_of_different_times_and_parameters(spark: Any) -> None:
    table = EVENTS.append_column("number", pa.array(range(COUNT), pa.int64()))
    rules = {
        "by time": "MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES A.amount * :factor AS a PATTERN (A) "
        "DEFINE A AS amount > :least)",
        "by number": "MATCH_RECOGNIZE (PARTITION BY kind ORDER BY number MEASURES A.amount AS a PATTERN (A B) "
        "DEFINE B AS amount > 990)",
        "no order": "MATCH_RECOGNIZE (PARTITION BY kind MEASURES count(*) AS n PATTERN (A{5}) "
        "DEFINE A AS amount > 900)",
    }
    matches = episode.match_all(table, rules, {"least": 990, "factor": 2}, spark=spark)
    assert matches.columns == ["rule", "user", "kind", "match_start", "match_end", "result"]
    rows = matches.frame.selectExpr("*", "to_json(result) AS text").collect()
    assert {row.rule for row in rows} == {"by time", "by number"}
    assert all(isinstance(row.match_start, str) for row in rows)
    doubled = [json.loads(row.text)["a"] for row in rows if row.rule == "by time"]
    assert len(doubled) == 36
    assert min(doubled) > 2 * 990


def test_run_rules(spark: Any, path: str, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from episode.cli import app

    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "rising.sql").write_text(f"SELECT user, n FROM events {ROW.format('count(*) AS n')}")
    (folder / "pay.pattern").write_text(RULES["pay"])
    arguments = [
        "run-rules",
        str(folder),
        "--table",
        f"events={path}",
        "--time",
        "ts",
        "--key",
        "user",
        "--type-column",
        "kind",
    ]
    runner = CliRunner()
    out = tmp_path / "out"
    assert runner.invoke(app, [*arguments, "--output", str(out)]).exit_code == 0
    assert {row.rule for row in spark.read.parquet(str(out)).select("rule").distinct().collect()} == {"rising", "pay"}
    lines = runner.invoke(app, [*arguments, "--format", "json", "--rule", "pay"]).stdout.splitlines()
    assert set(json.loads(lines[0])) == {"at", "twice", "match_start", "match_end"}
    assert len(lines) == alone(spark, path, "pay").count()
    shown = runner.invoke(app, [*arguments, "--format", "csv", "--limit", "3"])
    assert shown.stdout.splitlines()[0] == "rule,user,match_start,match_end,result"
    assert "2 rules (1 event pattern, 1 row pattern)" in runner.invoke(app, [*arguments, "--explain"]).stdout
    (folder / "broken.pattern").write_text("PATTERN SEQ(")
    failed = runner.invoke(app, arguments)
    assert failed.exit_code == 2
    assert "Rule broken: " in failed.stderr


def test_results_as_json_where_spark_has_no_variant(spark: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episode.spark.batch.rules.has_variant", lambda frame: False)
    frame = episode.match_all(path, {name: RULES[name] for name in ("pay", "rising")}, spark=spark, **GIVEN).frame
    assert frame.schema["result"].dataType.simpleString() == "string"
    row = frame.where("rule = 'pay'").first()
    assert set(json.loads(row.result)) == {"at", "twice", "match_start", "match_end"}
