"""Integers in fewer bytes: distances from a base, as wide as the column's range needs."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def value_range(values: np.ndarray, valid: np.ndarray) -> tuple[int, int]:
    """(smallest, largest) of the valid values, (0, -1) where there is none; an empty mask: all are valid."""
    masked = valid.size > 0
    smallest, largest = np.int64(0), np.int64(-1)
    first = 0
    while masked and first < values.size and not valid[first]:
        first += 1
    if first < values.size:
        smallest = largest = np.int64(values[first])
    for i in range(first + 1, values.size):
        if not masked or valid[i]:
            value = np.int64(values[i])
            smallest = min(smallest, value)
            largest = max(largest, value)
    return smallest, largest


@njit(cache=True, nogil=True)
def narrow(values: np.ndarray, base: int, distances: np.ndarray) -> None:
    """distances (unsigned) = values - base; what does not fit, under nulls, is cut off."""
    for i in range(values.size):
        distances[i] = np.int64(values[i]) - base


@njit(cache=True, nogil=True)
def widen(distances: np.ndarray, base: int, values: np.ndarray) -> None:
    """values = base + distances."""
    for i in range(distances.size):
        values[i] = np.int64(distances[i]) + base


@njit(cache=True, nogil=True)
def spans(times: np.ndarray, groups: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest time of each group (int64[n_groups]); of groups without rows, the extremes."""
    first = np.full(n_groups, np.iinfo(np.int64).max)
    last = np.full(n_groups, np.iinfo(np.int64).min)
    for i in range(times.size):
        g = groups[i]
        first[g] = min(first[g], times[i])
        last[g] = max(last[g], times[i])
    return first, last
