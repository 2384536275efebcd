"""Grouping by key and ordering within keys, as permutations of row numbers; linear wherever possible.

Shapes used throughout: codes int32[n] dense key codes in 0..n_keys-1; images int64[k, n], the k order columns as
order-preserving integers, most significant first; order int64[n], a permutation; starts int64[n_keys + 1], where
each key's rows begin in the permutation.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SMALL = 32
_WIDE = 1 << 16


@njit(cache=True, nogil=True)
def is_ordered(codes: np.ndarray, images: np.ndarray) -> bool:
    """Whether the rows are contiguous by ascending code and each key's rows are already in order."""
    columns = images.shape[0]
    for i in range(1, codes.size):
        if codes[i - 1] < codes[i]:
            continue
        if codes[i - 1] > codes[i]:
            return False
        for c in range(columns):
            if images[c, i - 1] < images[c, i]:
                break
            if images[c, i - 1] > images[c, i]:
                return False
    return True


@njit(cache=True, nogil=True)
def starts_of(codes: np.ndarray, n_keys: int) -> np.ndarray:
    """Where each key begins once rows are grouped: the running sum of the counts per code."""
    starts = np.zeros(n_keys + 1, np.int64)
    for i in range(codes.size):
        starts[codes[i] + 1] += 1
    for k in range(n_keys):
        starts[k + 1] += starts[k]
    return starts


@njit(cache=True, nogil=True)
def group(codes: np.ndarray, n_keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Stable counting sort by code: (order, starts)."""
    starts = starts_of(codes, n_keys)
    place = starts[:-1].copy()
    order = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        k = codes[i]
        order[place[k]] = i
        place[k] += 1
    return order, starts


@njit(cache=True, nogil=True)
def group_and_check(codes: np.ndarray, n_keys: int, images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `group`, and which keys' rows are not in order already (bool[n_keys]), found in the same pass."""
    columns = images.shape[0]
    starts = starts_of(codes, n_keys)
    place = starts[:-1].copy()
    order = np.empty(codes.size, np.int64)
    disordered = np.zeros(n_keys, np.bool_)
    for i in range(codes.size):
        k = codes[i]
        at = place[k]
        order[at] = i
        place[k] = at + 1
        if at > starts[k]:
            before = order[at - 1]
            for c in range(columns):
                if images[c, before] < images[c, i]:
                    break
                if images[c, before] > images[c, i]:
                    disordered[k] = True
                    break
    return order, starts, disordered


@njit(cache=True, nogil=True)
def _insertion_sort(order: np.ndarray, low: int, high: int, image: np.ndarray) -> None:
    for i in range(low + 1, high):
        row = order[i]
        value = image[row]
        j = i - 1
        while j >= low and image[order[j]] > value:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = row


@njit(cache=True, nogil=True)
def _radix_sort(order: np.ndarray, low: int, high: int, image: np.ndarray) -> None:
    """Stable LSD radix sort of order[low:high] by image; only as many digits as the values' range needs."""
    n = high - low
    smallest = largest = image[order[low]]
    for i in range(low + 1, high):
        value = image[order[i]]
        if value < smallest:
            smallest = value
        if value > largest:
            largest = value
    if smallest == largest:
        return
    # int64 differences wrap around to the right uint64 distance
    spread = np.uint64(largest) - np.uint64(smallest)
    bits = 8 if n < _WIDE else 11
    mask = np.uint64((1 << bits) - 1)
    digits, rows = np.empty(n, np.uint64), np.empty(n, np.int64)
    digits_next, rows_next = np.empty(n, np.uint64), np.empty(n, np.int64)
    for i in range(n):
        row = order[low + i]
        rows[i] = row
        digits[i] = np.uint64(image[row]) - np.uint64(smallest)
    place = np.empty((1 << bits) + 1, np.int64)
    shift = 0
    while shift < 64 and (spread >> np.uint64(shift)) != np.uint64(0):
        by = np.uint64(shift)
        place[:] = 0
        for i in range(n):
            place[np.int64((digits[i] >> by) & mask) + 1] += 1
        for d in range(1 << bits):
            place[d + 1] += place[d]
        for i in range(n):
            d = np.int64((digits[i] >> by) & mask)
            to = place[d]
            place[d] = to + 1
            digits_next[to] = digits[i]
            rows_next[to] = rows[i]
        digits, digits_next = digits_next, digits
        rows, rows_next = rows_next, rows
        shift += bits
    for i in range(n):
        order[low + i] = rows[i]


@njit(cache=True, nogil=True)
def order_within(order: np.ndarray, starts: np.ndarray, disordered: np.ndarray, images: np.ndarray) -> None:
    """Sort the disordered keys' rows of `order` by the images, stably and in place."""
    columns = images.shape[0]
    for k in range(starts.size - 1):
        if disordered[k]:
            low, high = starts[k], starts[k + 1]
            for c in range(columns - 1, -1, -1):
                if high - low <= _SMALL:
                    _insertion_sort(order, low, high, images[c])
                else:
                    _radix_sort(order, low, high, images[c])


@njit(cache=True, nogil=True)
def small_range(values: np.ndarray, valid: np.ndarray) -> tuple[int, int, int]:
    """(smallest, largest, nulls) of the valid values; (0, -1, nulls) where there is none. No mask: all are valid."""
    masked = valid.size > 0
    smallest, largest, nulls = np.int64(0), np.int64(-1), np.int64(0)
    found = False
    for i in range(values.size):
        if masked and not valid[i]:
            nulls += 1
            continue
        value = values[i]
        if not found:
            smallest = largest = value
            found = True
        elif value < smallest:
            smallest = value
        elif value > largest:
            largest = value
    return smallest, largest, nulls


@njit(cache=True, nogil=True)
def encode_range(values: np.ndarray, valid: np.ndarray, smallest: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Dense codes of int64 values that lie in smallest .. smallest + size - 1: (codes int32[n], distinct int64[m]).

    Codes follow the order of the values; a null's code is m, one past the last value.
    """
    masked = valid.size > 0
    code = np.full(size, -1, np.int32)
    for i in range(values.size):
        if not masked or valid[i]:
            code[values[i] - smallest] = 0
    m = 0
    for v in range(size):
        if code[v] == 0:
            code[v] = m
            m += 1
    distinct = np.empty(m, np.int64)
    for v in range(size):
        if code[v] >= 0:
            distinct[code[v]] = smallest + v
    codes = np.empty(values.size, np.int32)
    for i in range(values.size):
        codes[i] = code[values[i] - smallest] if not masked or valid[i] else m
    return codes, distinct
