"""Live tasks on Spark: one job whose stage runs as long as the query, and the handle of the query."""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from threading import Event, Lock, Thread
from typing import Any, Protocol
from weakref import WeakSet

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.live.checkpoint import lock_checkpoint, request_stop, withdraw_stop
from episode.live.progress import MetricsServer, progress_path, read_progress, sum_progress
from episode.live.protocol import TaskDescription
from episode.live.sinks import Delivery
from episode.live.task import LiveTask
from episode.spark.classic import parallelism
from episode.spark.errors import translate
from episode.spark.startup.workers import prepare_worker

# Live tasks are one Spark job: a row for each task, whose stage ends with the query. Nothing is shuffled. Tasks emit
# only heartbeats, which are dropped: so Spark sees that a worker lives, and a worker that its executor is gone.

HEARTBEAT_S = 1.0
"""Seconds between two heartbeats."""
_BEAT_BYTES = 1 << 16
"""A beat is larger than the buffer between a worker and Spark, and so it is sent at once."""
_STOPPED = ("SparkContext was shut down", "Cannot call methods on a stopped SparkContext", "session is closed")
_LOST = ("exited unexpectedly", "ExecutorLost", "xecutor heartbeat")
_CANCELLED = "SPARK_JOB_CANCELLED"
_OF_PYTHON = "Traceback (most recent call last)"

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def run_tasks(spark: SparkSession, descriptions: Sequence[TaskDescription], tag: str) -> None:
    """Run the tasks of a query until all have ended; whatever ends one of them otherwise is raised."""
    count = len(descriptions)
    with _tag(spark, tag):
        tasks = spark.range(0, count, 1, count).mapInArrow(_stage(tuple(descriptions)), "beat binary")
        tasks.write.format("noop").mode("overwrite").save()


def _stage(descriptions: tuple[TaskDescription, ...]) -> Stage:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        beat = pa.RecordBatch.from_pydict({"beat": [b"\0" * _BEAT_BYTES]})
        for batch in batches:
            for number in batch.column(0).to_pylist():
                last = 0.0
                for _ in LiveTask(descriptions[number]).work():
                    if time.monotonic() - last >= HEARTBEAT_S:
                        last = time.monotonic()
                        yield beat

    return work


def slots(spark: SparkSession) -> int:
    """Number of tasks that can run at once. A Connect session does not know it: then it is asked by a query."""
    return parallelism(spark) or spark.range(0, 1 << 16).select(F.spark_partition_id()).distinct().count()


# ---- cancelling --------------------------------------------------------------------------------------


def cancel_tasks(spark: SparkSession, tag: str) -> None:
    """End the tasks of a job, whatever they do."""
    try:
        spark.sparkContext.cancelJobsWithTag(tag)
    except (PySparkException, AttributeError):
        spark.interruptTag(tag)
    except Py4JError:
        return  # Spark is gone, and with it the job


@contextmanager
def _tag(spark: SparkSession, tag: str) -> Iterator[None]:
    """Jobs of this thread can be cancelled by the tag. In a classic session, the session's own tags do not reach a job
    of `mapInArrow`; those of its context do."""
    try:
        spark.sparkContext.addJobTag(tag)
        spark.sparkContext.setInterruptOnCancel(True)
        remove = spark.sparkContext.removeJobTag
    except (PySparkException, AttributeError):
        spark.addTag(tag)
        remove = spark.removeTag
    try:
        yield
    finally:
        with suppress(Py4JError, AttributeError):  # Spark is gone
            remove(tag)


# ---- failures ----------------------------------------------------------------------------------------


def is_stopped(error: BaseException) -> bool:
    """Whether tasks ended because the session did."""
    return any(sign in str(error) for sign in _STOPPED)


def is_lost(error: BaseException) -> bool:
    """Whether tasks ended because a worker or an executor was lost, so that they may be run again."""
    text = str(error)
    if translate(error) is not None or _CANCELLED in text or is_stopped(error):
        return False
    lost = any(sign in text for sign in _LOST) or _OF_PYTHON not in text
    return lost and isinstance(error, (Py4JError, PySparkException))


# A live query that runs: its handle, as Spark users know it from streaming queries.

LOGGER = logging.getLogger("episode.live")
RESTARTS, WITHIN = 3, 600.0
"""After a lost worker or executor the job is run again, at most RESTARTS times per WITHIN seconds."""
PATIENCE = 30.0
"""Seconds that tasks have to end after they are asked to; then they are cancelled."""
SAMPLED = 1.0
RECENT = 100
"""Seconds between two progresses that are kept, and how many are."""


