"""Shapes of loops over records that several emitters have."""

from __future__ import annotations

from collections.abc import Callable

from episode.native.builder import Function
from episode.native.ir import Value, Variable
from episode.native.scope import Scope

FINE, FULL, TOO_MANY = 0, 1, 2
"""What a loop ends with: with everything, for want of room (it continues there if called again), or with too much."""


class Kept:
    """Variables that an array keeps between two calls: what a loop continues with."""

    def __init__(self, s: Scope, names: str) -> None:
        self._s = s
        self._variables = {
            name: s.f.variable(name, s.kept[place]) for place, name in enumerate(names.split())
        }  # fmt: skip

    def __getattr__(self, name: str) -> Variable:
        return self._variables[name]

    def leave(self, status: int) -> None:
        """Keep the variables, and return."""
        for place, variable in enumerate(self._variables.values()):
            self._s.kept[place] = variable
        self._s.f.give(status)


def advance(f: Function, at: Variable, stop: Value, wanted: Callable[[Value], Value]) -> None:
    """Move a place towards `stop` as long as what is there is wanted."""
    head, look, step, after = (f.block(name) for name in ("advance", "look", "step", "after"))
    f.jump(head)
    f.at(head)
    now = at.value
    f.branch(now < stop, look, after)
    f.at(look)
    f.branch(wanted(now), step, after)
    f.at(step)
    at.set(now + 1)
    f.jump(head)
    f.at(after)
