"""Python workers of Spark: their settings, and loading what the first query of a session needs while it is planned."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StructField, StructType

from episode.spark import classic

if TYPE_CHECKING:
    import pyarrow as pa


# The settings of the Python worker processes that run episode's stages.

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 256 * 2**20
_LOADING_TASKS = 3
_state = {"tasks": 0}


def prepare_worker() -> None:
    """Set up a worker process, at the start of a task."""
    _state["tasks"] += 1
    if _state["tasks"] == 1 and sys.platform.startswith("linux"):
        _keep_memory()
    if _state["tasks"] <= _LOADING_TASKS:
        # Spark's worker collects garbage after every task. What is loaded by now stays: without this the collector
        # goes through all of that each time.
        gc.freeze()


def _keep_memory() -> None:
    """Let the C library keep freed memory for the next batch.

    By default every array of some megabytes is mapped anew and returned, and the kernel clears its pages each time: a
    third of a stage's time. Only glibc has these settings; elsewhere nothing happens.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_MMAP_THRESHOLD, _KEEP_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _KEEP_BYTES)
    except (OSError, AttributeError):
        pass


def spill_directory() -> str | None:
    """The directory that Spark sets for temporary files of its executors; None: the system's."""
    places = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((place for place in places if place and os.path.isdir(place)), None)


# While the driver plans the first query of a session, a worker loads the modules it will need.
#
# A new Python worker takes a second to load pyarrow and the matchers, and the driver's first plan takes as long: so
# both happen at the same time. Spark keeps the worker, and gives it the first task of the query: a query that is
# planned earlier waits for it, so that a second worker does not load the same. This is done if workers are on this
# machine; errors are left for the query to report.
#
# This module is loaded before everything else that a first query needs, so it imports little.

_FAILURES = (PySparkException, OSError, RuntimeError, *classic.NOT_KNOWN)
_PATIENCE = 5.0
"""Seconds that a query waits for a worker that still loads."""

_GRACE = 1.0
"""Seconds that a session or a process which ends waits for it, before the job is cancelled."""

_GROUP = "episode-warming"
"""The group of the job, by which it is cancelled."""

_warmed: WeakKeyDictionary[SparkContext, Thread | None] = WeakKeyDictionary()
"""Contexts whose workers were asked to load, with the waiting thread; None: a query has waited."""


def warm(spark: SparkSession) -> None:
    """Have a worker of a session load the matchers, once, in the background."""
    if not classic.is_local(spark) or spark.sparkContext in _warmed:
        return
    context = spark.sparkContext
    thread = Thread(target=_run, args=(spark,), daemon=True, name="episode-warming")
    _warmed[context] = thread
    stop = context.stop

    def stop_quietly() -> None:
        _end(context, thread)
        stop()

    context.stop = stop_quietly
    atexit.register(_end, context, thread)
    thread.start()


def await_worker(spark: SparkSession) -> None:
    """Wait, once, until the worker that was asked to load has done so: an earlier task would begin another."""
    thread = _warmed.get(spark.sparkContext) if classic.is_local(spark) else None
    if thread is not None:
        _warmed[spark.sparkContext] = None
        thread.join(_PATIENCE)


def _end(context: SparkContext, thread: Thread) -> None:
    """Have the job end before Spark does, which would report it as failed."""
    thread.join(_GRACE)
    deadline = monotonic() + _PATIENCE
    while thread.is_alive() and monotonic() < deadline:
        with suppress(*_FAILURES):
            jobs = context.statusTracker()
            if set(jobs.getJobIdsForGroup(_GROUP)).intersection(jobs.getActiveJobsIds()):
                context.cancelJobGroup(_GROUP)
        thread.join(0.1)  # the job may begin only now


def _run(spark: SparkSession) -> None:
    with suppress(*_FAILURES):
        spark.sparkContext.setJobGroup(_GROUP, "episode: a Python worker loads what queries need")
        # Fewer of Spark's classes than an action of the public interface takes, for which the plan waits.
        loaded = spark.range(0, 1, 1, 1).mapInArrow(_load, StructType([StructField("loaded", BooleanType())]))
        loaded._jdf.queryExecution().toRdd().count()


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from episode.matchers.engines import load

    for _ in batches:
        load()
    yield from ()
