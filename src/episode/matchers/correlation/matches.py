"""Matches of one of the two patterns: their columns and times, those that are kept, and tests of pairs of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.columns import ALL_VALID, from_bytes, int64_values, one_chunk, one_chunk_each, take, take_array
from episode.matchers.ordering import order_image
from episode.matchers.protocol import KEY_COLUMN, OrderKey, StateChunk
from episode.matchers.state import NOT_WRITTEN, by_name, chunk_of, writable
from episode.plan.correlation.pairs import PairTest, Value
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX


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
    masks = [image.valid for image in (starts, ends) if image.valid is not ALL_VALID]
    return matches.select(np.flatnonzero(np.logical_and.reduce(masks))) if masks else matches


# Matches that are kept for partners still to come: the query result cache (PCQ, section 4.3), and its chunks of state.
# A match is written once. Each snapshot records which of the written ones are still kept.

_KEY, _START, _END = "__key", "__start", "__end"
_COMPACTION, _LEAST_COMPACTION, _MOST_CHUNKS = 4, 1024, 64


class KeptMatches:
    """Kept matches of one side, in order of key and start or of key and end. name: before that of its chunks."""

    def __init__(self, name: str, schema: pa.Schema, by_start: bool) -> None:
        self.name = name
        self._schema = schema
        self._by_start = by_start
        self._sizes: dict[int, int] = {}
        self._next = 0
        self.matches = SideMatches.none(schema)
        self._chunk = self._place = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.matches)

    def sort(self, matches: SideMatches) -> SideMatches:
        order = self._order(matches)
        return matches if order is None else matches.select(order)

    def add(self, new: SideMatches) -> None:
        if len(new):
            fresh = np.full(len(new), NOT_WRITTEN, np.int64)
            chunk, place = np.concatenate([self._chunk, fresh]), np.concatenate([self._place, fresh])
            self._keep_sorted(together([self.matches, new]), chunk, place)

    def keep(self, wanted: np.ndarray) -> None:
        """Keep only those (bool)."""
        if not wanted.all():
            rows = np.flatnonzero(wanted)
            self.matches = self.matches.select(rows)
            self._chunk, self._place = self._chunk[rows], self._place[rows]

    def forget(self) -> None:
        self.matches = SideMatches.none(self._schema)
        self._chunk = self._place = np.zeros(0, np.int64)

    def _order(self, matches: SideMatches) -> np.ndarray | None:
        """A stable order by key and time; None if they are in order, as most often."""
        key, time = matches.key, matches.start if self._by_start else matches.end
        if bool(((key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (time[1:] >= time[:-1]))).all()):
            return None
        return np.lexsort((time, key))

    def _keep_sorted(self, matches: SideMatches, chunk: np.ndarray, place: np.ndarray) -> None:
        order = self._order(matches)
        if order is not None:
            matches, chunk, place = matches.select(order), chunk[order], place[order]
        self.matches, self._chunk, self._place = matches, chunk, place

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
            new = self.matches.select(rows)
            table = new.table
            for name, values in ((_KEY, new.key), (_START, new.start), (_END, new.end)):
                table = table.append_column(name, pa.array(values))
            put.append(chunk_of(f"{self.name}.{self._next}", table))
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
        mine = {
            name.removeprefix(f"{self.name}."): from_bytes(chunk.data)
            for name, chunk in by_name(chunks).items()
            if name.startswith(f"{self.name}.")
        }
        if "kept" not in mine:
            return
        kept = mine.pop("kept")
        self._next = kept.column("next")[0].as_py()
        if not mine:
            return
        self._sizes = {int(number): mine[number].num_rows for number in sorted(mine, key=int)}
        table = one_chunk_each(pa.concat_tables([mine[str(number)] for number in self._sizes]))
        bits = np.frombuffer(kept.column("bits")[0].as_py(), np.uint8)
        rows = np.flatnonzero(np.unpackbits(bits, count=table.num_rows))
        sizes = list(self._sizes.values())
        chunk, place = np.repeat(list(self._sizes), sizes), np.concatenate([np.arange(size) for size in sizes])
        times = [table.column(name).to_numpy().copy() for name in (_KEY, _START, _END)]
        matches = SideMatches(table.drop_columns([_KEY, _START, _END]), *times).select(rows)
        self._keep_sorted(matches, chunk[rows], place[rows])


# Tests of pairs before they are built: comparisons of columns of the two matches, and numbers.

FAILS = {"<": np.greater_equal, "<=": np.greater, ">": np.less_equal, ">=": np.less, "=": np.not_equal}
"""For each sign, what holds of two numbers where it does not."""


def passing_pairs(
    tests: Sequence[PairTest], live: SideMatches, archive: SideMatches, of_live: np.ndarray, of_archive: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Select those of the pairs (of_live[i], of_archive[i]) that may be in the result."""
    for test in tests:
        values = []
        failed = np.zeros(len(of_live), np.bool_)
        for one in (test.left, test.right):
            value, null = _values(one, live, archive, of_live, of_archive)
            values.append(value)
            if null is not None:
                failed |= null
        wrong = FAILS[test.sign](*values)
        if test.sign == "=":  # NaN is equal to itself for Spark, and differs from itself alone
            wrong &= ~((values[0] != values[0]) & (values[1] != values[1]))
        passed = np.flatnonzero(~(failed | wrong))
        if len(passed) < len(of_live):
            of_live, of_archive = of_live[passed], of_archive[passed]
    return of_live, of_archive


def _values(
    value: Value, live: SideMatches, archive: SideMatches, of_live: np.ndarray, of_archive: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Values of pairs, and a mask of the nulls, if there are any."""
    if not isinstance(value, str):
        return np.full(len(of_live), value), None
    if value.startswith(LIVE_PREFIX):
        array = take_array(one_chunk(live.table.column(value.removeprefix(LIVE_PREFIX))), of_live)
    else:
        array = take_array(one_chunk(archive.table.column(value.removeprefix(ARCHIVE_PREFIX))), of_archive)
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return array.fill_null(0).to_numpy(), null
