"""Arithmetic with times (int64 of any value) that never wraps around.

A window of EVER is unlimited. Times beyond the least or the greatest one are that time: nothing is earlier or later.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa

from episode.words import DAY, MILLISECOND, SECOND

NEVER, EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def window_starts(ends: np.ndarray, window: int) -> np.ndarray:
    """Return the earliest time in each window that ends at one of the times."""
    return np.maximum(ends, NEVER + window) - window if window < EVER else np.full(len(ends), NEVER, np.int64)


def window_ends(starts: np.ndarray, window: int) -> np.ndarray:
    """Return the latest time in each window that begins at one of the times."""
    return np.minimum(starts, EVER - window) + window if window < EVER else np.full(len(starts), EVER, np.int64)


def is_after(times: np.ndarray, done: np.ndarray | int) -> np.ndarray:
    """Whether times are later than `done`. NEVER: nothing is done yet, not even events of that time."""
    return (times > done) | (np.asarray(done) == NEVER)


_Times = TypeVar("_Times", int, np.ndarray)


def microseconds_of(values: _Times, kind: pa.DataType) -> _Times:
    """Return stored values of a date, timestamp or duration type in microseconds."""
    if pa.types.is_date(kind):
        return np.clip(values, NEVER // DAY + 1, EVER // DAY) * DAY
    if kind.unit == "ns":
        return values // 1000
    return values if kind.unit == "us" else values * (MILLISECOND if kind.unit == "ms" else SECOND)
