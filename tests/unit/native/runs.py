"""Runs of programs in all ways, whose results must be equal to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from episode.native import running
from episode.native.builder import Program
from episode.native.running import Compiled, compile_program, compiled_for, compiled_with
from tests.support.interpreter import Interpreted


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


class AllWays(Interpreted):
    """In place of a compiled program: runs it in all ways, and gives back the arrays of one."""

    def __init__(self, program: Program) -> None:
        self.ways = [
            Compiled(program, checked=False, thorough=True),
            Compiled(program, checked=True),
            Interpreted(program),
        ]
        super().__init__(program)
        self.calls = 0

    def __call__(self, arrays: Sequence[np.ndarray], *scalars: Any) -> int:
        self.calls += 1
        result, own = _compared(self.ways, arrays, *scalars)
        for array, changed, (_, _, is_written) in zip(arrays, own, self.arrays):
            if is_written:
                array[:] = changed
        return result


@contextmanager
def programs_made_by(make: Callable[[Program], Any], *names: str) -> Iterator[None]:
    """Inside, the programs of these names (all of them, if none is given) are made by `make` in place of `compiled`."""

    def choose(program: Program) -> Any:
        return make(program) if not names or program.name in names else compile_program(program)

    def forget() -> None:
        compiled_for.cache_clear()
        compiled_with.cache_clear()

    forget()
    try:
        with patch.object(running, "compile_program", choose):
            yield
    finally:
        forget()


@contextmanager
def in_all_ways(*names: str) -> Iterator[list[AllWays]]:
    """Inside, programs run in all ways; yields those that were made."""
    made: list[AllWays] = []

    def make(program: Program) -> AllWays:
        made.append(AllWays(program))
        return made[-1]

    with programs_made_by(make, *names):
        yield made
    assert sum(one.calls for one in made), "no code was run"


def bits(array: np.ndarray) -> np.ndarray:
    """Bits of floats, all NaN alike: which one an operation gives is not defined."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.isnan(array), np.array(np.nan, array.dtype), array).view(f"u{array.itemsize}")
