"""Emits tests of Allen's relations, and the ranges of a buffer whose situations have them.

Relations are bits 0 … 12: before, meets, overlaps, starts, during, finishes, equals, after, met-by, overlapped-by,
started-by, contains, finished-by. A mask has those that are allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from episode.matchers.code.searching import search_place
from episode.matchers.situations.code.arrays import each_bit
from episode.native.builder import Function, Scope
from episode.native.ir import Operand, Value, Variable

ALL = 0x1FFF
(BEFORE, MEETS, OVERLAPS, STARTS, DURING, FINISHES, EQUALS, AFTER, MET_BY, OVERLAPPED_BY, STARTED_BY, CONTAINS,
 FINISHED_BY) = (1 << number for number in range(13))  # fmt: skip

_HOLDS_START = OVERLAPS | STARTS | FINISHES | EQUALS | CONTAINS | STARTED_BY
_HOLDS_END = FINISHED_BY | OVERLAPPED_BY

_FIRST, _TOGETHER, _SECOND = (
    OVERLAPS | FINISHES | CONTAINS,
    STARTS | EQUALS | STARTED_BY,
    (DURING | FINISHED_BY | OVERLAPPED_BY),
)
"""Relations that two situations that both last may come to have, by which began first: TPStream's prefix groups."""


@dataclass(frozen=True)
class Situation:
    """A situation that is chosen. lasts: has it no end yet (the end means nothing then)? None: it has one."""

    start: Value
    end: Value
    lasts: Value | None


def by_start(f: Function, a: Value, b: Value, first: int, together: int, second: int) -> Value:
    """One of three numbers: does a begin first, together with b, or second?"""
    return f.select(a < b, first, f.select(a.equals(b), together, second))


def is_undecided(f: Function, mask: Value, a_start: Value, b_start: Value) -> Value:
    """Could two situations that both last come to have a relation that is not allowed?"""
    group = by_start(f, a_start, b_start, _FIRST, _TOGETHER, _SECOND)
    return (mask & group).differs(group)


def relation_of_lasting(f: Function, a_start: Value, b_start: Value, b_end: Value) -> Value:
    """The relation of a, which lasts, to b."""
    apart = f.select(b_end < a_start, AFTER, MET_BY)
    return f.select(b_end <= a_start, apart, by_start(f, a_start, b_start, CONTAINS, STARTED_BY, OVERLAPPED_BY))


def find_allowed(s: Scope, mask: Value, first: Value, stop: Value, z: Situation, to: Value) -> tuple[Value, Value]:
    """Put the slots of first:stop (there are some) whose relation to z is in the mask into `ranges`, from `to` on, as
    sorted disjoint ranges. Returns how many ranges and how many slots these are.

    Along the buffer the relation to z runs through before, meets, [one that holds z's start], during, [one that holds
    z's end], met-by, after; the two in brackets are single slots.
    """
    f = s.f
    at, fits, done = f.variable("at", first), f.variable("fits", 0), f.block("found")
    s.bounds[0] = first
    left = ALL
    for number, (relations, find_end, relation) in enumerate(_parts(s, at, stop, z)):
        f.jump_if((at >= stop) | (mask & left).equals(0), done)
        left &= ~relations
        fits.set(fits | f.select((mask & relation()).differs(0), 1 << number, 0))
        at.set(find_end())
        s.bounds[number + 1] = at
    f.jump(done)
    f.at(done)
    return _join_parts(s, fits, to)


def _parts(
    s: Scope, at: Variable, stop: Value, z: Situation
) -> list[tuple[int, Callable[[], Value], Callable[[], Operand]]]:
    """Along a buffer: relations to z, where the slots that have one of them end, and which one it is."""
    f, starts, ends = s.f, s.starts, s.ends

    def holds_start() -> Value:
        end = ends[at]
        is_earlier = end < z.end if z.lasts is None else z.lasts | (end < z.end)
        by_end = f.select(
            is_earlier, OVERLAPS | STARTS, f.select(end.equals(z.end), FINISHES | EQUALS, CONTAINS | STARTED_BY)
        )
        return by_end & f.select(starts[at] < z.start, _FIRST, _TOGETHER)

    def holds_end() -> Value:
        return f.select(ends[at].equals(z.end), FINISHED_BY, OVERLAPPED_BY)

    def after_during() -> Value:
        found = first_at_least_from_end(s, at.value, stop, z.end)
        return found if z.lasts is None else f.select(z.lasts, stop, found)

    def one(holds: Value) -> Value:
        return at + f.select(holds, 1, 0)

    return [
        (BEFORE, lambda: first_at_least_from_end(s, at.value, stop, z.start), lambda: BEFORE),
        (MEETS, lambda: one(ends[at].equals(z.start)), lambda: MEETS),
        (_HOLDS_START, lambda: one(starts[at] <= z.start), holds_start),
        (DURING, after_during, lambda: DURING),
        (_HOLDS_END, lambda: one(starts[at] < z.end), holds_end),
        (MET_BY, lambda: one(starts[at].equals(z.end)), lambda: MET_BY),
        (AFTER, lambda: stop, lambda: AFTER),
    ]  # fmt: skip


def _join_parts(s: Scope, fits: Variable, to: Value) -> tuple[Value, Value]:
    """The parts of a buffer that fit as ranges; adjacent parts are one."""
    f, ranges = s.f, s.ranges
    end, kept, reached = f.variable("end", to), f.variable("kept", 0), f.variable("reached", -1)
    with each_bit(f, fits) as (part, _):
        low, high = s.bounds[part], s.bounds[part + 1]
        with f.when(low < high):
            kept.set(kept + high - low)
            with f.when(low.differs(reached)):
                ranges[end] = low
                end.set(end + 2)
            ranges[end - 1] = high
            reached.set(high)
    return (end - to) >> 1, kept.value


def first_at_least_from_end(s: Scope, first: Value, stop: Value, bound: Value) -> Value:
    """The first slot of first:stop that ends at `bound` or later, else stop. Looks from the end: most are recent."""

    def build(s: Scope, first: Value, stop: Value, bound: Value) -> None:
        f, ends = s.f, s.ends
        low, high, step = f.variable("low", first), f.variable("high", stop), f.variable("step", 1)
        with f.during(lambda: stop - step >= first) as found:
            here = stop - step
            with f.when(ends[here] < bound):
                low.set(here + 1)
                f.jump(found)
            high.set(here)
            step.set(step + step)
        f.give(search_place(f, low, high, lambda at: ends[at] < bound))

    return s.call("first_at_least_from_end", build, first, stop, bound)
