"""A pattern over the matches of another one, in one streaming query.

Spark has one watermark for a query, and passes it from one stateful operator to the next. So a pattern over matches
does not set one: its time is Spark's watermark minus the greatest delay with which the patterns before it report a time
(`plan.delays`). All matches that a watermark decides reach the next pattern in the same micro-batch.

The plan of a streaming frame shows the patterns before it: each leaves a column whose name encodes its delays. The
delay of a single column of times is in the column's metadata, which is lost if the column is computed anew: then it
is unknown.

See decision 88.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from episode.errors import EpisodeAnalysisError
from episode.plan.event_time import UNBOUNDED, EventTime, watermark_milliseconds, widest

DELAY = "episode.delay"
"""Key in a column's metadata: the column has times of matches, with this delay in ms of Spark's watermark."""

WATERMARK = "spark.watermarkDelayMs"
_MARK = "episode_matches"
_NEVER = "never"
_MARKED = re.compile(rf"\b{_MARK}_(never|\d+)_(never|\d+)\b")
_BRANCHES = " :+-~'!"
"""Text before a node in a printed plan: the branches of its tree, and the node's state."""

_COUNTERS = re.compile(r"CollectMetrics (.*?), \[")


@dataclass(frozen=True)
class WatermarkClock:
    """The time of a pattern by Spark's watermark.

    unit: how many units of event time a millisecond of the watermark has. delay: in milliseconds. settled: the
    watermark from which on no more matches come, so that nothing is delayed.
    """

    unit: int
    delay: int = 0
    settled: int | None = None

    def watermark(self, milliseconds: int) -> int:
        """The time up to which all events are in, in units of event time."""
        is_settled = self.settled is not None and milliseconds >= self.settled
        return (milliseconds - (0 if is_settled else self.delay)) * self.unit

    def reaches(self, time: int) -> int:
        """The least watermark of Spark at which this clock shows a time, or a later one."""
        milliseconds = -(-time // self.unit)
        delayed = milliseconds + self.delay
        return delayed if self.settled is None else min(delayed, max(milliseconds, self.settled))


@dataclass(frozen=True)
class Chain:
    """The patterns whose matches a streaming frame has.

    delays: of each pattern, the delay that holds for all times of its matches, in milliseconds. settled: the watermark
    from which on none of them reports a match. counters: the names of their counters. merged: is it the union of
    streams? A column of it then has the metadata of the first one.
    """

    delays: tuple[int | None, ...]
    settled: int | None
    counters: frozenset[str]
    merged: bool

    def clock(self, frame: DataFrame, time: EventTime, watermark: str | int | None) -> tuple[WatermarkClock, str, bool]:
        """The clock of a pattern over these matches, in words, and whether it takes the caller's watermark."""
        metadata: dict[str, Any] = frame.schema[time.column].metadata
        is_time = DELAY in metadata or (self.merged and WATERMARK in metadata)
        delay = widest(self.delays) if self.merged else metadata.get(DELAY, UNBOUNDED)
        if is_time and delay is not UNBOUNDED and delay >= 0:
            clock = WatermarkClock(time.units_per_millisecond, delay, self.settled)
            return clock, f"{delay} ms behind {time.column} (that of the patterns before this one)", False
        if watermark is None:
            raise _unknown(time, is_time)
        clock = WatermarkClock(time.units_per_millisecond, watermark_milliseconds(watermark, time), self.settled)
        return clock, f"{watermark} behind {time.column}", True

    def free_name(self, counters: str) -> str:
        """A name for the counters of a further pattern."""
        number, name = 1, counters
        while name in self.counters:
            number += 1
            name = f"{counters}_{number}"
        return name


def _unknown(time: EventTime, is_time: bool) -> EpisodeAnalysisError:
    """The error if it is unknown when all matches up to a time are there."""
    own = (
        f"or set how long after {time.column} a match may be reported: Options(watermark=…), in a separate call for "
        "the second pattern. Or write the matches of the first to a table or a topic, and run the second as a separate "
        "query."
    )
    if is_time:
        return EpisodeAnalysisError(
            f"The event time {time.column} is a time of matches of another pattern, which may be reported at any later "
            "time: nothing bounds how long a match stays open.",
            hint=f"Add WITHIN to that pattern; {own}",
        )
    return EpisodeAnalysisError(
        f"The events are matches of another pattern, and {time.column} is not one of their times as that pattern "
        "gives them: it is not known how late they come by it.",
        hint=f"Order by match_end, match_start or another time of a row of the match, not computed anew; {own}",
    )


def chain_of(frame: DataFrame) -> Chain | None:
    """The patterns before a streaming frame, or None."""
    if hasattr(frame, "_jdf"):
        plan = str(frame._jdf.queryExecution().analyzed().toString())
    else:  # Spark Connect asks the server
        plan = str(frame._explain_string(extended=True))
    lines = plan.splitlines()
    marks = {mark.groups() for line in lines for mark in _MARKED.finditer(line)}
    if not marks:
        return None
    _refuse_watermarks(lines)
    delays = tuple(UNBOUNDED if delay == _NEVER else int(delay) for delay, _ in sorted(marks))
    settled = None if any(end == _NEVER for _, end in marks) else max(int(end) for _, end in marks)
    counters = frozenset(name for line in lines for name in _COUNTERS.findall(line))
    return Chain(delays, settled, counters, any(line.lstrip(_BRANCHES).startswith("Union") for line in lines))


def has_watermark(frame: DataFrame) -> bool:
    """Whether a streaming frame has a watermark on one of its columns."""
    return any(WATERMARK in one.metadata for one in frame.schema.fields)


def mark(delay: int | None, settled: int | None) -> str:
    """The name of a column by which `chain_of` knows a pattern."""
    return f"{_MARK}_{_NEVER if delay is None else delay}_{_NEVER if settled is None else settled}"


def _refuse_watermarks(lines: list[str]) -> None:
    """Refuse a second watermark: it would stop Spark's, and the query with it."""
    depth = [len(line) - len(line.lstrip(_BRANCHES)) for line in lines]
    for at, line in enumerate(lines):
        if not line.lstrip(_BRANCHES).startswith("EventTimeWatermark"):
            continue
        below = at + 1
        while below < len(lines) and depth[below] > depth[at]:
            if _MARKED.search(lines[below]):
                raise EpisodeAnalysisError(
                    "withWatermark on the matches of a pattern: a streaming query cannot have a second watermark after "
                    "the first.",
                    hint="Leave it out: matches come with the watermark of the events that they are made of.",
                )
            below += 1
