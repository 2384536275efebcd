"""Searches in ranges of rows that are in order of time."""

from __future__ import annotations

import numpy as np

from episode.matchers.time_code import first_at_least
from episode.native.builder import Program
from episode.native.running import compiled_for
from episode.native.scope import ArrayTypes, entry_scope
from episode.native.types import I64

_TYPES: ArrayTypes = {
    "row_from": (I64, False), "row_to": (I64, False), "time": (I64, False), "bound": (I64, False), "out": (I64, True)
}  # fmt: skip


def first_rows(row_from: np.ndarray, row_to: np.ndarray, time: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """In each range of rows, the first that is not earlier than its bound; row_to if there is none. All are int64."""
    out = np.empty(len(row_from), np.int64)
    arrays = {"row_from": row_from, "row_to": row_to, "time": time, "bound": bound, "out": out}
    compiled_for(first_rows_program).run(arrays)
    return out


def first_rows_program() -> Program:
    s = entry_scope("first_rows", _TYPES)
    f = s.f
    with f.loop(0, s.out.length) as number:
        s.out[number] = first_at_least(s, "time", s.row_from[number], s.row_to[number], s.bound[number])
    f.give(0)
    return s.program
