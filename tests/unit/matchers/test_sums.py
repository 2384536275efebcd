"""Sums follow one rule in all languages: exact, in Spark's types, null where the total does not fit. Never wrapped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from episode.matchers.running import run
from tests.reference.event_patterns import Event
from tests.support import events, rows, situations

MOST = 2**63 - 1
TYPES = {"k": "int", "ts": "bigint", "v": "bigint"}
SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.int64())])


def matched(clause: str, values: list[int], types: dict[str, str] = TYPES, schema: pa.Schema = SCHEMA) -> list[Any]:
    """What a row pattern over rows of one key gives, a row per match."""
    table = [{"k": 1, "ts": ts, "v": value} for ts, value in enumerate(values)]
    spec = rows.spec_of(clause, types, schema)
    return [tuple(row.values()) for row in rows.finished(spec, rows.run_whole(spec, table))]


@pytest.mark.parametrize("values", [[MOST, 1], [-MOST, -2], [6 * 10**18] * 3])
def test_integers_that_overflow_in_measures(values: list[int]) -> None:
    clause = "ORDER BY ts MEASURES sum(v) AS total, avg(v) AS mean PATTERN (A+)"
    ((total, mean),) = matched(clause, values)
    assert total is None
    assert mean == sum(map(float, values)) / len(values)


def test_a_running_sum_comes_back_from_beyond_bigint() -> None:
    clause = "ORDER BY ts MEASURES RUNNING sum(v) AS total ALL ROWS PER MATCH PATTERN (A+)"
    found = matched(clause, [MOST, 1, -5])
    assert [row[1] for row in found] == [MOST, None, MOST - 4]


def test_one_key_that_overflows_does_not_stop_others() -> None:
    clause = "PARTITION BY k ORDER BY ts MEASURES sum(v) AS total PATTERN (A+)"
    spec = rows.spec_of(clause, TYPES, SCHEMA)
    table = [{"k": k, "ts": ts, "v": v} for k, values in ((1, [MOST, 1]), (2, [1, 2])) for ts, v in enumerate(values)]
    assert [row["total"] for row in rows.finished(spec, rows.run_whole(spec, table))] == [None, 3]


def test_integers_that_overflow_in_define() -> None:
    clause = "ORDER BY ts MEASURES count(*) AS n PATTERN (A+) DEFINE A AS sum(A.v) {}"
    assert matched(clause.format("> 0"), [MOST, 1, 2]) == [(1,), (2,)]
    assert matched(clause.format("< 0"), [MOST, 1, 2]) == []
    assert matched(clause.format("IS NULL OR A.v > 0"), [MOST, 1, 2]) == [(3,)]


@pytest.mark.parametrize("strategy", ["skip-till-any-match", "skip-till-next-match"])
@pytest.mark.parametrize("condition", ["sum(b[].x) < 0", "sum(b[..i].x) < 0"])
def test_closures_do_not_wrap(strategy: str, condition: str) -> None:
    spec = events.spec_of(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {strategy} AND {condition} WITHIN 100")
    values = {"k": 1, "y": 0, "s": "a"}
    given = [("A", 0), ("B", MOST), ("B", 1), ("C", 0)]
    found = events.run_whole(
        spec, [Event(at, at, at, {"type": type_, "x": x, **values}) for at, (type_, x) in enumerate(given)]
    )
    assert found == []


def test_situations_that_overflow() -> None:
    text = "FROM s DEFINE A AS a, B AS b PATTERN A meets B WITHIN 100 RETURN sum(A.n) AS total, avg(A.n) AS mean"
    spec = situations.spec_of(text)
    given = [(True, False, MOST), (True, False, 1), (False, True, 0), (False, False, 0)]
    table = pa.Table.from_pylist(
        [
            {"k": "x", "t": t, "a": a, "b": b, "c": False, "d": False, "x": 0.0, "n": n, "s": "s"}
            for t, (a, b, n) in enumerate(given)
        ],
        schema=situations.SCHEMA,
    )
    ((total, mean, *_),) = situations.rows_of(spec, run(spec, [table]))
    assert (total, mean) == (None, 2.0**62)
