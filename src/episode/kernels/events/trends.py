"""Values of sets of matches, folded without looking at the matches one by one: a commutative semiring.

A value has a number of matches, sums over their events, and least values among them. `a + b` is the value of two sets
of matches; `a * b` that of all pairs of a beginning in one set and a continuation in the other: numbers multiply, sums
are (n1, s1) * (n2, s2) = (n1 n2, n1 s2 + s1 n2), least values are the lesser ones (Greta, COGRA: event trends).

Exact lanes are 128-bit numbers without sign in two words that saturate: a high word of BEYOND says that the number has
more than 38 digits. All parts of them are added and multiplied only, so what is beyond stays so unless multiplied by
zero; and a zero number of matches is a zero value. Real lanes are doubles, the first of them the number of matches;
least lanes are int64, NOTHING where there is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

BEYOND = np.uint64(2**63 - 1)
NOTHING = np.iinfo(np.int64).max
_NONE, _ONE = np.uint64(0), np.uint64(1)
_HALF, _LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)


class Values(NamedTuple):
    """Values by their place: low, high uint64[n, exact], real float64[n, reals], least int64[n, leasts]."""

    low: np.ndarray
    high: np.ndarray
    real: np.ndarray
    least: np.ndarray


class Weights(NamedTuple):
    """What an event adds as the event of a place: exact uint64[exact, n], real float64[reals, n], least int64[leasts,
    n]; of_exact, of_real, of_least bool[places, lanes] say which lanes that place has. First lanes count matches."""

    exact: np.ndarray
    real: np.ndarray
    least: np.ndarray
    of_exact: np.ndarray
    of_real: np.ndarray
    of_least: np.ndarray


class Shape(NamedTuple):
    """Places of a match in order. bit uint64[m]: of their variables. link bool[m + 1, m]: may an event of the second
    come next after one of the first? Row m is the beginning. ends, goes_on bool[m]: may it be the last, another than
    the last?"""

    bit: np.ndarray
    link: np.ndarray
    ends: np.ndarray
    goes_on: np.ndarray


def zeros(count: int, exact: int, real: int, least: int) -> Values:
    """No matches."""
    return Values(
        np.zeros((count, exact), np.uint64),
        np.zeros((count, exact), np.uint64),
        np.zeros((count, real), np.float64),
        np.full((count, least), NOTHING, np.int64),
    )


def one(exact: int, real: int, least: int) -> Values:
    """The beginning of a match, without any event."""
    value = zeros(1, exact, real, least)
    value.low[0, 0] = 1
    if real:
        value.real[0, 0] = 1.0
    return value


@njit(cache=True, nogil=True)
def plus(low, high, other_low, other_high):
    """(low, high) of a sum."""
    total = low + other_low
    upper = high + other_high
    if total < low:
        upper += _ONE
    return total, min(upper, BEYOND)


@njit(cache=True, nogil=True)
def _product(one, other):
    """The 128 bits of a product of two words."""
    a, b = one & _LOW_HALF, one >> _HALF
    c, d = other & _LOW_HALF, other >> _HALF
    low = a * c
    middle = b * c + (low >> _HALF)
    upper = a * d + (middle & _LOW_HALF)
    return (low & _LOW_HALF) | (upper << _HALF), b * d + (middle >> _HALF) + (upper >> _HALF)


@njit(cache=True, nogil=True)
def times(low, high, other_low, other_high):
    """(low, high) of a product."""
    if high == _NONE and other_high == _NONE:
        lower, upper = _product(low, other_low)
        return lower, min(upper, BEYOND)
    if (low == _NONE and high == _NONE) or (other_low == _NONE and other_high == _NONE):
        return _NONE, _NONE
    if high != _NONE and other_high != _NONE:
        return _NONE, BEYOND
    if high == _NONE:
        low, high, other_low = other_low, other_high, low
    lower, carried = _product(low, other_low)
    upper, over = _product(high, other_low)
    if over != _NONE or upper >= BEYOND:
        return _NONE, BEYOND
    upper += carried
    if upper < carried:
        return _NONE, BEYOND
    return lower, min(upper, BEYOND)


@njit(cache=True, nogil=True)
def _real_product(one, other):
    return 0.0 if one == 0.0 or other == 0.0 else one * other


@njit(cache=True, nogil=True)
def clear(values, at):
    """No matches at a place."""
    for lane in range(values.low.shape[1]):
        values.low[at, lane] = values.high[at, lane] = _NONE
    for lane in range(values.real.shape[1]):
        values.real[at, lane] = 0.0
    for lane in range(values.least.shape[1]):
        values.least[at, lane] = NOTHING


@njit(cache=True, nogil=True)
def copy(values, at, others, other):
    for lane in range(values.low.shape[1]):
        values.low[at, lane] = others.low[other, lane]
        values.high[at, lane] = others.high[other, lane]
    for lane in range(values.real.shape[1]):
        values.real[at, lane] = others.real[other, lane]
    for lane in range(values.least.shape[1]):
        values.least[at, lane] = others.least[other, lane]


@njit(cache=True, nogil=True)
def add(values, at, others, other):
    """values[at] += others[other]"""
    for lane in range(values.low.shape[1]):
        values.low[at, lane], values.high[at, lane] = plus(
            values.low[at, lane], values.high[at, lane], others.low[other, lane], others.high[other, lane]
        )
    for lane in range(values.real.shape[1]):
        values.real[at, lane] += others.real[other, lane]
    for lane in range(values.least.shape[1]):
        values.least[at, lane] = min(values.least[at, lane], others.least[other, lane])


@njit(cache=True, nogil=True)
def add_taken(values, at, step, others, other, other_step, count, weights, place, row):
    """values[at + i step] += others[other + i other_step] * the event of a row as that of a place, for i < count"""
    for _ in range(count):
        low, high = others.low[other, 0], others.high[other, 0]
        if low != _NONE or high != _NONE:
            values.low[at, 0], values.high[at, 0] = plus(values.low[at, 0], values.high[at, 0], low, high)
            for lane in range(1, values.low.shape[1]):
                lower, upper = others.low[other, lane], others.high[other, lane]
                if weights.of_exact[place, lane]:
                    more, most = times(low, high, weights.exact[lane, row], _NONE)
                    lower, upper = plus(lower, upper, more, most)
                values.low[at, lane], values.high[at, lane] = plus(
                    values.low[at, lane], values.high[at, lane], lower, upper
                )
            for lane in range(values.real.shape[1]):
                real = others.real[other, lane]
                if weights.of_real[place, lane]:
                    real += _real_product(others.real[other, 0], weights.real[lane, row])
                values.real[at, lane] += real
            for lane in range(values.least.shape[1]):
                least = min(values.least[at, lane], others.least[other, lane])
                if weights.of_least[place, lane]:
                    least = min(least, weights.least[lane, row])
                values.least[at, lane] = least
        at += step
        other += other_step


@njit(cache=True, nogil=True)
def add_product(values, at, ones, one, others, other):
    """values[at] += ones[one] * others[other]"""
    low, high = ones.low[one, 0], ones.high[one, 0]
    by_low, by_high = others.low[other, 0], others.high[other, 0]
    if (low == _NONE and high == _NONE) or (by_low == _NONE and by_high == _NONE):
        return
    lower, upper = times(low, high, by_low, by_high)
    values.low[at, 0], values.high[at, 0] = plus(values.low[at, 0], values.high[at, 0], lower, upper)
    for lane in range(1, values.low.shape[1]):
        lower, upper = times(low, high, others.low[other, lane], others.high[other, lane])
        more, most = times(ones.low[one, lane], ones.high[one, lane], by_low, by_high)
        lower, upper = plus(lower, upper, more, most)
        values.low[at, lane], values.high[at, lane] = plus(values.low[at, lane], values.high[at, lane], lower, upper)
    if values.real.shape[1] > 0:
        number, by = ones.real[one, 0], others.real[other, 0]
        values.real[at, 0] += number * by
        for lane in range(1, values.real.shape[1]):
            values.real[at, lane] += _real_product(number, others.real[other, lane])
            values.real[at, lane] += _real_product(ones.real[one, lane], by)
    for lane in range(values.least.shape[1]):
        least = min(ones.least[one, lane], others.least[other, lane])
        values.least[at, lane] = min(values.least[at, lane], least)
