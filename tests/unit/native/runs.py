"""Runs of programs in all ways, whose results must be equal to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from episode.native.builder import Program
from episode.native.running import Compiled, Interpreted


def run_all_ways(program: Program, arrays: Sequence[np.ndarray], *scalars: Any) -> tuple[int, list[np.ndarray]]:
    """The result and the arrays afterwards, the same whether compiled, compiled with checks or interpreted."""
    return _compared(AllWays(program).ways, arrays, *scalars)


def _compared(
    ways: Sequence[Compiled | Interpreted], arrays: Sequence[np.ndarray], *scalars: Any
) -> tuple[int, list[np.ndarray]]:
    results = []
    for way in ways:
        own = [array.copy() for array in arrays]
        results.append((way(own, *scalars), own))
    first, *others = results
    for result, own in others:
        assert result == first[0]
        for one, other in zip(own, first[1]):
            assert bits(one).tolist() == bits(other).tolist()
    return first


class AllWays:
    """In place of a compiled program: runs it in all ways, and gives back the arrays of one."""

    def __init__(self, program: Program) -> None:
        self.ways = [
            Compiled(program, checked=False, thorough=True),
            Compiled(program, checked=True),
            Interpreted(program),
        ]
        self.arrays = self.ways[0].arrays
        self.calls = 0

    def __call__(self, arrays: Sequence[np.ndarray], *scalars: Any) -> int:
        self.calls += 1
        result, own = _compared(self.ways, arrays, *scalars)
        for array, changed, (_, _, is_written) in zip(arrays, own, self.arrays):
            if is_written:
                array[:] = changed
        return result


def bits(array: np.ndarray) -> np.ndarray:
    """Bits of floats, all NaN alike: which one an operation gives is not defined."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.isnan(array), np.array(np.nan, array.dtype), array).view(f"u{array.itemsize}")
