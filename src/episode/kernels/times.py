"""Times are int64 of any value: arithmetic with them that never wraps around.

A window of EVER is none. What lies beyond the least or the greatest time is that time: nothing is earlier or later.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NEVER, EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@njit(cache=True, nogil=True, inline="always")
def window_start(end, window):
    """The earliest time in a window that ends at `end`."""
    return end - window if window < EVER and end >= NEVER + window else NEVER


@njit(cache=True, nogil=True, inline="always")
def window_end(start, window):
    """The latest time in a window that begins at `start`."""
    return start + window if window < EVER and start <= EVER - window else EVER


@njit(cache=True, nogil=True, inline="always")
def is_as_long_as(start, end, duration):
    """Is the time from start to end at least the duration?"""
    return end >= NEVER + duration and start <= end - duration


def window_starts(ends: np.ndarray, window: int) -> np.ndarray:
    """`window_start` of each of them."""
    return np.maximum(ends, NEVER + window) - window if window < EVER else np.full(len(ends), NEVER, np.int64)


def window_ends(starts: np.ndarray, window: int) -> np.ndarray:
    """`window_end` of each of them."""
    return np.minimum(starts, EVER - window) + window if window < EVER else np.full(len(starts), EVER, np.int64)


def is_after(times: np.ndarray, done: np.ndarray | int) -> np.ndarray:
    """Is a time later than `done`? NEVER: nothing is done yet, not even what is of that time."""
    return (times > done) | (np.asarray(done) == NEVER)
