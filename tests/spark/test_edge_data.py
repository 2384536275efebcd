"""Data at the edges, on Spark: very many keys, one very large key, nothing, nulls, NaN, duplicates, empty partitions.

Everything runs over rows that pass through Spark and over Parquet that the workers read, with the same answer.
And names at the edges: which table one means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.reference.row_patterns import evaluate
from tests.support.flat_options import grouped

import episode
from episode.lang.statement import parse_statement

pytestmark = pytest.mark.spark

ROWS, PARQUET = "rows through Spark", "Parquet read directly"
BOTH = pytest.mark.parametrize("way", [ROWS, PARQUET])


class Source:
    """A table given in one way or the other."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def table(self, data: pa.Table, way: str, **layout: Any) -> Any:
        if way == ROWS:
            return self.spark.createDataFrame(data)
        path = self.folder / f"{len(list(self.folder.iterdir()))}.parquet"
        pq.write_table(data, path, **layout)
        return path

    def run(self, query: str, data: pa.Table, way: str, **options: int) -> list[dict[str, Any]]:
        """The rows of a query over `t`, after a look that the table is read in the way that is meant."""
        table = self.table(data, way)
        chosen = grouped(**options)
        assert f"scan: {way}" in episode.explain(query, spark=self.spark, t=table, options=chosen)
        return episode.sql(query, spark=self.spark, t=table, options=chosen).toArrow().to_pylist()


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path)


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as texts without order; NaN is itself, and the sign of a zero counts."""
    return sorted(repr(tuple(row.items())) for row in rows)


# ---- many keys, one large key ---------------------------------------------------------------------


@BOTH
def test_a_hundred_thousand_keys_of_one_row_each(source: Source, way: str) -> None:
    n = 100_000
    keys = np.random.default_rng(1).permutation(n)
    data = pa.table({"k": keys, "ts": pa.array(np.arange(n)), "v": pa.array(keys % 7, pa.int32())})
    query = """
    SELECT count(*) AS matches, count(DISTINCT k) AS keys, max(m) AS numbers, sum(v) AS total, count(p) AS neighbours
    FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts
      MEASURES MATCH_NUMBER() AS m, A.v AS v, coalesce(PREV(A.v), NEXT(A.v)) AS p
      PATTERN (^ A $)
    )"""
    total = int((keys % 7).sum())
    assert source.run(query, data, way) == [{"matches": n, "keys": n, "numbers": 1, "total": total, "neighbours": 0}]


@BOTH
def test_string_keys_of_one_row_each_find_no_pair(source: Source, way: str) -> None:
    n = 100_000
    data = pa.table({"k": [f"key {i}" for i in range(n)], "v": pa.array(np.arange(n))})
    pairs = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY v MEASURES B.v AS b PATTERN (A B))"
    assert source.run(pairs, data, way) == []
    unmatched = """
    SELECT count(*) AS n, count(m) AS matched FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY v MEASURES MATCH_NUMBER() AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B)
    )"""
    assert source.run(unmatched, data, way) == [{"n": n, "matched": 0}]


@BOTH
def test_loops_inside_loops_over_one_partition_of_200_000_rows(source: Source, way: str) -> None:
    """(A+)+ B without a B is linear: it ends without running into the step budget."""
    data = pa.table({"id": pa.array(np.arange(200_000)), "v": pa.array(np.ones(200_000, np.int32))})
    query = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES count(*) AS n PATTERN ((A+)+ B) DEFINE B AS v < 0)"
    assert source.run(query, data, way) == []


LOOPS = [
    "(A | B+)* C",
    "(A* B*)* C",
    "(A? B?){2,} C",
    "A+ B+ C",
    "A* B* A* B* C",
    "PERMUTE(A+, B+) C",
]


@BOTH
@pytest.mark.parametrize("pattern", LOOPS)
def test_other_loops_that_could_blow_up(source: Source, way: str, pattern: str) -> None:
    data = pa.table({"id": pa.array(np.arange(20_000)), "v": pa.array(np.ones(20_000, np.int32))})
    query = f"""
    SELECT * FROM t MATCH_RECOGNIZE (
      ORDER BY id MEASURES count(*) AS n PATTERN ({pattern}) DEFINE A AS v = 1, B AS v = PREV(v), C AS v < 0
    )"""
    assert source.run(query, data, way) == []


@BOTH
def test_one_match_of_200_000_rows(source: Source, way: str) -> None:
    n = 200_000
    data = pa.table({"id": pa.array(np.arange(n)), "v": pa.array(np.arange(n) == n - 1)})
    query = """
    SELECT * FROM t MATCH_RECOGNIZE (
      ORDER BY id MEASURES count(A.*) AS a, B.id AS b, sum(id) AS s PATTERN ((A+)+ B) DEFINE A AS NOT v, B AS v
    )"""
    assert source.run(query, data, way) == [{"a": n - 1, "b": n - 1, "s": n * (n - 1) // 2}]


@BOTH
@pytest.mark.parametrize("options", [{}, {"shards": 1}, {"shards": 64}, {"shard_bytes": 200_000}])
def test_one_large_key_among_many_small_ones(source: Source, way: str, options: dict[str, int]) -> None:
    """Whatever the shards: 100,000 rows of key 0, and three rows of each of 1,000 others, in falling pairs."""
    keys = np.concatenate([np.zeros(100_000, np.int64), np.repeat(np.arange(1, 1_001), 3)])
    data = pa.table({"k": keys, "id": pa.array(np.arange(len(keys))), "v": pa.array(-np.arange(len(keys)) % 3)})
    query = """
    SELECT k = 0 AS large, count(*) AS n, max(m) AS m FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY id MEASURES MATCH_NUMBER() AS m PATTERN (A B) DEFINE B AS v < PREV(v)
    ) GROUP BY k = 0"""
    # -id % 3 runs 0 2 1 0 2 1 …: in the large key every 2 1 is a pair; so are 1 0 pairs, but their 1 is taken.
    falls = 100_000 // 3
    small = expected_pairs(data)
    rows = source.run(query, data, way, **options)
    assert comparable(rows) == comparable(
        [{"large": True, "n": falls, "m": falls}, {"large": False, "n": small, "m": 1}]
    )


def expected_pairs(data: pa.Table) -> int:
    """Small keys with a fall among their three rows (one pair at most: three rows hold no two)."""
    values = data["v"].to_numpy()[100_000:].reshape(-1, 3)
    return int(((values[:, 1] < values[:, 0]) | (values[:, 2] < values[:, 1])).sum())


# ---- nothing --------------------------------------------------------------------------------------

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", tz="UTC")), ("v", pa.float64())])
EMPTY_CLAUSES = [
    "PARTITION BY k ORDER BY ts MEASURES count(*) AS n, array_agg(v) AS vs PATTERN (A*)",
    "ORDER BY ts ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B)",
    "ORDER BY ts MEASURES CLASSIFIER() AS c INCREMENTAL MATCH PATTERN (A B+) WITHIN 5 seconds DEFINE B AS v < PREV(v)",
]


@BOTH
@pytest.mark.parametrize("clause", EMPTY_CLAUSES)
def test_no_rows(source: Source, way: str, clause: str) -> None:
    table = source.table(SCHEMA.empty_table(), way)
    result = episode.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", spark=source.spark, t=table)
    assert result.toArrow().num_rows == 0


def test_a_folder_of_files_some_of_them_empty(source: Source) -> None:
    folder = source.folder / "parts"
    folder.mkdir()
    data = pa.table({"k": ["a", "b", "a"], "id": pa.array([1, 2, 3]), "v": pa.array([5, 6, 4])})
    pq.write_table(data.slice(0, 1), folder / "1.parquet")
    pq.write_table(data.schema.empty_table(), folder / "2.parquet")
    pq.write_table(data.slice(1), folder / "3.parquet", row_group_size=1)
    pq.write_table(data.schema.empty_table(), folder / "4.parquet")
    query = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES array_agg(id) AS ids PATTERN (A+))"
    rows = episode.sql(query, spark=source.spark, t=folder).toArrow().to_pylist()
    assert comparable(rows) == comparable([{"k": "a", "ids": [1, 3]}, {"k": "b", "ids": [2]}])


def test_empty_partitions_of_a_dataframe(source: Source) -> None:
    """Three rows over fifty Spark partitions; and partitions that a filter empties."""
    data = pa.table({"k": ["a", "b", "a"], "id": pa.array([1, 2, 3])})
    query = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES array_agg(id) AS ids PATTERN (A+))"
    frame = source.spark.createDataFrame(data)
    spread = episode.sql(query, spark=source.spark, t=frame.repartition(50)).toArrow().to_pylist()
    assert comparable(spread) == comparable([{"k": "a", "ids": [1, 3]}, {"k": "b", "ids": [2]}])
    filtered = episode.sql(query, spark=source.spark, t=frame.where("id = 2")).toArrow().to_pylist()
    assert filtered == [{"k": "b", "ids": [2]}]
    nothing = episode.sql(query, spark=source.spark, t=frame.where("id > 5")).toArrow()
    assert nothing.num_rows == 0


# ---- which table a name means ------------------------------------------------------------------------

FOUR = pa.table({"id": pa.array([1, 2, 3, 4]), "v": pa.array([10, 20, 30, 40])})
ALL = "MATCH_RECOGNIZE (ORDER BY id MEASURES array_agg(v) AS vs PATTERN (A+))"


def test_a_table_of_a_schema_is_not_the_keyword_table_of_its_name(source: Source) -> None:
    source.spark.createDataFrame(FOUR.slice(3)).createGlobalTempView("t")
    try:
        result = episode.sql(f"SELECT * FROM global_temp.t {ALL}", spark=source.spark, t=source.table(FOUR, ROWS))
        assert result.toArrow().to_pylist() == [{"vs": [40]}]
    finally:
        source.spark.catalog.dropGlobalTempView("t")


def test_columns_of_a_keyword_table_get_other_names(source: Source) -> None:
    query = f"SELECT * FROM t AS u(v, id) {ALL}"
    assert source.run(query, FOUR, ROWS) == [{"vs": [1, 2, 3, 4]}]


def test_a_sample_of_a_keyword_table(source: Source) -> None:
    query = f"SELECT * FROM t TABLESAMPLE (2 ROWS) AS u {ALL}"
    assert [len(row["vs"]) for row in source.run(query, FOUR, ROWS)] == [2]


@BOTH
def test_a_comment_at_the_end(source: Source, way: str) -> None:
    assert source.run(f"SELECT * FROM t AS u {ALL} -- all", FOUR, way) == [{"vs": [10, 20, 30, 40]}]


def test_an_inner_common_table_hides_and_reads_the_outer_one(source: Source) -> None:
    inner = f"WITH t AS (SELECT * FROM t WHERE v < 40) SELECT * FROM t {ALL}"
    query = f"WITH t AS (SELECT * FROM t WHERE v > 10) SELECT * FROM ({inner})"
    assert source.run(query, FOUR, ROWS) == [{"vs": [20, 30]}]


# ---- nulls, NaN, duplicates: both ways, and the oracle ----------------------------------------------


def edgy_table(seed: int, rows: int) -> pa.Table:
    """Few keys and few values, many of them null, NaN, zeros of both signs or empty; whole rows repeated."""
    random = np.random.default_rng(seed)

    def some(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([values[i] for i in random.integers(0, len(values), rows)], type_)

    table = pa.table(
        {
            "k": some(["a", "b", "", None], pa.string()),
            "j": some([0.0, -0.0, math.nan, None, 1.5], pa.float64()),
            "id": pa.array(random.integers(0, rows // 4, rows), pa.int64()),
            "v": some([1, 2, 3, None], pa.int32()),
            "d": some([0.0, -0.0, 1.0, math.inf, math.nan, None], pa.float64()),
            "s": some(["x", "y", "", None, "é"], pa.string()),
        }
    )
    return pa.concat_tables([table, table.slice(0, rows // 3)])


EDGY_QUERIES = {
    "lists of what each partition holds": """
      PARTITION BY k ORDER BY id
      MEASURES count(*) AS n, count(v) AS c, sum(v) AS total, array_agg(s) AS ss, max(d) AS top, min(s) AS low
      PATTERN (A+)""",
    "a double as key": """
      PARTITION BY j ORDER BY id, s DESC
      MEASURES count(*) AS n, array_agg(id) AS ids
      PATTERN (A{1,4})""",
    "order by doubles with nulls last": """
      PARTITION BY k ORDER BY d DESC NULLS LAST, v NULLS FIRST
      MEASURES MATCH_NUMBER() AS m, FIRST(id) AS f, LAST(d) AS l, array_agg(CLASSIFIER()) AS labels
      PATTERN ((A | B)+? C)
      DEFINE A AS d > 0.5, C AS v = 2 OR s IS NULL""",
    "comparisons with the row before": """
      ORDER BY id, k, j, s, v
      MEASURES MATCH_NUMBER() AS m, CLASSIFIER() AS label, PREV(s) AS before, FINAL count(*) AS n
      ALL ROWS PER MATCH WITH UNMATCHED ROWS
      PATTERN (A B* C?)
      DEFINE B AS d >= PREV(d), C AS s < PREV(s) AND v <=> LAST(A.v)""",
    "every start, within a window": """
      PARTITION BY k ORDER BY id
      MEASURES A.v AS a, sum(B.v) AS b, LAST(s) AS s1
      AFTER MATCH SKIP TO NEXT ROW
      PATTERN (A B+) WITHIN 3
      DEFINE A AS v IS NOT NULL, B AS d = d OR s <> A.s""",
}


def expected_rows(query: str, data: pa.Table) -> list[dict[str, Any]]:
    clause = parse_statement(query).patterns[0].clause
    return evaluate(clause, data.to_pylist(), columns=data.column_names)


def without_signs_of_zero_keys(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Both zeros are one key: which of them a partition shows is nobody's promise."""
    for row in rows:
        yield {**row, "j": row["j"] + 0.0} if row.get("j") is not None else row


