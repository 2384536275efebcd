"""Errors on the command line: a message and an exit code, and never a stack trace of ours."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from episode.errors import EpisodeDataError, EpisodeError

FAILED, WRONG, INTERRUPTED = 1, 2, 130


@contextmanager
def report_errors(notes: Console) -> Iterator[None]:
    """Turn errors into a message and an exit code; EPISODE_TRACEBACK=1 keeps the traceback, for bug reports."""
    if os.environ.get("EPISODE_TRACEBACK"):
        yield
        return
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        # The reader of the output has left, as `head` does: not an error, but nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        notes.print("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 - the last stop before the user: anything becomes a message
        message, code = explain_error(error)
        notes.print(Text("error: ", style="bold red").append(message, style="default"), soft_wrap=True)
        raise typer.Exit(code) from None


def explain_error(error: Exception) -> tuple[str, int]:
    """Return the message for the user, and the exit code."""
    if not isinstance(error, EpisodeError) and "pyspark" in sys.modules:
        from episode.spark.errors import translate

        error = translate(error) or error
    if isinstance(error, EpisodeError):
        return str(error), FAILED if isinstance(error, EpisodeDataError) else WRONG
    if "pyspark" in sys.modules:
        from pyspark.errors import AnalysisException, PySparkException

        if isinstance(error, PySparkException):
            message = re.split(r"\n\n?(?:JVM stacktrace:|=== Streaming Query ===)", str(error))[0].strip()
            return message, WRONG if isinstance(error, AnalysisException) else FAILED
    return f"{type(error).__name__}: {error}", FAILED


# Ctrl-C while a query runs: Spark's jobs are cancelled, and the command ends; a query over streams is stopped.
#
# A batch query runs in its own thread, while the main thread waits for an interrupt: so an interrupt never breaks off a
# call of Spark, which would leave stack traces on the screen and jobs behind.


Result = TypeVar("Result")

PERIOD = 0.05
"""Seconds between two checks of the thread: signals are handled in between."""
PATIENCE = 10.0
"""Seconds that Spark has to cancel its jobs."""
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def run_interruptibly(work: Callable[[], Result], cancel: Callable[[], None] | None = None) -> Result:
    """Call a function; on an interrupt, cancel its jobs and raise KeyboardInterrupt."""
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
    """Cancel jobs until the thread ends; a second interrupt ends the waiting."""
    for _ in range(round(PATIENCE / (10 * PERIOD))):
        if thread.is_alive():
            cancel()
            thread.join(10 * PERIOD)


def cancel_jobs() -> None:
    """Cancel all jobs of this process, if it runs Spark."""
    modules = sys.modules
    if "pyspark" not in modules:
        return
    context: Any = modules["pyspark"].SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        context.cancelAllJobs()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Start processes in the body that never see an interrupt.

    The terminal sends Ctrl-C to all processes in the foreground: Spark's workers would break off the micro-batch that
    should finish. They inherit the mask; the interrupt of this process itself waits for the end of the body.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interrupts() -> Iterator[Event]:
    """Set an event in place of raising; pyspark's own handler would cancel the running micro-batch."""
    interrupted = Event()
    before = {number: signal.signal(number, lambda *_: interrupted.set()) for number in _INTERRUPTS}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
