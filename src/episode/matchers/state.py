"""State of matchers: rows held for future matches, written once, in chunks, and the query they belong to."""

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

from episode.matchers.columns import from_bytes, one_chunk_each, take, to_bytes
from episode.matchers.prepare import Precomputed
from episode.matchers.protocol import END_OF_TIME, ChosenBatch, EventBatch, MatcherSpec, Snapshot, StateChunk

# Fingerprints tie a state to its query. They may never change for a query: checkpoints keep them.


def fingerprint(text: str, *details: str) -> str:
    """Hash a query's text (however it is broken into lines) and other details that decide on its matches."""
    return hashlib.sha256("\n".join([one_line(text), *details]).encode()).hexdigest()[:16]


_PARTS = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\s+", re.DOTALL)
"""Comments, texts and names in quotes, and space."""


def one_line(text: str) -> str:
    """Put a query on one line, with single blanks between its words; quoted parts stay as they are."""

    def shorten(found: re.Match[str]) -> str:
        part = found.group()
        return part if part[0] in "'\"`" else " " if part.isspace() else " ".join(part.split())

    return _PARTS.sub(shorten, text).strip()


def column_types(schema: pa.Schema, columns: Iterable[str]) -> list[str]:
    """Return the input columns with their types, in the order of the schema."""
    read = frozenset(columns)
    return [f"{field.name} {field.type}" for field in schema if field.name in read]


# Rows held for future matches are written to the state once, in chunks. `HeldRows` are the rows; `RowChunks` knows the
# chunk of each; `HoldingMatcher` is the part of a Matcher that is its state.


STATE_VERSION = 1
_ROWS = "rows."
_KEY, _TIME = "__key", "__time"
NOT_WRITTEN = -1
"""The chunk of a row that no snapshot has written yet."""
_LEAST_COMPACTION = 1024
_COMPACTION = 4


def by_name(chunks: Sequence[StateChunk]) -> dict[str, StateChunk]:
    """Return the chunks of a state by name; raise an error if a chunk has a format that this version does not read."""
    for chunk in chunks:
        chunk.check_version(STATE_VERSION)
    return {chunk.name: chunk for chunk in chunks}


def arrays_in(chunks: Sequence[StateChunk], name: str, *columns: str) -> list[np.ndarray] | None:
    """Return columns of the table in the chunk of this name, as new arrays; None without such a chunk."""
    known = by_name([chunk for chunk in chunks if chunk.name == name])
    if not known:
        return None
    table = from_bytes(known[name].data)
    return [table.column(column).to_numpy().copy() for column in columns]


def chunk_of(name: str, table: pa.Table) -> StateChunk:
    """Encode a table as a chunk of the present format."""
    return StateChunk(name, STATE_VERSION, to_bytes(table))


@dataclass
class RowChunks:
    """The chunk of the state that holds each held row: a row is written once, and a chunk is removed with its last row.

    Once few of the written rows are still held, they are written anew into one chunk. prefix: of the names of the
    chunks.
    """

    prefix: str = _ROWS
    chunk: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    sizes: dict[int, int] = field(default_factory=dict)
    next_chunk: int = 0

    def extend(self, count: int) -> None:
        """Add new rows after the held ones."""
        self.chunk = np.concatenate([self.chunk, np.full(count, NOT_WRITTEN, np.int64)])

    def select(self, rows: np.ndarray) -> None:
        self.chunk = self.chunk[rows]

    @staticmethod
    def most_written(kept: int) -> int:
        """Return how many rows chunks may have of which this many are still held."""
        return _COMPACTION * kept + _LEAST_COMPACTION

    def changes(self, held: EventBatch | None) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        """Return chunks to write and names of chunks to remove, so that the state has the held rows."""

        def rows_at(rows: np.ndarray) -> EventBatch:
            assert held is not None
            table = held.table if len(rows) == len(held) else take(held.table, rows)
            return EventBatch(table, held.key[rows], held.time[rows])

        return self.changes_of(0 if held is None else len(held), rows_at)

    def changes_of(
        self, count: int, rows_at: Callable[[np.ndarray], EventBatch]
    ) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        """Return the same for `count` held rows; `rows_at` returns those that are to be written."""
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
        return (chunk_of(f"{self.prefix}{number}", with_key_and_time(rows_at(rows))),), removed

    def restore(self, chunks: Sequence[StateChunk], key_codes: np.ndarray, held_rows: np.ndarray) -> EventBatch | None:
        """Return the held rows: the last held_rows of each key in the chunks, for keys in order."""
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
    """Return rows as a chunk has them."""
    return events.table.append_column(_KEY, pa.array(events.key)).append_column(_TIME, pa.array(events.time))


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the numbers starts[i] .. starts[i] + counts[i] - 1, one range after the other."""
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def least_by_key(key: np.ndarray, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys, in order, and the least time of each."""
    order = np.argsort(key, kind="stable")
    keys, first = np.unique(key[order], return_index=True)
    return keys, np.minimum.reduceat(time[order], first) if len(keys) else np.zeros(0, np.int64)


