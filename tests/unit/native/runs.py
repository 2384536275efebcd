"""Runs of programs in all ways, whose results must be equal to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from episode.native.builder import Program
from episode.native.running import Compiled, Interpreted


def run_all_ways(program: Program, arrays: Sequence[np.ndarray], *scalars: Any) -> tuple[int, list[np.ndarray]]:
    """The result and the arrays afterwards, the same whether compiled, compiled with checks or interpreted."""
    ways = [Compiled(program, checked=False, thorough=True), Compiled(program, checked=True), Interpreted(program)]
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


def bits(array: np.ndarray) -> np.ndarray:
    """Bits of floats, all NaN alike: which one an operation gives is not defined."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.isnan(array), np.array(np.nan, array.dtype), array).view(f"u{array.itemsize}")


class AllWays:
    """A program that is run in all ways, which must agree."""

    def __init__(self, program: Program) -> None:
        self.ways = [Compiled(program, checked=False), Compiled(program, checked=True), Interpreted(program)]

    def __call__(self, arrays: list[np.ndarray], *scalars: Any) -> None:
        results = []
        for way in self.ways:
            own = [array.copy() for array in arrays]
            way(own, *scalars)
            results.append(own)
        for others in zip(*results):
            for other in others[1:]:
                assert bits(other).tolist() == bits(others[0]).tolist()
        for array, after in zip(arrays, results[0]):
            if array.flags.writeable:
                array[:] = after
