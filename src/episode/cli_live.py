"""`episode run query.sql --live`: a live query until an interrupt, with the figures of its tasks on the screen."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from episode import cli_inputs, follow
from episode.cli_session import SessionArguments, start
from episode.terminal.live_view import LiveQueryView
from episode.terminal.quiet import quiet_spark

PERIOD = 0.25
"""Seconds between two pictures."""
LINES = 5.0
"""Seconds between two lines, where there is no picture."""


@dataclass(frozen=True)
class LiveArguments:
    """The arguments of --live. into: where matches go (None: to the screen)."""

    into: str | None = None
    input: str = "adaptive"
    checkpoint: str | None = None
    tasks: int | None = None
    metrics: int | None = None


def check(live: bool, only_then: Mapping[str, object], never_then: Mapping[str, object]) -> None:
    """Refuse options that make no sense with --live, or without it."""
    for option, value in (never_then if live else only_then).items():
        if value is not None and value is not False:
            why = "A live query reads declared streams until it is stopped" if live else "This is for live queries"
            raise typer.BadParameter(
                f"{why}: {option} cannot be given {'with' if live else 'without'} --live.", param_hint=option
            )


def read_into(text: str | None) -> Any:
    """--into: the name of a stream, a path, or a topic as kafka://HOST:PORT/TOPIC."""
    if text is None or not text.startswith(cli_inputs.KAFKA):
        return text
    servers, _, topic = text.removeprefix(cli_inputs.KAFKA).partition("/")
    if not servers or not topic:
        raise typer.BadParameter(f"{text} is not of the form kafka://HOST:PORT/TOPIC.", param_hint="--into")
    return {"kafka": topic, "kafka.bootstrap.servers": servers}


def run(
    text: str, arguments: dict[str, object], given: LiveArguments, session: SessionArguments, notes: Console
) -> None:
    """Run a live query until an interrupt; an error of the query is raised."""
    screen = Console()
    lively = screen.is_terminal
    into = read_into(given.into)
    receiver: Callable[[Any], None] = _ignore if lively else _print
    view = LiveQueryView("the screen" if into is None else given.into or "")
    with _checkpoint(given, notes) as checkpoint:
        import episode

        with notes.status("Starting Spark and reading the query"), quiet_spark(), follow.without_interrupts():
            start(session)
            query = episode.start(
                text,
                arguments,
                into=receiver if into is None else into,
                input=given.input,
                checkpoint=checkpoint,
                tasks=given.tasks,
                metrics_port=given.metrics,
            )
        with follow.interrupts() as interrupted:  # in place of what Spark does with them, which ends its jobs
            _say(notes, query, given)
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


def watch(query: Any, view: LiveQueryView, ending: Event, notes: Console | None) -> None:
    """Keep a view up to date until the query has ended, or shall end; a line now and then where there is no picture."""
    said, before = time.monotonic(), ""
    while True:
        ended = not query.isActive or ending.wait(PERIOD)
        view.update(query.status, query.lastProgress)
        if notes is not None and (ended or time.monotonic() - said >= LINES):
            line = view.line()
            if line != before:
                notes.print(line, highlight=False, soft_wrap=True)
            said, before = time.monotonic(), line
        if ended:
            return


def _say(notes: Console, query: Any, given: LiveArguments) -> None:
    if query.metricsPort is not None:
        notes.print(Text(f"Figures for Prometheus: http://127.0.0.1:{query.metricsPort}/metrics"), soft_wrap=True)
    if given.into is not None and given.checkpoint is None:
        notes.print(Text(f"The checkpoint is in {query.checkpoint}: the same command goes on from there."))


@contextmanager
def _checkpoint(given: LiveArguments, notes: Console) -> Iterator[str | None]:
    """As given; by query and output, where matches are kept; for this run alone, where they go to the screen."""
    if given.checkpoint is not None:
        yield os.path.abspath(cli_inputs.local(given.checkpoint))
    elif given.into is not None:
        yield None
    else:
        with tempfile.TemporaryDirectory(prefix="episode-live-", ignore_cleanup_errors=True) as place:
            notes.print(
                Text("Matches go to the screen alone, from the beginning of the stream on; --into NAME keeps them."),
                soft_wrap=True,
            )
            yield place


def _ignore(_: Any) -> None:
    """The view shows the last matches."""


def _print(matches: Any) -> None:
    """Matches as JSON lines on standard output."""
    rows = matches.to_pylist(maps_as_pydicts="strict")
    typer.echo("\n".join(json.dumps(row, default=str, ensure_ascii=False) for row in rows))
