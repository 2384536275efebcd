"""Decimals of up to 38 digits as 128-bit numbers: low word uint64, high word int64. Scalars in, scalars out.

What has more digits is OVERFLOW in its high word, and remains so whatever is added: Spark's sums of decimals are null
from the value on that makes them too large.
"""

from __future__ import annotations

import numpy as np
from numba import njit

OVERFLOW = np.int64(np.iinfo(np.int64).min)
_OVERFLOW = np.uint64(2**63)
_UPPER, _LOWER = divmod(10**38 - 1, 2**64)
_MOST_UPPER, _MOST_LOWER = np.uint64(_UPPER), np.uint64(_LOWER)
_MOST_HIGH = np.int64(_UPPER)
_NONE, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_BELOW_HALF, _ROUNDED_UP, _NINE = np.uint64(4), np.uint64(5), np.uint64(9)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF, _LAST = np.uint64(32), np.uint64(63)


@njit(cache=True, nogil=True)
def negated(low, high):
    """Minus a number, by words of either sign: (low uint64, high uint64)."""
    lower = ~np.uint64(low) + _ONE
    upper = ~np.uint64(high)
    if lower == _NONE:
        upper += _ONE
    return lower, upper


@njit(cache=True, nogil=True)
def too_large(low, high):
    """Has the magnitude (low uint64, high uint64) more than 38 digits?"""
    return high > _MOST_UPPER or (high == _MOST_UPPER and low > _MOST_LOWER)


@njit(cache=True, nogil=True)
def add(low, high, other_low, other_high):
    """(low, high) of a sum."""
    if high == OVERFLOW or other_high == OVERFLOW:
        return _NONE, OVERFLOW
    total = low + other_low
    # Without signs, where the compiler does not take it that nothing overflows.
    word = np.uint64(high) + np.uint64(other_high)
    overflows = (high >= 0) == (other_high >= 0) and (np.int64(word) >= 0) != (high >= 0)
    if total < low:
        word += _ONE
    upper = np.int64(word)
    if -_MOST_HIGH < upper < _MOST_HIGH and not overflows:
        return total, upper
    if overflows:
        return _NONE, OVERFLOW
    lower, magnitude = total, np.uint64(upper)
    if upper < 0:
        lower, magnitude = negated(total, upper)
    if too_large(lower, magnitude):
        return _NONE, OVERFLOW
    return total, upper


@njit(cache=True, nogil=True)
def times(low, high, factor):
    """(low, high) of a magnitude (uint64, uint64) times a factor of less than 2**32; OVERFLOW: more than 38 digits."""
    by = np.uint64(factor)
    # In halves of words, which leave room for what is carried.
    carried = (low & _LOW_HALF) * by
    first = carried & _LOW_HALF
    carried = (low >> _HALF) * by + (carried >> _HALF)
    lower = first | ((carried & _LOW_HALF) << _HALF)
    carried = (high & _LOW_HALF) * by + (carried >> _HALF)
    first = carried & _LOW_HALF
    carried = (high >> _HALF) * by + (carried >> _HALF)
    upper = first | ((carried & _LOW_HALF) << _HALF)
    if carried >> _HALF != _NONE or too_large(lower, upper):
        return _NONE, _OVERFLOW
    return lower, upper


@njit(cache=True, nogil=True)
def multiply(low, high, other_low, other_high):
    """(low, high) of a product that has at most 38 digits."""
    first, second = low & _LOW_HALF, low >> _HALF
    third, fourth = other_low & _LOW_HALF, other_low >> _HALF
    # The low words in halves; words of either sign multiply alike, as long as the product has room.
    inner = first * fourth + (first * third >> _HALF)
    outer = second * third + (inner & _LOW_HALF)
    upper = second * fourth + (inner >> _HALF) + (outer >> _HALF)
    upper += np.uint64(high) * other_low + low * np.uint64(other_high)
    return low * other_low, np.int64(upper)


@njit(cache=True, nogil=True)
def _reduce(low, high, by_low, by_high):
    """(low, high, quotient) of a magnitude by another one, which goes into it a few times at most."""
    quotient = _NONE
    while high > by_high or (high == by_high and low >= by_low):
        high -= by_high
        if low < by_low:
            high -= _ONE
        low -= by_low
        quotient += _ONE
    return low, high, quotient


@njit(cache=True, nogil=True)
def _next_digit(low, high, by_low, by_high):
    """(low, high, digit): ten times a remainder, which is less than what it is divided by, and that is below 10**38."""
    rest_low, rest_high, digit = low, high, _NONE
    for bit in (_NONE, _ONE, _NONE):  # 10 is 0b1010
        rest_high = (rest_high << _ONE) | (rest_low >> _LAST)
        rest_low = rest_low << _ONE
        if bit == _ONE:
            rest_low += low
            rest_high += high
            if rest_low < low:
                rest_high += _ONE
        rest_low, rest_high, more = _reduce(rest_low, rest_high, by_low, by_high)
        digit = digit * _TWO + more
    return rest_low, rest_high, digit


