"""Rows of classes: ascending row numbers, put together with the bits that say of which classes each row is.

Shapes: rows int64[n], ascending; bits uint64[n], of the same rows or of all rows; bounds int64[partitions + 1].
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_class(bits: np.ndarray, rows: np.ndarray, bit: int) -> None:
    """Of all rows, these are of one more class."""
    for i in range(rows.size):
        bits[rows[i]] |= bit


@njit(cache=True, nogil=True)
def joined(
    rows: np.ndarray, bits: np.ndarray, more: np.ndarray, bit: int, others: int
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Some rows and the rows of one more class, with their bits. others: the bits of a row of no class."""
    out = np.empty(rows.size + more.size, np.int64)
    out_bits = np.empty(out.size, np.uint64)
    i, j, n = 0, 0, 0
    while i < rows.size or j < more.size:
        if j == more.size or (i < rows.size and rows[i] < more[j]):
            out[n], out_bits[n] = rows[i], bits[i]
            i += 1
        elif i == rows.size or more[j] < rows[i]:
            out[n], out_bits[n] = more[j], others | bit
            j += 1
        else:
            out[n], out_bits[n] = rows[i], bits[i] | bit
            i += 1
            j += 1
        n += 1
    return out[:n].copy(), out_bits[:n].copy()


@njit(cache=True, nogil=True)
def with_next(
    rows: np.ndarray, bits: np.ndarray, bounds: np.ndarray, others: int
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Some rows and the row after each, in its partition. others: the bits of a row of no class."""
    out = np.empty(2 * rows.size, np.int64)
    out_bits = np.empty(out.size, np.uint64)
    n = 0
    partition = 0
    for i in range(rows.size):
        row = rows[i]
        out[n], out_bits[n] = row, bits[i]
        n += 1
        while bounds[partition + 1] <= row:
            partition += 1
        after = row + 1
        if after < bounds[partition + 1] and (i + 1 == rows.size or rows[i + 1] != after):
            out[n], out_bits[n] = after, others
            n += 1
    return out[:n].copy(), out_bits[:n].copy()
