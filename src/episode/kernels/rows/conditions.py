"""Conditions of row patterns that depend on the rows of the match so far: navigations, running aggregates, programs."""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels import opcodes as oc
from episode.kernels.aggregates import finished, finished_words, fold, fold_words
from episode.kernels.arrays import run_arrays
from episode.kernels.comparing import accepts, compare_floats, compare_ints
from episode.kernels.lean import lean
from episode.kernels.machine import run
from episode.kernels.rows.arrays import (
    A_NAV,
    A_VALID,
    B_NAV,
    B_VALID,
    COMPARE,
    EXTREME,
    FLOATING,
    PUSHED,
    SET_OF_LABELS,
    A,
    B,
)


@njit(cache=True, nogil=True)
def navigate(first, offset, shift, label, sets, which, origin, start, row, lo, hi, path, label_of, first_row, last_row):
    """Row of a navigation in the running match start..row, or -1. label: a label, -1 all, -2 look at the set.

    origin: the row to which the first entry of the path belongs.
    """
    found = -1
    if label == -1:
        if first:
            found = start + offset if start + offset <= row else -1
        else:
            found = row - offset if row - offset >= start else -1
    elif label >= 0 and offset == 0:
        if last_row[label] >= 0:
            found = first_row[label] if first else last_row[label]
    elif first:
        left = offset
        for at in range(start, row + 1):
            if sets[which, label_of[path[at - origin]]]:
                if left == 0:
                    found = at
                    break
                left -= 1
    else:
        left = offset
        for at in range(row, start - 1, -1):
            if sets[which, label_of[path[at - origin]]]:
                if left == 0:
                    found = at
                    break
                left -= 1
    if found >= 0 and shift != 0:
        found += shift
        if found < lo or found >= hi:
            found = -1
    return found


@lean
def tests_hold(
    from_test, to_test, tests, origin, start, row, lo, hi, nav_first, nav_offset, nav_shift, nav_label, nav_set,
    nav_plain, sets, path, label_of, first_row, last_row, cols_i, cols_f, valid,
):  # fmt: skip
    """Do comparisons of two values of rows hold for the row under trial?"""
    for test in range(from_test, to_test):
        row_a = row_b = row
        nav = tests[test, A_NAV]
        if nav >= 0 and nav_plain[nav]:
            row_a = last_row[nav_label[nav]]
        elif nav >= 0:
            row_a = navigate(nav_first[nav], nav_offset[nav], nav_shift[nav], nav_label[nav], sets, nav_set[nav],
                             origin, start, row, lo, hi, path, label_of, first_row, last_row)  # fmt: skip
        nav = tests[test, B_NAV]
        if nav >= 0 and nav_plain[nav]:
            row_b = last_row[nav_label[nav]]
        elif nav >= 0:
            row_b = navigate(nav_first[nav], nav_offset[nav], nav_shift[nav], nav_label[nav], sets, nav_set[nav],
                             origin, start, row, lo, hi, path, label_of, first_row, last_row)  # fmt: skip
        if row_a < 0 or row_b < 0:
            return False
        check = tests[test, A_VALID]
        if check >= 0 and valid[check, row_a] == 0:
            return False
        check = tests[test, B_VALID]
        if check >= 0 and valid[check, row_b] == 0:
            return False
        if tests[test, FLOATING]:
            order = compare_floats(cols_f[tests[test, A], row_a], cols_f[tests[test, B], row_b])
        else:
            order = compare_ints(cols_i[tests[test, A], row_a], cols_i[tests[test, B], row_b])
        if not accepts(tests[test, COMPARE], order):
            return False
    return True


@njit(cache=True, nogil=True)
def walks_the_path(nav_label, nav_offset, array_from, machine_code):
    """Do conditions read labels of rows taken earlier, other than the first and the last row of a label?"""
    for nav in range(len(nav_label)):
        if nav_label[nav] == SET_OF_LABELS or (nav_label[nav] >= 0 and nav_offset[nav] != 0):
            return True
    for at in range(len(machine_code)):
        if machine_code[at, 0] == oc.LABEL_AT:
            return True
    return array_from[0] < array_from[len(array_from) - 2]


