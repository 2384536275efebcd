"""A clock of the stages of a task's work, for `explain(analyze=True)`; usual runs have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TypeVar

READ, ORDER, PREPARE, MATCH, ASSEMBLE = "read", "order", "prepare", "match", "assemble"
STAGES = (READ, ORDER, PREPARE, MATCH, ASSEMBLE)
"""Stages: rows are scanned or unpacked; grouped by key and ordered; turned into lanes and bits of row-local conditions;
searched; turned into tables of matches."""

Item = TypeVar("Item")


class StageClock:
    """Time by stage: at any moment one of them runs, or none."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._stage: str | None = None
        self._since = 0.0

    def enter(self, stage: str | None) -> str | None:
        """Count time for this stage from now on (None: for none); return the stage before."""
        now, before = perf_counter(), self._stage
        if before is not None:
            self._seconds[before] += now - self._since
        self._stage, self._since = stage, now
        return before

    def reading(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items, counting the time to read each; the time until the next one counts for ORDER."""
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
        """Return seconds by stage since the last call."""
        self.enter(self._stage)
        taken, self._seconds = self._seconds, dict.fromkeys(STAGES, 0.0)
        return taken
