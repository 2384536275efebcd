"""Tables that are given to a query: values as Spark will hold them, and what is refused before Spark is started."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import episode
from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.queries.tables import checked_table, checked_tables

COLUMNS: dict[str, list[Any]] = {"k": ["a", "b"], "ts": [datetime(2026, 1, 1), datetime(2026, 1, 2)], "v": [1, 2]}
HELD = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us")), ("v", pa.int64())])


@pytest.mark.parametrize(
    "value",
    [pa.table(COLUMNS), pa.RecordBatch.from_pydict(COLUMNS), pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS)],
    ids=lambda value: type(value).__module__,
)
def test_values_become_arrow_tables_in_types_of_spark(value: Any) -> None:
    found = checked_tables({"t": value})["t"]
    assert found.schema.remove_metadata() == HELD
    assert found.to_pylist() == pa.table(COLUMNS).to_pylist()


def test_types_that_spark_has_not() -> None:
    dictionary = pa.array(["x", "y"]).dictionary_encode()
    table = pa.table(
        {"d": dictionary, "u": pa.array([1, 2], pa.uint64()), "s": pa.array(["a", "b"], pa.large_string())}
    )
    assert checked_table("t", table).schema.types == [pa.string(), pa.decimal128(20, 0), pa.string()]
    with pytest.raises(EpisodeUnsupportedError, match=r"The column i of the table t is of type month_day_nano"):
        checked_table("t", pa.table({"i": pa.array([None], pa.month_day_nano_interval())}))
    with pytest.raises(EpisodeAnalysisError, match="has two columns named a"):
        checked_table("t", pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_nanoseconds_are_kept_or_refused() -> None:
    """pandas has nanoseconds in the type of every timestamp, and mostly none in the values."""
    zoned = pd.DataFrame({"ts": pd.to_datetime(["2026-01-01 00:00:00.000001"]).tz_localize("Europe/Berlin")})
    moment = datetime(2025, 12, 31, 23, 0, 0, 1, timezone.utc)
    assert checked_table("t", zoned)["ts"].to_pylist() == [moment]
    finer = pd.DataFrame({"ts": pd.to_datetime(["2026-01-01 00:00:00.000000001"])})
    with pytest.raises(EpisodeAnalysisError, match="The column ts of the table t has parts of a microsecond") as raised:
        checked_table("t", finer)
    assert raised.value.hint is not None
    assert "dt.floor('us')" in raised.value.hint
    assert checked_table("t", finer.assign(ts=finer.ts.dt.floor("us"))).num_rows == 1
    assert checked_table("t", finer.assign(ts=finer.ts.astype("int64")))["ts"].to_pylist() == [1767225600000000001]


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ([{"a": 1}], "is a list", "pyarrow.Table.from_pylist(rows)"),
        ({"a": [1]}, "is a dict", "pyarrow.table(columns)"),
        (pl.LazyFrame({"a": [1]}), "is a polars LazyFrame", "frame.collect()"),
        (5, "is a int", "a pandas or Polars frame"),
        (None, "is a NoneType", "a pandas or Polars frame"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_what_is_no_table(value: Any, message: str, hint: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=f"The table t {message}") as raised:
        checked_tables({"t": value})
    assert raised.value.hint is not None
    assert hint in raised.value.hint


def test_values_that_arrow_cannot_read() -> None:
    mixed = pd.DataFrame({"a": [1, "x"]})
    with pytest.raises(EpisodeAnalysisError, match="The table t cannot be read as an Arrow table"):
        checked_table("t", mixed)


def test_paths_are_looked_at_before_spark_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "notes.txt"
    text.write_text("a,b\n1,2\n")
    (tmp_path / "empty").mkdir()
    for table, message in (
        ("missing.csv", "The table t should be at missing.csv, but there is nothing"),
        (tmp_path / "missing", "but there is nothing"),
        (text, "but notes.txt is not a Parquet file"),
        (tmp_path / "empty", "but there are no files"),
        ("", "which is not a path"),
    ):
        with pytest.raises(EpisodeAnalysisError, match=message):
            episode.sql("SELECT * FROM t", t=table)
    with pytest.raises(EpisodeAnalysisError, match="but there is nothing"):
        episode.match("missing/events.parquet", "PATTERN A; B", time="ts")
    pq.write_table(pa.table(COLUMNS), "t.parquet")
    assert checked_table("t", "t.parquet") == str(tmp_path / "t.parquet")
    assert checked_table("t", "s3a://bucket/t.parquet") == "s3a://bucket/t.parquet"
    assert checked_table("t", "Trades") == "Trades"  # a stream, perhaps


def test_nanoseconds_in_parquet_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "day=1" / "part.parquet"
    path.parent.mkdir()
    pd.DataFrame({"ts": pd.to_datetime(["2026-01-01"])}).to_parquet(path)
    with pytest.raises(EpisodeAnalysisError, match="The column ts of the table t has nanoseconds in its Parquet file"):
        checked_table("t", tmp_path)
    pd.DataFrame({"ts": pd.to_datetime(["2026-01-01"])}).to_parquet(path, coerce_timestamps="us")
    assert checked_table("t", tmp_path) == str(tmp_path)
    (tmp_path / "_delta_log").mkdir()
    path.unlink()
    assert checked_table("t", tmp_path) == str(tmp_path)
