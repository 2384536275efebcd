"""Events that wait for the watermark, in a few runs: a step costs what it adds and what it releases.

A run is sorted by time when a part of it is due for the first time: then due events are a prefix of it. Once a source
has many runs, the latest are merged while they are about as long as the one before, so that their number grows with the
logarithm of the events, and so does the number of times an event is copied.

See decisions 39 and 123.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.columns import concat, plain, take, to_bytes
from episode.matchers.protocol import Snapshot, StateChunk

BUFFER_VERSION = 1
_BUFFER = "buffer."
_FEW = 16
"""Runs of a source that are not worth merging."""


@dataclass
class WaitingRun:
    """Events of one source. Its name in the state is that of its first events.

    blob: the same events in bytes, if they came in bytes, until saved. saved: whether it is in the state.
    """

    number: int
    source: int
    table: pa.Table
    time: np.ndarray
    least: int
    greatest: int
    sorted: bool = False
    blob: bytes | None = None
    saved: bool = False

    @staticmethod
    def of(number: int, source: int, table: pa.Table, time: np.ndarray, blob: bytes | None = None) -> WaitingRun:
        return WaitingRun(number, source, table, time, int(time.min()), int(time.max()), blob=blob)

    @property
    def name(self) -> str:
        return f"{_BUFFER}{self.number}.{self.source}" if self.source else f"{_BUFFER}{self.number}"

    def __len__(self) -> int:
        return len(self.time)

    def due(self, until: int) -> pa.Table:
        """Remove and return the events up to a time: some of the run, but not all."""
        self._sort()
        count = int(np.searchsorted(self.time, until, side="right"))
        found = self.table.slice(0, count)
        self.table, self.time = self.table.slice(count), self.time[count:]
        self.least = int(self.time[0])
        return found

    def _sort(self) -> None:
        if not self.sorted and np.any(self.time[1:] < self.time[:-1]):
            order = np.argsort(self.time, kind="stable")
            self.table, self.time = take(self.table, order), self.time[order]
        self.sorted = True

    def at(self, times: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        """Return the events of some times (ascending, each once), which stay in the run."""
        self._sort()
        begins, ends = (np.searchsorted(self.time, times, side=side) for side in ("left", "right"))
        counts = ends - begins
        rows = np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return take(self.table, rows), self.time[rows]

    def join(self, later: WaitingRun) -> WaitingRun:
        """Merge this run and the next one of its source, under the name of this one."""
        time = np.concatenate([self.time, later.time])
        merged = WaitingRun.of(self.number, self.source, concat([self.table, later.table]), time)
        merged._sort()
        return merged


class WaitingEvents:
    """The runs of all sources, and which of them the state has."""

    def __init__(self) -> None:
        self.runs: dict[int, list[WaitingRun]] = {}
        self._gone: list[str] = []

    def __iter__(self) -> Iterator[WaitingRun]:
        """Iterate by source, then in order of arrival."""
        for source in sorted(self.runs):
            yield from self.runs[source]

    @property
    def rows(self) -> int:
        return sum(len(run) for run in self)

    @property
    def least(self) -> int | None:
        """The time of the earliest waiting event."""
        return min((run.least for run in self), default=None)

    def add(self, run: WaitingRun) -> None:
        """Add events that arrived after all others of their source."""
        runs = self.runs.setdefault(run.source, [])
        runs.append(run)
        while len(runs) > _FEW and 2 * len(runs[-1]) > len(runs[-2]):
            later, earlier = runs.pop(), runs.pop()
            self._forget(later)
            runs.append(earlier.join(later))
            if earlier.saved:
                self._gone.append(earlier.name)  # until it is saved again

    def at(self, times: np.ndarray) -> list[tuple[pa.Table, np.ndarray]]:
        """Return the events of some times (ascending, each once), with their times; they stay in the runs."""
        least, greatest = int(times[0]), int(times[-1])
        return [run.at(times) for run in self if run.least <= greatest and run.greatest >= least]

    def until(self, time: int) -> list[pa.Table]:
        """Remove and return the events up to a time: by source, then in order of arrival, or of time."""
        found = []
        for source in sorted(self.runs):
            rest = []
            for run in self.runs[source]:
                if run.greatest <= time:
                    found.append(run.table)
                    self._forget(run)
                    continue
                if run.least <= time:
                    found.append(run.due(time))
                rest.append(run)
            self.runs[source] = rest
        return found

    def _forget(self, run: WaitingRun) -> None:
        if run.saved:
            self._gone.append(run.name)

    def changes(self) -> Snapshot:
        """Return the changes since the last call. Runs that came and went between two calls leave no trace."""
        put = []
        for run in self:
            if not run.saved:
                data = run.blob if run.blob is not None else to_bytes(plain(run.table))
                put.append(StateChunk(run.name, BUFFER_VERSION, data))
                run.saved, run.blob = True, None
        again = {chunk.name for chunk in put}
        gone = tuple(dict.fromkeys(name for name in self._gone if name not in again))
        self._gone = []
        return Snapshot(tuple(put), gone)


def is_waiting(chunk: StateChunk) -> bool:
    """Whether a chunk of a state is a run."""
    return chunk.name.startswith(_BUFFER)


def run_named(chunk: StateChunk) -> tuple[int, int]:
    """Return the number and the source of the run in a chunk."""
    number, _, source = chunk.name.removeprefix(_BUFFER).partition(".")
    return int(number), int(source or 0)
