"""Functions of row pattern code by themselves, run in all ways on arrays by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from episode.matchers.rows.code.arrays import TYPES
from episode.native.builder import Program, Scope
from episode.native.ir import I64
from episode.native.running import Compiled
from tests.support.interpreter import Interpreted
from tests.unit.native.runs import bits


class Leaf:
    """A program with one emitter; what that gives is its results."""

    def __init__(self, build: Callable[..., Any], scalars: int = 0) -> None:
        program = Program("leaf")
        f = program.function("run")
        s = Scope(f, {**TYPES, "results": (I64, True)})
        given = build(s, *(f.scalar(f"s{at}") for at in range(scalars)))
        results = given if isinstance(given, tuple) else () if given is None else (given,)
        for at, value in enumerate(results):
            s.results[at] = f.value(value).to(I64)
        f.give(0)
        self.names, self.results = s.names, len(results)
        self.ways = [Compiled(program, checked=False), Compiled(program, checked=True), Interpreted(program)]

    def __call__(self, arrays: dict[str, np.ndarray], *scalars: int) -> list[int]:
        """The results; the arrays are changed."""
        given = {**arrays, "results": np.zeros(self.results, np.int64)}
        ran = []
        for way in self.ways:
            own = {name: given[name].copy() for name in self.names}
            way([own[name] for name in self.names], *(int(scalar) for scalar in scalars))
            ran.append(own)
        first, *others = ran
        for own in others:
            for name in self.names:
                assert bits(own[name]).tolist() == bits(first[name]).tolist(), name
        for name in self.names:
            given[name][...] = first[name]
        return [int(value) for value in given["results"]]
