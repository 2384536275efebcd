"""Python workers of a session that episode makes: forked from a daemon that has everything loaded."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import py4j
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from episode.spark.startup import workers as warming

pytestmark = pytest.mark.spark


def test_a_worker_begins_with_episode_loaded(spark: SparkSession) -> None:
    def loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import sys

        for _ in batches:
            found = "episode.matchers.rows.matcher" in sys.modules
            yield pa.RecordBatch.from_pydict({"loaded": [found], "frozen": [gc.get_freeze_count()]})

    rows = spark.range(1).mapInArrow(loaded, "loaded boolean, frozen long").collect()
    assert [row.loaded for row in rows] == [True]
    assert rows[0].frozen > 50_000


def test_a_worker_that_is_asked_to_load_loads(spark: SparkSession) -> None:
    from episode.spark.startup.workers import _load

    assert spark.range(0, 1, 1, 1).mapInArrow(_load, "loaded boolean").collect() == []


def test_a_worker_has_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """And not that of the zip file, which has no bytecode."""

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import py4j
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__, py4j.__file__]})

    rows = spark.range(0, 1, 1, 1).mapInArrow(found, "file string").collect()
    assert [row.file for row in rows] == [pyspark.__file__, py4j.__file__]


def test_a_query_waits_for_the_worker_that_loads(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    monkeypatch.setattr(warming, "_warmed", WeakKeyDictionary())
    monkeypatch.setattr(warming, "_run", lambda session: done.append(session))
    warming.await_worker(spark)  # nothing was asked for
    warming.warm(spark)
    warming.warm(spark)
    warming.await_worker(spark)
    assert done == [spark]
