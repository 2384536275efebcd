"""Queries that run until they are interrupted: `--follow` in micro-batches of Spark, `--live` in live tasks.

An interrupt lets the micro-batch under way finish, and stops the query between two of them: started again with the same
checkpoint, it continues there, and repeats nothing. A query that is killed repeats the matches of an unfinished
micro-batch on the screen; for files, Spark's sink keeps a log, by which Spark reads each match once. A live query stops
with a snapshot.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from episode.cli import inputs
from episode.cli.inputs import SessionArguments, start_session
from episode.cli.options import Handling, LiveTaskOptions
from episode.cli.results import Format, print_header
from episode.errors import EpisodeError
from episode.paths import is_local, local
from episode.terminal.errors import interrupts, without_interrupts
from episode.terminal.progress import (
    PERIOD,
    RESULT,
    SHOWN_ROWS,
    LiveQueryView,
    LiveView,
    MicroBatch,
    micro_batch,
    watch,
)
from episode.terminal.quiet import quiet_spark

POLL = 0.01
"""Seconds between two looks at the query after an interrupt; before, they are PERIOD."""
LAST_BATCH = 60.0
"""Seconds that the micro-batch under way has to finish after an interrupt."""

Lines = Callable[[Any], None]
"""Prints every match of a micro-batch (a DataFrame)."""


@dataclass(frozen=True)
class FollowArguments:
    """The arguments of --follow. output: where matches go (None: to the screen, or as lines to standard output)."""

    watermark: str | None
    checkpoint: str | None
    output: str | None
    format: Format


def run(
    text: str,
    arguments: dict[str, object],
    paths: dict[str, str],
    given: FollowArguments,
    session: SessionArguments,
    notes: Console,
) -> None:
    """Run a query over streams until an interrupt."""
    import episode

    hint = "Give its tables with --table NAME=DIRECTORY, or name a declared stream."
    nothing = EpisodeError("The query has no stream to follow.", hint=hint)
    if not paths and not episode.streams.names():
        raise nothing
    with notes.status("Starting Spark and reading the query"), quiet_spark(), without_interrupts():
        start_session(session)
        options = episode.Options(watermark=given.watermark)
        result = episode.sql(text, arguments, options=options, tables=inputs.follow_tables(paths))
    if not result.isStreaming:
        raise nothing
    with checkpoint_place(given.checkpoint, notes) as place:
        show(result, given, place, notes, numeric_time=_is_numeric(text, given.watermark))


def show(result: Any, given: FollowArguments, checkpoint: str, notes: Console, *, numeric_time: bool) -> None:
    """Run a streaming DataFrame until an interrupt (SIGINT or SIGTERM); an error of the query is raised."""
    lines = None if given.output is not None else _lines_of(result, given.format)
    if given.output is None and given.format is Format.table and not sys.stdout.isatty():
        notes.print("The matches are not shown because this is not a terminal: --format json prints them.")
    screen = Console()
    view = LiveView(result.columns, shows_matches=given.output is None and lines is None)
    lively = screen.is_terminal and lines is None
    log = None if lively else notes
    with interrupts() as interrupted:
        query, reader_left = _start(result, given, lines, checkpoint, view)
        with Live(view, console=screen, refresh_per_second=4) if lively else nullcontext():
            while query.isActive and not interrupted.wait(PERIOD):
                _take(query, view, numeric_time, log)
            if query.isActive:
                _stop(query, interrupted)
                _take(query, view, numeric_time, log)
    if reader_left.is_set():
        raise BrokenPipeError
    if not interrupted.is_set() and query.exception() is not None:
        raise query.exception()
    notes.print(f"stopped: {view.totals()}", highlight=False)


def _is_numeric(text: str, watermark: str | None) -> bool:
    """Is event time a number? The watermark decides, or else the streams that a query names."""
    if watermark is not None:
        return watermark.strip().isdigit()
    import episode

    words = {word.lower() for word in re.findall(r"\w+", text)}
    named = [episode.streams.describe(name) for name in episode.streams.names() if name.lower() in words]
    return any(one.event_time.units_per_millisecond == 1 for one in named)


@contextmanager
def checkpoint_place(path: str | None, notes: Console) -> Iterator[str]:
    """The place of the checkpoint: as given, or for this run alone."""
    if path is not None:
        yield os.path.abspath(local(path)) if is_local(path) else path
        return
    with tempfile.TemporaryDirectory(prefix="episode-checkpoint-", ignore_cleanup_errors=True) as place:
        told = f"The checkpoint is in {place} and goes when this run ends; --checkpoint PATH keeps one."
        notes.print(Text(told), soft_wrap=True)
        yield place


def _lines_of(result: Any, chosen: Format) -> Lines | None:
    """Return a writer of the matches of a micro-batch as CSV or JSON lines; None for a table on the screen."""
    if chosen is Format.table:
        return None
    print_header(result.columns, chosen)

    def print_lines(batch: Any) -> None:
        for row in batch.selectExpr(f"to_{chosen.value}(struct(*)) AS line").toLocalIterator():
            typer.echo(row.line)

    return print_lines


def _start(
    result: Any, given: FollowArguments, lines: Lines | None, checkpoint: str, view: LiveView
) -> tuple[Any, Event]:
    """Return the running query, and an event for a reader of our output that has left."""
    from pyspark.sql import functions as F

    reader_left = Event()
    observed = result.observe(RESULT, F.count(F.lit(1)).alias("rows"))
    writer = observed.writeStream.option("checkpointLocation", checkpoint)
    if given.output is not None:
        if given.format is Format.csv:
            writer = writer.option("header", True)
        return writer.format(given.format.value).option("path", given.output).start(), reader_left

    def handle(batch: Any, _number: int) -> None:
        try:
            _handle(batch, lines, view)
        except BrokenPipeError:
            reader_left.set()
            raise

    return writer.foreachBatch(handle).start(), reader_left


def _handle(batch: Any, lines: Lines | None, view: LiveView) -> None:
    """Show a micro-batch.

    Its matches are computed once and whole, and then read from the cache: taking a few rows of the batch itself would
    run some of its partitions, and leave the state of the others as it was.
    """
    batch.persist()
    try:
        if batch.count():
            if lines is not None:
                lines(batch)
            else:
                view.latest.extend(batch.take(SHOWN_ROWS))
    finally:
        batch.unpersist()


def _take(query: Any, view: LiveView, numeric_time: bool, notes: Console | None) -> None:
    """Add new micro-batches to the view. notes: prints a line for each, in place of a picture."""
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
    begun = _last_finished(query)
    deadline = time.monotonic() + LAST_BATCH
    while query.isActive and query.status["isTriggerActive"] and _last_finished(query) == begun:
        if interrupted.wait(POLL) or time.monotonic() > deadline:
            break
    interrupted.set()
    query.stop()


def _last_finished(query: Any) -> int:
    last = query.lastProgress
    return -1 if last is None or "addBatch" not in last.durationMs else last.batchId


def read_into(text: str | None) -> Any:
    """--into: the name of a stream, a path, or a topic as kafka://HOST:PORT/TOPIC."""
    if text is None or not text.startswith(inputs.KAFKA):
        return text
    servers, _, topic = text.removeprefix(inputs.KAFKA).partition("/")
    if not servers or not topic:
        raise typer.BadParameter(f"{text} is not of the form kafka://HOST:PORT/TOPIC.", param_hint="--into")
    return {"kafka": topic, "kafka.bootstrap.servers": servers}


