"""Stacks of untried choices that grow, where attempts are kept: a partition's stack moves to the end of all."""

from __future__ import annotations

from episode.matchers.rows.arrays import ROOM, STACK, STACK_END
from episode.matchers.rows.code.search import SearchFrame
from episode.native.ir import Value
from episode.native.scope import Scope

LEAST_STACK = 8


def enlarge_stack(c: SearchFrame) -> None:
    """Twice the room for the stack of this partition, if there is any."""
    f = c.f
    c.bottom.set(f.value(c.s.call("enlarge_stack", _enlarge, c.k, c.sp, c.bottom, c.stack_room)))
    c.stack_room.set(c.opened(ROOM))


def _enlarge(s: Scope, k: Value, depth: Value, bottom: Value, room: Value) -> None:
    """Gives where the stack begins now; its room is in `opened`."""
    f = s.f
    larger = f.greatest(LEAST_STACK, room * 2)
    end = s.cursor[STACK_END]
    f.give_if(end + larger > s.stack_pc.length, bottom)
    with f.loop(0, depth) as at:
        s.stack_pc[end + at] = s.stack_pc[bottom + at]
        s.stack_row[end + at] = s.stack_row[bottom + at]
        s.stack_low[end + at] = s.stack_low[bottom + at]
    s.cursor[STACK_END] = end + larger
    partitions = s.key_lo.length
    s.opened[partitions * STACK + k] = end
    s.opened[partitions * ROOM + k] = larger
    f.give(end)
