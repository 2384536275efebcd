"""The result of a rule in process and in a stream: the same columns, compiled once, as the same JSON."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeRulesError, EpisodeUnsupportedError
from episode.matchers.running import LocalRun
from episode.plan.options import RunOptions
from episode.queries.language import Given
from episode.queries.rules.planning import REMEDY, StreamPlanner
from tests.support.json_form import VALUES, lexical

CLAUSE = (
    "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES {measures} PATTERN (A) WITHIN 9 "
    "DEFINE A AS coalesce(size(list), 3) = 3)"
)
COMPUTED = {
    "half": ("CAST(A.whole AS DOUBLE) / 4611686018427387904", "1.0"),
    "fields": ("named_struct('n', A.small, 'at', A.moment)", '{"n":-3,"at":"2026-01-02T03:04:05.000006Z"}'),
    "first": ("try_element_at(A.list, 1)", "1.0"),
    "choice": ("CASE WHEN A.truth THEN A.text ELSE 'none' END", VALUES["text"][3]),
}


def events() -> pa.Table:
    """A row with a value in every column, and one with nulls."""
    values = {name: pa.array([value, None], kind) for name, (kind, _, value, _) in VALUES.items()}
    return pa.table({"k": [1, 1], "ts": [1, 2], **values})


def planner(utc: bool = True) -> StreamPlanner:
    return StreamPlanner(events().schema, "ts", ("k",), Given(), RunOptions(), utc=utc)


def in_a_stream(text: str) -> pa.Table:
    rule = pickle.loads(pickle.dumps(planner().check(text)[0]))
    running = LocalRun(rule.inner)
    found = running.matcher.feed(running.events(rule.derive(events())), 50)
    return pa.concat_tables([rule.finish(table) for table in found])


def rule(select: str = "") -> str:
    measures = {**{name: f"A.{name}" for name in VALUES}, **{name: sql for name, (sql, _) in COMPUTED.items()}}
    clause = CLAUSE.format(measures=", ".join(f"{sql} AS {name}" for name, sql in measures.items()))
    return f"SELECT {select} FROM events {clause}" if select else clause


def test_every_type_and_what_is_computed() -> None:
    texts = {name: text for name, (*_, text) in (*VALUES.items(), *COMPUTED.items())}
    nulls = {**dict.fromkeys(texts, "null"), "fields": '{"n":null,"at":null}', "choice": '"none"'}
    expected = [
        lexical("{" + ",".join(f'"{name}":{text}' for name, text in {"k": "1", **row}.items()) + "}")
        for row in (texts, nulls)
    ]
    found = episode.match_all_local(events(), {"r": rule()}).table
    assert [lexical(text) for text in found["result"].to_pylist()] == expected
    assert found.drop_columns(["rule"]).to_pylist() == in_a_stream(rule()).to_pylist()


@pytest.mark.parametrize("select", ["*", "three * 2 AS six, prices, list", "fields.n + 1, m.k"])
def test_around_a_pattern(select: str) -> None:
    text = rule(select) + " m"
    found = episode.match_all_local(events(), {"r": text}).table
    assert found.num_rows == 2
    assert found.drop_columns(["rule"]).to_pylist() == in_a_stream(text).to_pylist()


def test_fields_of_columns_in_the_text_for_spark() -> None:
    columns = dict(planner().bind("r", rule("fields.n + 1 AS n, m.fields.at AS at, k") + " m").columns({}))
    struct = columns["n"].removesuffix(".n + 1")
    assert struct.startswith("(named_struct(")
    assert columns == {"n": f"{struct}.n + 1", "at": f"{struct}.at", "k": "(`k`)"}


def test_a_feed_reads_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rule of a stream computes is compiled when it is planned."""
    planned = planner().check(rule("three + 1 AS four, k"))[0]
    assert planned.derives

    def read(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("episode.plan.output.read_expression", read)
    monkeypatch.setattr("episode.matchers.projection.ScalarCompiler", read)
    running = LocalRun(planned.inner)
    found = running.matcher.feed(running.events(planned.derive(events())), 50)
    results = [one for table in found for one in planned.finish(table)["result"].to_pylist()]
    assert results == ['{"four":4.0,"k":1}', '{"four":null,"k":1}']


@pytest.mark.parametrize("measures", ["initcap(A.text) AS t", "sha2(A.text, 256) AS t"])
def test_what_needs_spark(measures: str) -> None:
    text = CLAUSE.format(measures=measures)
    written = measures.removesuffix(" AS t")
    with pytest.raises(EpisodeUnsupportedError) as raised:
        planner().check(text)
    assert type(raised.value) is EpisodeUnsupportedError
    assert (raised.value.message, raised.value.hint) == (f"{written} needs Spark.", REMEDY)
    assert raised.value.position == text.index(written)
    with pytest.raises(EpisodeRulesError) as refused:
        episode.match_all_local(events(), {"r": text})
    alone = refused.value.errors["r"]
    assert (alone.message, alone.position) == (raised.value.message, raised.value.position)
    assert "episode.sql" in str(alone.hint)


def test_days_outside_utc_need_spark() -> None:
    text = CLAUSE.format(measures="A.moment + INTERVAL 1 DAY AS t")
    planner().check(text)
    with pytest.raises(EpisodeUnsupportedError, match="needs Spark") as raised:
        planner(utc=False).check(text)
    assert raised.value.hint == REMEDY
