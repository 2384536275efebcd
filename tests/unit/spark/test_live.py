"""After which failures the job of a live query is run again."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from episode.spark.live import is_lost, is_stopped

CRASHED = "Task 0 in stage 0.0 failed 1 times: Python worker exited unexpectedly (crashed)."
LOST = "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"
OURS = "Traceback (most recent call last):\n  …\nepisode.errors.EpisodeDataError: too many rows"
PYTHON = "Traceback (most recent call last):\n  …\nZeroDivisionError: division by zero"
STOPPED = "Job 0 cancelled because SparkContext was shut down"
CANCELLED = "[SPARK_JOB_CANCELLED] Job 0 cancelled part of cancelled job tags"


@pytest.mark.parametrize(
    ("message", "lost"),
    [(CRASHED, True), (LOST, True), (OURS, False), (PYTHON, False), (STOPPED, False), (CANCELLED, False)],
)
def test_what_is_run_again(message: str, lost: bool) -> None:
    assert is_lost(PySparkException(message)) == lost
    assert is_stopped(PySparkException(message)) == (message == STOPPED)


def test_other_errors_are_not() -> None:
    assert not is_lost(ValueError("something else"))
