"""How a live query is doing: as a picture that changes, or as a line now and then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from episode.terminal.dropped import as_rows, dropped_of, in_words
from episode.terminal.table import result_table
from episode.words import count_of, size

PERIOD = 0.25
"""Seconds between two pictures."""
LINES = 5.0
"""Seconds between two lines, if there is no picture."""


@dataclass
class LiveQueryView:
    """Status and progress of a live query."""

    title: str = ""
    message: str = "starting"
    progress: Mapping[str, Any] = field(default_factory=dict)

    def update(self, status: Mapping[str, Any], progress: Mapping[str, Any] | None) -> None:
        self.message = status["message"]
        if progress is not None:
            self.progress = progress

    def line(self) -> str:
        """The figures in one line."""
        now = self.progress
        if not now:
            return self.message
        dropped = dropped_of(now)
        without = f", {in_words(dropped)}" if any(dropped.values()) else ""
        return (
            f"{count_of(now['events'], 'event', 'events')} ({now['inputRowsPerSecond']:,.0f}/s), "
            f"{count_of(now['matches'], 'match', 'matches')}{without}, {now['unprocessed']:,} unprocessed"
            f"{_unread(now)}, {_mode(now)}, latency {latencies(now)}, {now['state_rows']:,} rows held, "
            f"watermark {_watermark(now)}"
        )

    def totals(self) -> str:
        """What there was, at the end."""
        now = self.progress
        if not now:
            return "no events"
        events, matches = (
            count_of(now[one], *words)
            for one, words in (("events", ("event", "events")), ("matches", ("match", "matches")))
        )
        return f"{events}, {matches}, {in_words(dropped_of(now))}"

    def __rich__(self) -> RenderableType:
        head = Text(f"{self.title}  ", style="bold").append(self.message, style="dim")
        if not self.progress:
            return head
        shown = [head, self._figures()]
        rows = self.progress["last_matches"]
        if rows:
            columns = list(rows[-1])
            shown.append(result_table(columns, [[row.get(name) for name in columns] for row in rows]))
        return Group(*shown)

    def _figures(self) -> RenderableType:
        now = self.progress
        tasks = now["tasks"]
        table = Table.grid(padding=(0, 2))
        rows = [
            ("events", f"{now['events']:,}", f"{now['inputRowsPerSecond']:,.0f}/s"),
            ("matches", f"{now['matches']:,}", f"latency {latencies(now)}"),
            ("unprocessed", f"{now['unprocessed']:,}", f"in memory{_unread(now)}"),
            ("input", _mode(now), ""),
            *as_rows(dropped_of(now)),
            ("rows held", f"{now['state_rows']:,}", f"of {count_of(now['live_keys'], 'key', 'keys')}"),
            ("watermark", _watermark(now), ""),
            ("tasks", f"{len(tasks)}", f"{size(now['memory'])} of memory{_restarts(now)}"),
        ]
        for name, value, more in rows:
            table.add_row(Text(name, style="dim"), Text(value), Text(more))
        return table


def watch(query: Any, view: LiveQueryView, ending: Event, notes: Console | None) -> None:
    """Keep a view up to date until the query has ended, or shall end; a line now and then if there is no picture."""
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


def latencies(progress: Mapping[str, Any]) -> str:
    """From append to readable match: the median, and what 90 and 99 of 100 do not exceed."""
    found = [progress["latency"][share] for share in ("p50", "p90", "p99")]
    if None in found:
        return "–"
    return " / ".join(f"{value:,.1f}" if value < 100 else f"{value:,.0f}" for value in found) + " ms"


def _unread(progress: Mapping[str, Any]) -> str:
    unread = progress["unread"]
    return "" if unread is None else f", {unread:,} in the store"


def _mode(progress: Mapping[str, Any]) -> str:
    return f"{progress['mode'] or '–'} ({count_of(progress['switches'], 'switch', 'switches')})"


def _watermark(progress: Mapping[str, Any]) -> str:
    found = progress["eventTime"].get("watermark")
    return "none yet" if found is None else f"{found:,}" if isinstance(found, int) else str(found)


def _restarts(progress: Mapping[str, Any]) -> str:
    restarts = progress["restarts"]
    return f", {count_of(restarts, 'restart', 'restarts')}" if restarts else ""
