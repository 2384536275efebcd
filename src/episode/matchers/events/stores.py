"""Records that the nodes of a tree keep between feeds (ZStream's node buffers), so that a feed joins only what is new.

Every partition has a slot, and in each store a stretch of the arrays with room to grow; one that is full moves to the
end, into more room. Records that are too old for new ones are never read: joins begin where the window does. Their
memory is freed when the whole is built anew (`feeding`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from episode.matchers.events.code.joins import JoinShape
from episode.matchers.events.records import Buffer, TooManyRecords, rooms
from episode.matchers.state import ranges
from episode.matchers.times import EVER

NOWHERE = -1


class Slots:
    """The number of each partition, by its key."""

    def __init__(self) -> None:
        self._keys = np.zeros(0, np.int64)
        self._numbers = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def keys(self) -> np.ndarray:
        return self._keys

    def of(self, keys: np.ndarray) -> np.ndarray:
        """The slots of different keys; new ones get the next numbers."""
        at = np.searchsorted(self._keys, keys)
        is_new = self._keys.take(at, mode="clip") != keys if len(self) else np.ones(len(keys), np.bool_)
        if is_new.any():
            new = np.sort(keys[is_new])
            places = np.searchsorted(self._keys, new)
            self._numbers = np.insert(self._numbers, places, len(self) + np.arange(len(new)))
            self._keys = np.insert(self._keys, places, new)
            at = np.searchsorted(self._keys, keys)
        return self._numbers[at]


class RecordStore:
    """The records of one node. start, end, rows: of all stretches; by slot: where its stretch begins (base), where its
    records end (hi), and the room of the stretch. bounds: times by record, EVER until something bounds it."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = variables
        self.start, self.end = np.empty(0, np.int64), np.empty(0, np.int64)
        self.rows = np.empty((0, len(variables)), np.int32)
        self.base, self.hi, self.room = (np.zeros(0, np.int64) for _ in range(3))
        self.used = 0
        self.bounds: dict[Hashable, np.ndarray] = {}
        self.indexes: dict[tuple[JoinShape, str], StoreIndex] = {}

    def __len__(self) -> int:
        """The records, and the room for more."""
        return self.used

    def append(self, slots: np.ndarray, new: Buffer, limit: int) -> StoredRecords:
        """Add the new records of partitions with these slots."""
        counts = np.diff(new.from_)
        if len(slots) and int(slots.max()) >= len(self.base):
            more = np.full(int(slots.max()) + 1 - len(self.base), NOWHERE, np.int64)
            self.base, self.hi = np.concatenate([self.base, more]), np.concatenate([self.hi, more])
            self.room = np.concatenate([self.room, np.zeros(len(more), np.int64)])
        begin = self.hi[slots]
        full = begin + counts > self.base[slots] + self.room[slots]
        if full.any():
            self._move(slots[full], counts[full], limit)
            begin = self.hi[slots]
        if len(new):
            places = slice(begin[0], begin[0] + len(new)) if len(slots) == 1 else ranges(begin, counts)
            self.start[places], self.end[places], self.rows[places] = new.start, new.end, new.rows
            for bound in self.bounds.values():
                bound[places] = EVER
            self.hi[slots] = begin + counts
        return StoredRecords(self, slots, begin)

    def _move(self, slots: np.ndarray, more: np.ndarray, limit: int) -> None:
        """Move stretches to the end, with room for more records."""
        base, counts = self.base[slots], self.hi[slots] - self.base[slots]
        room = rooms(counts + more)
        target = self.used + np.cumsum(room) - room
        self.used += int(room.sum())
        if int((self.hi - self.base).sum() + more.sum()) > limit:
            raise TooManyRecords(limit)
        self.start, self.end = longer(self.start, self.used), longer(self.end, self.used)
        self.rows = longer(self.rows, self.used)
        self.bounds = {name: longer(bound, self.used) for name, bound in self.bounds.items()}
        old, new = ranges(base, counts), ranges(target, counts)
        self.start[new], self.end[new], self.rows[new] = self.start[old], self.end[old], self.rows[old]
        for bound in self.bounds.values():
            bound[new] = bound[old]
        self.base[slots], self.hi[slots], self.room[slots] = target, target + counts, room


