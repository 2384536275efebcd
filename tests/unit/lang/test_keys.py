"""PARTITION BY of event and situation patterns takes expressions with names: as columns that Python computed."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeSyntaxError
from episode.lang.events.parser import parse_event_query

KEYS = {
    "ts DIV 50 AS one": lambda row: row["ts"] // 50,
    "n % 3 AS one": lambda row: row["n"] % 3,
    "(x * 7 + ts) % 3 AS one": lambda row: (row["x"] * 7 + row["ts"]) % 3,
    "CASE WHEN n > 60 THEN 1 ELSE 0 END AS one": lambda row: int(row["n"] > 60),
    "k AS one": lambda row: row["k"],
    "-(n % 2) AS one": lambda row: -(row["n"] % 2),
}
EVENTS = """
    FROM t PARTITION BY {keys} ORDER BY ts PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 9
    RETURN a.n AS first, b.n AS last
"""
TRENDS = "FROM t PARTITION BY {keys} ORDER BY ts PATTERN SEQ(A a, B+ b[]) WITHIN 9 AGGREGATE count(*) AS n"
SITUATIONS = """
    FROM t PARTITION BY {keys} ORDER BY ts DEFINE A AS x > 1, B AS x > 2 PATTERN A contains B WITHIN 100
    RETURN first(A.n) AS a, first(B.n) AS b
"""


@pytest.mark.parametrize("text", [EVENTS, TRENDS, SITUATIONS])
@pytest.mark.parametrize("key", KEYS)
def test_an_expression_is_a_column(text: str, key: str) -> None:
    rng = Random(key + text[:9])
    times = sorted(rng.sample(range(200), 120))
    rows = [{"n": n, "ts": ts, "x": rng.randint(0, 5), "k": rng.randint(0, 1)} for n, ts in enumerate(times)]
    plain = [{**row, "one": KEYS[key](row)} for row in rows]
    text = text.replace("\n", " ")
    expected = found(text.replace("{keys}", "one, k"), plain)
    assert found(text.replace("{keys}", f"{key}, k"), rows) == expected
    assert expected


def found(text: str, rows: list[dict[str, int]]) -> list[Any]:
    result = episode.sql_local(text, t=pa.Table.from_pylist(rows))
    return sorted(result.to_pylist(), key=repr)


@pytest.mark.parametrize(
    ("keys", "kind", "message"),
    [
        ("ts DIV 10", EpisodeSyntaxError, "needs a name"),
        ("ts DIV 10 AS x", EpisodeAnalysisError, "has a column x already"),
        ("max(ts) AS b", EpisodeSyntaxError, "MAX is not allowed in PARTITION BY"),
        ("ts + y AS b", EpisodeAnalysisError, "no column y"),
        ("(1 + 1) AS b", EpisodeAnalysisError, "is the same for all rows"),
        ("ts DIV AS b", EpisodeSyntaxError, "AS"),
    ],
)
def test_errors_have_a_place(keys: str, kind: type[EpisodeError], message: str) -> None:
    text = EVENTS.replace("{keys}", keys).replace("a.n", "a.x")
    with pytest.raises(kind, match=message):
        found(text, [{"ts": 1, "x": 1}])


def test_other_parts_follow() -> None:
    query = parse_event_query("FROM t PARTITION BY time + 1 AS b, k ORDER BY type TYPE BY kind PATTERN A; B WITHIN 1")
    own = query.input
    assert (own.partition_by, own.time, own.type_column) == (("b", "k"), "type", "kind")
    assert [(one.name, one.expression.plain_original) for one in own.expressions] == [("b", "time + 1")]
