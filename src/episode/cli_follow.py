"""`episode run --follow`: a statement over streams until an interrupt, its matches to the screen or to files."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from episode import cli_inputs, cli_results, cli_tables
from episode.cli_results import Format
from episode.cli_session import SessionArguments, start
from episode.errors import EpisodeError
from episode.terminal.quiet import quiet_spark


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
    from episode import follow

    hint = "Give its tables with --table NAME=DIRECTORY, or name a declared stream."
    nothing = EpisodeError("The query has no stream to follow.", hint=hint)
    if not paths and not episode.streams.names():
        raise nothing
    with notes.status("Starting Spark and reading the query"), quiet_spark(), follow.without_interrupts():
        start(session)
        options = episode.Options(watermark=given.watermark)
        result = episode.sql(text, arguments, options=options, tables=cli_tables.followed(paths))
    if not result.isStreaming:
        raise nothing
    with checkpoint_place(given.checkpoint, notes) as place:
        show(result, given, place, notes, numeric_time=_is_numeric(text, given.watermark))


def show(result: Any, given: FollowArguments, checkpoint: str, notes: Console, *, numeric_time: bool) -> None:
    """Run a streaming DataFrame until an interrupt, its rows to the screen or to files."""
    from episode import follow

    lines = None if given.output is not None else _lines_of(result, given.format)
    target = follow.Target(given.output, given.format.value, lines)
    if given.output is None and given.format is Format.table and not sys.stdout.isatty():
        notes.print("The matches are not shown, this is no terminal: --format json prints them.")
    follow.follow(result, target, checkpoint, notes, numeric_time=numeric_time)


def _is_numeric(text: str, watermark: str | None) -> bool:
    """Is event time a number? The watermark says so, or else the streams that a query names."""
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
        yield path if not cli_inputs.is_local(path) else os.path.abspath(cli_inputs.local(path))
        return
    with tempfile.TemporaryDirectory(prefix="episode-checkpoint-", ignore_cleanup_errors=True) as place:
        notes.print(
            Text(f"The checkpoint is in {place} and goes when this run ends; --checkpoint PATH keeps one."),
            soft_wrap=True,
        )
        yield place


def _lines_of(result: Any, chosen: Format) -> Callable[[Any], None] | None:
    """What prints the matches of a micro-batch as CSV or JSON lines; None for a table on the screen."""
    if chosen is Format.table:
        return None
    cli_results.print_header(result.columns, chosen)

    def print_lines(batch: Any) -> None:
        for row in batch.selectExpr(f"to_{chosen.value}(struct(*)) AS line").toLocalIterator():
            typer.echo(row.line)

    return print_lines
