"""A clock that says in which stage of its work a task is: for `explain(analyze=True)` alone, never in a usual run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TypeVar

READ, ORDER, PREPARE, MATCH, ASSEMBLE = "read", "order", "prepare", "match", "assemble"
STAGES = (READ, ORDER, PREPARE, MATCH, ASSEMBLE)
"""Rows come, scanned or unpacked; they are grouped by key and put in order; they become lanes, and bits of
row-local conditions; they are searched; matches become tables."""

Item = TypeVar("Item")


class StageClock:
    """Time by stage: at any moment one of them runs, or none."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._stage: str | None = None
        self._since = 0.0

    def enter(self, stage: str | None) -> str | None:
        """From now on, time is that of this stage (None: of none); returns the one before."""
        now, before = perf_counter(), self._stage
        if before is not None:
            self._seconds[before] += now - self._since
        self._stage, self._since = stage, now
        return before

    def reading(self, items: Iterable[Item]) -> Iterator[Item]:
        """Items that are read; what is done with them until the next one is to put them in order."""
        source = iter(items)
        while True:
            self.enter(READ)
            try:
                item = next(source)
            except StopIteration:
                return
            finally:
                self.enter(ORDER)
            yield item

    def take(self) -> dict[str, float]:
        """Seconds by stage, since this was last asked."""
        self.enter(self._stage)
        taken, self._seconds = self._seconds, dict.fromkeys(STAGES, 0.0)
        return taken
