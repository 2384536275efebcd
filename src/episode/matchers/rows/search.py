"""Attempts that wait for rows, as far as they have come: their arrays by row of an arena, and their stacks.

The kernel works in these arrays in place, so that an attempt that waits costs nothing until rows come. Rows in them are
rows of the arena; when the rows of a key move, they follow.
"""

from __future__ import annotations

import numpy as np

from episode.kernels import opcodes as oc
from episode.kernels.rows import matching as kernel
from episode.kernels.rows.arrays import DEPTH, EXTREME_AT, OPEN, ROOM, ROW, SIFTED, STACK, Attempts, Program
from episode.matchers.held import ranges
from episode.matchers.rows.key_table import HI, LO, MARKS, OPENED, KeyTable
from episode.matchers.rows.work import WorkArrays

_LEAST_STACKS = 1024


class Search:
    """kept: do attempts go on, or start over? aggregates: the opcodes of the running aggregates of conditions."""

    def __init__(self, program: Program, kept: bool, aggregates: np.ndarray) -> None:
        self.kept = kept
        self.marks = 2 * program.labels + program.loops + 1
        self._slots = program.slots
        self._rows_of = np.flatnonzero((aggregates == oc.MIN_BY) | (aggregates == oc.MAX_BY))
        self._aggregates = len(aggregates)
        self._remembers = False
        self._stack_pc = np.zeros(_LEAST_STACKS, np.int32)
        self._stack_row = np.zeros(_LEAST_STACKS, np.int64)
        self._stack_low = np.zeros(_LEAST_STACKS, np.int64)
        self._cursor = np.zeros(10, np.int64)
        self.allocate(0)

    def allocate(self, rows: int) -> None:
        """New arrays for so many rows."""
        rows = rows if self.kept else 0
        self.path = np.zeros(rows, np.int32)
        self.best = np.zeros(rows, np.int32)
        self.previous = np.zeros(rows, np.int64)
        self.memo = np.zeros(rows * self._slots if self._remembers else 0, np.int64)
        running = (self._aggregates, rows + 1)
        self.agg_i, self.agg_f = np.zeros(running, np.int64), np.zeros(running, np.float64)
        self.agg_m, self.agg_n = np.zeros(running, np.float64), np.zeros(running, np.int64)

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The arrays with their rows last."""
        if not self.kept:
            return ()
        own: list[np.ndarray] = [self.path, self.best, self.previous]
        own += [running[:, 1:] for running in (self.agg_i, self.agg_f, self.agg_m, self.agg_n)]
        if self._remembers:
            own.append(self.memo.reshape(-1, self._slots).T)
        return tuple(own)

    def tidy(self, keys: KeyTable) -> None:
        """Lay the stacks out anew, where most of the room is that of keys and stacks that are gone."""
        table = keys.table
        room = table[OPENED + ROOM]
        if self._cursor[kernel.STACK_END] <= 4 * room.sum() + _LEAST_STACKS:
            return
        begin = np.cumsum(room) - room
        used = np.where(table[OPENED + OPEN] != 0, table[OPENED + DEPTH], 0)
        rows, to = ranges(table[OPENED + STACK], used), ranges(begin, used)
        larger = max(_LEAST_STACKS, 2 * int(room.sum()))
        for name in ("_stack_pc", "_stack_row", "_stack_low"):
            array = getattr(self, name)
            fresh = np.zeros(larger, array.dtype)
            fresh[to] = array[rows]
            setattr(self, name, fresh)
        table[OPENED + STACK] = begin
        self._cursor[kernel.STACK_END] = room.sum()

    def follow(self, keys: KeyTable, slots: np.ndarray, shift: np.ndarray) -> None:
        """The rows of these keys have moved by so many rows."""
        table = keys.table
        for field in (OPENED + EXTREME_AT, OPENED + SIFTED):
            table[field, slots] = np.where(table[field, slots] >= 0, table[field, slots] + shift, -1)
        waits = table[OPENED + OPEN, slots] != 0
        if not waits.any():
            return
        slots, shift = slots[waits], shift[waits]
        table[OPENED + ROW, slots] += shift
        marks = table[keys.marked, slots]
        table[keys.marked, slots] = np.where(marks >= 0, marks + shift, marks)
        held = table[HI, slots] - table[LO, slots]
        rows, by = ranges(table[LO, slots], held), np.repeat(shift, held)
        before = self.previous[rows]
        self.previous[rows] = np.where(before >= 0, before + by, before)
        for number in self._rows_of:
            self.agg_m[number, rows + 1] += by
        depth = table[OPENED + DEPTH, slots]
        entries, by = ranges(table[OPENED + STACK, slots], depth), np.repeat(shift, depth)
        for array in (self._stack_row, self._stack_low):
            array[entries] = np.where(array[entries] >= 0, array[entries] + by, array[entries])

    def attempts(self, keys: KeyTable, now: np.ndarray) -> Attempts:
        """Of the keys whose fields are `now`."""
        return Attempts(self.kept, now[OPENED:MARKS], now[keys.marked], now[keys.sought])

    def begin(self, work: WorkArrays) -> None:
        """Let the kernel work in these arrays."""
        if self.kept:
            for name in (kernel.GENERATION, kernel.ATTEMPTS, kernel.STACK_END):
                work.cursor[name] = self._cursor[name]
            self._lend(work)

    def _lend(self, work: WorkArrays) -> None:
        work.work = work.work._replace(
            stack_pc=self._stack_pc, stack_row=self._stack_row, stack_low=self._stack_low, path=self.path,
            best=self.best, previous=self.previous, memo=self.memo, agg_i=self.agg_i, agg_f=self.agg_f,
            agg_m=self.agg_m, agg_n=self.agg_n,
        )  # fmt: skip

    def enlarge(self, status: int, work: WorkArrays) -> bool:
        """Make room for what the kernel ran out of, if that is kept here."""
        if not self.kept or status not in (kernel.STACK_FULL, kernel.MEMORY_NEEDED):
            return False
        if status == kernel.MEMORY_NEEDED:
            self._remembers = True
            self.memo = np.zeros(len(self.path) * self._slots, np.int64)
        else:
            self._stack_pc, self._stack_row, self._stack_low = (
                np.concatenate([array, np.zeros_like(array)])
                for array in (self._stack_pc, self._stack_row, self._stack_low)
            )
        self._lend(work)
        return True

    def end(self, work: WorkArrays) -> None:
        """The kernel is done."""
        self._cursor = work.cursor
