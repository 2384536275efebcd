"""While the driver plans the first query of a session, a worker loads what it will need.

A Python worker that begins takes a second or more to load numba and the matchers, and the driver's first plan takes as
long: so both go on at the same time. Spark keeps the worker, and gives it the first task of the query: a query that is
planned earlier waits for it, rather than have a second worker load the same. This is done where workers are on this
machine; and whatever goes wrong here is the query's to report.

This module is loaded before everything else that a first query needs, and so it loads little itself.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from threading import Thread
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StructField, StructType

from episode.spark import classic

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE = 5.0
"""Seconds that a query, or a process which ends, waits for a worker that still loads."""

_warmed: WeakKeyDictionary[object, Thread | None] = WeakKeyDictionary()
"""Contexts whose workers have been asked to load, and who waits for that; None: a query has waited."""


def warm(spark: SparkSession) -> None:
    """Have a worker of a session load the matchers, once, beside everything else."""
    if not classic.is_local(spark) or spark.sparkContext in _warmed:
        return
    thread = Thread(target=_run, args=(spark,), daemon=True, name="episode-warming")
    _warmed[spark.sparkContext] = thread
    thread.start()
    atexit.register(thread.join, _PATIENCE)  # Spark complains of jobs that it is stopped under


def await_worker(spark: SparkSession) -> None:
    """Wait, once, until the worker that was asked to load has done so: an earlier task would begin another."""
    thread = _warmed.get(spark.sparkContext) if classic.is_local(spark) else None
    if thread is not None:
        _warmed[spark.sparkContext] = None
        thread.join(_PATIENCE)


def _run(spark: SparkSession) -> None:
    try:
        # Fewer of Spark's classes than an action of the public interface takes, for which the plan waits.
        loaded = spark.range(0, 1, 1, 1).mapInArrow(_load, StructType([StructField("loaded", BooleanType())]))
        loaded._jdf.queryExecution().toRdd().count()
    except (PySparkException, OSError, RuntimeError, *classic.NOT_KNOWN):
        pass


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from episode.matchers.loading import load

    for _ in batches:
        load()
    yield from ()
