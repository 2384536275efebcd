"""Ctrl-C while a query runs: Spark's jobs are cancelled, and the command ends.

The query runs in a thread of its own, while the main thread waits for an interrupt: so the interrupt never breaks off a
conversation with Spark, which would leave stack traces on the screen and jobs behind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")

PERIOD = 0.05
"""Seconds between two looks at the thread: signals are handled in between."""
PATIENCE = 10.0
"""Seconds that Spark has to cancel its jobs."""


def interruptible(work: Callable[[], Result], cancel: Callable[[], None] | None = None) -> Result:
    """What a function returns or raises; KeyboardInterrupt after its jobs are cancelled, on an interrupt."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            errors.append(error)

    thread = Thread(target=run, name="query", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(PERIOD)
    except KeyboardInterrupt:
        _cancel(thread, cancel or cancel_jobs)
        raise KeyboardInterrupt from None
    if errors:
        raise errors[0]
    return results[0]


def _cancel(thread: Thread, cancel: Callable[[], None]) -> None:
    """Cancel jobs until the thread has seen it; a second interrupt is not waited for."""
    waited = 0.0
    while thread.is_alive() and waited < PATIENCE:
        cancel()
        thread.join(10 * PERIOD)
        waited += 10 * PERIOD


def cancel_jobs() -> None:
    """Cancel all jobs of this process, where there is a Spark."""
    modules = sys.modules
    if "pyspark" not in modules:
        return
    context: Any = modules["pyspark"].SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        context.cancelAllJobs()
