"""The parts of a live task: input, sink, options and description.

A task's state is a function of the input's position alone, however the input was cut into batches: after a failure
events may be read again, and give the same matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from episode.matchers.protocol import MatcherSpec
from episode.matchers.stream_shard import ShardSettings

Position = Mapping[str, int]
"""Progress in each part of an input (a stream, a partition of a topic); numbers only grow. {} is the beginning.
Names with a # are private notes of the input, ignored when positions are compared."""

Handling = Literal["pull", "push", "adaptive"]
"""The way in which events reach the matching loop."""

Prepare = Callable[[pa.Table], pa.Table]
"""Computes the input columns of a pattern from the columns of a stream, or the result columns from those of a matcher.
Picklable; keeps the order of rows."""


def has_reached(position: Position, other: Position) -> bool:
    """Whether everything up to the other position has been read."""
    return all(position.get(name, 0) >= number for name, number in other.items() if "#" not in name)


@dataclass(frozen=True)
class InputBatch:
    """Events of one task that came together, in order of arrival; without events: time has advanced.

    table: the columns that the matcher reads.
    after: the position after it. watermark: of the input at that position (NO_WATERMARK: none yet); the least of all
        streams.
    appended: when the first event became readable (time.time()), best known; 0: unknown. Latencies are upper bounds.
    reached: int64 for each event: the watermark that its stream had reached before the smallest part of the input with
        which it came (a commit, a record). An event at or before it is late. This may not depend on how the input was
        cut into batches. None: the watermark of the previous batches.
    source: the number of the stream: events of the same time are in order of the streams' numbers, then of arrival.
    barrier: keep a snapshot after this batch before reading further, because the watermark depends on more than the
        position (on the clock, if a partition turned idle).
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
    """The events of one task. Called by one thread, except `unread`, which another may call."""

    def read(self, after: Position, rows: int, until: Position | None = None) -> InputBatch | None:
        """Return the next events, at least one commit and about `rows` at most; None if nothing has arrived.

        until: read no further than this position, which was reached before.
        """
        ...

    def wait(self, after: Position, seconds: float) -> None:
        """Return when there may be events, or after `seconds`."""
        ...

    def unread(self, after: Position) -> int | None:
        """Return the number of events that wait in the store, for all tasks; it is cheap. None: unknown."""
        ...

    def close(self) -> None: ...


class LiveSink(Protocol):
    """The output of one task."""

    def last_position(self) -> Position | None:
        """Return the input position of this task's last durable write; None if there was none."""
        ...

    def write(self, matches: pa.Table, after: Position) -> None:
        """Write the matches up to a position, all or nothing: readable once this returns, or `flush` does."""
        ...

    def flush(self, after: Position) -> None:
        """Make everything written durable: called before a snapshot."""
        ...

    def close(self) -> None: ...


class InputDescription(Protocol):
    """Opens the input of a task, where the task runs. Picklable."""

    def open(self, task: int, tasks: int) -> LiveInput: ...


class SinkDescription(Protocol):
    """Opens the sink of a task, where the task runs. Picklable. query: the id of the live query."""

    def open(self, query: str, task: int) -> LiveSink: ...


@dataclass(frozen=True)
class TaskOptions:
    """Settings of a task.

    handling: pull, push or adaptive. step_rows: events matched at once, about, if the task is behind.
        batch_rows: the unit in which adaptive handling reads and counts. max_unprocessed: events that an input thread
        may hold. future: number of future matches that adaptive handling pushes ahead if matches are frequent (U in
        Lau's thesis): more speed for more memory.
    snapshot_every: seconds between two snapshots. late_path: a directory for late events, as Parquet files.
    """

    handling: Handling = "adaptive"
    step_rows: int = 1 << 17
    batch_rows: int = 1 << 14
    max_unprocessed: int = 1_000_000
    future: int = 0
    snapshot_every: float = 5.0
    late_path: str | None = None


@dataclass(frozen=True)
class TaskDescription:
    """Everything a task needs, sent to where it runs.

    settings: late_by_last_step is set: an event is late by the watermark of the batches before its own.
    finish: computes the result's columns from the matcher's; None: they are the same.
    checkpoint: a directory that all tasks reach. query: the id of the live query, kept in the checkpoint.
    fingerprint: identifies the query, the values of its parameters and its streams.
    rule_log: the log of the rules that the spec runs, if rules may change.
    """

    spec: MatcherSpec
    settings: ShardSettings
    finish: Prepare | None
    input: InputDescription
    sink: SinkDescription
    checkpoint: str
    query: str
    fingerprint: str
    task: int
    tasks: int
    options: TaskOptions = TaskOptions()
    rule_log: str | None = None
