"""State of matchers: rows held for matches still to come, written once, in chunks, and which query they belong to."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.columns import from_bytes, one_chunk_each, take, to_bytes
from episode.matchers.prepare import Known
from episode.matchers.protocol import END_OF_TIME, ChosenBatch, EventBatch, MatcherSpec, Snapshot, StateChunk

# What a state belongs to. A checkpoint keeps the fingerprint of its query: the values may never change for a query.


def fingerprint(text: str, *details: str) -> str:
    """Of a query's text (however it is broken into lines) and of what else decides on its matches."""
    return hashlib.sha256("\n".join([one_line(text), *details]).encode()).hexdigest()[:16]


_PARTS = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\s+", re.DOTALL)
"""Comments, texts and names in quotes, and space."""


def one_line(text: str) -> str:
    """A query in one line, single blanks between its words; what stands in quotes stays as it is."""

    def in_line(found: re.Match[str]) -> str:
        part = found.group()
        return part if part[0] in "'\"`" else " " if part.isspace() else " ".join(part.split())

    return _PARTS.sub(in_line, text).strip()


def column_types(schema: pa.Schema, columns: Iterable[str]) -> list[str]:
    """The input columns with their types, in the order of the schema."""
    read = frozenset(columns)
    return [f"{field.name} {field.type}" for field in schema if field.name in read]


# Rows that a matcher holds for matches still to come, and how they are kept in the state: written once, in chunks.
#
# `HeldRows` is what every matcher has of it; `KeptRows` remembers which row is in which chunk. `HoldingMatcher` is a
# Matcher as far as it is its state.


STATE_VERSION = 1
_ROWS = "rows."
_KEY, _TIME = "__key", "__time"
NOT_WRITTEN = -1
"""The chunk of a row that no snapshot has written yet."""
_LEAST_COMPACTION = 1024
_COMPACTION = 4


def by_name(chunks: Sequence[StateChunk]) -> dict[str, StateChunk]:
    """The chunks of a state, all of them of a format that this version reads."""
    for chunk in chunks:
        if chunk.version != STATE_VERSION:
            raise EpisodeDataError(
                f"The state of format {chunk.version} cannot be read; this version reads format {STATE_VERSION}."
            )
    return {chunk.name: chunk for chunk in chunks}


def arrays_in(chunks: Sequence[StateChunk], name: str, *columns: str) -> list[np.ndarray] | None:
    """Columns of the table in the chunk of this name, as arrays of their own; None if there is no such chunk."""
    known = by_name([chunk for chunk in chunks if chunk.name == name])
    if not known:
        return None
    table = from_bytes(known[name].data)
    return [table.column(column).to_numpy().copy() for column in columns]


def chunk_of(name: str, table: pa.Table) -> StateChunk:
    """A table as a chunk of the present format."""
    return StateChunk(name, STATE_VERSION, to_bytes(table))


