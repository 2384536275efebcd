"""What a row pattern knows of each key, by slot: where its rows are, and how far its search has come.

A key keeps its slot for as long as something is known of it. Keys are found by binary search; slots of keys of which
nothing is known any more are taken back when they are many.
"""

from __future__ import annotations

import numpy as np

from episode.matchers.rows.arrays import ATTEMPT_FIELDS, EXTREME_AT, OPEN, SIFTED

(
    KEY, BASE, ROOM, LO, HI, NEXT_START, COVERED, EXPLORED_START, EXPLORED_TO, NUMBER, AT_START, DEADLINE, UNWRITTEN,
) = range(13)  # fmt: skip
"""What is known of a key. KEY: its code. BASE, ROOM: its block in the arena. LO, HI: its rows there. NEXT_START …
EXPLORED_TO: see `SearchPartitions`, as rows of the arena. NUMBER: of the last match. AT_START: is LO its
true first row? DEADLINE: the `until` from which on a feed without rows may decide something. UNWRITTEN: how many of the
last rows no snapshot has written yet."""
OPENED = 13
"""From here on: what the search keeps of an attempt that waits, marks, and what is sought; see
`matchers.rows.arrays.Attempts`."""
MARKS = OPENED + ATTEMPT_FIELDS
POSITIONS = np.array([LO, HI, NEXT_START, COVERED, EXPLORED_START, EXPLORED_TO])
NEVER = np.iinfo(np.int64).max

_LEAST_SLOTS = 64


class KeyTable:
    """int64[fields, slots]. marks, sought: how many rows of these an attempt has."""

    def __init__(self, marks: int = 0, sought: int = 0) -> None:
        self.count = 0
        self.marked = slice(MARKS, MARKS + marks)
        self.sought = slice(MARKS + marks, MARKS + marks + sought)
        self._table = np.zeros((self.sought.stop, _LEAST_SLOTS), np.int64)
        self._keys = np.zeros(0, np.int64)
        self._slots = np.zeros(0, np.int64)

    @property
    def table(self) -> np.ndarray:
        """By field and slot."""
        return self._table[:, : self.count]

    @property
    def in_order(self) -> np.ndarray:
        """All slots, by key."""
        return self._slots

    def slots_of(self, keys: np.ndarray) -> np.ndarray:
        """The slots of different keys; those that have none get one, with no rows."""
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        if not known.all():
            self._add(np.sort(keys[~known]))
            at = np.searchsorted(self._keys, keys)
        return self._slots[at]

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The slots of those of the keys that have one."""
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        return self._slots[at[known]]

    def _add(self, fresh: np.ndarray) -> None:
        count = self.count + len(fresh)
        if count > self._table.shape[1]:
            larger = np.zeros((len(self._table), 2 * count), np.int64)
            larger[:, : self.count] = self.table
            self._table = larger
        slots = np.arange(self.count, count)
        self.count = count
        self._table[:, slots] = 0
        self._table[KEY, slots] = fresh
        self.begin(slots)
        at = np.searchsorted(self._keys, fresh)
        self._keys, self._slots = np.insert(self._keys, at, fresh), np.insert(self._slots, at, slots)

    def begin(self, slots: np.ndarray) -> None:
        """Nothing is known of these keys, but where their blocks are; they have no rows."""
        table = self._table
        for position in POSITIONS:
            table[position, slots] = table[BASE, slots]
        table[EXPLORED_START, slots] -= 1
        table[NUMBER, slots], table[AT_START, slots], table[DEADLINE, slots] = 0, 1, NEVER
        table[UNWRITTEN, slots] = 0
        table[OPENED + OPEN, slots] = 0
        table[OPENED + EXTREME_AT, slots] = table[OPENED + SIFTED, slots] = -1
        table[self.sought, slots] = table[BASE, slots]

    def keep(self, slots: np.ndarray) -> None:
        """Forget all keys but those of these slots; they get new slots."""
        self._table = np.ascontiguousarray(self._table[:, slots])
        self.count = len(slots)
        self._order()

    def rename(self, slots: np.ndarray, keys: np.ndarray) -> None:
        self._table[KEY, slots] = keys
        self._order()

    def _order(self) -> None:
        keys = self._table[KEY, : self.count]
        self._slots = np.argsort(keys, kind="stable")
        self._keys = keys[self._slots]
