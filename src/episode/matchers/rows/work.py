"""Output and work arrays of the row pattern search, enlarged between calls when the search asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.matchers.rows import codes
from episode.matchers.rows.arrays import CURSOR, OUTS, PATHS, FoundPaths, SearchWork
from episode.matchers.rows.code.values import RunningValues

MOST_MATCHES, MOST_ROWS = 1 << 20, 1 << 23
"""Matches, and rows of matches, from which on they are handed out while the search still has work to do."""


@dataclass
class WorkArrays:
    """For partitions of at most `longest` rows. Large arrays are reserved, not touched: a deep search uses them."""

    found: FoundPaths
    work: SearchWork
    longest: int

    @staticmethod
    def sized(longest: int, rows: int, values: RunningValues, counts: np.ndarray) -> WorkArrays:
        """For partitions of at most `longest` rows, `rows` in all, and the values that conditions need."""
        outputs, deep = max(1024, rows // 4), longest + 2
        stack = max(256, 2 * deep)
        running = values.shape(deep)
        found = FoundPaths(
            kind=np.empty(outputs, np.uint8),
            start=np.empty(outputs, np.int64),
            length=np.empty(outputs, np.int64),
            number=np.zeros(outputs, np.int64),
            path_from=np.zeros(outputs + 1, np.int64),
            path=np.empty(max(4096, rows), np.int32),
        )
        work = SearchWork(
            cursor=np.zeros(CURSOR, np.int64),
            stack_pc=np.empty(stack, np.int32),
            stack_row=np.empty(stack, np.int64),
            stack_low=np.empty(stack, np.int64),
            path=np.empty(deep, np.int32),
            best=np.empty(deep, np.int32),
            previous=np.empty(deep, np.int64),
            memo=np.zeros(0, np.int64),
            seen_end=np.zeros(deep, np.int64),
            end_taken=np.zeros(deep, np.int64),
            pending=np.empty(deep, np.int64),
            agg_i=np.empty(running, np.int64),
            agg_f=np.empty(running, np.float64),
            agg_m=np.empty(running, np.float64),
            agg_n=np.empty(running, np.int64),
            counts=counts,
        )
        return WorkArrays(found, work, longest)

    @property
    def cursor(self) -> np.ndarray:
        return self.work.cursor

    def enlarge(self, status: int, slots: int) -> bool:
        """Make room for what the search ran out of; False if it did not run out of anything."""
        found, work = self.found, self.work
        if status == codes.OUTPUT_FULL:
            self.found = found._replace(
                kind=_doubled(found.kind),
                start=_doubled(found.start),
                length=_doubled(found.length),
                number=_doubled(found.number),
                path_from=_doubled(found.path_from),
            )
        elif status == codes.PATHS_FULL:
            self.found = found._replace(path=_doubled(found.path, self.longest))
        elif status == codes.STACK_FULL:
            self.work = work._replace(
                stack_pc=_doubled(work.stack_pc),
                stack_row=_doubled(work.stack_row),
                stack_low=_doubled(work.stack_low),
            )
        elif status == codes.MEMORY_NEEDED:
            self.work = work._replace(memo=np.zeros((self.longest + 1) * slots, np.int64))
        else:
            return False
        return True

    def holds_many(self, status: int) -> bool:
        """Is there no room for output, and so much of it that it is better handed out than given more room?"""
        if self.cursor[OUTS] == 0:
            return False
        if status == codes.OUTPUT_FULL:
            return len(self.found.kind) >= MOST_MATCHES
        return status == codes.PATHS_FULL and len(self.found.path) >= MOST_ROWS

    def forget_found(self) -> None:
        """The matches found so far have been handed out; the search goes on after them."""
        self.cursor[OUTS] = self.cursor[PATHS] = 0

    def matches(self) -> FoundPaths:
        """The matches found so far, without the room for more."""
        outs = self.cursor[OUTS]
        path = self.found.path[: self.cursor[PATHS]]
        return FoundPaths(*(array[:outs] for array in self.found))._replace(path=path)


def _doubled(array: np.ndarray, least: int = 0) -> np.ndarray:
    larger = np.zeros(2 * len(array) + least, array.dtype)
    larger[: len(array)] = array
    return larger