@dataclass
class KeptRows:
    """Which held rows are in which chunk of the state: a row is written once, and chunks go with their last row.

    Where few rows of the written ones are still held, they are written anew into one chunk.
    prefix: of the names of the chunks.
    """

    prefix: str = _ROWS
    chunk: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    sizes: dict[int, int] = field(default_factory=dict)
    next_chunk: int = 0

    def extend(self, count: int) -> None:
        """New rows after the held ones."""
        self.chunk = np.concatenate([self.chunk, np.full(count, NOT_WRITTEN, np.int64)])

    def reorder(self, order: np.ndarray) -> None:
        self.chunk = self.chunk[order]

    select = reorder

    @staticmethod
    def most_written(kept: int) -> int:
        """Where this many written rows are still held, so many may be in their chunks."""
        return _COMPACTION * kept + _LEAST_COMPACTION

    def changes(self, held: EventBatch | None) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        """Chunks to write and names of chunks to forget, so that the state has the held rows."""

        def taken(rows: np.ndarray) -> EventBatch:
            assert held is not None
            table = held.table if len(rows) == len(held) else take(held.table, rows)
            return EventBatch(table, held.key[rows], held.time[rows])

        return self.changes_of(0 if held is None else len(held), taken)

    def changes_of(
        self, count: int, taken: Callable[[np.ndarray], EventBatch]
    ) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        """The same of so many held rows, of which `taken` gives those that are to be written."""
        if count == 0:
            removed = tuple(f"{self.prefix}{chunk}" for chunk in self.sizes)
            self.sizes.clear()
            return (), removed
        live = set(np.unique(self.chunk[self.chunk != NOT_WRITTEN]).tolist())
        written = sum(self.sizes[chunk] for chunk in live)
        kept = int(np.count_nonzero(self.chunk != NOT_WRITTEN))
        if written > self.most_written(kept):
            live = set()
            self.chunk[:] = NOT_WRITTEN
        removed = tuple(f"{self.prefix}{chunk}" for chunk in self.sizes if chunk not in live)
        self.sizes = {chunk: size for chunk, size in self.sizes.items() if chunk in live}
        rows = np.flatnonzero(self.chunk == NOT_WRITTEN)
        if len(rows) == 0:
            return (), removed
        number = self.next_chunk
        self.next_chunk += 1
        self.chunk[rows] = number
        self.sizes[number] = len(rows)
        return (chunk_of(f"{self.prefix}{number}", with_key_and_time(taken(rows))),), removed

    def restore(self, chunks: Sequence[StateChunk], key_codes: np.ndarray, held_rows: np.ndarray) -> EventBatch | None:
        """The held rows: of each key's rows in the chunks the last ones, as many as the key holds (keys in order)."""
        mine = sorted(
            (int(chunk.name[len(self.prefix) :]), from_bytes(chunk.data))
            for chunk in chunks
            if chunk.name.startswith(self.prefix)
        )
        if not mine:
            return None
        self.sizes = {number: table.num_rows for number, table in mine}
        self.next_chunk = mine[-1][0] + 1
        table = pa.concat_tables([table for _, table in mine])
        numbers = np.repeat([number for number, _ in mine], [table.num_rows for _, table in mine])
        key, time = table.column(_KEY).to_numpy(), table.column(_TIME).to_numpy()
        order = np.argsort(key, kind="stable")
        keys, counts = np.unique(key, return_counts=True)
        held = np.zeros(len(keys), np.int64)
        known = np.isin(keys, key_codes)
        held[known] = held_rows[np.searchsorted(key_codes, keys[known])]
        ends = np.cumsum(counts)
        rows = order[ranges(ends - held, held)]
        self.chunk = numbers[rows]
        return EventBatch(one_chunk_each(take(table.drop_columns([_KEY, _TIME]), rows)), key[rows], time[rows])


def with_key_and_time(events: EventBatch) -> pa.Table:
    """Rows as a chunk has them."""
    return events.table.append_column(_KEY, pa.array(events.key)).append_column(_TIME, pa.array(events.time))


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The numbers starts[i] .. starts[i] + counts[i] - 1, one range after the other."""
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def least_by_key(key: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys, in order, and the least time of each."""
    order = np.argsort(key, kind="stable")
    keys, first = np.unique(key[order], return_index=True)
    return keys, np.minimum.reduceat(time[order], first) if len(keys) else np.zeros(0, np.int64)


