"""128-bit decimals against Python's integers."""

from __future__ import annotations

import random
from fractions import Fraction

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


def test_products() -> None:
    random_ = random.Random(9)
    for a in values(2000):
        digits = 38 - len(str(abs(a)))
        for b in (random_.choice([1, -1]) * random_.randrange(10**digits), 10**digits - 1, 0, -1):
            assert number(*decimals.multiply(*words(a), *words(b))) == a * b, (a, b)


def test_quotients_are_rounded_twice_as_in_spark() -> None:
    random_ = random.Random(10)
    both = [*zip(values(1500), values(1500)[::-1], strict=True), (1, 2), (-1, 2), (1, LIMIT - 1), (LIMIT - 1, 1)]
    both += [(5 * 10**18 - 1, 10**19 + random_.randrange(-3, 3)) for _ in range(50)]
    both += [(499999 * 10**9 + random_.randrange(10**9), 10**15) for _ in range(50)]
    for a, b in both:
        digits, further = random_.randrange(20), random_.choice([0, 1, 2, 5, 18, 32])
        if b == 0:
            continue
        size = _half_up(Fraction(abs(a), abs(b)) * 10 ** (digits + further))
        size = _half_up(Fraction(size, 10**further))
        expected = bounded(size if (a < 0) == (b < 0) else -size)
        assert number(*decimals.divide(*words(a), *words(b), digits, further)) == expected, (a, b, digits, further)


def _half_up(value: Fraction) -> int:
    return int(value + Fraction(1, 2))


def test_as_doubles() -> None:
    for a in values(500):
        assert abs(decimals.to_float(*words(a)) - float(a)) <= abs(a) * 2.0**-51
