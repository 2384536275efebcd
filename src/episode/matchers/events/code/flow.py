"""Shapes of loops over records that several emitters have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from episode.native.builder import Function
from episode.native.ir import Block, Value, Variable
from episode.native.scope import Scope

Condition = Callable[[Value], Value]

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


@contextmanager
def scanning(
    f: Function, at: Variable, within: Condition, wanted: Condition | None = None, step: int | None = 1
) -> Iterator[tuple[Value, Block]]:
    """Move a place as long as it is within its limits and what is there is wanted: (the place, the block after).

    step: how far it moves; None: what is built inside sets it.
    """
    with f.during(lambda: within(at.value)) as after:
        now = at.value
        if wanted is not None:
            f.jump_unless(wanted(now), after)
        yield now, after
        if step is not None:
            at.set(now + step)


def advance(f: Function, at: Variable, stop: Value, wanted: Condition) -> None:
    """Move a place towards `stop` as long as what is there is wanted."""
    with scanning(f, at, lambda now: now < stop, wanted):
        pass


def nodes_below(f: Function, first: Value, visit: Callable[[Value], None]) -> None:
    """The nodes of a Fenwick tree that make up the sum up to one."""
    node = f.variable("node", first)
    with f.during(lambda: node > 0):
        now = node.value
        visit(now)
        node.set(now - (now & -now))


def nodes_above(f: Function, first: Value, end: Value, visit: Callable[[Value], None]) -> None:
    """The nodes of a Fenwick tree, before `end`, that have one in their sums."""
    node = f.variable("node", first)
    with f.during(lambda: node < end):
        now = node.value
        visit(now)
        node.set(now + (now & -now))
