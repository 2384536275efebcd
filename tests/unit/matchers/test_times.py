"""Windows of time at the edges of int64, against Python's numbers, in NumPy and in emitted code."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers.code.searching import is_as_long_as, window_end, window_start
from episode.matchers.columns import float_images, float_order, from_times, ranks
from episode.matchers.times import (
    EVER,
    NEVER,
    microseconds_of,
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


@pytest.mark.parametrize(
    ("kind", "value", "micros"),
    [(pa.date32(), -1, -86_400_000_000), (pa.date32(), 2**31 - 1, EVER // 86_400_000_000 * 86_400_000_000)]
    + [
        (pa.timestamp(unit), 1_500, micros)
        for unit, micros in (("ns", 1), ("us", 1_500), ("ms", 1_500_000), ("s", 1_500_000_000))
    ],
)
def test_stored_times_are_microseconds(kind: pa.DataType, value: int, micros: int) -> None:
    assert microseconds_of(value, kind) == micros
    assert microseconds_of(np.array([value]), kind).tolist() == [micros]


def test_times_are_columns_of_their_type() -> None:
    day = 86_400_000_000
    times, missing = np.array([day, 2 * day + 5, -1]), np.array([False, False, True])
    assert from_times(times, pa.date32(), missing).cast(pa.int32()).to_pylist() == [1, 2, None]
    for kind in (pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.int64(), pa.int32()):
        column = from_times(times // day, kind, missing)
        assert column.type == kind
        assert column.cast(pa.int64()).to_pylist() == [1, 2, None]


def test_images_of_floats_are_in_their_order() -> None:
    floats = np.array([-np.inf, -1.5, -0.0, 0.0, 5e-324, 2.0, np.inf, np.nan, -np.nan])
    images = float_images(floats)
    assert np.array_equal(np.argsort(images, kind="stable"), np.arange(len(floats)))
    assert images[2] == images[3]
    assert images[-1] == images[-2]
    assert np.array_equal(float_order(images).view(np.float64), floats, equal_nan=True)


def test_ranks_are_dense() -> None:
    assert ranks(pa.array(["b", None, "a", "b", "\u00e9"])).tolist() == [1, 0, 0, 1, 2]
    assert ranks(pa.array([], pa.string())).tolist() == []
