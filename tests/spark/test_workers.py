"""Python workers of a session that episode makes: forked from a daemon that has everything loaded."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

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
    from episode.spark.warming import _load

    assert spark.range(0, 1, 1, 1).mapInArrow(_load, "loaded boolean").collect() == []