@njit(cache=True, nogil=True)
def take_into_aggregates(
    begins, column_before, row, label, number, agg_function, agg_set, agg_column, agg_valid, agg_float, agg_from,
    agg_to, agg_result, agg_nav, agg_i, agg_f, agg_m, agg_n, sets, label_codes, nav_rows, nav_labels, code, ri, rf, rn,
    key, cols_i, cols_f, valid, const_i, const_f, run_i, run_f, run_n,
):  # fmt: skip
    """Running aggregates with one more row: the column after `column_before` of agg_* from that; begins: from nothing.

    agg_n, agg_i, agg_f and agg_m hold the state: count, whole, real and more of `kernels.aggregates`.
    """
    for j in range(len(agg_function)):
        ai, af, am, an = (
            agg_i[j, column_before], agg_f[j, column_before], agg_m[j, column_before], agg_n[j, column_before],
        )  # fmt: skip
        if begins:
            ai, af, am, an = 0, 0.0, 0.0, 0
        if sets[agg_set[j], label]:
            column = agg_column[j]
            function = agg_function[j]
            present = True
            whole = np.int64(0)
            value = 0.0
            if column == PUSHED:
                # The argument depends on the label or the match: evaluated as the row is taken.
                if agg_nav[j] >= 0:
                    nav_rows[agg_nav[j]], nav_labels[agg_nav[j]] = row, label_codes[label]
                run(code, agg_from[j], agg_to[j], ri, rf, rn, 1, row, key, cols_i, cols_f, valid,
                    const_i, const_f, nav_rows, nav_labels, run_i, run_f, run_n, number + 1)  # fmt: skip
                present = rn[agg_result[j], 0] == 0
                whole, value = ri[agg_result[j], 0], rf[agg_result[j], 0]
            elif column >= 0:
                present = agg_valid[j] < 0 or valid[agg_valid[j], row] != 0
                if agg_float[j]:
                    value = cols_f[column, row]
                elif function != oc.COUNT:
                    whole = cols_i[column, row]
            if present and oc.SUM_WIDE <= function <= oc.LAST_WIDE:
                high = ri[agg_result[j] + 1, 0] if column == PUSHED else cols_i[column + 1, row]
                an, ai, af, am = fold_words(function, an, ai, af, am, whole, high)
            elif present:
                an, ai, af, am = fold(function, agg_float[j], an, ai, af, am, whole, value, row)
        agg_i[j, column_before + 1], agg_f[j, column_before + 1] = ai, af
        agg_m[j, column_before + 1], agg_n[j, column_before + 1] = am, an


@njit(cache=True, nogil=True)
def residual_holds(
    label, origin, start, row, lo, hi, number, program_from, program_to, program_result, nav_from, nav_ids,
    nav_first, nav_offset, nav_shift, nav_label, nav_set, sets, label_codes, label_of, path, first_row, last_row,
    agg_function, agg_float, agg_high, agg_i, agg_f, agg_m, agg_n, nav_rows, nav_labels, code, ri, rf, rn, key, cols_i,
    cols_f, valid, const_i, const_f, run_i, run_f, run_n, array_from, known_from,
):  # fmt: skip
    """Does the label's program hold for the row under trial? origin: as in `navigate`, of running aggregates too.
    known_from: the row from which on the path is written."""
    taken = row - origin + 1
    for at in range(nav_from[label], nav_from[label + 1]):
        nav = nav_ids[at]
        if nav_label[nav] == EXTREME:
            by = nav_offset[nav]
            target = np.int64(agg_m[by, taken]) if agg_n[by, taken] else -1
        else:
            target = navigate(nav_first[nav], nav_offset[nav], nav_shift[nav], nav_label[nav], sets, nav_set[nav],
                               origin, start, row, lo, hi, path, label_of, first_row, last_row)  # fmt: skip
        nav_rows[nav] = target
        nav_labels[nav] = label_codes[label_of[path[target - origin]]] if known_from <= target <= row else -1
    for j in range(len(agg_function)):
        run_i[j], run_f[j], run_n[j] = finished(
            agg_function[j], agg_float[j], agg_n[j, taken], agg_i[j, taken], agg_f[j, taken],
            agg_m[j, taken],
        )  # fmt: skip
        if agg_high[j] >= 0:
            run_i[j], run_i[agg_high[j]], run_n[j] = finished_words(
                agg_function[j], agg_n[j, taken], agg_i[j, taken], agg_f[j, taken], agg_m[j, taken]
            )
            run_n[agg_high[j]] = run_n[j]
    if array_from[label] < array_from[label + 1]:
        run_arrays(array_from[label], array_from[label + 1], start, row, number, path[start - origin :], label_of, sets,
                   label_codes, nav_rows, nav_labels, code, ri, rf, rn, key, cols_i, cols_f, valid, const_i, const_f,
                   run_i, run_f, run_n, agg_i, agg_f, agg_m, agg_n)  # fmt: skip
    run(code, program_from[label], program_to[label], ri, rf, rn, 1, row, key, cols_i, cols_f, valid,
        const_i, const_f, nav_rows, nav_labels, run_i, run_f, run_n, number + 1)  # fmt: skip
    register = program_result[label]
    return rn[register, 0] == 0 and ri[register, 0] != 0
