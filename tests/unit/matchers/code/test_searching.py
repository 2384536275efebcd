"""Arithmetic with times as code, compiled, checked and interpreted: as with Python's unlimited numbers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from episode.matchers.code.searching import first_rows, first_rows_program, is_as_long_as, window_end, window_start
from episode.matchers.times import EVER, NEVER
from episode.native.builder import Program
from episode.native.ir import I64
from tests.unit.native.runs import run_all_ways

TIMES = [NEVER, NEVER + 1, NEVER + 5, -7, -1, 0, 1, 5, 2**62, EVER - 5, EVER - 1, EVER]
WINDOWS = [0, 1, 5, 2**62, EVER - 1, EVER]

BUILT = {
    "start": lambda f, a, b, d: window_start(f, a, d),
    "end": lambda f, a, b, d: window_end(f, a, d),
    "long": lambda f, a, b, d: is_as_long_as(a, b, d).to(I64),
}
EXPECTED = {
    "start": lambda a, b, d: NEVER if d == EVER else max(NEVER, a - d),
    "end": lambda a, b, d: EVER if d == EVER else min(EVER, a + d),
    "long": lambda a, b, d: int(b - a >= d),
}


@pytest.mark.parametrize("name", BUILT)
def test_windows_never_wrap_around(name: str) -> None:
    given = [(a, b, d) for a in TIMES for b in TIMES for d in WINDOWS]
    program = Program("times")
    f = program.function("run")
    times, out = f.array("times", I64), f.array("out", I64, writable=True)
    with f.loop(0, out.length) as row:
        out[row] = BUILT[name](f, *(times[row * 3 + part] for part in range(3)))
    f.give(0)
    made = run_all_ways(program, [np.array(given, np.int64).ravel(), np.zeros(len(given), np.int64)])[1][1]
    assert made.tolist() == [EXPECTED[name](*one) for one in given]


def test_first_rows() -> None:
    random = Random(3)
    for _ in range(30):
        time = np.sort(np.array([random.choice([NEVER, -3, 0, 1, 2, 5, EVER]) for _ in range(12)], np.int64))
        ranges = [sorted((random.randint(0, 12), random.randint(0, 12))) for _ in range(8)]
        bound = [random.choice([NEVER, -2, 0, 1, 3, EVER]) for _ in ranges]
        row_from, row_to = (np.array(one, np.int64) for one in zip(*ranges))
        bounds = np.array(bound, np.int64)
        expected = [
            next((row for row in range(low, high) if time[row] >= limit), high)
            for (low, high), limit in zip(ranges, bound)
        ]
        assert first_rows(row_from, row_to, time, bounds).tolist() == expected
        program = first_rows_program()
        given = {"row_from": row_from, "row_to": row_to, "time": time, "bound": bounds, "out": np.zeros(8, np.int64)}
        names = [one.name for one in program.entry.arrays]
        made = dict(zip(names, run_all_ways(program, [given[name] for name in names])[1]))
        assert made["out"].tolist() == expected
