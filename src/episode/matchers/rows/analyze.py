"""Matchers of row patterns that count and clock their work, for `explain(analyze=True)`.

The search runs as always, between two readings of the clock. Rows that came to each instruction, which a search with
short cuts cannot count, are counted by a second search over copies of the same partitions, outside the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeError
from episode.matchers.codes import TIMED_OUT, UNMATCHED
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.arrays import ATTEMPTS, SearchPartitions, WorkArrays
from episode.matchers.rows.matcher import RowPatternMatcher, RowSearch
from episode.matchers.rows.windows import WindowMatcher
from episode.matchers.stage_clock import ASSEMBLE, MATCH, PREPARE, StageClock
from episode.matchers.state import ranges
from episode.plan.rows.plan import RowReport

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec


class AnalyzedRowMatcher(RowPatternMatcher):
    """Analyzed matcher of MATCH_RECOGNIZE: with counts, a clock and a report."""

    clock: StageClock

    def __init__(self, spec: RowPatternSpec, clock: StageClock) -> None:
        super().__init__(spec)
        self.clock = clock
        instructions = len(self.program.code)
        self._fed = self._found = self._attempts = self._counted = 0
        self._taken = np.zeros(instructions, np.int64)
        self._offered = np.zeros(len(self.plan.labels.names), np.int64)

    def report(self) -> RowReport:
        """See `Reports`; the time of the task is reported by the first matcher whose report is read."""
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
        yield from self._clock_tables(super().feed(events, until))

    def finish(self) -> Iterator[pa.Table]:
        yield from self._clock_tables(super().finish())

    def _clock_tables(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables, with the clock in PREPARE until the search runs, and outside while a table is used."""
        outside, inside = self.clock.enter(PREPARE), PREPARE
        for table in tables:
            inside = self.clock.enter(outside) or PREPARE
            yield table
            self.clock.enter(inside)
        self.clock.enter(outside)

    def _run(self, search: RowSearch) -> Iterator[WorkArrays]:
        if search.waiting is None:
            before = self.clock.enter(None)
            self._count(search)
            self.clock.enter(before)
        self.clock.enter(MATCH)
        begun = 0 if search.waiting is None else search.waiting.attempts_so_far
        for work in super()._run(search):
            self.clock.enter(ASSEMBLE)
            ended = int(work.cursor[ATTEMPTS])
            self._attempts, begun = self._attempts + ended - begun, ended
            self._note(work)
            yield work
            self.clock.enter(MATCH)
        self.clock.enter(PREPARE)

    def _note(self, work: WorkArrays) -> None:
        """Count matches, and the rows that each instruction took for them."""
        found = work.matches()
        matches = (found.kind != UNMATCHED) & (found.number != TIMED_OUT if self.plan.output.timed_out else True)
        self._found += int(np.count_nonzero(matches))
        path = found.path[ranges(found.path_from[matches], found.length[matches])]
        self._taken += np.bincount(path, minlength=len(self._taken))

    def _count(self, search: RowSearch) -> None:
        """Search copies of the partitions, counting; the counts of a search that takes too many steps are dropped."""
        copies = SearchPartitions(*(array.copy() for array in search.partitions))
        steps, counts, settings = self.steps, self._counts, self.settings
        self._counts, self.settings = np.zeros_like(counts), settings._replace(counting=True)
        try:
            for _ in super()._run(search._replace(partitions=copies)):
                pass
            counts += self._counts
            bits = search.rows.bits
            self._counted += len(bits)
            for number in range(len(self._offered)):
                self._offered[number] += np.count_nonzero(bits & np.uint64(1 << number))
        except EpisodeError:
            pass
        finally:
            self.steps, self._counts, self.settings = steps, counts, settings


class AnalyzedWindowMatcher(AnalyzedRowMatcher, WindowMatcher):
    """Analyzed matcher of a row pattern in a window."""
