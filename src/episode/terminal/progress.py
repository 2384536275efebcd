"""Progress on the terminal: of Spark's jobs, of micro-batches and of live queries, and events that were dropped."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from threading import Event, Thread
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from episode.terminal.table import result_table
from episode.words import count_of, size
from episode.words import duration_in_one_unit as duration

DROPPED = {
    "late": "late",
    "null_times": "without a time",
    "duplicates": "repeated",
    "after_end": "after the end",
    "given_up": "given up",
    "skipped": "of skipped keys",
}
"""Counters of events that take no part in matching, and their words. Late events are always shown, others if any."""


def dropped_of(counters: Mapping[str, Any]) -> dict[str, int]:
    """Select these counters from a mapping or from a Spark row, which is not a mapping; a missing one is 0."""
    values = counters if isinstance(counters, Mapping) else counters.asDict()
    return {name: int(values.get(name) or 0) for name in DROPPED}


def add_counters(counted: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found = list(counted)
    return {name: sum(one[name] for one in found) for name in DROPPED}


def in_words(dropped: Mapping[str, int]) -> str:
    """Return text such as `3 late, 2 without a time`."""
    shown = [name for name in DROPPED if name == "late" or dropped[name]]
    return ", ".join(f"{dropped[name]:,} {DROPPED[name]}" for name in shown)


def as_rows(dropped: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Rows of a table on the screen, one per counter."""
    return [(DROPPED[name], f"{dropped[name]:,}", "") for name in DROPPED if name == "late" or dropped[name]]


def figures_table(rows: Iterable[tuple[str, str, str]]) -> Table:
    """Return figures on the screen: their names, their values, and remarks."""
    table = Table.grid(padding=(0, 2))
    for name, value, more in rows:
        table.add_row(Text(name, style="dim"), Text(value), Text(more))
    return table


PATIENCE = 1.0
"""Seconds of work before a bar appears."""
PERIOD = 0.25
"""Seconds between two reads of the tracker."""


@contextmanager
def progress(spark: Any, console: Console) -> Iterator[None]:
    """Show a progress bar of the running stages' tasks, while the body runs a Spark action.

    Nothing is shown without a terminal, or if the session has no status tracker (Spark Connect).
    """
    context = getattr(spark, "sparkContext", None)
    if context is None or not console.is_terminal:
        yield
        return
    with run_alongside(_watch, context.statusTracker(), console):
        yield


@contextmanager
def run_alongside(watch: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Call a function in a thread while the body runs. Its last argument is an event: the body has ended."""
    done = Event()
    watcher = Thread(target=watch, args=(*arguments, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(tracker: Any, console: Console, done: Event) -> None:
    if done.wait(PATIENCE):
        return
    words = TextColumn("{task.description}")
    columns = (SpinnerColumn(), words, BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("planning", total=None)
        while not done.wait(PERIOD):
            stages, finished, total = running_tasks(tracker)
            if total:
                name = "stage " + ", ".join(map(str, stages))
                bar.update(task, description=name, completed=finished, total=total)


def running_tasks(tracker: Any) -> tuple[list[int], int, int]:
    """The active stages, the number of their finished tasks, and of all their tasks."""
    stages = sorted(tracker.getActiveStageIds())
    infos = [info for info in map(tracker.getStageInfo, stages) if info is not None]
    return stages, sum(info.numCompletedTasks for info in infos), sum(info.numTasks for info in infos)


RESULT = "episode_result"
"""The name under which rows of the result are observed, in a counter `rows`."""
SHOWN_ROWS = 20


@dataclass(frozen=True)
class MicroBatch:
    """Figures of a micro-batch, and of the stream after it.

    matches: rows of the query's result. dropped: events without effect, by the reason.
    state_rows: events held for open matches, in the shards that had work in the micro-batch.
    lag: seconds from the watermark to the clock; None before there is a watermark, and if event time is a number.
    """

    number: int
    seconds: float
    events: int
    matches: int
    dropped: dict[str, int]
    state_rows: int
    state_bytes: int
    watermark: str
    lag: float | None

    def line(self) -> str:
        after = "" if self.lag is None else f", {duration(self.lag)} behind"
        return (
            f"batch {self.number}: {count_of(self.events, 'event')} ({rate(self.events, self.seconds)}), "
            f"{count_of(self.matches, 'match')} ({rate(self.matches, self.seconds)}), "
            f"{in_words(self.dropped)}, "
            f"{self.state_rows:,} rows held in shards with work, state {size(self.state_bytes)}, "
            f"watermark {self.watermark}{after}"
        )


def micro_batch(progress: Any, numeric_time: bool) -> MicroBatch | None:
    """A micro-batch from Spark's progress; None if Spark reports that it was idle."""
    if "addBatch" not in progress.durationMs:
        return None
    observed = progress.observedMetrics
    patterns = [row for name, row in observed.items() if name.startswith("episode") and name != RESULT]
    watermark, lag = _watermark(progress.eventTime.get("watermark"), progress.timestamp, numeric_time)
    return MicroBatch(
        number=progress.batchId,
        seconds=progress.durationMs.get("triggerExecution", progress.durationMs["addBatch"]) / 1000,
        events=_events(progress, patterns),
        matches=observed[RESULT]["rows"] if RESULT in observed else 0,
        dropped=add_counters(map(dropped_of, patterns)),
        state_rows=sum(row["state_rows"] for row in patterns),
        state_bytes=sum(operator.memoryUsedBytes for operator in progress.stateOperators),
        watermark=watermark,
        lag=lag,
    )


def _events(progress: Any, patterns: Sequence[Any]) -> int:
    """Spark counts rows; those of a stream store are envelopes, whose events the first pattern has counted."""
    stores = any("PythonMicroBatchStream" in source.description for source in getattr(progress, "sources", ()))
    return int(patterns[0]["events"] if stores and patterns else progress.numInputRows)


def _watermark(text: str | None, now: str, numeric_time: bool) -> tuple[str, float | None]:
    """The watermark in words, and its distance from the clock. Spark's first watermark is 1970."""
    moment = _moment(text) if text else None
    if moment is None or moment.timestamp() == 0:
        return "none yet", None
    if numeric_time:
        return f"{round(moment.timestamp() * 1000):,}", None
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC"), (_moment(now) - moment).total_seconds()


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


@dataclass
class LiveView:
    """Totals of a stream, its last micro-batch, and its latest matches."""

    columns: Sequence[str]
    shows_matches: bool
    events: int = 0
    matches: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dropped_of({}))
    last: MicroBatch | None = None
    latest: deque[Sequence[Any]] = field(default_factory=lambda: deque(maxlen=SHOWN_ROWS))

    def add(self, batch: MicroBatch) -> None:
        self.events += batch.events
        self.matches += batch.matches
        self.dropped = add_counters([self.dropped, batch.dropped])
        self.last = batch

    def totals(self) -> str:
        events, matches = count_of(self.events, "event"), count_of(self.matches, "match")
        return f"{events}, {matches}, {in_words(self.dropped)}"

    def __rich__(self) -> RenderableType:
        """The figures before the matches: on a small screen the end is cut off."""
        last = self.last
        numbers: RenderableType = Text("waiting for events", style="dim")
        if last is not None:
            lag = "" if last.lag is None else f" ({duration(last.lag)} after the clock)"
            numbers = figures_table(
                [
                    ("events", f"{self.events:,}", rate(last.events, last.seconds)),
                    ("matches", f"{self.matches:,}", rate(last.matches, last.seconds)),
                    *as_rows(self.dropped),
                    ("rows held", f"{last.state_rows:,}", "in shards with work"),
                    ("state", size(last.state_bytes), ""),
                    ("watermark", last.watermark + lag, ""),
                    ("micro-batch", f"{last.number:,}", f"{last.seconds:.1f} s"),
                ]
            )
        return Group(numbers, result_table(self.columns, list(self.latest))) if self.shows_matches else numbers


def rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.1f}/s" if seconds > 0 else "–/s"


PICTURE_PERIOD = 0.25
"""Seconds between two updates of the screen."""
LINES = 5.0
"""Seconds between two lines, without a terminal."""


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
        now = self.progress
        if not now:
            return self.message
        dropped = dropped_of(now)
        without = f", {in_words(dropped)}" if any(dropped.values()) else ""
        return (
            f"{count_of(now['events'], 'event')} ({now['inputRowsPerSecond']:,.0f}/s), "
            f"{count_of(now['matches'], 'match')}{without}, {now['unprocessed']:,} unprocessed"
            f"{_unread(now)}, {_mode(now)}, latency {latencies(now)}, {now['state_rows']:,} rows held, "
            f"watermark {_live_watermark(now)}"
        )

    def totals(self) -> str:
        now = self.progress
        if not now:
            return "no events"
        events, matches = count_of(now["events"], "event"), count_of(now["matches"], "match")
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
        tasks, restarts = now["tasks"], now["restarts"]
        restarted = f", {count_of(restarts, 'restart')}" if restarts else ""
        return figures_table(
            [
                ("events", f"{now['events']:,}", f"{now['inputRowsPerSecond']:,.0f}/s"),
                ("matches", f"{now['matches']:,}", f"latency {latencies(now)}"),
                ("unprocessed", f"{now['unprocessed']:,}", f"in memory{_unread(now)}"),
                ("input", _mode(now), ""),
                *as_rows(dropped_of(now)),
                ("rows held", f"{now['state_rows']:,}", f"of {count_of(now['live_keys'], 'key')}"),
                ("watermark", _live_watermark(now), ""),
                ("tasks", f"{len(tasks)}", f"{size(now['memory'])} of memory{restarted}"),
            ]
        )


def watch(query: Any, view: LiveQueryView, ending: Event, notes: Console | None) -> None:
    """Update a view until the query has ended, or shall end. notes: print lines there, without a terminal."""
    said, before = time.monotonic(), ""
    while True:
        ended = not query.isActive or ending.wait(PICTURE_PERIOD)
        view.update(query.status, query.lastProgress)
        if notes is not None and (ended or time.monotonic() - said >= LINES):
            line = view.line()
            if line != before:
                notes.print(line, highlight=False, soft_wrap=True)
            said, before = time.monotonic(), line
        if ended:
            return


def latencies(progress: Mapping[str, Any]) -> str:
    """Latencies from append to readable match: the median, and the 90th and 99th percentiles."""
    found = [progress["latency"][share] for share in ("p50", "p90", "p99")]
    if None in found:
        return "–"
    return " / ".join(f"{value:,.1f}" if value < 100 else f"{value:,.0f}" for value in found) + " ms"


def _unread(progress: Mapping[str, Any]) -> str:
    unread = progress["unread"]
    return "" if unread is None else f", {unread:,} in the store"


def _mode(progress: Mapping[str, Any]) -> str:
    return f"{progress['mode'] or '–'} ({count_of(progress['switches'], 'switch')})"


def _live_watermark(progress: Mapping[str, Any]) -> str:
    found = progress["eventTime"].get("watermark")
    return "none yet" if found is None else f"{found:,}" if isinstance(found, int) else str(found)
