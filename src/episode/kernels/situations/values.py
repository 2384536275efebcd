"""Aggregates over the events of situations so far.

The asked-for (first row, last row) of a symbol come in order, those of one situation together: each goes on from the
one before it, so a situation's rows are read once however often it is asked for. opened: where a situation began in an
earlier batch, the number of what it had then, else -1. A last row before the first asks for just that.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels import decimals
from episode.kernels import opcodes as oc
from episode.kernels.aggregates import add_squares, add_whole, replaces


@njit(cache=True, nogil=True)
def count_so_far(first, last, opened, has_nulls, valid, only_true, values, before):
    """Events (valid ones; true ones)."""
    out = np.empty(len(last), np.int64)
    n = np.int64(0)
    at = np.int64(-1)
    for k in range(len(last)):
        if k == 0 or first[k] != first[k - 1] or opened[k] != opened[k - 1]:
            n = before[opened[k]] if opened[k] >= 0 else 0
            at = first[k]
        while at <= last[k]:
            if (not has_nulls or valid[at] != 0) and (not only_true or values[at] != 0):
                n += 1
            at += 1
        out[k] = n
    return out


@njit(cache=True, nogil=True)
def sum_so_far(first, last, opened, has_nulls, valid, floating, ints, floats, before_n, before_i, before_f):
    """(counts, sums of integers, sums of floats): see `kernels.aggregates`.

    Where integers are added up, the overflow of their sums stands in place of the sums of floats.
    """
    total = len(last)
    out_n, out_i, out_f = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.float64)
    n, whole, real = np.int64(0), np.int64(0), 0.0
    at = np.int64(-1)
    for k in range(total):
        if k == 0 or first[k] != first[k - 1] or opened[k] != opened[k - 1]:
            n, whole, real = np.int64(0), np.int64(0), 0.0
            if opened[k] >= 0:
                n, whole, real = before_n[opened[k]], before_i[opened[k]], before_f[opened[k]]
            at = first[k]
        while at <= last[k]:
            if not has_nulls or valid[at] != 0:
                n += 1
                if floating:
                    real += floats[at]
                else:
                    whole, real = add_whole(whole, real, ints[at])
            at += 1
        out_n[k], out_i[k], out_f[k] = n, whole, real
    return out_n, out_i, out_f


@njit(cache=True, nogil=True)
def variance_so_far(first, last, opened, has_nulls, valid, floats, before_n, before_mean, before_m2):
    """(counts, means, sums of squared distances from the mean), by Welford's method."""
    total = len(last)
    out_n, out_mean, out_m2 = np.empty(total, np.int64), np.empty(total, np.float64), np.empty(total, np.float64)
    n, mean, m2 = np.int64(0), 0.0, 0.0
    at = np.int64(-1)
    for k in range(total):
        if k == 0 or first[k] != first[k - 1] or opened[k] != opened[k - 1]:
            n, mean, m2 = np.int64(0), 0.0, 0.0
            if opened[k] >= 0:
                n, mean, m2 = before_n[opened[k]], before_mean[opened[k]], before_m2[opened[k]]
            at = first[k]
        while at <= last[k]:
            if not has_nulls or valid[at] != 0:
                n += 1
                mean, m2 = add_squares(n, mean, m2, floats[at])
            at += 1
        out_n[k], out_mean[k], out_m2[k] = n, mean, m2
    return out_n, out_mean, out_m2


@njit(cache=True, nogil=True)
def extreme_so_far(first, last, opened, shift, has_nulls, valid, floating, ints, floats, greatest):
    """Where the least (or greatest) value is, -1: nowhere. `ints` or `floats`, and `valid`, have the values of earlier
    batches in front, `shift` of them: that of a situation which began earlier at its number."""
    out = np.empty(len(last), np.int64)
    best = np.int64(-1)
    at = np.int64(-1)
    function = oc.MAX if greatest else oc.MIN
    for k in range(len(last)):
        if k == 0 or first[k] != first[k - 1] or opened[k] != opened[k - 1]:
            best = opened[k] if opened[k] >= 0 and (not has_nulls or valid[opened[k]] != 0) else -1
            at = first[k]
        while at <= last[k]:
            here = at + shift
            if not has_nulls or valid[here] != 0:
                if best < 0:
                    best = here
                elif floating:
                    if replaces(function, True, 1, 0, floats[best], 0, floats[here]):
                        best = here
                elif replaces(function, False, 1, ints[best], 0.0, ints[here], 0.0):
                    best = here
            at += 1
        out[k] = best
    return out


@njit(cache=True, nogil=True)
def sum_decimals_so_far(first, last, opened, has_nulls, valid, low, high, before_n, before_low, before_high):
    """(counts, low words, high words) of sums of decimals: see `kernels.decimals`."""
    total = len(last)
    out_n, out_low, out_high = np.empty(total, np.int64), np.empty(total, np.uint64), np.empty(total, np.int64)
    n, sum_low, sum_high = np.int64(0), np.uint64(0), np.int64(0)
    at = np.int64(-1)
    for k in range(total):
        if k == 0 or first[k] != first[k - 1] or opened[k] != opened[k - 1]:
            n, sum_low, sum_high = np.int64(0), np.uint64(0), np.int64(0)
            if opened[k] >= 0:
                n, sum_low, sum_high = before_n[opened[k]], before_low[opened[k]], before_high[opened[k]]
            at = first[k]
        while at <= last[k]:
            if not has_nulls or valid[at] != 0:
                n += 1
                sum_low, sum_high = decimals.add(sum_low, sum_high, low[at], high[at])
            at += 1
        out_n[k], out_low[k], out_high[k] = n, sum_low, sum_high
    return out_n, out_low, out_high
