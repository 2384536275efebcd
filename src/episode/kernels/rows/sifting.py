"""Rows that every match has: is there a row in the window of a start row that could have such a label?

A sieve asks, in addition, how its value compares with the start row's.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.comparing import compare_floats, compare_ints

SIEVE_BIT, IN_FLOAT_LANE, OWN_COLUMN, OWN_CHECK, START_COLUMN, START_CHECK, ACCEPTED = range(7)
"""Columns of a sieve: the label's bit; which lane the values are in; the row's value and its validity (-1: no nulls);
the same of the start row; the orders that are accepted (see `kernels.comparing`)."""
PASSES, FAILS, UNDECIDED = range(3)
ENDLESS = np.uint64(2**64 - 1)
STRIDE = 64
_LESS, _AT_MOST, _GREATER, _AT_LEAST = 0b001, 0b011, 0b100, 0b110


@njit(cache=True, nogil=True)
def seek_labels(seek, required, start, available, hi, within, until, final, time, bits):
    """Does a start row lack a label that every match has? (none will come in its window; none has come yet).

    seek: for each label, no row between this one and an earlier start row offers it.
    """
    lacking = False
    window = np.uint64(within) if within >= 0 else ENDLESS
    for which in range(len(required)):
        at = max(seek[which], start)
        while at < available and (bits[at] & required[which]) == np.uint64(0):
            at += 1
        seek[which] = at
        if at >= hi:
            ended = final or (until >= time[start] and np.uint64(until - time[start]) >= window)
        else:
            ended = np.uint64(time[at] - time[start]) > window
        if ended:
            return True, lacking
        lacking |= at >= available
    return False, lacking


@njit(cache=True, nogil=True)
def hopeless_starts(key_lo, key_hi, within, time, is_start, is_candidate, own, wanted, accepted):
    """bool by row: of the start rows, those in whose window no candidate passes the sieve; all rows are there.

    own, wanted: ranks of the candidates' values, and of the start rows' own.
    """
    hopeless = np.zeros(len(time), np.bool_)
    rows = len(time)
    most = 0
    for at in range(rows):
        most = max(most, own[at], wanted[at])
    latest = np.full(most + 1, -1, np.int64)
    least, greatest = np.empty(rows, np.int64), np.empty(rows, np.int64)
    window = np.uint64(within) if within >= 0 else ENDLESS
    for k in range(len(key_lo)):
        lo, hi = key_lo[k], key_hi[k]
        # The candidates of the window whose values are less (greater) than those of all later ones.
        low_from = low_to = high_from = high_to = 0
        end = lo
        for start in range(lo, hi):
            if not is_start[start]:
                continue
            while end < hi and (end <= start or np.uint64(time[end] - time[start]) <= window):
                if is_candidate[end]:
                    while low_to > low_from and own[least[low_to - 1]] >= own[end]:
                        low_to -= 1
                    least[low_to] = end
                    low_to += 1
                    while high_to > high_from and own[greatest[high_to - 1]] <= own[end]:
                        high_to -= 1
                    greatest[high_to] = end
                    high_to += 1
                end += 1
            while low_from < low_to and least[low_from] <= start:
                low_from += 1
            while high_from < high_to and greatest[high_from] <= start:
                high_from += 1
            hopeless[start] = True
            if low_from < low_to:
                low, high = own[least[low_from]], own[greatest[high_from]]
                hopeless[start] = not (
                    ((accepted & 1) != 0 and low < wanted[start])
                    or ((accepted & 4) != 0 and high > wanted[start])
                    or ((accepted & 2) != 0 and (low == wanted[start] or high == wanted[start]))
                )
        if accepted & 2 == 0:
            continue
        # Values between the least and the greatest: the next candidate with the start row's own value.
        for start in range(hi - 1, lo - 1, -1):
            if hopeless[start]:
                found = latest[wanted[start]]
                if lo <= found < hi and found > start and np.uint64(time[found] - time[start]) <= window:
                    hopeless[start] = False
            if is_candidate[start]:
                latest[own[start]] = start
    return hopeless


@njit(cache=True, nogil=True)
def sift(
    sieves, start, extreme, sifted, available, hi, within, until, final, time, bits, cols_i, cols_f, valid
):  # fmt: skip
    """Look for a row that the sieve of a start row lets through: (PASSES, FAILS or UNDECIDED, extreme, sifted).

    FAILS: no row in the window could have the label, and none will come. UNDECIDED: none has come yet.
    extreme, sifted: what is known from earlier calls, and for later ones. Where the sieve asks for less or more than
    the start row's value, the row with the least or greatest value of those after an earlier start up to row `sifted`;
    if that is after this start, it speaks for all of them. Elsewhere, the start after which none up to `sifted` passes.
    """
    window = np.uint64(within) if within >= 0 else ENDLESS
    check, own_check = sieves[0, START_CHECK], sieves[0, OWN_CHECK]
    if check >= 0 and valid[check, start] == 0:
        return FAILS, extreme, sifted
    bit, accepted = np.uint64(sieves[0, SIEVE_BIT]), sieves[0, ACCEPTED]
    floating, own, other = sieves[0, IN_FLOAT_LANE] != 0, sieves[0, OWN_COLUMN], sieves[0, START_COLUMN]
    wanted = 0
    if accepted == _LESS or accepted == _AT_MOST:
        wanted = -1
    elif accepted == _GREATER or accepted == _AT_LEAST:
        wanted = 1
    known = extreme > start if wanted else extreme == start
    at = sifted if known else start + 1
    if not known:
        extreme = np.int64(-1) if wanted else start
    passes = False
    if known and wanted:
        order = (
            compare_floats(cols_f[own, extreme], cols_f[other, start]) if floating
            else compare_ints(cols_i[own, extreme], cols_i[other, start])
        )  # fmt: skip
        passes = (accepted >> (order + 1)) & 1 != 0
        if passes:
            if np.uint64(time[extreme] - time[start]) <= window:
                return PASSES, extreme, sifted
            at, extreme, passes = start + 1, np.int64(-1), False  # others may pass, before it
    while at < available and not passes:
        if np.uint64(time[at] - time[start]) > window:
            return FAILS, extreme, at
        stop = min(available, at + STRIDE)
        while at < stop:
            if (bits[at] & bit) != np.uint64(0) and (own_check < 0 or valid[own_check, at] != 0):
                if floating:
                    order = compare_floats(cols_f[own, at], cols_f[other, start])
                else:
                    order = compare_ints(cols_i[own, at], cols_i[other, start])
                if wanted:
                    if extreme < 0:
                        extreme = at
                    elif floating:
                        if compare_floats(cols_f[own, at], cols_f[own, extreme]) == wanted:
                            extreme = at
                    elif compare_ints(cols_i[own, at], cols_i[own, extreme]) == wanted:
                        extreme = at
                if (accepted >> (order + 1)) & 1 != 0:
                    passes = True
                    break
            at += 1
    if passes:
        # Whether it is in the window or not, no row before it passes.
        if np.uint64(time[at] - time[start]) > window:
            return FAILS, extreme, at + 1
        return PASSES, extreme, at + 1
    if final or (at >= hi and until >= time[start] and np.uint64(until - time[start]) >= window):
        return FAILS, extreme, at
    if at < hi and np.uint64(time[at] - time[start]) > window:
        return FAILS, extreme, at
    return UNDECIDED, extreme, at
