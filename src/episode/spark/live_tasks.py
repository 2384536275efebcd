"""Live tasks as one Spark job: a row for each task, whose stage does not end before the query does.

Nothing is shuffled, and nothing comes out but a beat now and then, which is dropped: so Spark sees that a worker lives,
and a worker that its executor is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from episode.live.protocol import TaskDescription
from episode.live.task import LiveTask
from episode.spark.errors import translate
from episode.spark.worker import prepare_worker

BEAT = 1.0
"""Seconds between two beats."""
_BEAT_BYTES = 1 << 16
"""A beat is larger than the buffer between a worker and Spark, and so it is sent at once."""
_STOPPED = ("SparkContext was shut down", "Cannot call methods on a stopped SparkContext", "session is closed")
_CANCELLED = "SPARK_JOB_CANCELLED"
_OF_PYTHON = "Traceback (most recent call last)"

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def run_tasks(spark: SparkSession, descriptions: Sequence[TaskDescription], tag: str) -> None:
    """Run the tasks of a query until all have ended; whatever ends one of them otherwise is raised."""
    _tag(spark, tag)
    try:
        count = len(descriptions)
        tasks = spark.range(0, count, 1, count).mapInArrow(_stage(tuple(descriptions)), "beat binary")
        tasks.write.format("noop").mode("overwrite").save()
    finally:
        _untag(spark, tag)


def _stage(descriptions: tuple[TaskDescription, ...]) -> Stage:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        beat = pa.RecordBatch.from_pydict({"beat": [b"\0" * _BEAT_BYTES]})
        for batch in batches:
            for number in batch.column(0).to_pylist():
                last = 0.0
                for _ in LiveTask(descriptions[number]).work():
                    if time.monotonic() - last >= BEAT:
                        last = time.monotonic()
                        yield beat

    return work


def slots(spark: SparkSession) -> int:
    """How many tasks can run at once, as far as the session knows."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except (PySparkException, AttributeError):  # a Connect session: ask by a query
        return int(spark.range(0, 1 << 16).select(F.spark_partition_id()).distinct().count())


# ---- cancelling --------------------------------------------------------------------------------------


def cancel_tasks(spark: SparkSession, tag: str) -> None:
    """End the tasks of a job, whatever they do."""
    try:
        spark.sparkContext.cancelJobsWithTag(tag)
    except (PySparkException, AttributeError):
        spark.interruptTag(tag)
    except Py4JError:
        return  # Spark is gone, and with it the job


def _tag(spark: SparkSession, tag: str) -> None:
    """Jobs of this thread can be cancelled by the tag. In a classic session, the session's own tags do not reach a job
    of `mapInArrow`; those of its context do."""
    try:
        spark.sparkContext.addJobTag(tag)
        spark.sparkContext.setInterruptOnCancel(True)
    except (PySparkException, AttributeError):
        spark.addTag(tag)


def _untag(spark: SparkSession, tag: str) -> None:
    try:
        spark.sparkContext.removeJobTag(tag)
    except (PySparkException, AttributeError):
        spark.removeTag(tag)
    except Py4JError:
        return


# ---- failures ----------------------------------------------------------------------------------------


def is_stopped(error: BaseException) -> bool:
    """Whether tasks ended because the session did."""
    return any(sign in str(error) for sign in _STOPPED)


def is_lost(error: BaseException) -> bool:
    """Whether tasks ended because a worker or an executor was lost, so that they may be run again."""
    text = str(error)
    if translate(error) is not None or _CANCELLED in text or is_stopped(error):
        return False
    return isinstance(error, (Py4JError, PySparkException)) and (
        "exited unexpectedly" in text or "ExecutorLost" in text or "xecutor heartbeat" in text or _OF_PYTHON not in text
    )
