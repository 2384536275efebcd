"""128-bit decimals against Python's integers."""

from __future__ import annotations

import random

import numpy as np

from episode.kernels import decimals

LIMIT = 10**38


def words(value: int) -> tuple[np.uint64, np.int64]:
    high, low = divmod(value, 2**64)
    return np.uint64(low), np.int64(high)


def number(low: int, high: int) -> int | None:
    return None if int(high) == int(decimals.OVERFLOW) else (int(high) << 64) + int(low)


def bounded(value: int) -> int | None:
    return value if abs(value) < LIMIT else None


def values(count: int) -> list[int]:
    """Of all sizes, the largest among them."""
    random_ = random.Random(7)
    sizes = [1, 5, 18, 19, 20, 37, 38]
    found = [random_.choice([1, -1]) * random_.randrange(10 ** random_.choice(sizes)) for _ in range(count)]
    return [*found, 0, 1, -1, 2**64, -(2**64), LIMIT - 1, 1 - LIMIT]


def test_sums_and_order() -> None:
    left = values(2000)
    right = left[::-1]
    for a, b in [*zip(left, right, strict=True), *((a, LIMIT - 1) for a in left)]:
        assert number(*decimals.add(*words(a), *words(b))) == bounded(a + b), (a, b)
        assert decimals.compare(*words(a), *words(b)) == (a > b) - (a < b), (a, b)


def test_what_overflowed_stays() -> None:
    low, high = decimals.add(*words(LIMIT - 1), *words(1))
    low, high = np.uint64(low), np.int64(high)  # the compiler hands back Python's integers
    assert number(*decimals.add(low, high, *words(-5))) is None
    assert number(*decimals.average(low, high, 2, 10)) is None


def test_averages_round_half_away_from_zero() -> None:
    random_ = random.Random(8)
    for a in values(2000):
        count, factor = random_.randrange(1, 10 ** random_.choice([1, 3, 6])), random_.choice([1, 10, 10_000])
        size = (2 * abs(a) * factor + count) // (2 * count)
        assert number(*decimals.average(*words(a), count, factor)) == bounded(size if a >= 0 else -size), (a, count)


def test_as_doubles() -> None:
    for a in values(500):
        assert abs(decimals.to_float(*words(a)) - float(a)) <= abs(a) * 2.0**-51
