"""Output and work arrays of the row pattern kernel, enlarged between calls when the kernel asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.kernels.rows import matching as kernel

MOST_MATCHES, MOST_ROWS = 1 << 20, 1 << 23
"""Matches, and rows of matches, from which on they are handed out while the kernel still has work to do."""


@dataclass
class WorkArrays:
    """See kernels.rows.match_partitions. Large arrays are reserved, not touched: a deep search uses them."""

    kind: np.ndarray
    start: np.ndarray
    length: np.ndarray
    number: np.ndarray
    path_from: np.ndarray
    out_path: np.ndarray
    cursor: np.ndarray
    stack_pc: np.ndarray
    stack_row: np.ndarray
    stack_low: np.ndarray
    path: np.ndarray
    best: np.ndarray
    previous: np.ndarray
    memo: np.ndarray
    seen_end: np.ndarray
    end_taken: np.ndarray
    pending: np.ndarray
    running: tuple[np.ndarray, ...]
    longest: int

    @staticmethod
    def sized(longest: int, rows: int, aggregates: int, arrays: int, array_room: int) -> WorkArrays:
        """For partitions of at most `longest` rows, `rows` in all, and arrays of at most `array_room` elements."""
        outputs, deep = max(1024, rows // 4), longest + 2
        running = (aggregates + arrays, max(deep, array_room) + 1)
        return WorkArrays(
            kind=np.empty(outputs, np.uint8),
            start=np.empty(outputs, np.int64),
            length=np.empty(outputs, np.int64),
            number=np.zeros(outputs, np.int64),
            path_from=np.zeros(outputs + 1, np.int64),
            out_path=np.empty(max(4096, rows), np.int32),
            cursor=np.zeros(7, np.int64),
            stack_pc=np.empty(max(256, 2 * deep), np.int32),
            stack_row=np.empty(max(256, 2 * deep), np.int64),
            stack_low=np.empty(max(256, 2 * deep), np.int64),
            path=np.empty(deep, np.int32),
            best=np.empty(deep, np.int32),
            previous=np.empty(deep, np.int64),
            memo=np.zeros(0, np.int64),
            seen_end=np.zeros(deep, np.int64),
            end_taken=np.zeros(deep, np.int64),
            pending=np.empty(deep, np.int64),
            running=(
                np.empty(running, np.int64),
                np.empty(running, np.float64),
                np.empty(running, np.float64),
                np.empty(running, np.int64),
            ),
            longest=longest,
        )

    def arrays(self) -> tuple[np.ndarray, ...]:
        """In the order of the kernel's arguments."""
        return (
            self.kind, self.start, self.length, self.number, self.path_from, self.out_path, self.cursor,
            self.stack_pc, self.stack_row, self.stack_low,
            self.path, self.best, self.previous, self.memo, self.seen_end,
            self.end_taken, self.pending, *self.running,
        )  # fmt: skip

    def enlarge(self, status: int, slots: int) -> bool:
        """Make room for what the kernel ran out of; False if it did not run out of anything."""
        if status == kernel.OUTPUT_FULL:
            for name in ("kind", "start", "length", "number", "path_from"):
                setattr(self, name, _doubled(getattr(self, name)))
        elif status == kernel.PATHS_FULL:
            self.out_path = _doubled(self.out_path, self.longest)
        elif status == kernel.STACK_FULL:
            for name in ("stack_pc", "stack_row", "stack_low"):
                setattr(self, name, _doubled(getattr(self, name)))
        elif status == kernel.MEMORY_NEEDED:
            self.memo = np.zeros((self.longest + 1) * slots, np.int64)
        else:
            return False
        return True

    def holds_many(self, status: int) -> bool:
        """Is there no room for output, and so much of it that it is better handed out than given more room?"""
        if self.cursor[kernel.OUTS] == 0:
            return False
        if status == kernel.OUTPUT_FULL:
            return len(self.kind) >= MOST_MATCHES
        return status == kernel.PATHS_FULL and len(self.out_path) >= MOST_ROWS

    def forget_found(self) -> None:
        """The matches found so far have been handed out; the kernel goes on after them."""
        self.cursor[kernel.OUTS] = self.cursor[kernel.PATHS] = 0

    def found(self) -> tuple[np.ndarray, ...]:
        """(kind, start, length, number, path_from, path) of the matches."""
        outs = self.cursor[kernel.OUTS]
        return (
            self.kind[:outs], self.start[:outs], self.length[:outs], self.number[:outs], self.path_from[:outs],
            self.out_path[: self.cursor[kernel.PATHS]],
        )  # fmt: skip


def _doubled(array: np.ndarray, least: int = 0) -> np.ndarray:
    larger = np.zeros(2 * len(array) + least, array.dtype)
    larger[: len(array)] = array
    return larger
