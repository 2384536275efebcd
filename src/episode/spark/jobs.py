"""Spark's jobs of one piece of work: begun under a name, watched and cancelled by it, and their first rows fetched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import CalendarIntervalType, NullType, VariantType, YearMonthIntervalType

from episode.errors import EpisodeUnsupportedError
from episode.plan.schema import quote

_AS_TEXT = (CalendarIntervalType, YearMonthIntervalType, VariantType, NullType)
"""Types whose values are brought to Python as text."""


@dataclass(frozen=True)
class TaskCount:
    """The tasks of jobs: those that are done, those at work, and all that are known so far."""

    done: int = 0
    active: int = 0
    total: int = 0
    stages: int = 0


def check_classic(spark: SparkSession, what: str) -> None:
    """An error where jobs cannot be watched."""
    if not hasattr(spark, "_jsparkSession"):
        raise EpisodeUnsupportedError(
            f"{what} cannot watch and cancel the jobs of a Spark Connect session.",
            hint="Give a classic session, or a master such as local[4], spark://HOST:PORT or yarn.",
        )


@contextmanager
def job_group(spark: SparkSession, name: str, description: str) -> Iterator[None]:
    """The jobs of this thread are of a group."""
    context = spark.sparkContext
    context.setJobGroup(name, description, interruptOnCancel=True)
    try:
        yield
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, None)


def cancel_group(spark: SparkSession, name: str) -> None:
    """Cancel the jobs of a group, if Spark still runs."""
    try:
        spark.sparkContext.cancelJobGroup(name)
    except (Py4JError, AttributeError):
        return


def count_tasks(spark: SparkSession, group: str) -> TaskCount:
    """The tasks of all jobs of a group, as far as Spark remembers them."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [job for job in map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)) if job is not None]
    stages = {stage for job in jobs for stage in job.stageIds}
    infos = [info for info in map(tracker.getStageInfo, sorted(stages)) if info is not None]
    return TaskCount(
        done=sum(info.numCompletedTasks for info in infos),
        active=sum(info.numActiveTasks for info in infos),
        total=sum(info.numTasks for info in infos),
        stages=len(infos),
    )


def first_rows(frame: DataFrame, most: int) -> pa.Table:
    """The first rows of a result as an Arrow table; values that Python has no type for are text."""
    columns = [
        F.col(quote(field.name)).cast("string").alias(field.name)
        if isinstance(field.dataType, _AS_TEXT)
        else F.col(quote(field.name))
        for field in frame.schema.fields
    ]
    plain = any(isinstance(field.dataType, _AS_TEXT) for field in frame.schema.fields)
    return (frame.select(*columns) if plain else frame).limit(most).toArrow()


def last_rows(spark: SparkSession, table: str, most: int) -> pa.Table:
    """The last rows of a table in memory, by its name."""
    rows = spark.table(quote(table))
    return pa.Table.from_pylist([row.asDict(recursive=True) for row in rows.tail(most)])