class DrivenRules(Protocol):
    """Rules of a live query, at the driver. run: looks at them, and agrees with the tasks on changes, until the query
    has ended. table: every version of every rule, and what became of it."""

    def run(self, finished: Event) -> None: ...

    def table(self) -> pa.Table: ...


@dataclass(frozen=True)
class LiveRun:
    """Everything needed to start a live query.

    into: in words. numeric_time: whether event times are numbers. receiver: where the driver hands matches over.
    rules: where the query runs rules that change, what the driver does about them.
    """

    descriptions: Sequence[TaskDescription]
    name: str | None
    into: str
    numeric_time: bool
    receiver: Delivery | None = None
    metrics_port: int | None = None
    rules: DrivenRules | None = None

    @property
    def checkpoint(self) -> str:
        return self.descriptions[0].checkpoint


class LiveQuery:
    """A live query. It runs until `stop`, until its stream ends (`StreamOptions(end=…)`), or until an error."""

    def __init__(self, spark: SparkSession, run: LiveRun) -> None:
        self._spark = spark
        self._run = run
        self.id: str = run.descriptions[0].query
        self.runId: str = uuid.uuid4().hex
        self.name: str | None = run.name
        self.checkpoint: str = run.checkpoint
        self.into: str = run.into
        self.tasks: int = len(run.descriptions)
        self._tag = f"episode-live-{self.runId}"
        self._stopping = Event()
        self._ended = Event()
        self._error: Exception | None = None
        self._restarts: deque[float] = deque()
        self._restarted = 0
        self._recent: deque[dict[str, Any]] = deque(maxlen=RECENT)
        self._stop_lock = Lock()
        self._lock = lock_checkpoint(run.checkpoint)
        try:
            withdraw_stop(run.checkpoint)
            for number in range(self.tasks):
                with suppress(FileNotFoundError):
                    progress_path(run.checkpoint, number).unlink()
            port = run.metrics_port
            self._metrics = None if port is None else MetricsServer(port, self._current)
        except BaseException:
            self._lock.close()
            raise
        self._thread = Thread(target=self._work, name=f"episode {self.name or self.id}", daemon=True)
        _running.add(self)
        self._thread.start()

    # ---- as of Spark's streaming queries -------------------------------------------------------------

    @property
    def isActive(self) -> bool:
        return not self._ended.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """message, isDataAvailable, isTriggerActive: whether events wait, and whether the tasks run."""
        last = self.lastProgress
        message, waiting = self._message(last), _has_waiting(last)
        return {"message": message, "isDataAvailable": waiting, "isTriggerActive": self.isActive}

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """The progress of the query, by the last progress of its tasks; None before there is any."""
        if self.isActive:
            current = self._current()
            return current if current["tasks"] else None
        return self._recent[-1] if self._recent else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """The progress of the last minutes, one in each second."""
        return list(self._recent)

    @property
    def metricsPort(self) -> int | None:
        """The port of 127.0.0.1 at which Prometheus finds the figures, if asked for."""
        return None if self._metrics is None else self._metrics.port

    def rules(self) -> pa.Table:
        """For a query that runs rules: every version of every rule, with its fate."""
        if self._run.rules is None:
            raise EpisodeAnalysisError("This live query runs one pattern, and no rules.")
        return self._run.rules.table()

    def exception(self) -> Exception | None:
        """The error that ended the query, if there was one."""
        return self._error

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end of the query, at most `timeout` seconds; with a timeout, returns whether it has ended.
        Raises the error that has ended it."""
        ended = self._ended.wait(timeout)
        if ended and self._error is not None:
            raise self._error
        return None if timeout is None else ended

    def stop(self, timeout: float = PATIENCE) -> None:
        """End the query with a snapshot, and wait for that; tasks that do not end in time are cancelled.

        Started again with the same checkpoint it resumes from there.
        """
        with self._stop_lock:
            if not self.isActive:
                return
            self._stopping.set()
            request_stop(self.checkpoint)
            if not self._ended.wait(timeout):
                cancel_tasks(self._spark, self._tag)
                self._ended.wait(timeout)

    # ---- the job -------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Run the job, again after a lost worker, with threads that watch it and deliver matches."""
        finished = Event()
        helpers = [Thread(target=self._watch, args=(finished,), daemon=True)]
        for one in (self._run.receiver, self._run.rules):
            if one is not None:
                helpers.append(Thread(target=self._assist, args=(one, finished), daemon=True))
        for helper in helpers:
            helper.start()
        LOGGER.info("%s runs in %d tasks, from %s", self._words, len(self._run.descriptions), self.checkpoint)
        try:
            while self._attempt():
                pass
        finally:
            finished.set()
            for helper in helpers:
                helper.join()
            if self._metrics is not None:
                self._metrics.close()
            self._lock.close()
            LOGGER.info("%s has ended", self._words)
            self._ended.set()

    def _attempt(self) -> bool:
        """Run the job; whether to do so again."""
        try:
            run_tasks(self._spark, self._run.descriptions, self._tag)
        except Exception as error:  # noqa: BLE001  # shown by the handle
            if self._stopping.is_set():
                return False
            now = time.monotonic()
            while self._restarts and self._restarts[0] < now - WITHIN:
                self._restarts.popleft()
            if is_lost(error) and len(self._restarts) < RESTARTS:
                self._restarts.append(now)
                self._restarted += 1
                LOGGER.warning("%s lost a worker and is run again: %s", self._words, _in_short(error))
                return True
            self._fail(translate(error) or _explain(error, len(self._restarts)))
        return False

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
            LOGGER.error("%s has failed: %s", self._words, _in_short(error))

    def _assist(self, helper: Delivery | DrivenRules, finished: Event) -> None:
        """Deliver matches, or look at the rules, until the query has ended."""
        try:
            helper.run(finished)
        except Exception as error:  # noqa: BLE001  # of a function of the user; or tasks would wait for ever
            self._fail(error)
            self._stopping.set()
            request_stop(self.checkpoint)

    # ---- progress ------------------------------------------------------------------------------------

    def _watch(self, finished: Event) -> None:
        while True:
            last = finished.wait(SAMPLED)
            current = self._current()
            if current["tasks"]:
                self._recent.append(current)
            if last:
                return

    def _current(self) -> dict[str, Any]:
        said = read_progress(self.checkpoint, self.tasks)
        return {
            "id": self.id,
            "runId": self.runId,
            "name": self.name,
            "timestamp": datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "isActive": self.isActive,
            "restarts": self._restarted,
            "sink": {"description": self.into},
            **sum_progress(said, self._run.numeric_time),
        }

    def _message(self, last: dict[str, Any] | None) -> str:
        if not self.isActive:
            return "Stopped" if self._error is None else f"Failed: {str(self._error).splitlines()[0]}"
        if self._stopping.is_set():
            return "Stopping"
        said = 0 if last is None else len(last["tasks"])
        if said < self.tasks:
            return f"Starting: {said} of {self.tasks} tasks run"
        return "Matching" if _has_waiting(last) else "Waiting for events"

    @property
    def _words(self) -> str:
        """The name of the query in the log."""
        return f"The live query {self.name or self.id} into {self.into}"

    def __repr__(self) -> str:
        return f"<LiveQuery {self.name or self.id} into {self.into}: {self._message(self.lastProgress)}>"


