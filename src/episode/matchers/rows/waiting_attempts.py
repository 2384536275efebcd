"""Attempts that wait for rows: their arrays by row of an arena, and their stacks.

The search works in these arrays in place, so that an attempt that waits costs nothing until rows come. Rows in them are
rows of the arena; when the rows of a key move, they follow. INCREMENTAL MATCH has ways instead of an attempt (see
`code.waiting_ways`), and no arrays by row.

See decision 76.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from episode.matchers.rows import arrays as codes
from episode.matchers.rows.arena import HI, LO, MARKS, OPENED
from episode.matchers.rows.arrays import DEPTH, OPEN, Attempts, RowProgram, WorkArrays, double_array
from episode.matchers.rows.code.array_code import RunningValues
from episode.matchers.rows.code.paths import NO_TURN, keep_turns
from episode.matchers.rows.code.waiting_ways import WAY_MARKS, WAY_ROW, WAY_START, WAY_TURN
from episode.matchers.state import ranges

if TYPE_CHECKING:
    from episode.matchers.rows.arena import KeyTable

_LEAST_STACKS = 1024
WAYS_PER_ROW, TURNS_PER_ROW = 2, 16
"""Ways and turns per row of the arena for which room is kept; keys that would need more start over when rows come."""


def no_attempts() -> Attempts:
    """Return attempts that all start over."""
    nothing = np.zeros((0, 0), np.int64)
    return Attempts(False, nothing, nothing, nothing, nothing, np.zeros((0, 0), np.float64), nothing)


class WaitingAttempts:
    """Arrays of waiting attempts. by_way: ways are kept, not attempts."""

    def __init__(self, program: RowProgram, by_way: bool, values: RunningValues) -> None:
        aggregates = len(values.keep_row)
        self.by_way = by_way
        self.marks = 2 * program.labels + program.loops + 1
        self._slots = program.slots
        self._rows_of = np.flatnonzero(np.array(values.keep_row, np.bool_))
        self._aggregates = aggregates
        self._values = values
        self._remembers = False
        self._rows = 0
        self._stacks = {name: np.zeros(_LEAST_STACKS, kind) for name, kind in codes.STACKS.items()}
        ways = _LEAST_STACKS if by_way else 0
        self._ways = np.zeros((ways, WAY_MARKS + self.marks + 2 * aggregates), np.int64)
        self._way_values = np.zeros((ways, 2 * aggregates), np.float64)
        self._turns = np.zeros((_LEAST_STACKS, 3), np.int64)
        self._cursor = np.zeros(codes.CURSOR, np.int64)
        self.allocate(0)

    def allocate(self, rows: int) -> None:
        """Make new arrays for a number of rows."""
        self._rows = rows
        if self.by_way:
            return
        self.by_row = {name: np.zeros(rows, kind) for name, kind in codes.BY_ROW.items()}
        self.by_row["seen_end"] = np.zeros(rows, np.int64)
        running = self._values.shape(rows)
        self._running = {name: np.zeros(running, kind) for name, kind in codes.RUNNING.items()}
        self._memo = np.zeros(rows * self._slots if self._remembers else 0, np.int64)

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The arrays with their rows last."""
        if self.by_way:
            return ()
        kept = slice(self._aggregates), slice(1, self._rows + 1)
        memory = (self._memo.reshape(-1, self._slots).T,) if self._remembers else ()
        return *self.by_row.values(), *(running[kept] for running in self._running.values()), *memory

    @property
    def attempts_so_far(self) -> int:
        """The number of attempts."""
        return int(self._cursor[codes.ATTEMPTS])

    def tidy(self, keys: KeyTable) -> None:
        """Lay stacks, ways and turns out anew if most of the room belongs to keys and stacks that are gone."""
        table = keys.table
        room = table[OPENED + codes.ROOM]
        if self._cursor[codes.STACK_END] > 4 * room.sum() + _LEAST_STACKS:
            begin = np.cumsum(room) - room
            used = np.where(table[OPENED + OPEN] != 0, table[OPENED + DEPTH], 0)
            rows, to = self._waiting(keys), ranges(begin, used)
            larger = max(_LEAST_STACKS, 2 * int(room.sum()))

            def lay_out(array: np.ndarray) -> np.ndarray:
                fresh = np.zeros((larger, *array.shape[1:]), array.dtype)
                fresh[to] = array[rows]
                return fresh

            if self.by_way:
                self._ways, self._way_values = lay_out(self._ways), lay_out(self._way_values)
            else:
                self._stacks = {name: lay_out(array) for name, array in self._stacks.items()}
            table[OPENED + codes.STACK] = begin
            self._cursor[codes.STACK_END] = room.sum()
        if self._cursor[codes.TURNS_END] > len(self._turns) // 2:
            self._keep_turns(keys)

    def _keep_turns(self, keys: KeyTable) -> None:
        """Forget turns of paths that are gone."""
        table = keys.table
        if self.by_way:
            ways = self._waiting(keys)
            roots = np.ascontiguousarray(self._ways[ways, WAY_TURN])
        else:
            waits = table[OPENED + OPEN] != 0
            roots = np.where(waits, table[OPENED + codes.LATEST], NO_TURN)
        self._turns, end = keep_turns(self._turns, int(self._cursor[codes.TURNS_END]), roots)
        self._cursor[codes.TURNS_END] = end
        if self.by_way:
            self._ways[ways, WAY_TURN] = roots
        else:
            table[OPENED + codes.LATEST] = roots

    def _waiting(self, keys: KeyTable, slots: np.ndarray | None = None) -> np.ndarray:
        """The ways that wait, of all keys or those of these slots."""
        table = keys.table if slots is None else keys.table[:, slots]
        return ranges(table[OPENED + codes.STACK], np.where(table[OPENED + OPEN] != 0, table[OPENED + DEPTH], 0))

    def follow(self, keys: KeyTable, slots: np.ndarray, shift: np.ndarray) -> None:
        """Follow the rows of these keys, which have moved by `shift`."""
        table = keys.table
        for field in (OPENED + codes.EXTREME_AT, OPENED + codes.SIFTED):
            _shift(table[field], slots, shift)
        waits = table[OPENED + OPEN, slots] != 0
        if not waits.any():
            return
        slots, shift = slots[waits], shift[waits]
        if self.by_way:
            ways, by = self._waiting(keys, slots), np.repeat(shift, table[OPENED + DEPTH, slots])
            for mark in (WAY_START, WAY_ROW):
                self._ways[ways, mark] += by
            for mark in range(WAY_MARKS, WAY_MARKS + self.marks):
                _shift(self._ways[:, mark], ways, by)
            for number in self._rows_of:
                self._way_values[ways, self._aggregates + number] += by
            return
        table[OPENED + codes.ROW, slots] += shift
        marks = table[keys.marked, slots]
        table[keys.marked, slots] = np.where(marks >= 0, marks + shift, marks)
        held = table[HI, slots] - table[LO, slots]
        rows, by = ranges(table[LO, slots], held), np.repeat(shift, held)
        _shift(self.by_row["previous"], rows, by)
        for number in self._rows_of:
            self._running["agg_m"][number, rows + 1] += by
        depth = table[OPENED + DEPTH, slots]
        entries, by = ranges(table[OPENED + codes.STACK, slots], depth), np.repeat(shift, depth)
        for name in ("stack_row", "stack_low"):
            _shift(self._stacks[name], entries, by)

    def attempts(self, keys: KeyTable, now: np.ndarray) -> Attempts:
        """The attempts of the keys whose fields are `now`."""
        return Attempts(
            True, now[OPENED:MARKS], now[keys.marked], now[keys.sought], self._ways, self._way_values, self._turns
        )

    def with_room(self, attempts: Attempts) -> Attempts:
        """Attempts, after room was made for more."""
        return attempts._replace(ways=self._ways, way_values=self._way_values, turns=self._turns)

    def begin(self, work: WorkArrays) -> None:
        """Let the search work in these arrays."""
        for name in (codes.GENERATION, codes.ATTEMPTS, codes.STACK_END, codes.TURNS_END):
            work.cursor[name] = self._cursor[name]
        self._lend(work)

    def _lend(self, work: WorkArrays) -> None:
        if not self.by_way:
            work.work = work.work._replace(**self._stacks, **self.by_row, **self._running, memo=self._memo)

    def enlarge(self, status: int, work: WorkArrays) -> bool:
        """Make room for what the search ran out of, if that is kept here."""
        ways, turns = len(self._ways), len(self._turns)
        if status == codes.WAYS_FULL and ways < WAYS_PER_ROW * self._rows + _LEAST_STACKS:
            self._ways, self._way_values = double_array(self._ways), double_array(self._way_values)
        elif status == codes.TURNS_FULL and turns < TURNS_PER_ROW * self._rows + _LEAST_STACKS:
            self._turns = double_array(self._turns)
        elif status in (codes.WAYS_FULL, codes.TURNS_FULL):
            work.cursor[codes.AT_LIMIT] = 1
        if status in (codes.WAYS_FULL, codes.TURNS_FULL):
            return True
        if self.by_way or status not in (codes.STACK_FULL, codes.MEMORY_NEEDED):
            return False
        if status == codes.MEMORY_NEEDED:
            self._remembers = True
            self._memo = np.zeros(self._rows * self._slots, np.int64)
        else:
            self._stacks = {name: double_array(array) for name, array in self._stacks.items()}
        self._lend(work)
        return True

    def end(self, work: WorkArrays) -> None:
        """Take over the counts of a search that is done."""
        self._cursor = work.cursor


def _shift(positions: np.ndarray, at: np.ndarray, by: np.ndarray) -> None:
    """Add to the rows at some places; -1 stays: there is none."""
    rows = positions[at]
    positions[at] = np.where(rows >= 0, rows + by, rows)
