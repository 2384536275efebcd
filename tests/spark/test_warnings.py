"""Warnings of queries over tables on Spark: rows in no order, classes that no event has."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import episode
from episode.matchers.spark_types import to_spark_types
from episode.spark.scan import sketch

pytestmark = pytest.mark.spark

EVENTS = pa.table({"ts": list(range(6)), "kind": list("ABCABC"), "v": list(range(6))})
ROWS = "SELECT * FROM t MATCH_RECOGNIZE ({} MEASURES count(*) AS n PATTERN (A+))"


def warned(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(one.message) for one in caught if issubclass(one.category, episode.EpisodeWarning)]


def test_rows_without_order(spark: SparkSession) -> None:
    frame = spark.range(3).withColumnRenamed("id", "ts")
    for table in (frame, EVENTS):
        unordered, ordered = (
            warned(partial(episode.sql, ROWS.format(order), t=table, spark=spark)) for order in ("", "ORDER BY ts")
        )
        assert [text.split(":")[0] for text in unordered] == ["MATCH_RECOGNIZE has no ORDER BY"]
        assert ordered == []
    assert warned(lambda: episode.sql_local(ROWS.format(""), t=EVENTS)) == []


@pytest.mark.parametrize("form", ["value", "path", "frame"])
def test_classes_that_no_event_has(spark: SparkSession, tmp_path: Path, form: str) -> None:
    path = str(tmp_path / "events.parquet")
    pq.write_table(to_spark_types(EVENTS), path, row_group_size=2)
    table = {"value": EVENTS, "path": path, "frame": spark.read.parquet(path)}[form]

    def run(pattern: str, **how: Any) -> list[str]:
        return warned(lambda: episode.match(table, f"PATTERN {pattern} WITHIN 9", time="ts", spark=spark, **how))

    assert run("A; B", type_column="kind") == []
    [text] = run("A; X", type_column="kind")
    assert text.startswith("No event is of the class X: no row has kind = 'X'. Values of kind:")
    assert ["Did you mean 'A'?" in text for text in run("a; B", type_column="kind")] == [True]
    assert run("A; !X; B", type_column="kind") == []
    assert ["type_column='kind'" in text for text in run("A; B")] == [True]
    assert run("A; B WHERE A.kind = 'A'") == []
    statement = "SELECT * FROM EVENTS (FROM t ORDER BY ts TYPE BY kind PATTERN A; x WITHIN 3) AS m"
    assert len(warned(lambda: episode.sql(statement, t=table, spark=spark))) == 1


def test_a_sample_of_many_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rare class is not reported."""
    path = str(tmp_path / "events.parquet")
    pq.write_table(to_spark_types(EVENTS), path, row_group_size=2)
    monkeypatch.setattr(sketch, "READ_WHOLE", 4)

    def run(pattern: str) -> list[str]:
        return warned(
            lambda: episode.match(path, f"PATTERN {pattern} WITHIN 9", time="ts", type_column="kind", spark=spark)
        )

    assert run("A; X") == []
    assert ["none of the rows that were looked at" in text for text in run("A; b")] == [True]


def test_what_spark_reads_is_not_looked_at(spark: SparkSession) -> None:
    """No job runs for a warning."""
    frame = spark.createDataFrame([(1, "A"), (2, "B")], "ts long, kind string")
    assert warned(lambda: episode.match(frame, "PATTERN A; X WITHIN 3", time="ts", type_column="kind")) == []
