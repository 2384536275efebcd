"""Statistics of a round of events: how many there are of each variable, and how often conditions hold."""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.events.joins import compares, first_at_least
from episode.kernels.times import EVER, window_end, window_start


@njit(cache=True, nogil=True)
def census(bits, from_, end, variables, window, pause):
    """Events per window as an event sees them: where few partitions have most of the events, those count.

    bits uint64[rows]: the variables of a row; from_ int64[groups + 1]. The windows of a partition are those that its
    events with any variable fill: a pause between two of them counts for `pause` at the most.
    Returns (float64[variables], the same for all rows, int64[variables + 1] and int64[:]: the rows of each variable).
    """
    groups = len(from_) - 1
    first, stop = from_[0], from_[groups]
    counts = np.zeros(variables, np.int64)
    for row in range(first, stop):
        for v in range(variables):
            counts[v] += np.int64(bits[row] >> np.uint64(v) & np.uint64(1))
    offsets = np.zeros(variables + 1, np.int64)
    for v in range(variables):
        offsets[v + 1] = offsets[v] + counts[v]
    rows, at = np.empty(offsets[variables], np.int64), offsets[:-1].copy()
    seen, here, seen_rows = np.zeros(variables), np.zeros(variables, np.int64), 0.0
    for g in range(groups):
        here[:] = 0
        filled, last = 0.0, -1
        for row in range(from_[g], from_[g + 1]):
            if bits[row] == 0:
                continue
            if last >= 0:
                filled += min(float(end[row]) - float(end[last]), pause)
            last = row
            for v in range(variables):
                if bits[row] >> np.uint64(v) & np.uint64(1):
                    rows[at[v]] = row
                    at[v] += 1
                    here[v] += 1
        windows = max(1.0, filled / window) if window < EVER else 1.0
        for v in range(variables):
            seen[v] += here[v] * (here[v] / windows)
        number = from_[g + 1] - from_[g]
        if number > 0:
            spanned = (float(end[from_[g + 1] - 1]) - float(end[from_[g]])) / window if window < EVER else 1.0
            seen_rows += number * (number / max(1.0, spanned))
    for v in range(variables):
        seen[v] /= max(1, counts[v])
    return seen, seen_rows / max(1, stop - first), offsets, rows


@njit(cache=True, nogil=True)
def partners(chosen, others, from_, end, window, dice):
    """Per row, one of the rows `others` of its partition and within a window of it, by its dice in [0, 1); -1: none."""
    out = np.full(len(chosen), -1, np.int64)
    for i in range(len(chosen)):
        row = chosen[i]
        group = first_at_least(from_, 0, len(from_), row + 1) - 1
        low = first_at_least(others, 0, len(others), from_[group])
        stop = first_at_least(others, low, len(others), from_[group + 1])
        if window < EVER:
            low = _first_in_time(end, others, low, stop, window_start(end[row], window))
            stop = _first_in_time(end, others, low, stop, window_end(end[row], window + 1))
        if low < stop:
            out[i] = others[low + np.int64(dice[i] * (stop - low))]
    return out


@njit(cache=True, nogil=True)
def _first_in_time(end, rows, low, high, wanted):
    """First index in [low, high) whose row ends not before `wanted`."""
    while low < high:
        middle = (low + high) >> 1
        if end[rows[middle]] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def pairs_that_hold(first, others, from_, end, window, dice, plain, ints, floats, valid):
    """(how many, of how many) sampled pairs of rows, within a window of each other, pass the comparisons `plain`.

    dice float64[2, n] in [0, 1): which of `first`, and which of `others` near it. A pair is (left, left) to `plain`.
    """
    chosen = np.empty(dice.shape[1], np.int64)
    for i in range(len(chosen)):
        chosen[i] = first[np.int64(dice[0, i] * len(first))]
    beside = partners(chosen, others, from_, end, window, dice[1])
    pair, held, tried = np.empty((1, 2), np.int32), 0, 0
    for i in range(len(chosen)):
        if beside[i] >= 0:
            pair[0, 0], pair[0, 1] = chosen[i], beside[i]
            tried += 1
            held += compares(plain, 0, ints, floats, valid, pair, 0, pair, 0)
    return held, tried
