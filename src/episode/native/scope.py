"""Functions whose arrays are declared when they are first used, so that each takes the arrays it needs and no others.

    types = {"price": (F64, False), "dear": (I64, True)}
    s = entry_scope("dear", types)
    s.dear[0] = s.call("count_dear", count_dear, 10.0)

`count_dear(s, limit)` builds a function with a scope of its own; it is built once in a program, and called with those
arrays of the caller that it uses. What can differ between two functions of one program is a part of the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from episode.native.builder import Function, Program
from episode.native.ir import Array, Operand, Value
from episode.native.types import I64, Type

ArrayTypes = Mapping[str, tuple[Type, bool]]
"""The elements of arrays by name, and whether they are written to."""


class Scope:
    """The arrays of one function, by name, as attributes."""

    def __init__(self, f: Function, types: ArrayTypes) -> None:
        self.f, self.types = f, types
        self._arrays: dict[str, Array] = {}

    def __getattr__(self, name: str) -> Array:
        return self.array(name)

    def array(self, name: str) -> Array:
        if name not in self._arrays:
            if name not in self.types:
                raise AttributeError(f"There is no array {name}.")
            type_, writable = self.types[name]
            self._arrays[name] = self.f.array(name, type_, writable)
        return self._arrays[name]

    def declare(self, *names: str) -> None:
        """Declare arrays in this order, used or not."""
        for name in names:
            self.array(name)

    def call(self, name: str, build: Callable[..., Any], *scalars: Operand, result: Type = I64) -> Value:
        """Call a function of the program; `build(scope, *its scalars)` builds it, up to `f.give(…)`."""
        values = [self.f.value(one) for one in scalars]
        program = self.f.program
        found = next((one for one in program.functions if one.name == name), None)
        if found is None:
            found = program.function(name, result)
            its = [found.scalar(f"s{at}", value.type) for at, value in enumerate(values)]
            build(Scope(found, self.types), *its)
        return self.f.call(found, [self.array(one.name) for one in found.arrays], *values)

    @property
    def program(self) -> Program:
        return self.f.program

    @property
    def names(self) -> list[str]:
        """The arrays that the function takes, in order."""
        return list(self._arrays)


def entry_scope(name: str, types: ArrayTypes, *declared: str) -> Scope:
    """The scope of the function `run` of a new program, which takes the declared arrays first."""
    s = Scope(Program(name).function("run"), types)
    s.declare(*declared)
    return s
