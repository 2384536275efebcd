"""Conditions over pairs that the join tests: the same pairs as when they are tested after it, and explained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import episode
from episode import Options, Tuning
from episode.lang.correlation.syntax import Correlation
from episode.lang.statement import parse_statement
from episode.matchers.correlation.matches import SideMatches, passing_pairs
from episode.matchers.running import run
from episode.plan.correlation.pairs import PairPlan, PairTest
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from episode.plan.options import RunOptions
from episode.plan.schema import InputSchema
from episode.plan.sections import lines_of
from episode.queries.language import Given, Input
from episode.queries.languages.correlation import Correlations, correlation_of

TYPES = {"symbol": "string", "ts": "bigint", "price": "double", "volume": "int", "at": "timestamp"}
STATEMENT = """
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.price AS first, LAST(B.price) AS low, A.volume AS sold, A.at AS began, MAX(B.volume) AS top
  AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A B+) DEFINE B AS B.price < PREV(B.price)
) AS l, ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.price AS first, LAST(B.price) AS high, A.volume AS bought, A.at AS rose
  AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH PATTERN (A B+) DEFINE B AS B.price > PREV(B.price)
) AS a
WHERE l.symbol = a.symbol AND RECENCY = 12
"""
INSIDE = [
    "a.high < l.low",
    "low <= high",
    "a.bought = l.sold",
    "(l.first > a.first)",
    "l.sold >= 2",
    "-1.5 < low",
    "bought <= l.first",
    "l.began > a.rose",
]
AFTER = [
    "a.high + 1 < l.low",
    "l.top > a.bought",  # an aggregate, whose type is not that of a column
    "l.sold > 1.5",  # an exact decimal for Spark
    "first < 3",  # of both
    "NOT a.high < l.low",
    "a.high <> l.low",
    "a.high < l.low OR l.low > 4",
    "l.symbol < a.symbol",
    "l.sold < 99999999999999999999",
    "match_start > 3",
]


def bound(conditions: str) -> PairPlan:
    statement = parse_statement(STATEMENT + conditions)
    query, _ = correlation_of(statement, statement.recencies[0])
    assert isinstance(query, Correlation)
    return Correlations().bind(query, Input(InputSchema(TYPES)), Given(), RunOptions())


@pytest.mark.parametrize("condition", INSIDE)
def test_tested_in_the_join(condition: str) -> None:
    lines = lines_of(Correlations().section(bound(f"AND {condition}")))
    assert f"  tested in the join: {condition}" in lines
    assert not any("after the join" in line for line in lines)


@pytest.mark.parametrize("condition", AFTER)
def test_tested_after_the_join(condition: str) -> None:
    written = f"({condition})" if " OR " in condition else condition
    lines = lines_of(Correlations().section(bound(f"AND {written}")))
    assert f"  tested after the join: {written}" in lines
    assert not any("in the join" in line for line in lines)


def test_both() -> None:
    lines = lines_of(Correlations().section(bound("AND a.high < l.low AND l.top > 3 AND l.sold >= 2")))
    assert "  tested in the join: a.high < l.low AND l.sold >= 2" in lines
    assert "  tested after the join: l.top > 3" in lines


def ticks(seed: int, count: int = 240) -> pa.Table:
    draw = np.random.default_rng(seed)
    price = draw.integers(0, 9, count).astype(float)
    volume = pa.array(draw.integers(0, 4, count), pa.int32(), mask=draw.random(count) < 0.1)
    at = pa.array(draw.integers(0, 50, count) * 1_000_000, pa.timestamp("us", tz="UTC"))
    return pa.table(
        {"symbol": [f"{one}" for one in draw.integers(0, 2, count)], "ts": np.arange(count), "price": price,
         "volume": volume, "at": at}
    )  # fmt: skip


def rows(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


@pytest.mark.parametrize("strategy", ["eager", "live first", "archive first"])
@pytest.mark.parametrize("condition", [*INSIDE, " AND ".join(INSIDE[:3])])
def test_pairs_are_those_of_a_condition_after_the_join(condition: str, strategy: str) -> None:
    table, options = ticks(1), Options(tuning=Tuning(correlation=strategy))
    after = episode.sql_local(STATEMENT + f"AND NOT (NOT ({condition}))", ticks=table, options=options)
    assert rows(episode.sql_local(STATEMENT + f"AND {condition}", ticks=table, options=options)) == rows(after)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("strategy", [None, *CorrelationStrategy])
@pytest.mark.parametrize("restore", [False, True])
def test_pieces_and_restarts(strategy: CorrelationStrategy | None, ordered: bool, restore: bool) -> None:
    table = ticks(2)
    planned = bound("AND a.high < l.low AND l.sold >= 1")
    planned = replace(planned, plan=CorrelationPlan(strategy, ordered=ordered))
    spec = Correlations().spec(planned, table.select(list(planned.input_columns)).schema)
    whole = run(replace(spec, tests=()), table)
    names = {name.lower(): f"{prefix}{column}" for prefix, name, column in columns_of(planned)}
    high, low, sold = (whole.column(names[name]).to_pylist() for name in ("high", "low", "sold"))
    passing = [h < l and s is not None and s >= 1 for h, l, s in zip(high, low, sold, strict=True)]
    wanted = whole.filter(pa.array(passing, pa.bool_()))
    assert 0 < wanted.num_rows < whole.num_rows
    pieces = [table.slice(begin, 23) for begin in range(0, table.num_rows, 23)]
    found = run(spec, pieces, restore=restore)
    assert rows(found) == rows(wanted)
    if ordered:
        one = found.filter(pa.compute.equal(found.column("__live_symbol"), "1"))
        times = list(zip(one.column("match_start").to_pylist(), one.column("match_end").to_pylist(), strict=True))
        assert times == sorted(times)


def columns_of(planned: PairPlan) -> list[tuple[str, str, str]]:
    sides = (("__live_", planned.live_side), ("__archive_", planned.archive_side))
    return [(prefix, name, column) for prefix, side in sides for name, (column, _) in side.pair_columns.values.items()]


def test_nan_is_left_to_what_follows() -> None:
    """For Spark it is equal to itself, and larger than all numbers."""
    values: dict[str, Any] = {"x": [float("nan"), float("nan"), 1.0]}
    zero = np.zeros(3, np.int64)
    live = SideMatches(pa.table(values), zero, zero, zero)
    archive = SideMatches(pa.table({"y": [float("nan"), 1.0, float("nan")]}), zero, zero, zero)
    pairs = np.arange(3), np.arange(3)
    for sign, passing in (("=", [0]), ("<", [0, 1, 2]), (">=", [0, 1, 2])):
        assert passing_pairs([comparing(sign)], live, archive, *pairs)[0].tolist() == passing


def comparing(sign: str) -> PairTest:
    return PairTest("__live_x", sign, "__archive_y", "")
