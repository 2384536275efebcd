"""Stable 64-bit hashes of key columns, and the shard of a hash.

The same key has the same hash in every process, on every machine and in every release: shards of a stream's state
are found by it. Changing anything here changes the format of stored state.

Shapes: hashes uint64[n], combined in place column by column; valid bool[n], or empty where nothing is null.
"""

from __future__ import annotations

import numpy as np

from episode.native.builder import Function, Program
from episode.native.ir import I32, I64, U8, U64, Array, Type, Value
from episode.native.running import compiled_for

_SEED = 0x243F6A8885A308D3
_STEP = 0x9E3779B97F4A7C15
_NULL = 0xD1B54A32D192ED03
_MIX = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


def start(n: int, salt: int = 0) -> np.ndarray:
    """Return hashes of n rows before the first column; different salts give unrelated hashes."""
    return np.full(n, (_SEED + salt * _STEP) % 2**64, np.uint64)


def combine_int64(hashes: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
    """Add a column of int64 values to the hashes."""
    compiled_for(numbers_program, len(valid) > 0)([hashes, values, *_flags(valid)])


def combine_bytes(hashes: np.ndarray, offsets: np.ndarray, data: np.ndarray, valid: np.ndarray) -> None:
    """Add a column of byte strings to the hashes: value i is data[offsets[i]:offsets[i + 1]] (uint8)."""
    program = compiled_for(bytes_program, len(valid) > 0, _type_of(offsets))
    program([hashes, offsets, data, *_flags(valid)])


def words_of_bytes(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Return byte strings as int64 words: `combine_int64` of a word is `combine_bytes` of its string."""
    words = np.empty(len(offsets) - 1, np.int64)
    compiled_for(words_program, _type_of(offsets))([words, offsets, data])
    return words


def shards_of(hashes: np.ndarray, n_shards: int) -> np.ndarray:
    """Return the shard of each hash, 0 .. n_shards - 1 (int32), from the hash's upper half."""
    shards = np.empty(len(hashes), np.int32)
    compiled_for(shards_program)([hashes, shards], n_shards)
    return shards


def normalize_floats(bits: np.ndarray) -> np.ndarray:
    """Return bits of float64 values (int64) with one zero and one NaN, so that equal bits are equal values."""
    values = bits.view(np.float64)
    with np.errstate(invalid="ignore"):
        result = values + 0.0  # minus zero becomes zero
    is_nan = np.isnan(values)
    if is_nan.any():
        result[is_nan] = np.nan
    return result.view(np.int64)


def _flags(valid: np.ndarray) -> list[np.ndarray]:
    return [valid.view(np.uint8)] if len(valid) else []


def _type_of(offsets: np.ndarray) -> Type:
    return I32 if offsets.dtype == np.int32 else I64


def numbers_program(masked: bool) -> Program:
    program = Program("hash_numbers")
    f = program.function("run")
    hashes, values = f.array("hashes", U64, writable=True), f.array("values", I64)
    valid = f.array("valid", U8) if masked else None
    with f.loop(0, hashes.length) as row:
        word = values[row].bits_as(U64)
        if valid is not None:
            word = f.select(valid[row].equals(0), f.constant(_NULL, U64), word)
        hashes[row] = _mix(hashes[row] * _STEP + word)
    f.give(0)
    return program


def bytes_program(masked: bool, offset: Type) -> Program:
    program = Program("hash_bytes")
    f = program.function("run")
    hashes = f.array("hashes", U64, writable=True)
    offsets, data = f.array("offsets", offset), f.array("data", U8)
    valid = f.array("valid", U8) if masked else None
    word_of = _word_function(program)
    with f.loop(0, hashes.length) as row:
        word = f.variable("word", f.constant(_NULL, U64))
        with f.when(True if valid is None else valid[row].differs(0)):
            word.set(_word(f, word_of, offsets, data, row))
        hashes[row] = _mix(hashes[row] * _STEP + word)
    f.give(0)
    return program


def words_program(offset: Type) -> Program:
    program = Program("words_of_bytes")
    f = program.function("run")
    words, offsets, data = f.array("words", I64, writable=True), f.array("offsets", offset), f.array("data", U8)
    word_of = _word_function(program)
    with f.loop(0, words.length) as row:
        words[row] = _word(f, word_of, offsets, data, row).bits_as(I64)
    f.give(0)
    return program


def shards_program() -> Program:
    program = Program("shards")
    f = program.function("run")
    hashes, shards, n = f.array("hashes", U64), f.array("shards", I32, writable=True), f.scalar("n")
    with f.loop(0, hashes.length) as row:
        shards[row] = ((hashes[row] >> 32) * n.bits_as(U64) >> 32).to(I32)
    f.give(0)
    return program


def _mix(word: Value) -> Value:
    """Apply the 64-bit finalizer of MurmurHash3."""
    for factor in _MIX:
        word = (word ^ word >> 33) * factor
    return word ^ word >> 33


def _word(f: Function, word_of: Function, offsets: Array, data: Array, row: Value) -> Value:
    return f.call(word_of, [data], offsets[row].to(I64), offsets[row + 1].to(I64))


def _word_function(program: Program) -> Function:
    """Compile a byte string, data[low:high], to one 64-bit word, from little-endian words of 8 bytes."""
    f = program.function("word_of_bytes", U64)
    data, low, high = f.array("data", U8), f.scalar("low"), f.scalar("high")
    value, at = f.variable("value", (high - low).bits_as(U64) * _STEP), f.variable("at", low)
    with f.during(lambda: at + 8 <= high):
        now = at.value
        word = data[now].to(U64)
        for byte in range(1, 8):
            word = word | data[now + byte].to(U64) << 8 * byte
        value.set(_mix(value ^ word))
        at.set(now + 8)
    rest, shift = f.variable("rest", f.constant(0, U64)), f.variable("shift", f.constant(0, U64))
    with f.loop(at, high) as place:
        rest.set(rest | data[place].to(U64) << shift)
        shift.set(shift + 8)
    f.give(value ^ rest)
    return f
