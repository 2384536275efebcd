"""How far matches of a key are known: what was asked for and decided is never computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from episode.matchers.correlation.segments import looked_up, nothing
from episode.matchers.held import arrays_in, chunk_of, least_by_key
from episode.matchers.protocol import StateChunk
from episode.matchers.times import NEVER

_NAME = "covered"


@dataclass
class Covered:
    """Of each key (ascending), everything before this time is known."""

    key: np.ndarray = field(default_factory=nothing)
    time: np.ndarray = field(default_factory=nothing)

    def until(self, keys: np.ndarray) -> np.ndarray:
        """For each of these keys, the time before which everything is known."""
        return looked_up(self.key, self.time, keys, NEVER)

    def cover(self, key: np.ndarray, time: np.ndarray) -> None:
        """Of these keys everything before these times is known."""
        keys, times = np.concatenate([self.key, key]), np.concatenate([self.time, time])
        self.key, negative = least_by_key(keys, ~times)
        self.time = ~negative

    def keep(self, wanted: np.ndarray) -> None:
        """Remember only those (bool)."""
        self.key, self.time = self.key[wanted], self.time[wanted]

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def chunk(self) -> StateChunk:
        return chunk_of(_NAME, pa.table({"key": self.key, "covered": self.time}))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = arrays_in(chunks, _NAME, "key", "covered")
        if known is not None:
            self.key, self.time = known