def run_live(
    text: str,
    arguments: dict[str, object],
    given: LiveTaskOptions,
    checkpoint: str | None,
    session: SessionArguments,
    notes: Console,
) -> None:
    """Run a live query until an interrupt; an error of the query is raised."""
    screen = Console()
    lively = screen.is_terminal
    into = read_into(given.into)
    receiver = (lambda _: None) if lively else _print_matches  # on a terminal the view shows the last matches
    view = LiveQueryView("the screen" if into is None else given.into or "")
    with _live_checkpoint(checkpoint, given.into, notes) as place:
        import episode

        with notes.status("Starting Spark and reading the query"), quiet_spark(), without_interrupts():
            start_session(session)
            query = episode.start(
                text,
                arguments,
                into=receiver if into is None else into,
                input=(given.input or Handling.adaptive).value,
                checkpoint=place,
                tasks=given.tasks,
                metrics_port=given.metrics,
            )
        with interrupts() as interrupted:  # in place of what Spark does with them, which ends its jobs
            if query.metricsPort is not None:
                figures = f"http://127.0.0.1:{query.metricsPort}/metrics"
                notes.print(Text(f"Figures for Prometheus: {figures}"), soft_wrap=True)
            if given.into is not None and checkpoint is None:
                notes.print(Text(f"The checkpoint is in {query.checkpoint}: the same command continues from there."))
            with Live(view, console=screen, refresh_per_second=1 / PERIOD) if lively else nullcontext():
                watch(query, view, interrupted, None if lively else notes)
            if query.isActive:
                with notes.status("Stopping with a snapshot"):
                    query.stop()
                view.update(query.status, query.lastProgress)
    error = query.exception()
    if error is not None:
        raise error
    notes.print(f"stopped: {view.totals()}", highlight=False)


@contextmanager
def _live_checkpoint(given: str | None, into: str | None, notes: Console) -> Iterator[str | None]:
    """Yield the place given; None (by query and output) if matches are kept; one for this run if they are not."""
    if given is not None:
        yield os.path.abspath(local(given))
    elif into is not None:
        yield None
    else:
        with tempfile.TemporaryDirectory(prefix="episode-live-", ignore_cleanup_errors=True) as place:
            told = "Matches go to the screen alone, from the beginning of the stream on; --into NAME keeps them."
            notes.print(Text(told), soft_wrap=True)
            yield place


def _print_matches(matches: Any) -> None:
    """Matches as JSON lines on standard output."""
    rows = matches.to_pylist(maps_as_pydicts="strict")
    typer.echo("\n".join(json.dumps(row, default=str, ensure_ascii=False) for row in rows))