@BOTH
@pytest.mark.parametrize("name", EDGY_QUERIES)
def test_nulls_nan_and_duplicates(source: Source, way: str, name: str) -> None:
    data = edgy_table(seed=len(name), rows=60)
    query = f"SELECT * FROM t MATCH_RECOGNIZE ({EDGY_QUERIES[name]})"
    found = without_signs_of_zero_keys(source.run(query, data, way))
    wanted = without_signs_of_zero_keys(expected_rows(query, data))
    assert comparable(list(found)) == comparable(list(wanted))


@pytest.mark.parametrize("options", [{}, {"shards": 3}, {"shard_bytes": 50_000}])
@pytest.mark.parametrize("name", EDGY_QUERIES)
def test_both_ways_agree_on_more_rows(source: Source, name: str, options: dict[str, int]) -> None:
    data = edgy_table(seed=5, rows=20_000)
    query = f"SELECT * FROM t MATCH_RECOGNIZE ({EDGY_QUERIES[name]})"
    rows, parquet = (
        list(without_signs_of_zero_keys(source.run(query, data, way, **options))) for way in (ROWS, PARQUET)
    )
    assert len(rows) > 0
    assert comparable(rows) == comparable(parquet)


@BOTH
def test_rows_that_are_all_the_same(source: Source, way: str) -> None:
    n = 5_000
    data = pa.table({"k": ["a"] * n, "id": pa.array([1] * n), "v": pa.array([7] * n)})
    query = """
    SELECT count(*) AS n, max(m) AS m, sum(s) AS s FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY id
      MEASURES MATCH_NUMBER() AS m, sum(v) AS s
      PATTERN (A B{4}) WITHIN 0
      DEFINE B AS v = PREV(v)
    )"""
    assert source.run(query, data, way) == [{"n": n // 5, "m": n // 5, "s": 7 * n}]


@BOTH
def test_columns_of_nothing_but_nulls(source: Source, way: str) -> None:
    n = 1_000
    data = pa.table(
        {
            "k": pa.array([None] * n, pa.string()),
            "id": pa.array([None] * n, pa.int64()),
            "v": pa.array([None] * n, pa.float64()),
        }
    )
    query = """
    SELECT * FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY id
      MEASURES count(*) AS n, count(v) AS c, max(v) AS m, LAST(v) AS l
      PATTERN (A+)
      DEFINE A AS v IS NULL
    )"""
    assert source.run(query, data, way) == [{"k": None, "n": n, "c": 0, "m": None, "l": None}]
