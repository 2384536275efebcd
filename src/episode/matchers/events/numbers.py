"""Numbers of matches: three words each, as kernels/events/counts.py computes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import decimals

LARGEST = 10**38
NEAR_LARGEST = 2e38
"""Less than 2**128: what is below this is exact in two words."""


@dataclass
class Numbers:
    """Numbers of three words: see kernels/events/counts.py."""

    high: np.ndarray
    low: np.ndarray
    near: np.ndarray

    @classmethod
    def ones(cls, count: int) -> Numbers:
        return cls(np.zeros(count, np.uint64), np.ones(count, np.uint64), np.ones(count, np.float64))

    @classmethod
    def zeros(cls, count: int) -> Numbers:
        return cls(np.zeros(count, np.uint64), np.zeros(count, np.uint64), np.zeros(count, np.float64))

    @classmethod
    def of(cls, values: np.ndarray) -> Numbers:
        return cls(np.zeros(len(values), np.uint64), values.astype(np.uint64), values.astype(np.float64))

    def put(self, which: np.ndarray, other: Numbers) -> None:
        self.high[which], self.low[which], self.near[which] = other.high, other.low, other.near

    def select(self, which: np.ndarray) -> Numbers:
        return Numbers(self.high[which], self.low[which], self.near[which])

    @property
    def too_large(self) -> np.ndarray:
        """Which have more than 38 digits?"""
        high, low = divmod(LARGEST, 1 << 64)
        above = (self.high > np.uint64(high)) | ((self.high == np.uint64(high)) & (self.low >= np.uint64(low)))
        return (self.near > NEAR_LARGEST) | above

    def column(self, exact: bool) -> pa.Array:
        """As decimal(38, 0), where none is too large, or as double."""
        if exact:
            return decimals(self.low, self.high.view(np.int64), np.ones(len(self.low)), pa.decimal128(38, 0))
        words = self.high.astype(np.float64) * 2.0**64 + self.low.astype(np.float64)
        return pa.array(np.where(self.near < NEAR_LARGEST, words, self.near))
