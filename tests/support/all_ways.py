"""Queries whose emitted code runs in all ways: compiled, compiled with checks, and interpreted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from episode.native.builder import Program
from episode.native.running import Compiled, Interpreted
from tests.unit.native.runs import bits


class AllWays:
    """A program that is run in all ways when it is called. The arrays must be equal to the bit afterwards."""

    calls = 0

    def __init__(self, program: Program) -> None:
        self.compiled = Compiled(program, checked=False)
        self.others = [Compiled(program, checked=True), Interpreted(program)]
        self.arrays = self.compiled.arrays

    def __call__(self, arrays: Sequence[np.ndarray], *scalars: Any) -> int:
        AllWays.calls += 1
        copies = [[array.copy() for array in arrays] for _ in self.others]
        results = [other(own, *scalars) for other, own in zip(self.others, copies, strict=True)]
        result = self.compiled(arrays, *scalars)
        assert results == [result, result]
        for own in copies:
            for one, other in zip(own, arrays, strict=True):
                assert np.array_equal(bits(one), bits(other))
        return result


@contextmanager
def in_all_ways(*codes: tuple[ModuleType, str]) -> Iterator[None]:
    """Inside, modules compile for all ways; each comes with the name of the function that keeps its code."""
    before = AllWays.calls
    for module, name in codes:
        getattr(module, name).cache_clear()
    patches = [patch.object(module, "compiled", AllWays) for module in {module for module, _ in codes}]
    for one in patches:
        one.start()
    try:
        yield
        assert AllWays.calls > before, "no code was run"
    finally:
        for one in patches:
            one.stop()
        for module, name in codes:
            getattr(module, name).cache_clear()
