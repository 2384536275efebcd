"""Rows as they came, in the order in which they came: what output is made of, and what the state keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.columns import one_chunk_each, take

_MOST_TABLES = 64
_MOST_SMALL = 4
_SMALL = 4096
"""Small tables are joined sooner: matches of a live task have rows of several, and each of them is as dear to read."""


class RowLog:
    """Tables of rows, numbered in one row; read at any rows, and begun anew with those that are still wanted.

    Small tables are joined now and then, so that there are never many, and a row is joined a few times only.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self._tables: list[pa.Table] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def append(self, table: pa.Table, count: int) -> int:
        """So many rows after all others; the number of the first of them."""
        first = len(self)
        self._tables.append(table.select(self.columns))
        self._ends.append(first + count)
        if len(self._tables) > (_MOST_SMALL if count <= _SMALL else _MOST_TABLES):
            self._join()
        return first

    def _join(self) -> None:
        """Join the last tables with those before them that are not much larger."""
        at = len(self._tables) - 1
        begin = self._ends[at - 1]
        while at > 0 and self._ends[at - 1] - (self._ends[at - 2] if at > 1 else 0) <= 4 * (len(self) - begin):
            at -= 1
            begin = self._ends[at - 1] if at else 0
        joined = one_chunk_each(pa.concat_tables(self._tables[at:]))
        self._tables[at:], self._ends[at:] = [joined], [len(self)]

    def take(self, rows: np.ndarray) -> pa.Table:
        """The rows of these numbers, in this order. There is at least one table."""
        if 4 * len(rows) > len(self) and len(self._tables) > 1:
            self._tables, self._ends = [one_chunk_each(pa.concat_tables(self._tables))], [len(self)]
        if len(self._tables) == 1 or len(rows) == 0:
            return take(self._tables[0], rows)
        if len(self._tables) <= _MOST_SMALL and len(rows) <= _SMALL:
            return take(pa.concat_tables(self._tables), rows)
        which = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(which, kind="stable")
        parts = []
        bounds = np.flatnonzero(np.diff(which[order], prepend=-1)).tolist()
        for begin, end in zip(bounds, [*bounds[1:], len(rows)], strict=True):
            number = int(which[order[begin]])
            first = self._ends[number - 1] if number else 0
            parts.append(take(self._tables[number], rows[order[begin:end]] - first))
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return take(pa.concat_tables(parts), back)

    def keep(self, rows: np.ndarray) -> None:
        """Of all rows only these from now on: rows[i] has number i."""
        self._tables, self._ends = [self.take(rows)], [len(rows)]
