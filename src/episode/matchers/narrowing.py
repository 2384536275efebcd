"""Numbers in fewer bytes: distances from a base in units, as wide as needed; and steps, where distances only grow.

Arrays are worked through in blocks that fit a cache, and no further than needed to know that something does not hold.

Shapes: values int64[n]; valid bool[n], or empty where nothing is null; distances and steps unsigned[n]; starts
int64[m + 1], where the slices of a batch begin.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from episode.native.builder import Program
from episode.native.running import compiled_for
from episode.native.types import I64

_EXACT = 2.0**52
_BLOCK = 1 << 14
_FIRST_BLOCK = 64
"""The first block is small, because it mostly decides."""


def _blocks(n: int, first: int = _BLOCK) -> Iterator[slice]:
    begin, end = 0, first
    while begin < n:
        yield slice(begin, min(end, n))
        begin, end = end, end + _BLOCK


def whole_numbers(values: np.ndarray, valid: np.ndarray, scale: float) -> np.ndarray | None:
    """Values (float64) times scale (int64), if all are whole then and dividing gives the very same bits back."""
    result = np.empty(len(values), np.int64)
    for block in _blocks(len(values), _FIRST_BLOCK):
        own = values[block]
        if len(valid):
            own = np.where(valid[block], own, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = own * scale
        if not np.abs(scaled).max() < _EXACT:
            return None
        whole = np.rint(scaled) + 0.0  # minus zero is not a whole number
        np.divide(whole, scale, out=scaled)
        if not np.array_equal(scaled.view(np.int64), own.view(np.int64)):
            return None
        result[block] = whole
    return result


def common_unit(values: np.ndarray, valid: np.ndarray, base: int) -> int:
    """The largest of 1,000,000, 1,000 and 1 of which all distances from the base are multiples (of whole units)."""
    unit = 1_000_000
    for block in _blocks(len(values), _FIRST_BLOCK):
        distances = _distances(values[block], base)
        if len(valid):
            distances = np.where(valid[block], distances, np.uint64(0))
        while unit > 1 and not _are_multiples(distances, unit):
            unit //= 1_000
        if unit == 1:
            break
    return unit


def _are_multiples(distances: np.ndarray, unit: int) -> bool:
    down = distances // np.uint64(unit)
    down *= np.uint64(unit)
    return np.array_equal(down, distances)


def _distances(values: np.ndarray, base: int) -> np.ndarray:
    """Differences of int64 wrap around to the right distance (uint64)."""
    return values.view(np.uint64) - np.uint64(base % 2**64)


def narrow(values: np.ndarray, base: int, unit: int, kind: str) -> np.ndarray:
    """(values - base) / unit as unsigned numbers of a type; what does not fit, under nulls, is cut off."""
    result = np.empty(len(values), kind)
    for block in _blocks(len(values)):
        distances = _distances(values[block], base)
        if unit != 1:
            distances //= np.uint64(unit)
        result[block] = distances
    return result


def largest_step(distances: np.ndarray, starts: np.ndarray) -> int:
    """The largest step between neighbours of a slice; -1 if a slice goes down, or up by more than 32 bits."""
    largest = 0
    for block in _blocks(len(distances) - 1, _FIRST_BLOCK):
        before, now = distances[block], distances[1:][block]
        inside = _inside_slices(starts, block)
        if ((now < before) & inside).any():
            return -1
        largest = max(largest, int(((now - before) * inside).max()))
    return largest if largest < 1 << 32 else -1


def _inside_slices(starts: np.ndarray, block: slice) -> np.ndarray:
    """bool: is the row after each row of a block in the same slice?"""
    inside = np.ones(block.stop - block.start, np.bool_)
    first, last = np.searchsorted(starts, (block.start + 1, block.stop + 1))
    inside[starts[first:last] - 1 - block.start] = False
    return inside


def steps_of(distances: np.ndarray, starts: np.ndarray, kind: str) -> np.ndarray:
    """Steps between neighbours, as unsigned numbers of a type; 0 at the start of each slice."""
    steps = np.empty(len(distances), kind)
    np.subtract(distances[1:], distances[:-1], out=steps[1:], casting="unsafe")
    steps[starts[:-1][np.diff(starts) > 0]] = 0
    return steps


def widen(distances: np.ndarray, base: int, unit: int) -> np.ndarray:
    """base + unit * distances."""
    values = np.empty(len(distances), np.int64)
    for block in _blocks(len(values)):
        part = values[block]
        part[:] = distances[block]
        if unit != 1:
            part *= unit
        if base:
            part += base
    return values


def widen_steps(steps: np.ndarray, base: int, unit: int) -> np.ndarray:
    """base + unit * running sum of the steps."""
    values = steps.astype(np.int64)
    compiled_for(running_sum_program)([values], base, unit)
    return values


def running_sum_program() -> Program:
    """NumPy's running sums take ten times as long."""
    program = Program("running_sum")
    f = program.function("run")
    values, base, unit = f.array("values", I64, writable=True), f.scalar("base"), f.scalar("unit")
    total = f.variable("total", base)
    with f.loop(0, values.length) as at:
        total.set(total + values[at] * unit)
        values[at] = total
    f.give(0)
    return program
