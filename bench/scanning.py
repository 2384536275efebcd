"""The engine with buffers that are scanned: what range searches are measured against.

Deriving, order of search, purging and all else are the engine's own code; only the search of a buffer tests every
situation in it against the constraint.
"""

from __future__ import annotations

from functools import cache
from unittest.mock import patch

from episode.matchers.situations.code import detecting
from episode.matchers.situations.code.arrays import SituationShape
from episode.matchers.situations.code.detecting import detection_program
from episode.matchers.situations.code.relations import (
    AFTER,
    BEFORE,
    CONTAINS,
    DURING,
    EQUALS,
    FINISHED_BY,
    FINISHES,
    MEETS,
    MET_BY,
    OVERLAPPED_BY,
    OVERLAPS,
    STARTED_BY,
    STARTS,
    Situation,
    by_start,
)
from episode.native.builder import Function, Scope
from episode.native.ir import Value
from episode.native.running import Compiled, compile_program


@cache
def scanning_code(shape: SituationShape) -> Compiled:
    with patch.object(detecting, "find_allowed", _scan):
        return compile_program(detection_program(shape))


def _scan(s: Scope, mask: Value, first: Value, stop: Value, z: Situation, to: Value) -> tuple[Value, Value]:
    """As the engine's, by testing one slot after the other."""
    f, ranges = s.f, s.ranges
    end, kept, reached = f.variable("end", to), f.variable("kept", 0), f.variable("reached", -1)
    with f.loop(first, stop) as slot:
        with f.when((mask & _relation(f, s.starts[slot], s.ends[slot], z.start, z.end)).differs(0)):
            kept.set(kept + 1)
            with f.when(slot.differs(reached)):
                ranges[end] = slot
                end.set(end + 2)
            ranges[end - 1] = slot + 1
            reached.set(slot + 1)
    return (end - to) >> 1, kept.value


def _relation(f: Function, a_start: Value, a_end: Value, b_start: Value, b_end: Value) -> Value:
    """The relation of a to b."""
    earlier = by_start(f, a_start, b_start, OVERLAPS, STARTS, DURING)
    together = by_start(f, a_start, b_start, FINISHES, EQUALS, FINISHED_BY)
    later = by_start(f, a_start, b_start, CONTAINS, STARTED_BY, OVERLAPPED_BY)
    by_end = f.select(a_end < b_end, earlier, f.select(a_end.equals(b_end), together, later))
    apart = f.select(b_end < a_start, AFTER, f.select(b_end.equals(a_start), MET_BY, by_end))
    return f.select(a_end < b_start, BEFORE, f.select(a_end.equals(b_start), MEETS, apart))
