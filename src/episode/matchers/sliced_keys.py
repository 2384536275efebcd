"""Which keys are cut into slices of time, and where: decided with the plan, and known to all tasks that pack and match.

Whoever matches knows units: the shards of ordinary keys come first, then the slices of sliced keys, key by key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from episode.matchers.slicing import FIRST_TIME, LAST_TIME, Overlap, SliceBounds, bounds_between


@dataclass(frozen=True)
class SlicedKey:
    """A key that is cut. hash: of its columns; cuts: times (images, as `EventBatch.time`) that grow.

    name, share: the key in words, and the part of all rows that it is thought to have, for explain.
    """

    hash: int
    cuts: tuple[int, ...]
    name: str = ""
    share: float = 1.0

    @property
    def slices(self) -> int:
        return len(self.cuts) + 1


@dataclass(frozen=True)
class Slice:
    """One slice: of which key (its place among the sliced ones), which of its slices, and what it owns."""

    key: int
    number: int
    bounds: SliceBounds


@dataclass(frozen=True)
class SlicedKeys:
    """The keys that are cut, and the number of their first unit. keys: by ascending hash; where there is no PARTITION
    BY, one."""

    keys: tuple[SlicedKey, ...]
    overlap: Overlap
    first: int

    @property
    def count(self) -> int:
        """How many slices there are."""
        return sum(key.slices for key in self.keys)

    @property
    def units(self) -> int:
        """The number of units, shards included."""
        return self.first + self.count

    def slice_of(self, unit: int) -> Slice | None:
        """The slice that a unit is; None for shards."""
        return None if unit < self.first else self._slices[unit - self.first]

    def units_of(self, key: int) -> range:
        """The units of a key's slices."""
        first = int(self.first_unit[key])
        return range(first, first + self.keys[key].slices)

    @cached_property
    def _slices(self) -> list[Slice]:
        return [
            Slice(place, number, bounds)
            for place, key in enumerate(self.keys)
            for number, bounds in enumerate(bounds_between(key.cuts))
        ]

    # ---- as arrays, for code -----------------------------------------------------------------------

    @cached_property
    def hashes(self) -> np.ndarray:
        return np.array([key.hash for key in self.keys], np.uint64)

    @cached_property
    def cuts(self) -> np.ndarray:
        return np.array([cut for key in self.keys for cut in key.cuts], np.int64)

    @cached_property
    def lows(self) -> np.ndarray:
        """The times from which on rows are copied to the slice after a cut."""
        before = self.overlap.before_time
        return np.array([max(FIRST_TIME, int(cut) - before) for cut in self.cuts], np.int64)

    @cached_property
    def highs(self) -> np.ndarray:
        """The times up to which rows are copied to the slice before a cut."""
        after = self.overlap.after_time
        return np.array([min(LAST_TIME, int(cut) + after) for cut in self.cuts], np.int64)

    @cached_property
    def first_cut(self) -> np.ndarray:
        return np.cumsum([0, *(len(key.cuts) for key in self.keys)], dtype=np.int64)

    @cached_property
    def first_unit(self) -> np.ndarray:
        return (self.first + self.first_cut[:-1] + np.arange(len(self.keys))).astype(np.int32)
