"""Tests of steady labels: those that compare the row, if anything, with rows of other labels.

While a loop takes rows of a steady label, the other side of each test stays, and is read once. The tests are turned, so
that the row's own value stands on the left.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.comparing import orders_of, turned
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
