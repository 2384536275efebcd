"""The clause that is planned for Apache Spark, as far as its syntax is known, runs as it is written.

Known of it: PARTITION BY takes expressions with aliases; MEASURES `expr AS name` with count, sum, avg, min and max,
classifier() and match_number(); ONE ROW or ALL ROWS PER MATCH; SKIP PAST LAST ROW; patterns of variables, groups,
alternatives, PERMUTE, anchors and greedy quantifiers; a variable without DEFINE matches any row.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import episode

TICKS = pa.table(
    {
        "symbol": ["a"] * 6 + ["b"] * 4,
        "ts": [1, 2, 3, 11, 12, 13, 1, 2, 3, 4],
        "price": [9, 7, 8, 5, 4, 6, 3, 2, 1, 5],
    }
)
V = """
    SELECT * FROM ticks MATCH_RECOGNIZE (
      PARTITION BY symbol, ts DIV 10 AS bucket
      ORDER BY ts ASC NULLS FIRST
      MEASURES
        FIRST(strt.ts) AS begins, LAST(up.ts) AS ends, min(price) AS low, count(*) AS n, match_number() AS number
      ONE ROW PER MATCH
      AFTER MATCH SKIP PAST LAST ROW
      PATTERN (strt down+ up{1,})
      DEFINE down AS price < PREV(price), up AS price > PREV(price)
    ) AS v
"""


def found(text: str) -> list[tuple[Any, ...]]:
    result = episode.sql_local(text, ticks=TICKS)
    return [tuple(row.values()) for row in result.to_pylist()]


def test_a_v_shape() -> None:
    assert found(V) == [("a", 0, 1, 3, 7, 3, 1), ("a", 1, 11, 13, 4, 3, 1), ("b", 0, 1, 4, 1, 4, 1)]


def test_columns() -> None:
    names = ["symbol", "bucket", "begins", "ends", "low", "n", "number"]
    assert episode.sql_local(V, ticks=TICKS).column_names == names


def test_an_expression_without_an_alias_has_sparks_name() -> None:
    text = V.replace("ts DIV 10 AS bucket", "ts DIV 10, ts > 3")
    assert episode.sql_local(text, ticks=TICKS).column_names[:3] == ["symbol", "(ts div 10)", "(ts > 3)"]


def test_all_rows() -> None:
    text = """
        SELECT bucket, ts, step, price FROM ticks MATCH_RECOGNIZE (
          PARTITION BY symbol, ts DIV 10 AS bucket ORDER BY ts
          MEASURES classifier() AS step ALL ROWS PER MATCH
          PATTERN (a b) DEFINE b AS b.price < a.price AND a.symbol = 'a')
    """
    assert found(text) == [(0, 1, "A", 9), (0, 2, "B", 7), (1, 11, "A", 5), (1, 12, "B", 4)]


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("a b", 3), ("a b?", 7), ("a{2}", 4), ("a{2,}", 3), ("a{1,2}", 6), ("a{,2} b", 3), ("(a | b)+", 3),
        ("^ a b", 3), ("a b c $", 3), ("^ a b+ $", 0), ("PERMUTE(b, c)", 3), ("a (b c)*", 4), ("a ( )", 10),
    ],
)  # fmt: skip
def test_patterns(pattern: str, count: int) -> None:
    conditions = {"a": "price > 0", "b": "price < PREV(price)", "c": "price > PREV(price)"}
    defined = ", ".join(f"{name} AS {condition}" for name, condition in conditions.items() if name in pattern)
    text = f"""
        SELECT n FROM ticks MATCH_RECOGNIZE (
          PARTITION BY symbol, ts DIV 10 AS bucket ORDER BY ts MEASURES count(*) AS n
          PATTERN ({pattern}) DEFINE {defined})
    """
    assert len(found(text)) == count
