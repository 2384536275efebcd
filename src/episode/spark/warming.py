"""While the driver plans the first query of a session, a worker loads what it will need.

A Python worker that begins takes a second or two to load numba and the matchers, and the driver's first plan takes as
long: so both go on at the same time. Spark keeps the worker, and gives it the first task of the query. This is done
where workers are on this machine; and whatever goes wrong here is the query's to report.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from threading import Thread
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from episode.spark import classic

_PATIENCE = 5.0
"""Seconds that a process which ends waits for a worker that still loads."""

_warmed: WeakSet[object] = WeakSet()
"""Contexts whose workers have been asked to load."""


def warm(spark: SparkSession) -> None:
    """Have a worker of a session load the matchers, once, beside everything else."""
    if not classic.is_local(spark) or spark.sparkContext in _warmed:
        return
    _warmed.add(spark.sparkContext)
    thread = Thread(target=_run, args=(spark,), daemon=True, name="episode-warming")
    thread.start()
    atexit.register(thread.join, _PATIENCE)  # Spark complains of jobs that it is stopped under


def _run(spark: SparkSession) -> None:
    try:
        spark.range(0, 1, 1, 1).mapInArrow(_load, "loaded boolean").write.format("noop").mode("overwrite").save()
    except (PySparkException, OSError, RuntimeError, *classic.NOT_KNOWN):
        pass


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from episode.matchers.loading import load

    for _ in batches:
        load()
    yield from ()
