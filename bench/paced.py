"""A stream store whose commits become readable at a chosen rate, for experiments on input handling.

All commits are on the disk before the clock starts, so that no producer takes time from the cores that are measured;
reading and decoding them costs what it always does. A commit is readable when its last event would have been appended.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from episode.live.protocol import InputBatch, LiveInput, Position
from episode.store.catalog import Catalog
from episode.store.declaration import declare
from episode.store.stream import StreamStore

NAME = "ticks"


def stored(table: pa.Table, columns: str, commit_rows: int, catalog: str) -> StreamStore:
    """The rows in a store of their own, in commits of so many; in one lane, as for one task."""
    declaration = declare(NAME, columns, time="ts", key="symbol", options={"sync": "false"}, lanes=1)
    store = StreamStore(Catalog(catalog).create(declaration))
    for start in range(0, table.num_rows, commit_rows):
        store.append(table.slice(start, commit_rows))
    return store


class PacedInput:
    """Commits of an input, the first so many of them, at a rate of events per second.

    readable: int64 for each commit, seconds after the start from which on it is there. queued: the sum over all events
    of how many were readable and not read when they were.
    """

    def __init__(self, input: LiveInput, commits: int, commit_rows: int, rate: float) -> None:
        self.commits, self.commit_rows = commits, commit_rows
        self.readable = np.arange(1, commits + 1) * (commit_rows / rate)
        self.queued = 0
        self._input = input
        self._began = time.perf_counter()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    def read(self, after: Position, rows: int, until: Position | None = None) -> InputBatch | None:
        at = after.get(NAME, 0)
        there = int(np.searchsorted(self.readable, self.now, side="right"))
        if there <= at:
            return None
        found = self._input.read(after, rows, {NAME: there})
        if found is not None:
            self.queued += found.rows * (there - found.after[NAME]) * self.commit_rows
        return found

    def wait(self, after: Position, seconds: float) -> None:
        at = after.get(NAME, 0)
        left = self.readable[at] - self.now if at < self.commits else seconds
        if left > 0:
            time.sleep(min(seconds, left))

    def unread(self, after: Position) -> int | None:
        return self._input.unread(after)

    def close(self) -> None:
        self._input.close()

    def latency(self, after: int, until: int) -> float:
        """Sum over the events of commits after + 1 … until of the seconds since they became readable."""
        return float((self.now - self.readable[after:until]).sum()) * self.commit_rows
