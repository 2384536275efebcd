"""Rows in the order in which they came: they are appended and let go without copying the others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from episode.matchers.columns import one_chunk_each, take

TOGETHER = 8
"""So many tables of like size become one: each row is copied a few times at most, and there are few tables."""
MOST_TABLES = 64
_LEAST_WASTE = 1024


class ArrivedRows:
    """Numbered rows, in tables. A table goes with the last of its rows that is wanted."""

    def __init__(self, nothing: pa.Table) -> None:
        self._nothing = nothing
        self._tables: list[pa.Table] = []
        self._first = np.zeros(0, np.int64)
        self._wanted = np.zeros(0, np.int64)
        self._next = 0

    def append(self, table: pa.Table) -> int:
        """Rows that have come; gives the number of the first of them."""
        number = self._next
        self._next += table.num_rows
        self._tables.append(table)
        self._first = np.append(self._first, number)
        self._wanted = np.append(self._wanted, table.num_rows)
        while self._join_last():
            pass
        return number

    def taken(self, numbers: np.ndarray) -> pa.Table:
        """The rows with these numbers."""
        if len(numbers) == 0:
            return self._nothing
        which = np.searchsorted(self._first, numbers, side="right") - 1
        used = np.unique(which)
        if len(used) == 1:
            return take(self._tables[used[0]], numbers - self._first[used[0]])
        parts, order = [], []
        for one in used.tolist():
            at = np.flatnonzero(which == one)
            parts.append(take(self._tables[one], numbers[at] - self._first[one]))
            order.append(at)
        place = np.empty(len(numbers), np.int64)
        place[np.concatenate(order)] = np.arange(len(numbers))
        return take(pa.concat_tables(parts), place)

    def let_go(self, numbers: np.ndarray) -> None:
        """These rows are not wanted any more."""
        which = np.searchsorted(self._first, numbers, side="right") - 1
        self._wanted -= np.bincount(which, minlength=len(self._first))
        if not self._wanted.all():
            self._keep(np.flatnonzero(self._wanted))

    @property
    def wasteful(self) -> bool:
        """Should the rows that are wanted be appended anew?"""
        rows = sum(table.num_rows for table in self._tables)
        return rows > 2 * int(self._wanted.sum()) + _LEAST_WASTE or len(self._tables) > MOST_TABLES

    def _join_last(self) -> bool:
        """The last tables as one, if they are many and none is much larger than the last one."""
        sizes = [table.num_rows for table in self._tables]
        most, begin = 2 * sizes[-1], len(sizes) - 1
        while begin and sizes[begin - 1] <= most and self._first[begin - 1] + sizes[begin - 1] == self._first[begin]:
            begin -= 1
        if len(sizes) - begin < TOGETHER:
            return False
        self._tables[begin:] = [one_chunk_each(pa.concat_tables(self._tables[begin:]))]
        self._wanted = np.append(self._wanted[:begin], self._wanted[begin:].sum())
        self._first = self._first[: begin + 1]
        return True

    def _keep(self, which: np.ndarray) -> None:
        self._tables = [self._tables[one] for one in which.tolist()]
        self._first, self._wanted = self._first[which], self._wanted[which]
