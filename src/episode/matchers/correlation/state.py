"""Matches that are kept for partners still to come: the query result cache (PCQ, section 4.3), and its chunks of state.

A match is written once. Each snapshot records which of the written ones are still kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.columns import from_bytes, one_chunk_each
from episode.matchers.correlation.matches import SideMatches, together
from episode.matchers.protocol import StateChunk
from episode.matchers.state import NOT_WRITTEN, by_name, chunk_of

_KEY, _START, _END = "__key", "__start", "__end"
_COMPACTION, _LEAST_COMPACTION, _MOST_CHUNKS = 4, 1024, 64


class KeptMatches:
    """The matches of one side that are kept, in the order that the join asks for. name: before that of its chunks."""

    def __init__(self, name: str, schema: pa.Schema, by_start: bool) -> None:
        self.name = name
        self.matches = SideMatches.none(schema)
        self._schema = schema
        self._by_start = by_start
        self._chunk = np.zeros(0, np.int64)
        self._place = np.zeros(0, np.int64)
        self._sizes: dict[int, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self.matches)

    def sort(self, matches: SideMatches) -> SideMatches:
        """Sort matches in the order of this side."""
        order = matches.by_start() if self._by_start else matches.by_end()
        return matches if bool((order[1:] > order[:-1]).all()) else matches.select(order)

    def add(self, new: SideMatches) -> None:
        """Keep new matches."""
        if len(new) == 0:
            return
        all_of_them = together([self.matches, new])
        order = all_of_them.by_start() if self._by_start else all_of_them.by_end()
        fresh = np.full(len(new), NOT_WRITTEN, np.int64)
        self._chunk = np.concatenate([self._chunk, fresh])[order]
        self._place = np.concatenate([self._place, fresh])[order]
        self.matches = all_of_them if bool((order[1:] > order[:-1]).all()) else all_of_them.select(order)

    def keep(self, wanted: np.ndarray) -> None:
        """Keep only those (bool)."""
        if not wanted.all():
            rows = np.flatnonzero(wanted)
            self.matches = self.matches.select(rows)
            self._chunk, self._place = self._chunk[rows], self._place[rows]

    def forget(self) -> None:
        self.matches = SideMatches.none(self._schema)
        self._chunk = self._place = np.zeros(0, np.int64)

    def changes(self) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        """Chunks to write and names of chunks to forget, so that the state has the kept matches."""
        live = set(np.unique(self._chunk[self._chunk != NOT_WRITTEN]).tolist())
        written = sum(self._sizes[chunk] for chunk in live)
        if written > _COMPACTION * len(self) + _LEAST_COMPACTION or len(live) > _MOST_CHUNKS:
            live = set()
            self._chunk[:] = NOT_WRITTEN
        removed = tuple(f"{self.name}.{chunk}" for chunk in self._sizes if chunk not in live)
        self._sizes = {chunk: size for chunk, size in self._sizes.items() if chunk in live}
        put: list[StateChunk] = []
        rows = np.flatnonzero(self._chunk == NOT_WRITTEN)
        if len(rows):
            self._chunk[rows], self._place[rows] = self._next, np.arange(len(rows))
            self._sizes[self._next] = len(rows)
            put.append(chunk_of(f"{self.name}.{self._next}", _with_times(self.matches.select(rows))))
            self._next += 1
        return (*put, chunk_of(f"{self.name}.kept", self._kept_bits())), removed

    def _kept_bits(self) -> pa.Table:
        """A bit for each written match, chunk after chunk: is it kept?"""
        numbers = np.array(sorted(self._sizes), np.int64)
        sizes = np.array([self._sizes[number] for number in numbers.tolist()], np.int64)
        first = np.cumsum(sizes) - sizes
        kept = np.zeros(int(sizes.sum()), np.bool_)
        kept[first[np.searchsorted(numbers, self._chunk)] + self._place] = True
        bits = pa.array([np.packbits(kept).tobytes()], pa.large_binary())
        return pa.table({"bits": bits, "next": pa.array([self._next], pa.int64())})

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        """Keep what the chunks have."""
        known = by_name(chunks)
        if f"{self.name}.kept" not in known:
            return
        kept = from_bytes(known[f"{self.name}.kept"].data)
        self._next = kept.column("next")[0].as_py()
        mine = sorted(
            (int(name[len(self.name) + 1 :]), from_bytes(chunk.data))
            for name, chunk in known.items()
            if name.startswith(f"{self.name}.") and name != f"{self.name}.kept"
        )
        if not mine:
            return
        self._sizes = {number: table.num_rows for number, table in mine}
        table = one_chunk_each(pa.concat_tables([table for _, table in mine]))
        bits = np.frombuffer(kept.column("bits")[0].as_py(), np.uint8)
        rows = np.flatnonzero(np.unpackbits(bits, count=table.num_rows))
        sizes = list(self._sizes.values())
        self._chunk = np.repeat(list(self._sizes), sizes)[rows]
        self._place = np.concatenate([np.arange(size) for size in sizes])[rows]
        times = [table.column(name).to_numpy().copy() for name in (_KEY, _START, _END)]
        self.matches = SideMatches(table.drop_columns([_KEY, _START, _END]), *times).select(rows)
        order = self.matches.by_start() if self._by_start else self.matches.by_end()
        self.matches = self.matches.select(order)
        self._chunk, self._place = self._chunk[order], self._place[order]


def _with_times(matches: SideMatches) -> pa.Table:
    table = matches.table
    for name, values in ((_KEY, matches.key), (_START, matches.start), (_END, matches.end)):
        table = table.append_column(name, pa.array(values))
    return table
