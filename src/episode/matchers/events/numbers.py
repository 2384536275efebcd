"""Numbers of matches: three words each, as code/choices.py computes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import decimals

LARGEST = 10**38
NEAR_LARGEST = 2e38
"""Less than 2**128: what is below this is exact in two words."""
_HALF, _MASK = np.uint64(32), np.uint64(2**32 - 1)


@dataclass
class Numbers:
    """Numbers of three words: see code/choices.py."""

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

    def multiply(self, other: Numbers) -> None:
        """Each with another one, modulo 2**128."""
        a0, a1, b0, b1 = self.low & _MASK, self.low >> _HALF, other.low & _MASK, other.low >> _HALF
        p00, p01, p10, p11 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
        middle = (p00 >> _HALF) + (p01 & _MASK) + (p10 & _MASK)
        upper = p11 + (p01 >> _HALF) + (p10 >> _HALF) + (middle >> _HALF)
        self.high = upper + self.high * other.low + self.low * other.high
        self.low = (p00 & _MASK) | (middle << _HALF)
        self.near = self.near * other.near

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
