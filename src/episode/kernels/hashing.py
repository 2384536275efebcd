"""Stable 64-bit hashes of key columns, and the shard of a hash.

The same key has the same hash in every process, on every machine and in every release: shards of a stream's state
are found by it. Changing anything here changes the format of stored state.

Shapes: hashes uint64[n], combined in place column by column; valid bool[n], or empty where nothing is null.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SEED = 0x243F6A8885A308D3
_STEP = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD1B54A32D192ED03)
_A = np.uint64(0xFF51AFD7ED558CCD)
_B = np.uint64(0xC4CEB9FE1A85EC53)
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF
_INFINITY = 0x7FF0000000000000
_NAN = 0x7FF8000000000000
_33 = np.uint64(33)
_32 = np.uint64(32)


@njit(cache=True, nogil=True)
def _mix(x: int) -> int:
    """The 64-bit finalizer of MurmurHash3."""
    x = (x ^ (x >> _33)) * _A
    x = (x ^ (x >> _33)) * _B
    return x ^ (x >> _33)


def start(n: int, salt: int = 0) -> np.ndarray:
    """Hashes of n rows before the first column; different salts give unrelated hashes."""
    return np.full(n, (_SEED + salt * 0x9E3779B97F4A7C15) % 2**64, np.uint64)


@njit(cache=True, nogil=True)
def combine_int64(hashes: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
    """Add a column of int64 values to the hashes."""
    masked = valid.size > 0
    for i in range(hashes.size):
        value = _NULL if masked and not valid[i] else np.uint64(values[i])
        hashes[i] = _mix(hashes[i] * _STEP + value)


@njit(cache=True, nogil=True)
def _word_of_bytes(data: np.ndarray, low: int, high: int) -> int:
    """A byte string as one 64-bit word, from little-endian words of 8 bytes."""
    value = np.uint64(high - low) * _STEP
    at = low
    while at + 8 <= high:
        word = np.uint64(0)
        for j in range(8):
            word |= np.uint64(data[at + j]) << np.uint64(8 * j)
        value = _mix(value ^ word)
        at += 8
    word = np.uint64(0)
    j = 0
    while at < high:
        word |= np.uint64(data[at]) << np.uint64(8 * j)
        at += 1
        j += 1
    return value ^ word


@njit(cache=True, nogil=True)
def words_of_bytes(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Byte strings as int64 words: `combine_int64` of a word is `combine_bytes` of its string."""
    words = np.empty(offsets.size - 1, np.int64)
    for i in range(words.size):
        words[i] = np.int64(_word_of_bytes(data, np.int64(offsets[i]), np.int64(offsets[i + 1])))
    return words


@njit(cache=True, nogil=True)
def combine_bytes(hashes: np.ndarray, offsets: np.ndarray, data: np.ndarray, valid: np.ndarray) -> None:
    """Add a column of byte strings to the hashes: value i is data[offsets[i]:offsets[i + 1]] (uint8)."""
    masked = valid.size > 0
    for i in range(hashes.size):
        value = _NULL
        if not masked or valid[i]:
            value = _word_of_bytes(data, np.int64(offsets[i]), np.int64(offsets[i + 1]))
        hashes[i] = _mix(hashes[i] * _STEP + value)


@njit(cache=True, nogil=True)
def shards_of(hashes: np.ndarray, n_shards: int) -> np.ndarray:
    """The shard of each hash, 0 .. n_shards - 1 (int32), from the hash's upper half."""
    shards = np.empty(hashes.size, np.int32)
    n = np.uint64(n_shards)
    for i in range(hashes.size):
        shards[i] = np.int32(((hashes[i] >> _32) * n) >> _32)
    return shards


@njit(cache=True, nogil=True)
def normalize_floats(bits: np.ndarray) -> np.ndarray:
    """Bits of float64 values (int64) with one zero and one NaN, so that equal bits are equal values."""
    result = np.empty_like(bits)
    for i in range(bits.size):
        magnitude = bits[i] & _MAGNITUDE
        if magnitude > _INFINITY:
            result[i] = _NAN
        else:
            result[i] = bits[i] if magnitude != 0 else 0
    return result
