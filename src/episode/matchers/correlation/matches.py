"""Matches of one of the two patterns: their output columns, and what correlation asks of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.columns import ALL_VALID, int64_values, one_chunk, one_chunk_each, take
from episode.matchers.ordering import order_image
from episode.matchers.protocol import KEY_COLUMN, OrderKey
from episode.matchers.state import writable


@dataclass(frozen=True)
class SideMatches:
    """Matches of one pattern. table: its output columns, one chunk each; key, start, end: int64 for each match."""

    table: pa.Table
    key: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def __len__(self) -> int:
        return len(self.key)

    @staticmethod
    def none(schema: pa.Schema) -> SideMatches:
        nothing = np.zeros(0, np.int64)
        return SideMatches(schema.empty_table(), nothing, nothing, nothing)

    def select(self, rows: np.ndarray) -> SideMatches:
        return SideMatches(take(self.table, rows), self.key[rows], self.start[rows], self.end[rows])

    def by_start(self) -> np.ndarray:
        """Their order by key and start; those that are equal in both keep their order."""
        return _order(self.key, self.start)

    def by_end(self) -> np.ndarray:
        """Their order by key and end."""
        return _order(self.key, self.end)


def _order(key: np.ndarray, time: np.ndarray) -> np.ndarray:
    """A stable order by key and time; most often they are in order already."""
    if len(key) < 2 or bool(((key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (time[1:] >= time[:-1]))).all()):
        return np.arange(len(key))
    return np.lexsort((time, key))


def together(parts: list[SideMatches]) -> SideMatches:
    """All of them, one after the other; there is at least one."""
    some = [part for part in parts if len(part)] or parts[:1]
    if len(some) == 1:
        return some[0]
    return SideMatches(
        one_chunk_each(pa.concat_tables([part.table for part in some])),
        *(np.concatenate([getattr(part, name) for part in some]) for name in ("key", "start", "end")),
    )


def matches_of(tables: Iterable[pa.Table], schema: pa.Schema, start: str, end: str) -> SideMatches:
    """Matches in the output of a keyed matcher. A match without times (an empty one) is left out."""
    found = [schema.empty_table().append_column(KEY_COLUMN, pa.array([], pa.int64())), *tables]
    table = one_chunk_each(found[1] if len(found) == 2 else pa.concat_tables(found))
    starts, ends = order_image(table, OrderKey(start)), order_image(table, OrderKey(end))
    key = writable(int64_values(one_chunk(table.column(KEY_COLUMN))))
    matches = SideMatches(table.drop_columns([KEY_COLUMN]), key, writable(starts.values), writable(ends.values))
    if starts.valid is ALL_VALID and ends.valid is ALL_VALID:
        return matches
    timed = np.ones(len(key), np.bool_)
    for image in (starts, ends):
        if image.valid is not ALL_VALID:
            timed &= image.valid
    return matches.select(np.flatnonzero(timed))
