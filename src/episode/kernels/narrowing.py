"""Numbers in fewer bytes: distances from a base in units, as wide as needed; and steps, where distances only grow.

Shapes: values int64[n]; valid bool[n], or empty where nothing is null; distances and steps unsigned[n]; starts
int64[m + 1], where the slices of a batch begin.
"""

from __future__ import annotations

import numpy as np
from numba import njit

THOUSAND = np.uint64(1_000)
MILLION = np.uint64(1_000_000)
_EXACT = 2.0**52


@njit(cache=True, nogil=True)
def decimals(values: np.ndarray, valid: np.ndarray, scale: float, result: np.ndarray) -> bool:
    """result (int64) = values (float64) * scale, if all are whole then and dividing gives the very same bits back."""
    masked = valid.size > 0
    for i in range(values.size):
        if masked and not valid[i]:
            result[i] = 0
            continue
        value = values[i]
        scaled = value * scale
        if not abs(scaled) < _EXACT:
            return False
        whole = np.rint(scaled)
        if whole / scale != value or (whole == 0.0 and np.signbit(value)):
            return False
        result[i] = np.int64(whole)
    return True


@njit(cache=True, nogil=True)
def value_range(values: np.ndarray, valid: np.ndarray) -> tuple[int, int]:
    """(smallest, largest) of the valid values, (0, -1) where there is none."""
    masked = valid.size > 0
    smallest, largest = np.int64(0), np.int64(-1)
    first = 0
    while masked and first < values.size and not valid[first]:
        first += 1
    if first < values.size:
        smallest = largest = values[first]
    for i in range(first + 1, values.size):
        if not masked or valid[i]:
            smallest = min(smallest, values[i])
            largest = max(largest, values[i])
    return smallest, largest


@njit(cache=True, nogil=True)
def common_unit(values: np.ndarray, valid: np.ndarray, base: int) -> int:
    """The largest of 1,000,000, 1,000 and 1 of which all distances from the base are multiples (of whole units)."""
    masked = valid.size > 0
    million = True
    for i in range(values.size):
        if not masked or valid[i]:
            distance = np.uint64(values[i]) - np.uint64(base)
            if million and distance % MILLION != 0:
                million = False
            if not million and distance % THOUSAND != 0:
                return 1
    return 1_000_000 if million else 1_000


@njit(cache=True, nogil=True)
def narrow(values: np.ndarray, base: int, unit: int, distances: np.ndarray) -> None:
    """distances = (values - base) / unit; what does not fit, under nulls, is cut off."""
    if unit == 1:
        for i in range(values.size):
            distances[i] = np.uint64(values[i]) - np.uint64(base)
    elif unit == 1_000:
        for i in range(values.size):
            distances[i] = (np.uint64(values[i]) - np.uint64(base)) // THOUSAND
    else:
        for i in range(values.size):
            distances[i] = (np.uint64(values[i]) - np.uint64(base)) // MILLION


@njit(cache=True, nogil=True)
def largest_step(distances: np.ndarray, starts: np.ndarray) -> int:
    """The largest step between neighbours of a slice; -1 where a slice goes down, or up by more than 32 bits."""
    largest = np.uint64(0)
    for s in range(starts.size - 1):
        for i in range(starts[s] + 1, starts[s + 1]):
            if distances[i] < distances[i - 1]:
                return -1
            largest = max(largest, np.uint64(distances[i]) - np.uint64(distances[i - 1]))
    return np.int64(largest) if largest < np.uint64(1 << 32) else -1


@njit(cache=True, nogil=True)
def steps_of(distances: np.ndarray, starts: np.ndarray, steps: np.ndarray) -> None:
    """Steps between neighbours; 0 at the start of each slice."""
    for s in range(starts.size - 1):
        if starts[s] < starts[s + 1]:
            steps[starts[s]] = 0
        for i in range(starts[s] + 1, starts[s + 1]):
            steps[i] = np.uint64(distances[i]) - np.uint64(distances[i - 1])


@njit(cache=True, nogil=True)
def widen(distances: np.ndarray, base: int, unit: int, values: np.ndarray) -> None:
    """values = base + unit * distances."""
    for i in range(distances.size):
        values[i] = base + unit * np.int64(distances[i])


@njit(cache=True, nogil=True)
def widen_steps(steps: np.ndarray, base: int, unit: int, values: np.ndarray) -> None:
    """values = base + unit * running sum of the steps."""
    value = np.int64(base)
    for i in range(steps.size):
        value += unit * np.int64(steps[i])
        values[i] = value


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
