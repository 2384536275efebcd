"""The files of an archive in the eyes of plain Spark, and Spark's own files as the past of a correlation."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.stores import make_store

from episode.store.history import ParquetHistory

pytestmark = pytest.mark.spark

COLUMNS = "k STRING, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, i SMALLINT, x DOUBLE, p DECIMAL(8,2), a ARRAY<BIGINT>"
UTC = dt.timezone.utc


def row(number: int) -> dict[str, Any]:
    at = dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(hours=number)
    return {
        "k": None if number % 5 == 0 else f"k{number % 3}", "t": at, "n": at.replace(tzinfo=None), "d": at.date(),
        "i": number, "x": number / 4, "p": Decimal(number), "a": [number, None],
    }  # fmt: skip


def test_spark_reads_the_files_of_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    store = make_store(tmp_path, COLUMNS)
    rows = [row(number) for number in range(60)]
    for start in range(0, 60, 20):
        store.append(pa.Table.from_pylist(rows[start : start + 20], store.schema))
        store.archive()
    frame = spark.read.parquet(str(store.archived.directory))
    types = dict(frame.dtypes)
    assert {name: types[name] for name, _ in store.declaration.columns} == dict(store.declaration.columns)
    assert set(types) - set(store.schema.names) == {"day", "__episode_commit"}
    table = frame.select(*store.schema.names).orderBy("i").toArrow()
    assert table.cast(store.schema).to_pylist() == rows
    by_day = frame.groupBy("day").count().collect()
    assert {str(one.day): one["count"] for one in by_day} == {"2026-01-01": 24, "2026-01-02": 24, "2026-01-03": 12}


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_files_that_spark_wrote_are_the_past(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    setting = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(setting)
    spark.conf.set(setting, kind)
    try:
        frame = spark.range(1_000).selectExpr("id % 4 AS k", "timestamp_seconds(id) AS t", "id AS v")
        frame.repartition(3).sortWithinPartitions("t").write.parquet(str(tmp_path / "past"))
    finally:
        spark.conf.set(setting, before)
    schema = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", tz="UTC")), ("v", pa.int64())])
    history = ParquetHistory((str(tmp_path / "past"),), "t", ("k",), schema)
    found = history.read(pa.table({"k": [1]}), 100 * 10**6, 200 * 10**6, ["k", "t", "v"])
    assert found.schema == schema
    assert found.column("v").to_pylist() == [v for v in range(100, 201) if v % 4 == 1]
    assert history.earliest() == 0