def _has_waiting(progress: dict[str, Any] | None) -> bool:
    """Whether events wait."""
    return progress is not None and bool((progress["unread"] or 0) + progress["unprocessed"])


_running: WeakSet[LiveQuery] = WeakSet()


def running_queries() -> list[LiveQuery]:
    """The live queries of this process that have not ended."""
    return sorted((query for query in list(_running) if query.isActive), key=lambda query: query.name or query.id)


def running_tasks() -> int:
    """Number of slots that the live queries of this process use."""
    return sum(query.tasks for query in running_queries())


def _in_short(error: Exception) -> str:
    """The most telling line of an error: the one of the lost worker, else the first."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line for line in lines if "exited unexpectedly" in line or "ExecutorLost" in line), lines[0]).strip()


def _explain(error: Exception, restarts: int) -> Exception:
    """An error of Spark, or after too many lost workers."""
    hint = "If it is started again with the same checkpoint, it continues."
    if is_stopped(error):
        return EpisodeDataError("Spark was stopped while the live query ran.", hint=hint)
    if not is_lost(error):
        return error
    often = f"was restarted {restarts} times in {WITHIN / 60:.0f} minutes, and lost a worker again"
    hint = f"Have workers too little memory? {hint}"
    return EpisodeDataError(f"The live query {often}: {_in_short(error)}", hint=hint)
