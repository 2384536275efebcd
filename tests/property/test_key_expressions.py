"""Expressions in PARTITION BY and ORDER BY against the same query over columns that Python computed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

import episode

Row = tuple[int | None, int | None, int]
EXPRESSIONS: dict[str, Callable[[int, int], int | None]] = {
    "a + b": lambda a, b: a + b,
    "a * 2 - b": lambda a, b: 2 * a - b,
    "a DIV 3": lambda a, b: int(a / 3),
    "a % 2": lambda a, b: a % 2 if a >= 0 else -(-a % 2),
    "-a": lambda a, b: -a,
    "abs(b)": lambda a, b: abs(b),
    "a % (b - b)": lambda a, b: None,
    "CASE WHEN a > b THEN a ELSE b END": lambda a, b: max(a, b),
    "nullif(a, b)": lambda a, b: None if a == b else a,
}


def computed(expression: str, row: Row) -> int | None:
    """Null if an operand is null; nullif is its first operand then."""
    a, b, _ = row
    if expression.startswith("nullif") and b is None:
        return a
    used = [value for name, value in (("a", a), ("b", b)) if name in expression.replace("abs", "")]
    return None if None in used else EXPRESSIONS[expression](a or 0, b or 0)


@pytest.mark.parametrize("seed", range(40))
def test_an_expression_is_a_column(seed: int) -> None:
    rng = Random(seed)
    values = [None, *range(-4, 5)]
    rows: list[Row] = [(rng.choice(values), rng.choice(values), number) for number in range(rng.randint(1, 30))]
    key, order = rng.choice(sorted(EXPRESSIONS)), rng.choice(sorted(EXPRESSIONS))
    if "CASE" in key + order:  # a comparison with null is not true, and takes the other side
        rows = [row for row in rows if None not in row] or [(1, 2, 0)]
    direction = rng.choice(["", " DESC", " NULLS LAST"])
    columns = {name: [row[at] for row in rows] for at, name in enumerate("abn")}
    table = pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})
    plain = table.append_column("key1", pa.array([computed(key, row) for row in rows], pa.int64()))
    plain = plain.append_column("order1", pa.array([computed(order, row) for row in rows], pa.int64()))
    assert found_in(table, key, order, direction) == found_in(plain, "key1", "order1", direction)


def found_in(table: pa.Table, key: str, order: str, direction: str) -> list[dict]:
    query = f"""
        SELECT k, o, n, c FROM t MATCH_RECOGNIZE (
          PARTITION BY {key} AS k ORDER BY {order} AS o{direction}, n
          MEASURES count(*) AS c ALL ROWS PER MATCH PATTERN (A B*) DEFINE B AS n > PREV(n))
    """
    return sorted(episode.sql_local(query, t=table).to_pylist(), key=lambda row: row["n"])
