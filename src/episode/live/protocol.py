"""What a live task is made of: where events come from, where matches go, and what describes the task.

A task's state is a function of the input's position alone, however the input was cut into slices: so what was read may
be read again after a failure, and gives the same matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from episode.matchers.protocol import MatcherSpec
from episode.matchers.stream_shard import LiveRules

Position = Mapping[str, int]
"""Of each part of an input (a stream, a partition of a topic): what has been read; it only grows. {} is the beginning.
Names with a # in them are notes of the input to itself, which do not count when two positions are compared."""

Handling = Literal["pull", "push", "adaptive"]
"""How events come to the matching loop."""

Preparing = Callable[[pa.Table], pa.Table]
"""Makes the input columns of a pattern from the columns of a stream, or the columns of the result from those of a
matcher. It is picklable, and the rows keep their order."""


def has_reached(position: Position, other: Position) -> bool:
    """Has everything up to the other position been read?"""
    return all(position.get(name, 0) >= number for name, number in other.items() if "#" not in name)


@dataclass(frozen=True)
class Slice:
    """Events of one task that came together, in order of arrival; without events: time has gone on.

    table: the columns that the matcher reads.
    after: the position after it. watermark: of the input at that position (NO_WATERMARK: none yet). Where there are
        several streams, the least of theirs.
    appended: when the first event became readable, by the clock (time.time()), as well as known; 0: unknown. So
        what is said of latencies is rather too much than too little.
    reached: int64 for each event: the watermark that its stream had reached before the smallest part of the input with
        which it came (a commit, a record). An event at or before it is late. This may not depend on how the input was
        cut into slices. None: the watermark of the slices before is meant.
    source: the number of the stream: events of the same time are in order of the streams' numbers, then of arrival.
    barrier: a snapshot is to be kept after it before anything further is read, because the watermark depends on more
        than the position (the clock said that a partition is idle).
    """

    table: pa.Table
    after: Position
    watermark: int
    appended: float
    reached: np.ndarray | None = None
    source: int = 0
    barrier: bool = False

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)


class LiveInput(Protocol):
    """The events of one task. One thread calls it; only `unread` may come from another one meanwhile."""

    def read(self, after: Position, rows: int, until: Position | None = None) -> Slice | None:
        """The next events, about so many at most, and at least one commit; None: nothing is there now.

        until: read no further than this position, which was reached before.
        """
        ...

    def wait(self, after: Position, seconds: float) -> None:
        """Return when something may be there, or the time is over."""
        ...

    def unread(self, after: Position) -> int | None:
        """How many events wait in the store, of all tasks together; it costs little. None: unknown."""
        ...

    def close(self) -> None: ...


class LiveSink(Protocol):
    """Where the matches of one task go."""

    def committed(self) -> Position | None:
        """The input position of the last write of this task that is out; None: there was none."""
        ...

    def write(self, matches: pa.Table, after: Position) -> None:
        """Matches that were found up to a position: all or nothing. They can be read when this returns, or when `flush`
        does."""
        ...

    def flush(self, after: Position) -> None:
        """Everything written is out after this: before a snapshot."""
        ...

    def close(self) -> None: ...


class InputDescription(Protocol):
    """What opens the input of a task, where the task runs. Picklable."""

    def open(self, task: int, tasks: int) -> LiveInput: ...


class SinkDescription(Protocol):
    """What opens the sink of a task, where the task runs. Picklable. query: the id of the live query."""

    def open(self, query: str, task: int) -> LiveSink: ...


@dataclass(frozen=True)
class TaskOptions:
    """How a task works.

    handling: pull, push or adaptive. step_rows: events that are matched at once, about, where the task is behind.
        slice_rows: the unit in which adaptive handling reads and counts. max_unprocessed: events that an input thread
        may hold. future: how many matches to come adaptive handling pushes ahead where matches are frequent (U in Lau's
        thesis): more speed for more memory.
    snapshot_every: seconds between two snapshots. late_path: a directory for late events, as Parquet files.
    """

    handling: Handling = "adaptive"
    step_rows: int = 1 << 17
    slice_rows: int = 1 << 14
    max_unprocessed: int = 1_000_000
    future: int = 0
    snapshot_every: float = 5.0
    late_path: str | None = None


@dataclass(frozen=True)
class TaskDescription:
    """All that a task needs, sent to where it runs.

    rules: of_matches is set: an event is late by the watermark of the slices before its own.
    finish: the result's columns from the matcher's; None: they are the same.
    checkpoint: a directory that all tasks reach. query: the id of the live query, kept in the checkpoint.
    fingerprint: what the checkpoint belongs to: the query, the values of its parameters, its streams.
    rule_log: where the rules are that the spec runs, if it runs rules that change.
    """

    spec: MatcherSpec
    rules: LiveRules
    finish: Preparing | None
    input: InputDescription
    sink: SinkDescription
    checkpoint: str
    query: str
    fingerprint: str
    task: int
    tasks: int
    options: TaskOptions = TaskOptions()
    rule_log: str | None = None