def rename_keys(key: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Replace the keys `old` (ascending) by `new`."""
    if len(old) == 0:
        return key
    at = np.minimum(np.searchsorted(old, key), len(old) - 1)
    return np.where(old[at] == key, new[at], key)


@dataclass(frozen=True)
class _ActiveKeys:
    """A feed limited to keys that have new rows. key, time: of the held rows, then the new ones; order: rows of these
    keys, contiguous by key; others: all other rows."""

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
        return _stack(self.columns, self.held, self.new)

    @property
    def events(self) -> EventBatch:
        """The events of the keys that have new rows."""
        known = _join_known(self.held, self.new)
        known = None if known is None else Precomputed(known.bits[self.order])
        return ChosenBatch(lambda: self.table, self.order, self.key[self.order], self.time[self.order], known)


class Holder(Protocol):
    """Rows held for future matches. See `Matcher` for `live_keys` and `open_from`."""

    def __len__(self) -> int: ...

    @property
    def live_keys(self) -> np.ndarray: ...

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]: ...

    def snapshot(self) -> Snapshot: ...

    def forget_keys(self, keys: np.ndarray) -> None: ...


class HeldState(Holder, Protocol):
    """The whole state of a matcher. given_up: open matches dropped by the state limit."""

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
        """The holder of rows now: the state, unless a matcher keeps them elsewhere between feeds."""
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
        self.kept = RowChunks()
        self._apart: _ActiveKeys | None = None

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    @property
    def key(self) -> np.ndarray:
        return np.zeros(0, np.int64) if self.rows is None else self.rows.key

    def join(self, events: EventBatch, last: bool = False) -> EventBatch:
        """Return held rows and new rows together, contiguous by key, held rows first. `keep` must follow, or `forget`;
        last: only `forget`."""
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
        self.kept.select(order)
        return _at(EventBatch(_stack(self.columns, held, events), key, time, _join_known(held, events)), order)

    def join_active(self, events: EventBatch) -> EventBatch:
        """Do `join` for the keys that have new rows; the held rows of other keys stay. `keep_active` must follow."""
        held, events = self.rows, _owning(events)
        assert held is not None
        self.kept.extend(len(events))
        own = np.isin(held.key, events.key[events.bounds[:-1]])
        key, time = np.concatenate([held.key, events.key]), np.concatenate([held.time, events.time])
        order = np.concatenate([np.flatnonzero(own), np.arange(len(held), len(key))])
        order = order[np.argsort(key[order], kind="stable")]
        self._apart = _ActiveKeys(self.columns, held, events, key, time, order, np.flatnonzero(~own))
        return self._apart.events

    @property
    def others(self) -> np.ndarray:
        """The numbers of the held rows that `join_active` has left out."""
        assert self._apart is not None
        return self._apart.others

    def keep(self, events: EventBatch, rows: np.ndarray, bits: np.ndarray | None = None) -> None:
        """Hold these rows of the events from now on. bits: precomputed, of all events."""
        self.kept.select(rows)
        known = None if bits is None else Precomputed(bits)
        self.rows = _at(EventBatch(events.table.select(self.columns), events.key, events.time, known), rows)

    def keep_active(self, rows: np.ndarray, bits: np.ndarray, others: np.ndarray) -> None:
        """Hold these rows of the events that `join_active` returned (bits: precomputed, of all of them), and these of
        the others."""
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
        known = Precomputed(np.concatenate([bits[rows], self.rows.known.bits[others]])[by_key])
        self.rows = EventBatch(take(apart.table, chosen), apart.key[chosen], apart.time[chosen], known)

    def rename(self, old: np.ndarray, new: np.ndarray) -> None:
        """Give the keys `old` (ascending) other codes."""
        if self.rows is None or len(self.rows) == 0:
            return
        key = rename_keys(self.rows.key, old, new)
        order = np.argsort(key, kind="stable")
        self.rows = EventBatch(take(self.rows.table, order), key[order], self.rows.time[order])
        self.kept.chunk = np.full(len(order), NOT_WRITTEN, np.int64)  # to be written under the new codes

    def forget_keys(self, keys: np.ndarray) -> None:
        """Drop the rows of these keys."""
        rows = self.rows
        if rows is not None and np.isin(rows.key, keys).any():
            bits = None if rows.known is None else rows.known.bits
            self.keep(rows, np.flatnonzero(~np.isin(rows.key, keys)), bits)

    def forget(self) -> None:
        """Drop all rows."""
        self.kept.select(np.zeros(0, np.int64))
        self.rows = None

    def changes(self) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        """Return chunks to write and names of chunks to remove, so that the state has the held rows."""
        return self.kept.changes(self.rows)

    def restore(self, chunks: Sequence[StateChunk], keys: np.ndarray, counts: np.ndarray) -> None:
        """Restore the held rows from chunks. counts: rows of each key (keys in order)."""
        self.rows = self.kept.restore(chunks, keys, counts)


def _stack(columns: list[str], held: EventBatch, new: EventBatch) -> pa.Table:
    return pa.concat_tables([one.table.select(columns) for one in (held, new)])


def _join_known(held: EventBatch, new: EventBatch) -> Precomputed | None:
    """Return the precomputed values of held rows and new ones, if both have them."""
    if held.known is None or new.known is None:
        return None
    return Precomputed(np.concatenate([held.known.bits, new.known.bits]))


def _owning(events: EventBatch) -> EventBatch:
    """Return the events with contiguous arrays that may be written to."""
    key, time = writable(events.key), writable(events.time)
    if key is events.key and time is events.time:
        return events
    return EventBatch(events.table, key, time, events.known)


def _at(events: EventBatch, rows: np.ndarray) -> EventBatch:
    """Return some rows, with their precomputed values."""
    known = None if events.known is None else Precomputed(events.known.bits[rows])
    return EventBatch(take(events.table, rows), events.key[rows], events.time[rows], known)


def writable(array: np.ndarray) -> np.ndarray:
    """Return the array, or a copy that is contiguous and may be written to."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()
