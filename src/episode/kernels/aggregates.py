"""Aggregates: how a value is folded into the state of an aggregate, and what the state comes to.

A state is four numbers: `count` of values; `whole`, of the int lane: a sum or an extreme; `real`, of the float lane: a
sum, an extreme or a mean; and `more`: the overflow of a whole sum, the squared distances of a variance, the row of
MIN_BY and MAX_BY. All are 0 at first. Functions take and give scalars and are inlined where they are called.

Sums are exact: a whole sum is whole + more * 2**64, however its values come and go, and it is null where that is not a
bigint. `more` counts rows at most, so that it is exact as a float, too. Sums of floats and averages add up doubles in
the order of the rows, as Spark does. Of decimals of two words, `whole` is the low word, and `real` and `more` are the
halves of the high one, which are exact as floats.

A function code from USER on is an aggregate of a user: see `kernels.user_aggregates`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from episode.kernels import decimals
from episode.kernels import opcodes as oc
from episode.kernels.comparing import compare_floats, compare_ints
from episode.kernels.user_aggregates import USER, user_finish, user_step


@njit(cache=True, nogil=True, inline="always")
def add_whole(whole, more, value):
    """A whole sum and one more value: (whole, more)."""
    # Without signs, where the compiler does not take it that nothing overflows.
    total = np.int64(np.uint64(whole) + np.uint64(value))
    if value >= 0:
        if total < whole:
            more += 1.0
    elif total > whole:
        more -= 1.0
    return total, more


@njit(cache=True, nogil=True, inline="always")
def add_squares(count, mean, squares, value):
    """Mean and sum of squared distances with one more value, the count-th, by Welford's method."""
    delta = value - mean
    mean += delta / count
    return mean, squares + delta * (value - mean)


@njit(cache=True, nogil=True, inline="always")
def replaces(function, floating, count, whole, real, whole_value, real_value):
    """Is a value the new extreme of MIN, MAX, MIN_BY or MAX_BY? Of equal ones the later."""
    order = compare_floats(real_value, real) if floating else compare_ints(whole_value, whole)
    least = function == oc.MIN or function == oc.MIN_BY
    return count == 0 or (order <= 0 if least else order >= 0)


@njit(cache=True, nogil=True)
def fold_words(function, count, whole, real, more, low, high):
    """The state with one more value of two words (int64, int64)."""
    if count > 0:
        before = _high(real, more)
        if function == oc.MIN_WIDE or function == oc.MAX_WIDE:
            order = decimals.compare(np.uint64(low), high, np.uint64(whole), before)
            if order == 0 or (order < 0) != (function == oc.MIN_WIDE):
                low, high = whole, before
        else:
            total, high = decimals.add(np.uint64(whole), before, np.uint64(low), high)
            low = np.int64(total)
    return count + 1, low, float(high >> 32), float(high & 0xFFFFFFFF)


@njit(cache=True, nogil=True, inline="always")
def _high(real, more):
    """The high word of a state of two words."""
    return (np.int64(real) << 32) | np.int64(more)


@njit(cache=True, nogil=True)
def fold(function, floating, count, whole, real, more, whole_value, real_value, row):
    """The state (count, whole, real, more) with one more value, of a row; values of two words: `fold_words`."""
    if function == oc.COUNT:
        count += 1
    elif function == oc.COUNT_IF:
        count += whole_value != 0
    elif function == oc.SUM or function == oc.AVG_WHOLE:
        count += 1
        if floating:
            real += real_value
        else:
            whole, more = add_whole(whole, more, whole_value)
    elif function == oc.AVG:
        count += 1
        real += real_value
    elif oc.VAR_SAMP <= function <= oc.STDDEV_POP:
        count += 1
        real, more = add_squares(count, real, more, real_value)
    elif function >= USER:
        whole, real, more = user_step(function, count, whole, real, more, whole_value, real_value)
        count += 1
    else:
        if replaces(function, floating, count, whole, real, whole_value, real_value):
            whole, real, more = whole_value, real_value, float(row)
        count += 1
    return count, whole, real, more


@njit(cache=True, nogil=True)
def finished(function, floating, count, whole, real, more):
    """(int value, float value, is it null?) that a state comes to."""
    if function == oc.COUNT or function == oc.COUNT_IF:
        return count, 0.0, False
    if count == 0:
        return 0, 0.0, True
    if function == oc.SUM:
        return whole, real, not floating and more != 0.0
    if function == oc.AVG:
        return 0, real / count, False
    if oc.VAR_SAMP <= function <= oc.STDDEV_POP:
        sample = function == oc.VAR_SAMP or function == oc.STDDEV_SAMP
        if sample and count == 1:
            return 0, 0.0, True
        variance = more / (count - 1 if sample else count)
        return 0, math.sqrt(variance) if function >= oc.STDDEV_SAMP else variance, False
    if function >= USER:
        return user_finish(function, whole, real, more)
    return whole, real, False


@njit(cache=True, nogil=True)
def finished_words(function, count, whole, real, more):
    """(low, high as int64, is it null?) of what has two words; the average AVG_WHOLE has four more digits."""
    if count == 0:
        return np.int64(0), np.int64(0), True
    low, digits = np.uint64(whole), 4 if function == oc.AVG_WHOLE else max(0, function - oc.AVG_WIDE)
    if function >= oc.SUM_WIDE:
        high = _high(real, more)
    else:
        high = np.int64(more) - np.int64(whole < 0)
    if function == oc.AVG_WHOLE or function >= oc.AVG_WIDE:
        low, high = decimals.average(low, high, count, 10**digits)
    return np.int64(low), high, high == decimals.OVERFLOW
