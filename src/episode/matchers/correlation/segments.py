"""Segments: stretches of a key's rows in which the matches of a pattern are asked for, each a key of its own inside."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa

FIRST_ID = 1 << 40
"""Segments have numbers that no key code has."""


def nothing() -> np.ndarray:
    """No numbers at all."""
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class RegionDemands:
    """What matches of the other pattern ask for: of each, its key, and the times lo <= t < hi of starts, or of ends."""

    key: np.ndarray = field(default_factory=nothing)
    lo: np.ndarray = field(default_factory=nothing)
    hi: np.ndarray = field(default_factory=nothing)

    def __len__(self) -> int:
        return len(self.key)

    def select(self, which: np.ndarray) -> RegionDemands:
        return RegionDemands(self.key[which], self.lo[which], self.hi[which])


@dataclass(frozen=True)
class Segments:
    """Segments that are being computed, in order of their numbers, int64.

    key: whose rows. lo, hi: starts (or ends) from lo on and before hi are asked for. limit: those before it are
    taken, too, if they are found. at: the next row to feed, in the buffer of this feed. last: the last start found.
    """

    id: np.ndarray = field(default_factory=nothing)
    key: np.ndarray = field(default_factory=nothing)
    lo: np.ndarray = field(default_factory=nothing)
    hi: np.ndarray = field(default_factory=nothing)
    limit: np.ndarray = field(default_factory=nothing)
    at: np.ndarray = field(default_factory=nothing)
    last: np.ndarray = field(default_factory=nothing)

    def __len__(self) -> int:
        return len(self.id)

    def select(self, which: np.ndarray) -> Segments:
        return Segments(*(getattr(self, one.name)[which] for one in fields(self)))

    def followed_by(self, others: Segments) -> Segments:
        return Segments(*(np.concatenate([getattr(self, one.name), getattr(others, one.name)]) for one in fields(self)))

    def moved(self, at: np.ndarray) -> Segments:
        return replace(self, at=at)

    def table(self) -> pa.Table:
        return pa.table({one.name: getattr(self, one.name) for one in fields(self)})

    @staticmethod
    def from_table(table: pa.Table) -> Segments:
        return Segments(*(table.column(one.name).to_numpy().copy() for one in fields(Segments)))


def looked_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray, default: int) -> np.ndarray:
    """The values of the wanted keys; keys ascend."""
    if len(keys) == 0:
        return np.full(len(wanted), default, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], default)
