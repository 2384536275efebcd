"""Prepared rows of many keys in columns: those of a key lie together in a block that has room for more.

A key whose block is full gets one twice as large at the end of the arena; where the end is reached, the arena is laid
out anew, without the rows that are gone. So a new row costs the same, however many are held.
"""

from __future__ import annotations

import numpy as np

from episode.matchers.held import ranges
from episode.matchers.rows.key_table import BASE, HI, KEY, LO, POSITIONS, ROOM, KeyTable
from episode.matchers.rows.layout import RowLayout
from episode.matchers.rows.search import RowSearch

NO_KEY = np.iinfo(np.int64).min
"""The key of rows of the arena that hold nothing."""
_LEAST_ROWS = 1024
_SPARSE = 8


class Arena:
    """The columns. bits uint64, time, key int64, and the lanes of the layout: what the search reads. source int64: the
    row in the log. chunk int64: the chunk of the state that has the row."""

    def __init__(self, layout: RowLayout, search: RowSearch) -> None:
        self.layout = layout
        self.search = search
        self.end = 0
        self._allocate(_LEAST_ROWS)

    def _allocate(self, rows: int) -> None:
        layout = self.layout
        self.bits = np.zeros(rows, np.uint64)
        self.time = np.zeros(rows, np.int64)
        self.key = np.full(rows, NO_KEY, np.int64)
        self.ints = np.zeros((layout.ints, rows), np.int64)
        self.floats = np.zeros((layout.floats, rows), np.float64)
        self.valid = np.ones((layout.valids, rows), np.uint8)
        self.source = np.zeros(rows, np.int64)
        self.chunk = np.zeros(rows, np.int64)
        self.search.allocate(rows)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        own = self.bits, self.time, self.key, self.ints, self.floats, self.valid, self.source, self.chunk
        return own + self.search.columns

    def make_room(self, keys: KeyTable, slots: np.ndarray, counts: np.ndarray) -> None:
        """Let these keys have room for so many rows after theirs."""
        table = keys.table
        base, room, lo, hi = (table[field, slots] for field in (BASE, ROOM, LO, HI))
        full = hi + counts > base + room
        if not full.any():
            return
        need = hi - lo + counts
        slides = 2 * need[full] <= room[full]
        larger = np.where(slides, 0, 2 * need[full] + 2)
        if self.end + larger.sum() > len(self.bits):
            self.lay_out(keys, slots, need)
            return
        slots, base, room = slots[full], base[full], room[full]
        table[ROOM, slots] = np.where(slides, room, larger)
        table[BASE, slots] = np.where(slides, base, self.end + np.cumsum(larger) - larger)
        self.end += int(larger.sum())
        self._move(keys, slots, self._columns)

    def _move(self, keys: KeyTable, slots: np.ndarray, columns: tuple[np.ndarray, ...]) -> None:
        """Bring the rows of these keys from `columns` to where their blocks begin now."""
        table = keys.table
        lo, held = table[LO, slots], table[HI, slots] - table[LO, slots]
        shift = table[BASE, slots] - lo
        rows = ranges(lo, held)
        moved = [column[..., rows] for column in columns]
        if columns[0] is self.bits:
            self.key[rows] = NO_KEY
        to = rows + np.repeat(shift, held)
        for column, values in zip(self._columns, moved, strict=True):
            column[..., to] = values
        table[POSITIONS[:, np.newaxis], slots] += shift
        table[keys.sought, slots] += shift
        self.search.follow(keys, slots, shift)

    def lay_out(self, keys: KeyTable, slots: np.ndarray, need: np.ndarray) -> None:
        """All blocks anew, one after the other. need: rows for which these slots must have room."""
        table = keys.table
        held = table[HI] - table[LO]
        room = held.copy()
        room[slots] = need
        room = np.where(room > 0, 2 * room + 2, 0)
        before = self._columns
        self.end = int(room.sum())
        self._allocate(max(_LEAST_ROWS, self.end + self.end // 2))
        table[BASE], table[ROOM] = np.cumsum(room) - room, room
        self._move(keys, np.arange(keys.count), before)

    def is_sparse(self, rows: int) -> bool:
        """Is the arena much larger than so many rows need?"""
        return len(self.bits) > _SPARSE * rows + _SPARSE * _LEAST_ROWS

    def rename(self, keys: KeyTable, slots: np.ndarray) -> None:
        """These keys have other codes."""
        table = keys.table
        held = table[HI, slots] - table[LO, slots]
        self.key[ranges(table[LO, slots], held)] = np.repeat(table[KEY, slots], held)
