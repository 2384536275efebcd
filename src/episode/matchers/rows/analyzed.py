"""Matchers of row patterns that count and clock what they do, for `explain(analyze=True)`.

The search runs as always, between two readings of the clock. What only a search without short cuts can say (rows that
came to each instruction) is counted by a second search over copies of the same partitions, which the clock leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeError
from episode.matchers.codes import TIMED_OUT, UNMATCHED
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.arrays import ATTEMPTS, Attempts, SearchPartitions, SearchRows, WorkArrays
from episode.matchers.rows.attempts import RowSearch
from episode.matchers.rows.code.running import Lowered
from episode.matchers.rows.matcher import RowPatternMatcher
from episode.matchers.rows.windows import WindowMatcher
from episode.matchers.stage_clock import ASSEMBLE, MATCH, PREPARE, StageClock
from episode.matchers.state import ranges
from episode.plan.rows.report import RowReport

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec


class Analyzed(RowPatternMatcher):
    """What is added to a matcher: counts, a clock, and a report."""

    clock: StageClock

    def __init__(self, spec: RowPatternSpec, clock: StageClock) -> None:
        super().__init__(spec)
        self.clock = clock
        instructions = len(self.program.code)
        self._fed = self._found = self._attempts = self._counted = 0
        self._taken = np.zeros(instructions, np.int64)
        self._offered = np.zeros(len(self.plan.labels.names), np.int64)

    def report(self) -> RowReport:
        """What `Reports` says; the time of its task goes to the first matcher that is asked."""
        counts = self._counts.sum(axis=1)
        return RowReport(
            parts=1,
            rows=self._fed,
            matches=self._found,
            attempts=self._attempts,
            steps=self.steps,
            taken=tuple(self._taken.tolist()),
            counted=self._counted,
            offered=tuple(self._offered.tolist()),
            tried=tuple(counts[:, 0].tolist()),
            refused=tuple(counts[:, 1].tolist()),
            seconds=self.clock.take(),
        )

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        self._fed += len(events)
        yield from self._clocked(super().feed(events, until))

    def finish(self) -> Iterator[pa.Table]:
        yield from self._clocked(super().finish())

    def _clocked(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Tables as they are made: rows are prepared until the search runs; who takes a table is in a stage of his."""
        outside, inside = self.clock.enter(PREPARE), PREPARE
        for table in tables:
            inside = self.clock.enter(outside) or PREPARE
            yield table
            self.clock.enter(inside)
        self.clock.enter(outside)

    def _run(
        self, lowered: Lowered, rows: SearchRows, partitions: SearchPartitions, search: RowSearch | None,
        attempts: Attempts, count: int, until: int, final: bool, events_at: Callable[[int], EventBatch],
    ) -> Iterator[WorkArrays]:  # fmt: skip
        if search is None:
            before = self.clock.enter(None)
            self._count(lowered, rows, partitions, attempts, count, until, final, events_at)
            self.clock.enter(before)
        self.clock.enter(MATCH)
        begun = 0 if search is None else search.attempts_so_far
        for work in super()._run(lowered, rows, partitions, search, attempts, count, until, final, events_at):
            self.clock.enter(ASSEMBLE)
            ended = int(work.cursor[ATTEMPTS])
            self._attempts, begun = self._attempts + ended - begun, ended
            self._note(work)
            yield work
            self.clock.enter(MATCH)
        self.clock.enter(PREPARE)

    def _note(self, work: WorkArrays) -> None:
        """Matches that were found, and the instructions that took their rows."""
        found = work.matches()
        matches = (found.kind != UNMATCHED) & (found.number != TIMED_OUT if self.plan.output.timed_out else True)
        self._found += int(np.count_nonzero(matches))
        path = found.path[ranges(found.path_from[matches], found.length[matches])]
        self._taken += np.bincount(path, minlength=len(self._taken))

    def _count(
        self, lowered: Lowered, rows: SearchRows, partitions: SearchPartitions, attempts: Attempts, count: int,
        until: int, final: bool, events_at: Callable[[int], EventBatch],
    ) -> None:  # fmt: skip
        """Search copies of the partitions, counting; where that takes too many steps, what was counted stays out."""
        copies = SearchPartitions(*(array.copy() for array in partitions))
        steps, counts, rules = self.steps, self._counts, self.rules
        self._counts, self.rules = np.zeros_like(counts), rules._replace(counting=True)
        try:
            for _ in super()._run(lowered, rows, copies, None, attempts, count, until, final, events_at):
                pass
            counts += self._counts
            self._counted += len(rows.bits)
            for number in range(len(self._offered)):
                self._offered[number] += np.count_nonzero(rows.bits & np.uint64(1 << number))
        except EpisodeError:
            pass
        finally:
            self.steps, self._counts, self.rules = steps, counts, rules


class AnalyzedRowMatcher(Analyzed):
    """Of MATCH_RECOGNIZE."""


class AnalyzedWindowMatcher(Analyzed, WindowMatcher):
    """Of a row pattern in a window."""
