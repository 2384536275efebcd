"""What computing confidence costs: the code of imprecise time, emitted so that each confidence is computed twice.

What the query takes longer is the cost of computing it once. Nothing of it is in the code that users run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from episode.matchers.events.code import confidence, imprecise
from episode.native.builder import Scope
from episode.native.ir import F64, Operand, Value
from episode.native.running import compiled_with


class _TwiceInWindow(confidence.ConfidenceCode):
    """Confidence in a window, computed twice."""

    def in_window(self, s: Scope, count: Operand, window: Value, last: Value, at: Operand) -> Value:
        super().in_window(s, count, window, last, at)
        return super().in_window(s, count, window, last, at)


class _TwicePlaced(imprecise._Walk):
    """Frontiers of events, computed twice."""

    def _place(self, s: Scope, depth: Value, row: Value, of_set: Value, continues: Value) -> None:
        f = s.f
        build = super()._place
        s.call("place_once", build, depth, row, of_set, continues, result=F64)
        f.give(s.call("place_once", build, depth, row, of_set, continues, result=F64))


@contextmanager
def computed_twice() -> Iterator[None]:
    """Queries inside compute each confidence twice."""
    compiled_with.cache_clear()
    with (
        patch.object(imprecise, "ConfidenceCode", _TwiceInWindow),
        patch.object(imprecise, "_Walk", _TwicePlaced),
    ):
        yield
    compiled_with.cache_clear()
