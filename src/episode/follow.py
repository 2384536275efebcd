"""A query over streams that runs until it is interrupted: its matches to the screen or to files.

An interrupt lets the micro-batch under way finish, and stops the query between two of them: started again with the same
checkpoint, it goes on there, and repeats nothing. A query that is killed repeats the matches of an unfinished
micro-batch on the screen; for files, Spark's sink keeps a log, by which Spark reads each match once.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event
from typing import Any

from rich.console import Console
from rich.live import Live

from episode.terminal.live import RESULT, SHOWN_ROWS, LiveView, MicroBatch, micro_batch

PERIOD = 0.25
"""Seconds between two looks at the query."""
POLL = 0.01
"""The same after an interrupt."""
LAST_BATCH = 60.0
"""Seconds that the micro-batch under way has to finish after an interrupt."""
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Target:
    """Where matches go.

    lines: prints every match of a micro-batch (a DataFrame); without it, and without a path, the latest are shown.
    """

    path: str | None = None
    format: str = "parquet"
    lines: Callable[[Any], None] | None = None


def follow(result: Any, target: Target, checkpoint: str, notes: Console, *, numeric_time: bool) -> None:
    """Run a streaming DataFrame until an interrupt (SIGINT or SIGTERM); an error of the query is raised."""
    screen = Console()
    view = LiveView(result.columns, shows_matches=target.path is None and target.lines is None)
    lively = screen.is_terminal and target.lines is None
    with interrupts() as interrupted:
        query, reader_left = _started(_observed(result), target, checkpoint, view)
        picture = Live(view, console=screen, refresh_per_second=4) if lively else nullcontext()
        with picture:
            _watch(query, view, interrupted, numeric_time, None if lively else notes)
            if query.isActive:
                _stop(query, interrupted)
                _take(query, view, numeric_time, None if lively else notes)
    if reader_left.is_set():
        raise BrokenPipeError
    if not interrupted.is_set() and query.exception() is not None:
        raise query.exception()
    notes.print(f"stopped: {view.totals()}", highlight=False)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that start in the body never see an interrupt.

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
    """An event in place of the exception; pyspark's own handler would cancel the micro-batch under way."""
    interrupted = Event()
    before = {number: signal.signal(number, lambda *_: interrupted.set()) for number in _INTERRUPTS}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _observed(result: Any) -> Any:
    from pyspark.sql import functions as F

    return result.observe(RESULT, F.count(F.lit(1)).alias("rows"))


def _started(result: Any, target: Target, checkpoint: str, view: LiveView) -> tuple[Any, Event]:
    """The running query, and an event for a reader of our output that has left."""
    reader_left = Event()
    writer = result.writeStream.option("checkpointLocation", checkpoint)
    if target.path is not None:
        if target.format == "csv":
            writer = writer.option("header", True)
        return writer.format(target.format).option("path", target.path).start(), reader_left

    def handle(batch: Any, _number: int) -> None:
        try:
            _handle(batch, target, view)
        except BrokenPipeError:
            reader_left.set()
            raise

    return writer.foreachBatch(handle).start(), reader_left


def _handle(batch: Any, target: Target, view: LiveView) -> None:
    """Show a micro-batch.

    Its matches are computed once and whole, and then read from the cache: taking a few rows of the batch itself would
    run some of its partitions, and leave the state of the others as it was.
    """
    batch.persist()
    try:
        if batch.count():
            if target.lines is not None:
                target.lines(batch)
            else:
                view.latest.extend(batch.take(SHOWN_ROWS))
    finally:
        batch.unpersist()


def _watch(query: Any, view: LiveView, interrupted: Event, numeric_time: bool, notes: Console | None) -> None:
    while query.isActive and not interrupted.wait(PERIOD):
        _take(query, view, numeric_time, notes)


def _take(query: Any, view: LiveView, numeric_time: bool, notes: Console | None) -> None:
    """Add the micro-batches that are new to the view; a line for each where there is no picture."""
    for batch in new_batches(query.recentProgress, view.last, numeric_time):
        view.add(batch)
        if notes is not None:
            notes.print(batch.line(), highlight=False, soft_wrap=True)


def new_batches(recent: list[Any], last: MicroBatch | None, numeric_time: bool) -> list[MicroBatch]:
    """Finished micro-batches after the last one that was seen."""
    batches = (micro_batch(progress, numeric_time) for progress in recent)
    return [batch for batch in batches if batch is not None and (last is None or batch.number > last.number)]


def _stop(query: Any, interrupted: Event) -> None:
    """Stop between two micro-batches; at once on a second interrupt, or when the last one takes too long.

    Where events never cease, the next micro-batch has just begun when the last one is seen to be done: nothing of it
    has been shown.
    """
    interrupted.clear()
    begun = _finished(query)
    deadline = time.monotonic() + LAST_BATCH
    while query.isActive and query.status["isTriggerActive"] and _finished(query) == begun:
        if interrupted.wait(POLL) or time.monotonic() > deadline:
            break
    interrupted.set()
    query.stop()


def _finished(query: Any) -> int:
    """The number of the last finished micro-batch."""
    last = query.lastProgress
    return -1 if last is None or "addBatch" not in last.durationMs else last.batchId
