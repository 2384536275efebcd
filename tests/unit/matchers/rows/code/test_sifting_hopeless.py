"""Start rows that a sieve shows to fail, against trying every row of their windows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from episode.matchers.rows.code.sieves import hopeless_program, hopeless_starts
from tests.unit.native.runs import run_all_ways


@pytest.mark.parametrize("orders", [0b001, 0b011, 0b010, 0b100, 0b110, 0b101])
@pytest.mark.parametrize("within", [-1, 0, 7, 60])
def test_all_starts_at_once(orders: int, within: int) -> None:
    draw = np.random.default_rng(orders * 100 + within + 1)
    n = 300
    bounds = np.array([0, 1, 120, 300])
    time = np.cumsum(draw.integers(0, 3, n))
    own, wanted = draw.integers(0, 25, n), draw.integers(0, 25, n) + draw.choice([-20, 0, 20], n)
    wanted = np.clip(wanted, 0, 44)
    is_start, is_candidate = draw.random(n) < 0.7, draw.random(n) < 0.4
    expected = np.zeros(n, np.bool_)
    for lo, hi in itertools.pairwise(bounds):
        for start in range(lo, hi):
            passing = [
                row
                for row in range(start + 1, hi)
                if is_candidate[row] and (within < 0 or time[row] - time[start] <= within)
                and orders >> (int(np.sign(own[row] - wanted[start])) + 1) & 1
            ]  # fmt: skip
            expected[start] = bool(is_start[start] and not passing)
    found = hopeless_starts(bounds[:-1], bounds[1:], within, time, is_start, is_candidate, own, wanted, orders)
    assert found.tolist() == expected.tolist()
    program = hopeless_program(orders, within >= 0)
    names = [one.name for one in program.entry.arrays]
    arrays = {
        "key_lo": bounds[:-1], "key_hi": bounds[1:], "time": time, "is_start": is_start.view(np.uint8),
        "is_candidate": is_candidate.view(np.uint8), "own": own, "wanted": wanted, "latest": np.full(45, -1),
        "least": np.zeros(n, np.int64), "greatest": np.zeros(n, np.int64), "hopeless": is_start.astype(np.uint8),
    }  # fmt: skip
    _, after = run_all_ways(program, [arrays[name] for name in names], within)
    assert after[names.index("hopeless")].tolist() == expected.tolist()


@pytest.mark.parametrize("orders", [0b010, 0b001])
def test_no_rows(orders: int) -> None:
    nothing, never = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    assert len(hopeless_starts(nothing, nothing, 5, nothing, never, never, nothing, nothing, orders)) == 0