@dataclass
class StoredRecords:
    """The records of some partitions in a store. new: where those begin that came last."""

    store: RecordStore
    slots: np.ndarray
    new: np.ndarray
    lo: np.ndarray = field(init=False)
    hi: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.lo, self.hi = (np.maximum(one[self.slots], 0) for one in (self.store.base, self.store.hi))
        self.new = np.maximum(self.new, 0)

    @property
    def variables(self) -> tuple[str, ...]:
        return self.store.variables

    @property
    def start(self) -> np.ndarray:
        return self.store.start

    @property
    def end(self) -> np.ndarray:
        return self.store.end

    @property
    def rows(self) -> np.ndarray:
        return self.store.rows

    def __len__(self) -> int:
        return len(self.store.rows)

    def index_for(self, join: JoinShape, side: str) -> StoreIndex:
        key = join, side
        if key not in self.store.indexes:
            self.store.indexes[key] = StoreIndex(self.store, side, join.is_hashed)
        self.store.indexes[key].begin(self)
        return self.store.indexes[key]

    def newest(self) -> StoredRecords:
        """The new ones alone."""
        found = StoredRecords(self.store, self.slots, self.new)
        found.lo = found.new
        return found

    def tighten(self, name: Hashable, found: np.ndarray) -> np.ndarray:
        """The least time so far that bounds each record, of those found with every feed. name: of the bound."""
        bounds = self.store.bounds
        if name not in bounds:
            bounds[name] = np.full(len(self.store.start), EVER, np.int64)
        at = ranges(self.lo, self.hi - self.lo)
        bounds[name][at] = np.minimum(bounds[name][at], found[at])
        return bounds[name]

    def together(self) -> Buffer:
        """All of them, next to each other."""
        counts = self.hi - self.lo
        at = ranges(self.lo, counts)
        from_ = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Buffer(self.variables, from_, self.start[at], self.end[at], self.rows[at])


class StoreIndex:
    """The index of the records in a store for a join: see `RecordIndex`. A stretch that moves is entered anew."""

    def __init__(self, store: RecordStore, side: str, hashed: bool) -> None:
        self._store = store
        self._side = side
        self._hashed = hashed
        self._values, self._chain, self._heads = (np.empty(0, np.int64) for _ in range(3))
        self._base, self._entered = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._slots = np.zeros(0, np.int64)
        self.arrays: dict[str, np.ndarray] = {}

    def begin(self, records: StoredRecords) -> None:
        """Have the arrays of these records ready for a call."""
        store, self._slots = self._store, records.slots
        self._values = longer(self._values, len(store.start))
        more = len(store.base) - len(self._base)
        if more:
            self._base = np.concatenate([self._base, np.full(more, NOWHERE)])
            self._entered = np.concatenate([self._entered, np.zeros(more, np.int64)])
        moved = self._slots[self._base[self._slots] != store.base[self._slots]]
        self._base[moved] = self._entered[moved] = store.base[moved]
        arrays = {"values": self._values, "entered": self._entered[self._slots]}
        if self._hashed:
            self._chain = longer(self._chain, len(store.start))
            self._heads = longer(self._heads, len(store.start))
            self._heads[ranges(store.base[moved], store.room[moved])] = NOWHERE
            arrays |= {"chain": self._chain, "heads": self._heads, "buckets": records.lo}
            arrays |= {"mask": np.maximum(store.room[self._slots], 1) - 1}
        self.arrays = {f"{self._side}_{name}": array for name, array in arrays.items()}

    def keep(self) -> None:
        self._entered[self._slots] = self.arrays[f"{self._side}_entered"]


def longer(array: np.ndarray, length: int) -> np.ndarray:
    """An array of at least this length, that begins alike."""
    if len(array) >= length:
        return array
    out = np.empty((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


class KeptRecords:
    """The stores of the nodes of one plan. begin: a round begins, with partitions of these keys."""

    def __init__(self, limit: int) -> None:
        self.slots = Slots()
        self.limit = limit
        self.stores: dict[Hashable, RecordStore] = {}
        self._here = np.zeros(0, np.int64)
        self._added: dict[Hashable, StoredRecords] = {}

    def __len__(self) -> int:
        return sum(map(len, self.stores.values()))

    def forget_values(self) -> None:
        """Values of events have changed: what joins know of them is built again."""
        for store in self.stores.values():
            store.indexes.clear()

    def begin(self, keys: np.ndarray) -> None:
        self._here, self._added = self.slots.of(keys), {}

    def extend(self, node: Hashable, new: Buffer) -> StoredRecords:
        """All records of a node, after its new ones have been added, once in a round."""
        if node not in self._added:
            store = self.stores.setdefault(node, RecordStore(new.variables))
            self._added[node] = store.append(self._here, new, self.limit)
        return self._added[node]
