"""Inputs that are scripted: what there is to read is what the test says, and waiting takes no time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.live.protocol import InputBatch, Position

PART = "events"


class ScriptedInput:
    """Commits of so many events each, numbered; `there` of them can be read so far (None: all)."""

    def __init__(self, commits: Sequence[int], there: int | None = None, barriers: Sequence[int] = ()) -> None:
        self.ends = np.concatenate([[0], np.cumsum(commits)]).astype(int)
        self.there = len(commits) if there is None else there
        self.barriers = barriers
        self.reads: list[int] = []
        self.waits = 0

    def read(self, after: Position, rows: int, until: Position | None = None) -> InputBatch | None:
        self.reads.append(rows)
        first = after.get(PART, 0)
        if first >= self.there:
            return None
        last = first + 1
        while last < self.there and self.ends[last + 1] - self.ends[first] <= rows and last not in self.barriers:
            last += 1
        begin, end = int(self.ends[first]), int(self.ends[last])
        reached = np.repeat(self.ends[first:last] - 1, np.diff(self.ends[first : last + 1]))
        table = pa.table({"n": np.arange(begin, end)})
        return InputBatch(table, {PART: last}, end - 1, float(last), reached, barrier=last in self.barriers)

    def wait(self, after: Position, seconds: float) -> None:
        self.waits += 1

    def unread(self, after: Position) -> int | None:
        return int(self.ends[self.there] - self.ends[after.get(PART, 0)])

    def close(self) -> None:
        pass


def numbers(batches: Sequence[InputBatch]) -> list[int]:
    """The events of batches, in order."""
    return [number for batch in batches for number in batch.table.column("n").to_pylist()]