@njit(cache=True, nogil=True)
def divide(low, high, by_low, by_high, digits, further):
    """(low, high) of a quotient with `digits` digits after the point, for a divisor that is not 0.

    As Spark does it: it is rounded half up with `further` digits more, and that is rounded half up.
    """
    negative = (high < 0) != (by_high < 0)
    lower, upper = low, np.uint64(high)
    if high < 0:
        lower, upper = negated(low, high)
    one, other = by_low, np.uint64(by_high)
    if by_high < 0:
        one, other = negated(by_low, by_high)
    # Long division, bit by bit: quotient in (upper, lower).
    rest, above = _NONE, _NONE
    for _ in range(128):
        above = (above << _ONE) | (rest >> _LAST)
        rest = (rest << _ONE) | (upper >> _LAST)
        upper = (upper << _ONE) | (lower >> _LAST)
        lower = lower << _ONE
        rest, above, bit = _reduce(rest, above, one, other)
        lower |= bit
    for _ in range(digits):
        lower, upper = times(lower, upper, 10)
        if upper == _OVERFLOW:
            return _NONE, OVERFLOW
        rest, above, digit = _next_digit(rest, above, one, other)
        lower += digit
        if lower < digit:
            upper += _ONE
    rest, above, digit = _next_digit(rest, above, one, other)
    if digit == _BELOW_HALF and further > 0:  # 4999…9, and then 5 or more, is 5 where Spark rounds it first
        for _ in range(further - 1):
            rest, above, digit = _next_digit(rest, above, one, other)
            if digit != _NINE:
                digit = _NONE
                break
        else:
            rest, above, digit = _next_digit(rest, above, one, other)
    if digit >= _ROUNDED_UP:
        lower += _ONE
        if lower == _NONE:
            upper += _ONE
    if too_large(lower, upper):
        return _NONE, OVERFLOW
    if negative:
        lower, upper = negated(lower, upper)
    return lower, np.int64(upper)


@njit(cache=True, nogil=True)
def average(low, high, count, factor):
    """(low, high) of a sum times factor (at most 10000) by a count, rounded half away from zero."""
    if high == OVERFLOW:
        return _NONE, OVERFLOW
    n = np.uint64(count)
    negative = high < 0
    lower, upper = low, np.uint64(high)
    if negative:
        lower, upper = negated(low, high)
    # Long division, bit by bit: quotient in (upper, lower), the remainder is less than n.
    rest = _NONE
    for _ in range(128):
        rest = (rest << _ONE) | (upper >> _LAST)
        upper = (upper << _ONE) | (lower >> _LAST)
        lower = lower << _ONE
        if rest >= n:
            rest -= n
            lower |= _ONE
    by = np.uint64(factor)
    digits = (rest * by * _TWO + n) // (n * _TWO)
    lower, upper = times(lower, upper, factor)
    if np.int64(upper) == OVERFLOW:
        return _NONE, OVERFLOW
    lower += digits
    if lower < digits:
        upper += _ONE
    if too_large(lower, upper):
        return _NONE, OVERFLOW
    if negative:
        lower, upper = negated(lower, upper)
    return lower, np.int64(upper)


@njit(cache=True, nogil=True)
def compare(low, high, other_low, other_high):
    """-1, 0 or 1."""
    if high != other_high:
        return -1 if high < other_high else 1
    return -1 if low < other_low else 1 if low > other_low else 0


@njit(cache=True, nogil=True)
def to_float(low, high):
    """The nearest double but for rounding twice."""
    lower, upper = low, np.uint64(high)
    if high < 0:
        lower, upper = negated(low, high)
    value = float(upper) * 18446744073709551616.0 + float(lower)
    return -value if high < 0 else value


@njit(cache=True, nogil=True)
def scaled(low, high, digits):
    """(low, high) of a number times 10 to the power of `digits`, which may be -18; then it is rounded half up."""
    if digits < 0:
        return average(low, high, 10**-digits, 1)
    negative = high < 0
    lower, upper = low, np.uint64(high)
    if negative:
        lower, upper = negated(low, high)
    for _ in range(digits):
        lower, upper = times(lower, upper, 10)
        if upper == _OVERFLOW:
            return _NONE, OVERFLOW
    if negative:
        lower, upper = negated(lower, upper)
    return lower, np.int64(upper)
