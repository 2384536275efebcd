"""Windows of time at the edges of int64, against Python's numbers, in NumPy and in emitted code."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers.code.searching import is_as_long_as, window_end, window_start
from episode.matchers.times import (
    EVER,
    NEVER,
    window_ends,
    window_starts,
)
from episode.native.builder import Program
from episode.native.ir import I64
from tests.unit.native.runs import run_all_ways

EDGES = [NEVER, NEVER + 1, -1, 0, 1, EVER - 1, EVER]
TIMES = st.sampled_from(EDGES) | st.integers(NEVER, EVER)
WINDOWS = st.sampled_from([0, 1, EVER - 1, EVER]) | st.integers(0, EVER)


def program() -> Program:
    made = Program("windows")
    f = made.function("run")
    out = f.array("out", I64, writable=True)
    time, other, window = (f.scalar(name) for name in ("time", "other", "window"))
    out[0] = window_start(f, time, window)
    out[1] = window_end(f, time, window)
    out[2] = is_as_long_as(time, other, window).to(I64)
    f.give(0)
    return made


@settings(max_examples=60, deadline=None)
@given(TIMES, TIMES, WINDOWS)
def test_windows_never_wrap_around(time: int, other: int, window: int) -> None:
    start = NEVER if window == EVER else max(NEVER, time - window)
    end = EVER if window == EVER else min(EVER, time + window)
    assert window_starts(np.array([time]), window).tolist() == [start]
    assert window_ends(np.array([time]), window).tolist() == [end]
    _, (out,) = run_all_ways(program(), [np.zeros(3, np.int64)], time, other, window)
    assert out.tolist() == [start, end, other - time >= window]
