"""Tests of steady labels: those that compare the row, if anything, with rows of other labels.

While a loop takes rows of a steady label, the other side of each test stays, and is read once. The tests are turned, so
that the row's own value stands on the left.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.comparing import compare_floats, compare_ints, orders_of, turned
from episode.kernels.lean import lean
from episode.kernels.rows.arrays import A_NAV, B_NAV, COMPARE, FLOATING, A, B

OWN, IN_FLOATS, OWN_VALID, OTHER, OTHER_VALID, OTHER_LABEL, ORDERS = range(7)
"""Columns of a turned test: the row's column in its lane; which lane; its validity; the same of the other side, and the
label whose last row it reads; the orders that are accepted (see `kernels.comparing`)."""


@njit(cache=True, nogil=True)
def turn_tests(test_from, tests, program_from, program_to, aggs, nav_plain, nav_label, labels):
    """Which labels are steady, and their tests turned: int64[tests, 8], in columns OWN …"""
    steady = np.zeros(labels, np.bool_)
    table = np.zeros((len(tests), 8), np.int64)
    for label in range(labels):
        steady[label] = aggs == 0 and program_from[label] == program_to[label]
        for test in range(test_from[label], test_from[label + 1]):
            compare = tests[test, COMPARE]
            exchanged = tests[test, B_NAV] < 0
            nav = tests[test, A_NAV] if exchanged else tests[test, B_NAV]
            second_nav = tests[test, B_NAV] if exchanged else tests[test, A_NAV]
            if second_nav >= 0 or nav < 0 or not nav_plain[nav] or nav_label[nav] == label:
                steady[label] = False
                continue
            own, other = (B, A) if exchanged else (A, B)
            table[test, OWN], table[test, OWN_VALID] = tests[test, own], tests[test, own + 1]
            table[test, OTHER], table[test, OTHER_VALID] = tests[test, other], tests[test, other + 1]
            table[test, OTHER_LABEL] = nav_label[nav]
            table[test, ORDERS] = orders_of(turned(compare) if exchanged else compare)
            table[test, IN_FLOATS] = tests[test, FLOATING]
    return steady, table


@lean
def steady_tests_hold(row, from_test, to_test, tests, last_row, cols_i, cols_f, valid):
    """Do turned tests hold for a row that is taken now?"""
    for test in range(from_test, to_test):
        other = last_row[tests[test, OTHER_LABEL]]
        if other < 0:
            return False
        check = tests[test, OTHER_VALID]
        if check >= 0 and valid[check, other] == 0:
            return False
        check = tests[test, OWN_VALID]
        if check >= 0 and valid[check, row] == 0:
            return False
        if tests[test, IN_FLOATS]:
            order = compare_floats(cols_f[tests[test, OWN], row], cols_f[tests[test, OTHER], other])
        else:
            order = compare_ints(cols_i[tests[test, OWN], row], cols_i[tests[test, OTHER], other])
        if (tests[test, ORDERS] >> (order + 1)) & 1 == 0:
            return False
    return True


@lean
def fix_other_sides(from_test, to_test, tests, last_row, cols_i, cols_f, fixed_i, fixed_f):
    """The other sides of turned tests, all of which are there, for `own_sides_hold`."""
    for test in range(from_test, to_test):
        other = last_row[tests[test, OTHER_LABEL]]
        if tests[test, IN_FLOATS]:
            fixed_f[test] = cols_f[tests[test, OTHER], other]
        else:
            fixed_i[test] = cols_i[tests[test, OTHER], other]


@lean
def have_other_sides(from_test, to_test, tests, looping, last_row, valid):
    """Are the other sides there, and none of them in the label that a loop gives rows back of?"""
    for test in range(from_test, to_test):
        label = tests[test, OTHER_LABEL]
        if label == looping or last_row[label] < 0:
            return False
        check = tests[test, OTHER_VALID]
        if check >= 0 and valid[check, last_row[label]] == 0:
            return False
    return True


@lean
def own_sides_hold(row, from_test, to_test, tests, fixed_i, fixed_f, cols_i, cols_f, valid):
    """Do turned tests hold for a row, with the other sides that were fixed?"""
    for test in range(from_test, to_test):
        check = tests[test, OWN_VALID]
        if check >= 0 and valid[check, row] == 0:
            return False
        if tests[test, IN_FLOATS]:
            order = compare_floats(cols_f[tests[test, OWN], row], fixed_f[test])
        else:
            order = compare_ints(cols_i[tests[test, OWN], row], fixed_i[test])
        if (tests[test, ORDERS] >> (order + 1)) & 1 == 0:
            return False
    return True