def renamed(key: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Keys with other codes in the place of `old` (ascending)."""
    if len(old) == 0:
        return key
    at = np.minimum(np.searchsorted(old, key), len(old) - 1)
    return np.where(old[at] == key, new[at], key)


@dataclass(frozen=True)
class _Apart:
    """A feed that looks at some keys alone. key, time: of the held rows, then the new ones; order: those of the keys
    that have new rows, contiguous by key; others: all others."""

    columns: list[str]
    held: EventBatch
    new: EventBatch
    key: np.ndarray
    time: np.ndarray
    order: np.ndarray
    others: np.ndarray

    @cached_property
    def table(self) -> pa.Table:
        """The held rows, then the new ones."""
        return _stacked(self.columns, self.held, self.new)

    @property
    def events(self) -> EventBatch:
        """Those of the keys that have new rows."""
        known = _known(self.held, self.new)
        known = None if known is None else Known(known.bits[self.order])
        return ChosenBatch(lambda: self.table, self.order, self.key[self.order], self.time[self.order], known)


class Holder(Protocol):
    """What is held for matches still to come. See `Matcher` for `live_keys` and `open_from`."""

    def __len__(self) -> int: ...

    @property
    def live_keys(self) -> np.ndarray: ...

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]: ...

    def snapshot(self) -> Snapshot: ...

    def forget_keys(self, keys: np.ndarray) -> None: ...


class HeldState(Holder, Protocol):
    """All that a matcher remembers. given_up: how many open matches a limit to the state has ended."""

    given_up: int

    def restore(self, chunks: Sequence[StateChunk]) -> None: ...


class KeyedOutput(Protocol):
    keyed: bool


Spec = TypeVar("Spec", bound=MatcherSpec)
State = TypeVar("State", bound=HeldState)
Out = TypeVar("Out", bound=KeyedOutput)


class HoldingMatcher(ABC, Generic[Spec, State, Out]):
    """A Matcher with one state and one output: the part of the protocol that is the same in all languages."""

    spec: Spec
    state: State
    output: Out

    @property
    def holder(self) -> Holder:
        """What holds rows now: the state, unless a matcher keeps them elsewhere between feeds."""
        return self.state

    @abstractmethod
    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]: ...

    def finish(self) -> Iterator[pa.Table]:
        yield from self.feed(EventBatch.empty(self.spec.input_schema, self.spec.input_columns), END_OF_TIME)

    def snapshot(self) -> Snapshot:
        return self.holder.snapshot()

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.state.restore(chunks)

    def forget(self, keys: np.ndarray) -> None:
        """See `Forgets.forget`."""
        self.holder.forget_keys(keys)

    @property
    def keyed(self) -> bool:
        return self.output.keyed

    @keyed.setter
    def keyed(self, keyed: bool) -> None:
        self.output.keyed = keyed

    @property
    def state_rows(self) -> int:
        return len(self.holder)

    @property
    def given_up(self) -> int:
        return self.state.given_up

    @property
    def live_keys(self) -> np.ndarray:
        return self.holder.live_keys

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        return self.holder.open_from


class HeldRows:
    """The rows that a matcher holds, contiguous by key, with the columns that its query reads."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self.rows: EventBatch | None = None
        self.kept = KeptRows()
        self._apart: _Apart | None = None

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    @property
    def key(self) -> np.ndarray:
        return np.zeros(0, np.int64) if self.rows is None else self.rows.key

    def joined(self, events: EventBatch, last: bool = False) -> EventBatch:
        """Held rows and new rows together, contiguous by key, held rows first. `keep` or `forget` must follow; last:
        `forget`."""
        self._apart = None
        if len(self) == 0 and last:
            self.kept.select(np.zeros(0, np.int64))
        else:
            self.kept.extend(len(events))
        events = _owning(events)
        if len(self) == 0:
            return events
        assert self.rows is not None
        if len(events) == 0:
            return self.rows
        held = self.rows
        key, time = np.concatenate([held.key, events.key]), np.concatenate([held.time, events.time])
        order = np.argsort(key, kind="stable")
        self.kept.reorder(order)
        return _at(EventBatch(_stacked(self.columns, held, events), key, time, _known(held, events)), order)

    def joined_apart(self, events: EventBatch) -> EventBatch:
        """As `joined`, of the keys that have new rows; the held rows of other keys stay where they are. `keep_apart`
        must follow."""
        held, events = self.rows, _owning(events)
        assert held is not None
        self.kept.extend(len(events))
        own = np.isin(held.key, events.key[events.bounds[:-1]])
        key, time = np.concatenate([held.key, events.key]), np.concatenate([held.time, events.time])
        order = np.concatenate([np.flatnonzero(own), np.arange(len(held), len(key))])
        order = order[np.argsort(key[order], kind="stable")]
        self._apart = _Apart(self.columns, held, events, key, time, order, np.flatnonzero(~own))
        return self._apart.events

    @property
    def others(self) -> np.ndarray:
        """The held rows that `joined_apart` has left where they are, by their numbers."""
        assert self._apart is not None
        return self._apart.others

    def keep(self, events: EventBatch, rows: np.ndarray, bits: np.ndarray | None = None) -> None:
        """Of the events that were held or have come, hold these rows from now on. bits: what is known of all events."""
        self.kept.select(rows)
        known = None if bits is None else Known(bits)
        self.rows = _at(EventBatch(events.table.select(self.columns), events.key, events.time, known), rows)

    def keep_apart(self, rows: np.ndarray, bits: np.ndarray, others: np.ndarray) -> None:
        """Of the events that `joined_apart` gave, hold these rows (bits: what is known of all of them); of the others,
        these."""
        assert self._apart is not None
        assert self.rows is not None
        assert self.rows.known is not None
        apart, self._apart = self._apart, None
        chosen = np.concatenate([apart.order[rows], others])
        by_key = np.argsort(apart.key[chosen], kind="stable")
        chosen = chosen[by_key]
        self.kept.select(chosen)
        if len(chosen) == len(self) and (chosen == np.arange(len(chosen))).all():
            return
        known = Known(np.concatenate([bits[rows], self.rows.known.bits[others]])[by_key])
        self.rows = EventBatch(take(apart.table, chosen), apart.key[chosen], apart.time[chosen], known)

    def rename(self, old: np.ndarray, new: np.ndarray) -> None:
        """The keys `old` (ascending) have other codes from now on."""
        if self.rows is None or len(self.rows) == 0:
            return
        key = renamed(self.rows.key, old, new)
        order = np.argsort(key, kind="stable")
        self.rows = EventBatch(take(self.rows.table, order), key[order], self.rows.time[order])
        self.kept.chunk = np.full(len(order), NOT_WRITTEN, np.int64)  # they are to be written under the new codes

    def forget_keys(self, keys: np.ndarray) -> None:
        """Hold nothing more of these keys."""
        rows = self.rows
        if rows is not None and np.isin(rows.key, keys).any():
            bits = None if rows.known is None else rows.known.bits
            self.keep(rows, np.flatnonzero(~np.isin(rows.key, keys)), bits)

    def forget(self) -> None:
        """Hold nothing."""
        self.kept.select(np.zeros(0, np.int64))
        self.rows = None

    def changes(self) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        """Chunks to write and names of chunks to forget, so that the state has the held rows."""
        return self.kept.changes(self.rows)

    def restore(self, chunks: Sequence[StateChunk], keys: np.ndarray, counts: np.ndarray) -> None:
        """Hold what the chunks have: of each key (keys in order) so many rows."""
        self.rows = self.kept.restore(chunks, keys, counts)


def _stacked(columns: list[str], held: EventBatch, new: EventBatch) -> pa.Table:
    """Held rows, then new ones."""
    return pa.concat_tables([one.table.select(columns) for one in (held, new)])


def _known(held: EventBatch, new: EventBatch) -> Known | None:
    """What is known of the same rows."""
    if held.known is None or new.known is None:
        return None
    return Known(np.concatenate([held.known.bits, new.known.bits]))


def _owning(events: EventBatch) -> EventBatch:
    """The events with contiguous arrays that may be written to."""
    key, time = owned(events.key), owned(events.time)
    if key is events.key and time is events.time:
        return events
    return EventBatch(events.table, key, time, events.known)


def _at(events: EventBatch, rows: np.ndarray) -> EventBatch:
    """Some rows, with what is known of them."""
    known = None if events.known is None else Known(events.known.bits[rows])
    return EventBatch(take(events.table, rows), events.key[rows], events.time[rows], known)


def owned(array: np.ndarray) -> np.ndarray:
    """The array, or a copy that is contiguous and may be written to."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()
