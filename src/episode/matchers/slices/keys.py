"""Keys that are cut into slices of time, and the cuts: decided with the plan, known to all tasks that pack and match.

A matching task knows units: the shards of ordinary keys come first, then the slices of sliced keys, key by key.

See decisions 33 and 36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from episode.matchers.slices.slicing import Overlap, SliceBounds, bounds_between
from episode.matchers.times import EVER, NEVER


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
    """The keys that are cut, by ascending hash (one without PARTITION BY), and the number of their first unit."""

    keys: tuple[SlicedKey, ...]
    overlap: Overlap
    first: int

    @property
    def count(self) -> int:
        """Number of slices."""
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
        return np.array([max(NEVER, int(cut) - before) for cut in self.cuts], np.int64)

    @cached_property
    def highs(self) -> np.ndarray:
        """The times up to which rows are copied to the slice before a cut."""
        after = self.overlap.after_time
        return np.array([min(EVER, int(cut) + after) for cut in self.cuts], np.int64)

    @cached_property
    def first_cut(self) -> np.ndarray:
        return np.cumsum([0, *(len(key.cuts) for key in self.keys)], dtype=np.int64)

    @cached_property
    def first_unit(self) -> np.ndarray:
        return (self.first + self.first_cut[:-1] + np.arange(len(self.keys))).astype(np.int32)


# Keys that are worth slicing, and their cuts: chosen by a sample of the input's keys and times.
#
# How good the sample is matters to how evenly the work is shared out, never to the result.


LEAST_SAMPLED = 64
"""Rows of a key in the sample, at least: fewer tell little about its share and its times."""

LEAST_OVERLAPS = 10
"""A slice is at least this many times as long as its overlap, so that little is matched twice."""

LEAST_SLICE_BYTES = 4 * 2**20
"""Smaller slices take longer to start than to match."""

_MOST_SLICES = 4096
_SHOWN_VALUE = 40


@dataclass(frozen=True)
class Sketch:
    """A sample of the rows of an input.

    hashes: uint64[m], of their keys. times: int64[m], as `EventBatch.time`. weights: float64[m], how many rows each of
    them stands for. keys: the key columns of the same rows. words: how it was obtained, for explain.
    """

    hashes: np.ndarray
    times: np.ndarray
    weights: np.ndarray
    keys: pa.Table
    words: str

    @staticmethod
    def merge(parts: list[Sketch], words: str) -> Sketch:
        """Merge sketches of several parts of the input."""
        hashes, times, weights = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("hashes", "times", "weights")
        )
        return Sketch(hashes, times, weights, pa.concat_tables([part.keys for part in parts]), words)


@dataclass(frozen=True)
class Room:
    """Resources to plan slices for. tasks: among which the keys are shared out. bytes: of all events (None: not
    known). wanted: how many slices a key is to have (None: all that are of use). budget: bytes of events that a task
    holds at once (None: no limit)."""

    tasks: int
    bytes: int | None
    wanted: int | None = None
    budget: int | None = None


@dataclass(frozen=True)
class Choice:
    """keys: those that are cut, by ascending hash. reason: why no key is cut, if so; a clause for explain."""

    keys: tuple[SlicedKey, ...]
    reason: str = ""


def choose(sketch: Sketch, overlap: Overlap, room: Room) -> Choice:
    """The keys that would hold up the task that has them, cut into slices of about the same number of rows."""
    total = float(sketch.weights.sum())
    if not total:
        return Choice((), "no rows were seen")
    hashes, places, seen = np.unique(sketch.hashes, return_inverse=True, return_counts=True)
    shares = np.bincount(places, sketch.weights) / total
    large = np.flatnonzero(shares >= 1 / room.tasks)
    if len(large) == 0:
        return Choice((), f"no key is large: the largest has about {shares.max():.2g} of the rows")
    if room.wanted is None:
        large = large[seen[large] >= LEAST_SAMPLED]
        if len(large) == 0:
            return Choice((), "too few rows were sampled to choose the cuts")
    keys = []
    for at, count in zip(large, _counts(shares[large], room), strict=True):
        rows = np.flatnonzero(places == at)
        cuts = _cuts(sketch.times[rows], sketch.weights[rows], count, overlap, room.wanted is None)
        if cuts:
            keys.append(SlicedKey(int(hashes[at]), cuts, _name(sketch.keys, int(rows[0])), float(shares[at])))
    if not keys:
        return Choice((), "the times of large keys are too close together for slices with their overlaps")
    return Choice(tuple(keys))


def _counts(shares: np.ndarray, room: Room) -> list[int]:
    """Number of slices of each large key, by its share: one or two for every task, so that all have the same work;
    more if twice a slice would not fit the memory of a task, as for shards."""
    if room.wanted is not None:
        return [min(room.wanted, _MOST_SLICES)] * len(shares)
    total = min(_MOST_SLICES, room.tasks * max(1, round(2 * float(shares.sum()))))
    counts = [max(1, int(share / shares.sum() * total)) for share in shares]
    counts[int(np.argmax(shares))] += max(0, total - sum(counts))
    if room.bytes is not None:
        sizes = [int(share * room.bytes) for share in shares]
        counts = [min(count, size // LEAST_SLICE_BYTES) for count, size in zip(counts, sizes, strict=True)]
        if room.budget is not None:
            counts = [max(count, -(-2 * size // room.budget)) for count, size in zip(counts, sizes, strict=True)]
    return [min(count, _MOST_SLICES) for count in counts]


def _cuts(times: np.ndarray, weights: np.ndarray, count: int, overlap: Overlap, spare: bool) -> tuple[int, ...]:
    """Times that cut a key's rows into `count` parts or fewer. spare: overlaps must be small compared with slices."""
    known = (times != NEVER) & (times != EVER)
    times, weights = times[known], weights[known]
    if len(times) == 0:
        return ()
    apart = max(1, overlap.time * LEAST_OVERLAPS if spare else overlap.time)
    rows = float(weights.sum())
    if spare:
        count = min(count, int(rows / max(1, LEAST_OVERLAPS * (overlap.before_rows + overlap.after_rows))))
    order = np.argsort(times, kind="stable")
    times, reached = times[order], np.cumsum(weights[order])
    first, last = int(times[0]), int(times[-1])
    cuts: list[int] = []
    for part in range(1, count):
        place = int(np.searchsorted(reached, rows * part / count, side="right"))
        cut = int(times[min(place, len(times) - 1)])
        before = cuts[-1] if cuts else first
        if cut - before >= apart and (not spare or last - cut >= apart):
            cuts.append(cut)
    return tuple(cuts)


def largest_slice(sketch: Sketch, keys: Iterable[SlicedKey]) -> int:
    """About how many rows the largest slice has, without its overlap."""
    rows = [0]
    for key in keys:
        own = sketch.hashes == np.uint64(key.hash)
        parts = np.searchsorted(key.cuts, sketch.times[own], side="right")
        rows.append(int(np.bincount(parts, sketch.weights[own]).max(initial=0)))
    return max(rows)


def _name(keys: pa.Table, row: int) -> str:
    """The key of a row, in words."""
    shown = []
    for name in keys.column_names:
        value = repr(keys.column(name)[row].as_py())
        shown.append(f"{name} = {value if len(value) <= _SHOWN_VALUE else value[: _SHOWN_VALUE - 1] + '…'}")
    return ", ".join(shown)
