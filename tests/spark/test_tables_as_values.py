"""Tables given to a query as values of other libraries, and as paths of CSV and JSON files."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from pyspark.sql import SparkSession

import episode
from episode import EpisodeAnalysisError
from episode.spark import tables as values

pytestmark = pytest.mark.spark

BEGIN = datetime(2026, 1, 1)
COLUMNS: dict[str, list[Any]] = {
    "k": ["a", "a", "a", "b", "b"],
    "ts": [BEGIN + timedelta(minutes=minute) for minute in range(5)],
    "v": [3, 2, 5, 4, 6],
}
RISES = """
    SELECT k, low, high FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS low, B.v AS high
    PATTERN (A B) DEFINE B AS B.v > A.v AND B.ts - A.ts <= INTERVAL 1 MINUTE)
"""
FOUND = [("a", 2, 5), ("b", 4, 6)]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.parametrize("library", [pa.table, pa.RecordBatch.from_pydict, pd.DataFrame, pl.DataFrame])
def test_values(spark: SparkSession, library: Any) -> None:
    table = library(COLUMNS)
    assert rows(episode.sql(RISES, spark=spark, t=table)) == FOUND
    found = episode.match(table, "PATTERN A; B WHERE A.v = 2 AND B.v > 4 RETURN A.k, B.v", time="ts")
    assert rows(found.select("k", "v")) == [("a", 5), ("a", 6)]
    types = dict(episode.sql("SELECT * FROM t", spark=spark, t=table).dtypes)
    assert types == {"k": "string", "ts": "timestamp_ntz", "v": "bigint"}


def test_instants_keep_their_moment(spark: SparkSession) -> None:
    table = pd.DataFrame(COLUMNS).assign(ts=lambda frame: frame.ts.dt.tz_localize("Asia/Tokyo"))
    found = episode.sql("SELECT unix_micros(min(ts)) AS t, any_value(typeof(ts)) AS type FROM t", spark=spark, t=table)
    assert rows(found) == [(int(table.ts.min().value // 1000), "timestamp")]


def test_values_by_patterns_and_plans(spark: SparkSession) -> None:
    table = pa.table(COLUMNS)
    pattern = "PATTERN A; B WHERE A.v = 2 AND B.v = 5 WITHIN 5 minutes RETURN A.v AS low"
    assert rows(episode.query(pattern, episode.Events(table, time="ts")).run().select("low")) == [(2,)]
    classes = {"A": table.slice(0, 3), "B": pl.DataFrame(COLUMNS)}
    text = "PATTERN A; B WHERE A.v = 2 AND B.v = 5 RETURN A.v AS low, B.v AS high"
    assert rows(episode.match(text, time="ts", tables=classes).select("low", "high")) == [(2, 5)]


def test_files_for_values_have_a_limit(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one machine values are scanned as files; beyond a limit, and with nested columns, they go through Spark."""
    table = pa.table(COLUMNS)
    assert "scan: Parquet read directly" in episode.explain(RISES, spark=spark, t=table)
    nested = table.append_column("tags", pa.array([[1], [2], None, [], [3]]))
    assert "scan: rows through Spark" in episode.explain(f"{RISES.replace('B.v AS high', 'B.tags AS high')}", t=nested)
    monkeypatch.setattr(values, "MOST_BYTES", 1)
    assert "scan: rows through Spark" in episode.explain(RISES, spark=spark, t=table)
    assert rows(episode.sql(RISES, spark=spark, t=table)) == FOUND
    tagged = episode.sql(f"{RISES.replace('B.v AS high', 'B.tags AS high')}", spark=spark, t=nested)
    assert rows(tagged) == [("a", 2, None), ("b", 4, [3])]


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "directory"])
def test_files_by_their_suffix(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table = pa.table(COLUMNS)
    lines = "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist())
    if name == "t.csv":
        pyarrow.csv.write_csv(table, path)
    elif name == "t.jsonl":
        path.write_text(lines)
    else:
        path.mkdir()
        (path / "part.json").write_text(lines)
    assert rows(episode.sql(RISES, spark=spark, t=path)) == FOUND


def test_json_that_has_no_lines_of_objects(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"a": 1}, {"a": 2}], indent=2))
    with pytest.raises(EpisodeAnalysisError, match="it has lines that are not JSON objects"):
        episode.sql("SELECT * FROM t", spark=spark, t=path)


def test_any_name_of_a_table_and_of_columns(spark: SparkSession) -> None:
    columns = ["the key", "the time", "the value"]
    table = pa.table(COLUMNS).rename_columns(columns)
    text = """
        SELECT * FROM `a.b {0}` MATCH_RECOGNIZE (PARTITION BY `the key` ORDER BY `the time`
        MEASURES A.`the value` AS `a low`, B.`the value` AS high
        PATTERN (A B) DEFINE B AS B.`the value` > A.`the value`)
    """
    found = episode.sql(text, spark=spark, tables={"a.b {0}": table})
    assert found.columns == ["the key", "a low", "high"]
    assert rows(found) == FOUND
    assert rows(
        episode.sql(
            "SELECT count(*) FROM text JOIN spark USING (k)",
            spark=spark,
            tables={"spark": pa.table({"k": ["b"]}), "text": pa.table(COLUMNS)},
        )
    ) == [(2,)]
    typed = episode.match(
        table,
        "PATTERN a; b WHERE a.`the value` = 5 AND b.`the value` = 6 RETURN b.`the key` AS k",
        time="the time",
        type_column="the key",
    )
    assert rows(typed.select("k")) == [("b",)]
