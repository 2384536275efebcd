"""The expression machine: typed register programs over blocks of rows, three-valued logic, Spark's comparison of NaN.

Registers are rows of three matrices (registers × block): int64 values, float64 values, uint8 null flags (1 = null).
One implementation serves both uses: row-local programs over blocks of rows, and residual programs over one row.
Arithmetic that overflows int64 (or the declared width) and division by zero give null.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from episode.kernels import decimals
from episode.kernels import opcodes as oc
from episode.kernels.comparing import compare_floats

NO_NUMBER = np.int64(0)
"""The number of the match where there is none. Not a literal: for every literal argument, `run` is compiled once more.
Only its number of rows is given as one, so that there are two machines: for blocks of rows, and for one row."""

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def _multiply(a: int, b: int) -> tuple[int, bool]:
    """Product and whether it overflowed."""
    if a == 0 or b == 0:
        return 0, False
    if a == _LEAST or b == _LEAST:
        return _LEAST, a != 1 and b != 1
    if abs(a) <= _MOST // abs(b):
        return a * b, False
    return _LEAST, (a < 0) == (b < 0) or _LEAST % b != 0 or _LEAST // b != a


@njit(cache=True, nogil=True)
def _run_wide(op, t, a, b, c, d, n, ri, rf, rn):
    """An operation on decimals of two words, in registers a and a + 1 (b and b + 1); too many digits give null."""
    for k in range(n):
        is_null = rn[a, k]
        if oc.ADD_WIDE <= op <= oc.ORDER_WIDE:
            is_null |= rn[b, k]
        rn[t, k] = is_null
        if op < oc.ORDER_WIDE:
            rn[t + 1, k] = is_null
        if is_null:
            continue
        if op == oc.WIDEN:
            ri[t, k], ri[t + 1, k] = ri[a, k], ri[a, k] >> 63
            continue
        low, high = np.uint64(ri[a, k]), ri[a + 1, k]
        if op == oc.ORDER_WIDE:
            ri[t, k] = decimals.compare(low, high, np.uint64(ri[b, k]), ri[b + 1, k])
        elif op == oc.WIDE_TO_FLOAT:
            rf[t, k] = decimals.to_float(low, high)
        else:
            if op == oc.SCALE_WIDE:
                low, high = decimals.scaled(low, high, b)
            elif op == oc.NEGATE_WIDE:
                lower, upper = decimals.negated(low, high)
                low, high = lower, np.int64(upper)
            else:
                by_low, by_high = np.uint64(ri[b, k]), ri[b + 1, k]
                if op == oc.ADD_WIDE:
                    low, high = decimals.add(low, high, by_low, by_high)
                elif op == oc.MULTIPLY_WIDE:
                    low, high = decimals.multiply(low, high, by_low, by_high)
                elif by_low == 0 and by_high == 0:
                    high = decimals.OVERFLOW
                else:
                    low, high = decimals.divide(low, high, by_low, by_high, c, d)
            if high == decimals.OVERFLOW:
                rn[t, k], rn[t + 1, k] = 1, 1
            ri[t, k], ri[t + 1, k] = np.int64(low), high


@njit(cache=True, nogil=True)
def run(code, start, stop, ri, rf, rn, n, base, key, cols_i, cols_f, valid, const_i, const_f,
        nav_rows, nav_labels, run_i, run_f, run_n, number):  # fmt: skip
    """Run instructions start:stop for rows base:base+n (n = 1 in residual programs).

    code int64[:, 7]; ri int64[:, B]; rf float64[:, B]; rn uint8[:, B]; key int64[rows] partition codes;
    cols_i int64[:, rows]; cols_f float64[:, rows]; valid uint8[:, rows] (row -1: no nulls);
    nav_rows int64[:] row of each navigation or -1; nav_labels int64[:] label code there or -1;
    run_i, run_f, run_n: values of running aggregates; number: MATCH_NUMBER.
    """
    rows = len(key)
    for at in range(start, stop):
        op, t, a, b, c = code[at, 0], code[at, 1], code[at, 2], code[at, 3], code[at, 4]
        if op == oc.LOAD_I or op == oc.LOAD_F:
            # a column, b validity, c offset, d missing column, e missing validity
            d, e = code[at, 5], code[at, 6]
            begin = min(n, max(0, -(base + c)))
            end = max(begin, min(n, rows - base - c))
            if op == oc.LOAD_I:
                for k in range(begin, end):
                    ri[t, k] = cols_i[a, base + k + c]
            else:
                for k in range(begin, end):
                    rf[t, k] = cols_f[a, base + k + c]
            if b < 0:
                for k in range(begin, end):
                    rn[t, k] = 0
            else:
                for k in range(begin, end):
                    rn[t, k] = 1 - valid[b, base + k + c]
            if c != 0:
                for k in range(begin):
                    rn[t, k] = 1
                for k in range(end, n):
                    rn[t, k] = 1
                for k in range(begin, end):
                    rn[t, k] |= key[base + k + c] != key[base + k]
                if d >= 0:  # a stand-in where the row does not exist
                    for k in range(n):
                        row = base + k + c
                        if row < 0 or row >= rows or key[row] != key[base + k]:
                            rn[t, k] = e >= 0 and valid[e, base + k] == 0
                            if op == oc.LOAD_I:
                                ri[t, k] = cols_i[d, base + k]
                            else:
                                rf[t, k] = cols_f[d, base + k]
        elif op == oc.LOAD_NAV_I or op == oc.LOAD_NAV_F:
            # c navigation
            row, column, check = nav_rows[c], a, b
            if row < 0:
                row, column, check = base, code[at, 5], code[at, 6]
            if column < 0 or (check >= 0 and valid[check, row] == 0):
                rn[t, 0] = 1
            else:
                rn[t, 0] = 0
                if op == oc.LOAD_NAV_I:
                    ri[t, 0] = cols_i[column, row]
                else:
                    rf[t, 0] = cols_f[column, row]
        elif op == oc.CONST_I:
            for k in range(n):
                ri[t, k] = const_i[a]
                rn[t, k] = 0
        elif op == oc.CONST_F:
            for k in range(n):
                rf[t, k] = const_f[a]
                rn[t, k] = 0
        elif op == oc.NULL:
            for k in range(n):
                rn[t, k] = 1
        elif oc.ADD_I <= op <= oc.MOD_I:
            limit = const_i[c]
            for k in range(n):
                rn[t, k] = rn[a, k] | rn[b, k]
                if rn[t, k] == 0:
                    x, y = ri[a, k], ri[b, k]
                    if op == oc.ADD_I:
                        z = x + y
                        if (x >= 0) == (y >= 0) and (z >= 0) != (x >= 0):
                            rn[t, k] = 1
                    elif op == oc.SUB_I:
                        z = x - y
                        if (x >= 0) != (y >= 0) and (z >= 0) != (x >= 0):
                            rn[t, k] = 1
                    elif op == oc.MUL_I:
                        z, over = _multiply(x, y)
                        if over:
                            rn[t, k] = 1
                    elif y == 0:
                        z = 0
                        rn[t, k] = 1
                    elif y == -1:
                        z = 0 if op == oc.MOD_I else -x
                        if z == _LEAST:
                            rn[t, k] = 1
                    elif op == oc.FLOOR_DIVIDE_I:
                        z = x // y
                    else:
                        z = x // y
                        if z < 0 and z * y != x:
                            z += 1
                        if op == oc.MOD_I:
                            z = x - z * y
                    if z > limit or z < -limit - 1:
                        rn[t, k] = 1
                    ri[t, k] = z
        elif op == oc.NEGATE_I or op == oc.ABS_I:
            limit = const_i[b]
            for k in range(n):
                x = ri[a, k]
                z = -x if op == oc.NEGATE_I or x < 0 else x
                rn[t, k] = rn[a, k] | (z > limit or z == _LEAST)
                ri[t, k] = z
        elif oc.ADD_F <= op <= oc.MOD_F:
            for k in range(n):
                rn[t, k] = rn[a, k] | rn[b, k]
                if rn[t, k] == 0:
                    f, g = rf[a, k], rf[b, k]
                    if op == oc.ADD_F:
                        rf[t, k] = f + g
                    elif op == oc.SUB_F:
                        rf[t, k] = f - g
                    elif op == oc.MUL_F:
                        rf[t, k] = f * g
                    elif g == 0.0:
                        rn[t, k] = 1
                    elif op == oc.DIVIDE_F:
                        rf[t, k] = f / g
                    else:
                        rf[t, k] = np.fmod(f, g)
        elif op == oc.NEGATE_F or op == oc.ABS_F:
            for k in range(n):
                rn[t, k] = rn[a, k]
                rf[t, k] = -rf[a, k] if op == oc.NEGATE_F else abs(rf[a, k])
        elif op == oc.TO_FLOAT:
            for k in range(n):
                rn[t, k] = rn[a, k]
                rf[t, k] = float(ri[a, k])
        elif op == oc.ROUND_SINGLE:
            for k in range(n):
                rn[t, k] = rn[a, k]
                rf[t, k] = np.float64(np.float32(rf[a, k]))
        elif op == oc.COPY_I:
            for k in range(n):
                rn[t, k] = rn[a, k]
                ri[t, k] = ri[a, k]
        elif op == oc.COPY_F:
            for k in range(n):
                rn[t, k] = rn[a, k]
                rf[t, k] = rf[a, k]
        elif oc.EQ_I <= op <= oc.GE_I or oc.EQ_F <= op <= oc.GE_F:
            for k in range(n):
                rn[t, k] = rn[a, k] | rn[b, k]
            if op == oc.LT_I:
                for k in range(n):
                    ri[t, k] = ri[a, k] < ri[b, k]
            elif op == oc.GT_I:
                for k in range(n):
                    ri[t, k] = ri[a, k] > ri[b, k]
            elif op == oc.LE_I:
                for k in range(n):
                    ri[t, k] = ri[a, k] <= ri[b, k]
            elif op == oc.GE_I:
                for k in range(n):
                    ri[t, k] = ri[a, k] >= ri[b, k]
            elif op == oc.EQ_I:
                for k in range(n):
                    ri[t, k] = ri[a, k] == ri[b, k]
            elif op == oc.NE_I:
                for k in range(n):
                    ri[t, k] = ri[a, k] != ri[b, k]
            elif op == oc.LT_F:
                for k in range(n):
                    ri[t, k] = (rf[a, k] < rf[b, k]) | ((rf[b, k] != rf[b, k]) & (rf[a, k] == rf[a, k]))
            elif op == oc.GT_F:
                for k in range(n):
                    ri[t, k] = (rf[a, k] > rf[b, k]) | ((rf[a, k] != rf[a, k]) & (rf[b, k] == rf[b, k]))
            elif op == oc.LE_F:
                for k in range(n):
                    ri[t, k] = (rf[a, k] <= rf[b, k]) | (rf[b, k] != rf[b, k])
            elif op == oc.GE_F:
                for k in range(n):
                    ri[t, k] = (rf[a, k] >= rf[b, k]) | (rf[a, k] != rf[a, k])
            elif op == oc.EQ_F:
                for k in range(n):
                    ri[t, k] = (rf[a, k] == rf[b, k]) | ((rf[a, k] != rf[a, k]) & (rf[b, k] != rf[b, k]))
            elif op == oc.NE_F:
                for k in range(n):
                    ri[t, k] = (rf[a, k] != rf[b, k]) & ((rf[a, k] == rf[a, k]) | (rf[b, k] == rf[b, k]))
        elif op == oc.SAME_I or op == oc.SAME_F:
            for k in range(n):
                if rn[a, k] or rn[b, k]:
                    ri[t, k] = rn[a, k] == rn[b, k]
                elif op == oc.SAME_I:
                    ri[t, k] = ri[a, k] == ri[b, k]
                else:
                    ri[t, k] = compare_floats(rf[a, k], rf[b, k]) == 0
                rn[t, k] = 0
        elif op == oc.AND:
            for k in range(n):
                if (rn[a, k] == 0 and ri[a, k] == 0) or (rn[b, k] == 0 and ri[b, k] == 0):
                    ri[t, k] = 0
                    rn[t, k] = 0
                else:
                    ri[t, k] = 1
                    rn[t, k] = rn[a, k] | rn[b, k]
        elif op == oc.OR:
            for k in range(n):
                if (rn[a, k] == 0 and ri[a, k] != 0) or (rn[b, k] == 0 and ri[b, k] != 0):
                    ri[t, k] = 1
                    rn[t, k] = 0
                else:
                    ri[t, k] = 0
                    rn[t, k] = rn[a, k] | rn[b, k]
        elif op == oc.NOT:
            for k in range(n):
                rn[t, k] = rn[a, k]
                ri[t, k] = ri[a, k] == 0
        elif op == oc.IS_NULL_I or op == oc.IS_NULL_F:
            for k in range(n):
                ri[t, k] = rn[a, k]
                rn[t, k] = 0
        elif op == oc.IF_I or op == oc.IF_F:
            for k in range(n):
                source = b if rn[a, k] == 0 and ri[a, k] != 0 else c
                rn[t, k] = rn[source, k]
                if op == oc.IF_I:
                    ri[t, k] = ri[source, k]
                else:
                    rf[t, k] = rf[source, k]
        elif op == oc.COALESCE_I or op == oc.COALESCE_F:
            for k in range(n):
                source = b if rn[a, k] else a
                rn[t, k] = rn[source, k]
                if op == oc.COALESCE_I:
                    ri[t, k] = ri[source, k]
                else:
                    rf[t, k] = rf[source, k]
        elif oc.LEAST_I <= op <= oc.GREATEST_F:
            for k in range(n):
                if rn[a, k] or rn[b, k]:
                    source = b if rn[a, k] else a
                elif op == oc.LEAST_I:
                    source = a if ri[a, k] <= ri[b, k] else b
                elif op == oc.GREATEST_I:
                    source = a if ri[a, k] >= ri[b, k] else b
                elif op == oc.LEAST_F:
                    source = a if compare_floats(rf[a, k], rf[b, k]) <= 0 else b
                else:
                    source = a if compare_floats(rf[a, k], rf[b, k]) >= 0 else b
                rn[t, k] = rn[source, k]
                ri[t, k] = ri[source, k]
                rf[t, k] = rf[source, k]
        elif oc.SQRT <= op <= oc.LN:
            for k in range(n):
                rn[t, k] = rn[a, k]
                if rn[t, k] == 0:
                    f = rf[a, k]
                    if op == oc.SQRT:
                        rf[t, k] = math.sqrt(f) if f >= 0.0 else np.nan
                    elif op == oc.EXP:
                        rf[t, k] = np.exp(f)
                    elif f <= 0.0:
                        rn[t, k] = 1
                    else:
                        rf[t, k] = np.log(f)
        elif op == oc.POWER:
            for k in range(n):
                rn[t, k] = rn[a, k] | rn[b, k]
                f, g = rf[a, k], rf[b, k]
                if g != g or (abs(f) == 1.0 and np.isinf(g)):  # as in Java; C gives 1
                    rf[t, k] = np.nan
                else:
                    rf[t, k] = np.power(f, g)
        elif op == oc.IS_NAN:
            for k in range(n):
                ri[t, k] = rn[a, k] == 0 and rf[a, k] != rf[a, k]
                rn[t, k] = 0
        elif op == oc.EXISTS:
            for k in range(n):
                row = base + k + a
                ri[t, k] = 0 <= row < rows and key[row] == key[base + k]
                rn[t, k] = 0
        elif op == oc.EXISTS_NAV:
            ri[t, 0] = nav_rows[a] >= 0
            rn[t, 0] = 0
        elif op == oc.LABEL_AT:
            ri[t, 0] = nav_labels[a]
            rn[t, 0] = nav_labels[a] < 0
        elif op == oc.MATCH_NUMBER:
            ri[t, 0] = number
            rn[t, 0] = 0
        elif op == oc.RUNNING_I:
            ri[t, 0] = run_i[a]
            rn[t, 0] = run_n[a]
        elif op == oc.RUNNING_F:
            rf[t, 0] = run_f[a]
            rn[t, 0] = run_n[a]
        else:
            _run_wide(op, t, a, b, c, code[at, 5], n, ri, rf, rn)
