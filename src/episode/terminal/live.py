"""How a running stream is doing, from what Spark says of its micro-batches: as a picture, or as a line for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from episode.terminal.dropped import added, as_rows, dropped_of, in_words
from episode.terminal.table import result_table
from episode.words import count_of, size
from episode.words import duration_in_one_unit as duration

RESULT = "episode_result"
"""The name under which rows of the result are observed, in a counter `rows`."""
SHOWN_ROWS = 20


@dataclass(frozen=True)
class MicroBatch:
    """What happened in a micro-batch, and how things stand after it.

    matches: rows of the query's result. dropped: events without effect, by the reason.
    state_rows: events held for open matches, in the shards that had work in the micro-batch.
    lag: seconds from the watermark to the clock; None before there is a watermark, and where event time is a number.
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
    """A micro-batch from Spark's progress; None where Spark reports that there was nothing to do."""
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
        dropped=added(map(dropped_of, patterns)),
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
    """The watermark in words, and how far it is behind the clock. Spark's first one is the beginning of time."""
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
        self.dropped = added([self.dropped, batch.dropped])
        self.last = batch

    def totals(self) -> str:
        events, matches = count_of(self.events, "event"), count_of(self.matches, "match")
        return f"{events}, {matches}, {in_words(self.dropped)}"

    def __rich__(self) -> RenderableType:
        numbers = self._numbers()
        if not self.shows_matches:
            return numbers
        return Group(numbers, result_table(self.columns, list(self.latest)))

    def _numbers(self) -> RenderableType:
        """First the numbers, then the matches: where the screen is too small, the end is cut off."""
        if self.last is None:
            return Text("waiting for events", style="dim")
        last = self.last
        lag = "" if last.lag is None else f" ({duration(last.lag)} after the clock)"
        table = Table.grid(padding=(0, 2))
        rows = [
            ("events", f"{self.events:,}", rate(last.events, last.seconds)),
            ("matches", f"{self.matches:,}", rate(last.matches, last.seconds)),
            *as_rows(self.dropped),
            ("rows held", f"{last.state_rows:,}", "in shards with work"),
            ("state", size(last.state_bytes), ""),
            ("watermark", last.watermark + lag, ""),
            ("micro-batch", f"{last.number:,}", f"{last.seconds:.1f} s"),
        ]
        for name, value, more in rows:
            table.add_row(Text(name, style="dim"), Text(value), Text(more))
        return table


def rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.1f}/s" if seconds > 0 else "–/s"
