"""The sequence join against the plainest of loops: comparisons of both lanes, times, windows, bars."""

from __future__ import annotations

import math

import numpy as np
import pytest

from episode.kernels.events import joins

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
FLOATS = [-math.inf, -2.5, -0.0, 0.0, 1.0, 1.5, math.inf, math.nan]
INTS = [joins.NEVER, joins.NEVER + 1, -1, 0, 1, joins.EVER - 1, joins.EVER]


def _tests(*plain: tuple[int, ...]) -> joins.Tests:
    none = np.zeros(0, np.int64)
    return joins.Tests(
        np.array(plain, np.int64).reshape(-1, 10), none, none, none, np.zeros(1, np.int64), none, none, none, 0,
        np.zeros((0, 5), np.int64), 0, none, np.zeros(0, np.float64),
    )  # fmt: skip


def _order(a: float, b: float) -> int:
    """Spark's: NaN equals NaN and is greater than all else."""
    if math.isnan(a) or math.isnan(b):
        return int(math.isnan(a)) - int(math.isnan(b))
    return int(a > b) - int(a < b)


def _holds(compare: int, order: int) -> bool:
    return (order == 0, order != 0, order < 0, order <= 0, order > 0, order >= 0)[compare]


def _leaf(random: np.random.Generator, rows: int, offset: int) -> tuple[np.ndarray, ...]:
    """Single events of two partitions; (from, start, end, rows), sorted by end."""
    cut = int(random.integers(0, rows + 1))
    end = np.concatenate([np.sort(random.integers(0, 30, cut)), np.sort(random.integers(0, 30, rows - cut))])
    start = end - random.integers(0, 3, rows)
    number = np.arange(offset, offset + rows, dtype=np.int32).reshape(-1, 1)
    return np.array([0, cut, rows]), start, end, number


def _joined(left, right, window, done, low, high, bars, l_low, l_high, test) -> list[tuple[int, ...]]:  # type: ignore[no-untyped-def]
    out = []
    for g in range(2):
        for r in range(right[0][g], right[0][g + 1]):
            for l in range(left[0][g], left[0][g + 1]):
                fits = left[2][l] < right[1][r] and right[2][r] - left[1][l] <= window and right[2][r] > done[g]
                fits = fits and low[r] <= left[2][l] < high[r]
                fits = fits and (not bars or l_low[l] < right[1][r] <= l_high[l])
                if fits and test(int(left[3][l, 0]), int(right[3][r, 0])):
                    out.append((g, int(left[1][l]), int(right[2][r]), int(left[3][l, 0]), int(right[3][r, 0])))
    return sorted(out)


@pytest.mark.parametrize("compare", range(6), ids=COMPARISONS)
@pytest.mark.parametrize("floating", [0, 1], ids=["ints", "floats"])
@pytest.mark.parametrize("turned", [False, True], ids=["left with right", "right with left"])
def test_sequence_is_the_plain_loop(compare: int, floating: int, turned: bool) -> None:
    random = np.random.default_rng([compare, floating, turned])
    for round_ in range(20):
        left, right = _leaf(random, 12, 0), _leaf(random, 12, 12)
        ints = random.choice(np.array(INTS, np.int64), (2, 24))
        floats = random.choice(np.array(FLOATS), (2, 24))
        valid = random.integers(0, 2, (1, 24)).astype(np.uint8)
        lanes = joins.Lanes(ints, floats, valid, np.zeros(24, np.int64))
        check = 0 if round_ % 4 == 3 else -1
        one, other = (0, check, 0, 0), (1, -1, 1, 0)
        tests = _tests((compare, floating, *(other if turned else one), *(one if turned else other)))

        def holds(l: int, r: int) -> bool:
            values = floats if floating else ints  # noqa: B023
            a, b = (values[1, r], values[0, l]) if turned else (values[0, l], values[1, r])
            order = _order(float(a), float(b)) if floating else (int(a) > int(b)) - (int(a) < int(b))
            return bool((check < 0 or valid[0, l]) and _holds(compare, order))  # noqa: B023

        done = random.integers(-5, 15, 2)
        bars = round_ % 2 == 1
        low = random.choice([joins.NEVER, 3, 10], 12)
        high = random.choice([joins.EVER, 8, 20], 12)
        l_low, l_high = random.integers(-5, 15, 12), random.integers(10, 40, 12)
        rest = (int(random.integers(1, 40)), done, low, high, bars, l_low, l_high)
        status, from_, start, end, rows, _ = joins.sequence(*left, *right, *rest, tests, lanes, 1_000, True)
        group = np.repeat([0, 1], np.diff(from_))
        assert status == joins.FINE
        assert sorted(zip(group, start, end, rows[:, 0], rows[:, 1])) == _joined(left, right, *rest, holds)
        assert (joins.sequence(*left, *right, *rest, tests, lanes, 1_000, False)[4] == rows).all()
        for g in range(2):
            assert (np.diff(end[from_[g] : from_[g + 1]]) >= 0).all()


def test_too_many_records_are_refused() -> None:
    random = np.random.default_rng(1)
    left, right = _leaf(random, 12, 0), _leaf(random, 12, 12)
    lanes = joins.Lanes(np.zeros((1, 24), np.int64), np.zeros((1, 24)), np.zeros((0, 24), np.uint8), np.zeros(24, int))
    free = (100, np.full(2, -9), np.full(12, joins.NEVER), np.full(12, joins.EVER), False, left[1], left[1])
    assert joins.sequence(*left, *right, *free, _tests(), lanes, 3, True)[0] == joins.TOO_MANY
