"""What is tested while events are taken one by one: comparisons, programs, aggregates, negations.

Shared by the kernels that follow the transitions of an automaton: `runs`, over the events of a window, and `subsets`,
over the events of one intermediate match. The automaton's arrays come in one tuple, `Automaton`.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from episode.kernels import machine
from episode.kernels import opcodes as oc
from episode.kernels.aggregates import finished, finished_words, fold, fold_words
from episode.kernels.comparing import accepts, compare_floats, compare_ints
from episode.kernels.events.joins import first_at_least
from episode.kernels.times import EVER, NEVER, window_start

Automaton = namedtuple(
    "Automaton",
    [
        "start_states", "from_", "variable", "target", "mask", "accepting", "in_last_place",
        "take_from", "take_check", "end_from", "end_check",
        "cross_from", "cross_negation", "late_from", "late_negation",
        "kind", "loop_variable", "back", "test", "program",
        "tests", "program_from", "program_to", "program_result", "nav_from", "nav_ids", "navs",
        "code", "registers", "const_i", "const_f",
        "agg_function", "agg_variable", "agg_column", "agg_valid", "agg_float", "agg_reach", "agg_high",
        "negation_bit", "negation_from", "negation_check", "negation_place", "negation_root",
        "variables", "repeats",
    ],
)  # fmt: skip
"""Transitions of state s: from_[s]:from_[s + 1], each takes `variable` and leads to `target`; mask[s]: their variables.
take_check[take_from[t]:…]: checks when t takes an event; cross_negation: negations between it and the event before it.
end_check, late_negation: the same at the end, per state.
A check: kind ONCE (with the taken event as current row) or EACH (once per event of loop_variable); back: nothing is
demanded of the first `back` events of loop_variable; test or program: its number, the other is -1.
cross_negation -1 - n: negation n lies here and is looked at in the end; found nowhere, it lies after all events.
agg_reach: which events an aggregate covers. agg_high: where the high word of its value goes, -1: it has none. Of
values of two words, agg_column is the row of the low words; that of the high ones comes after it.
tests int64[:, 8]: comparisons, in columns COMPARE … B_NAV. navs int64[:, 3], in columns NAV_VARIABLE …: an event of a
variable: counted from its first, or back from the current or last.
negation_place: MIDDLE, FIRST or LAST in the pattern; negation_check: checks with the negating event as current row.
repeats: can runs from one event find the same match several times?
negation_root: -1, or the first state of a negated pattern of several events: see `negated_patterns`."""

COMPARE, FLOATING, A, A_VALID, A_NAV, B, B_VALID, B_NAV = range(8)
NAV_VARIABLE, NAV_FIRST, NAV_OFFSET = range(3)
ONCE, EACH = 0, 1
MIDDLE, FIRST, LAST = 0, 1, 2
ALL, BEFORE, CURRENT = 0, 1, 2
NO_ROW = -1
NO_DEPTH = np.int64(-1)
LOOKED_AT = -2
NOT_THERE, REFUSED, DROPPED = 0, 1, 2
"""Of a negation that is looked at in the end: nothing of it is there; before the last event; after it."""


@njit(cache=True, nogil=True)
def add(m, lanes, a, row, counts, ints, floats, mores, depth):
    """Add an event to aggregate a of a depth."""
    function, check, column = m.agg_function[a], m.agg_valid[a], m.agg_column[a]
    if check >= 0 and lanes.valid[check, row] == 0:
        return
    if oc.SUM_WIDE <= function <= oc.LAST_WIDE:
        counts[depth, a], ints[depth, a], floats[depth, a], mores[depth, a] = fold_words(
            function, counts[depth, a], ints[depth, a], floats[depth, a], mores[depth, a],
            lanes.ints[column, row], lanes.ints[column + 1, row],
        )  # fmt: skip
        return
    whole, real = 0, 0.0
    if m.agg_float[a]:
        real = lanes.floats[column, row]
    elif function != oc.COUNT:
        whole = lanes.ints[column, row]
    counts[depth, a], ints[depth, a], floats[depth, a], mores[depth, a] = fold(
        function, m.agg_float[a], counts[depth, a], ints[depth, a], floats[depth, a], mores[depth, a], whole, real, row
    )


@njit(cache=True, nogil=True)
def event(navs, nav, at, path, earlier, last_depth, taken):
    """The row of a navigation, or NO_ROW. `at` is the depth of the current event, -1 where it is none of the path."""
    v = navs[nav, NAV_VARIABLE]
    if v < 0:
        return path[0]
    offset = navs[nav, NAV_OFFSET]
    depth = last_depth[v]
    if navs[nav, NAV_FIRST]:
        if offset >= taken[v]:
            return NO_ROW
        for _ in range(taken[v] - 1 - offset):
            depth = earlier[depth]
        return path[depth]
    if offset > 0:
        depth = at
        for _ in range(offset):
            if depth < 0:
                return NO_ROW
            depth = earlier[depth]
    return path[depth] if depth >= 0 else NO_ROW


@njit(cache=True, nogil=True)
def compares(tests, navs, ints, floats, valid, test, at, current, path, earlier, last_depth, taken):
    """Does a comparison hold? See `check`."""
    a = b = current
    if tests[test, A_NAV] >= 0:
        a = event(navs, tests[test, A_NAV], at, path, earlier, last_depth, taken)
    if tests[test, B_NAV] >= 0:
        b = event(navs, tests[test, B_NAV], at, path, earlier, last_depth, taken)
    if a < 0 or b < 0:
        return False
    if tests[test, A_VALID] >= 0 and valid[tests[test, A_VALID], a] == 0:
        return False
    if tests[test, B_VALID] >= 0 and valid[tests[test, B_VALID], b] == 0:
        return False
    if tests[test, FLOATING]:
        order = compare_floats(floats[tests[test, A], a], floats[tests[test, B], b])
    else:
        order = compare_ints(ints[tests[test, A], a], ints[tests[test, B], b])
    return accepts(tests[test, COMPARE], order)


@njit(cache=True, nogil=True)
def check(m, lanes, c, at, current, depth, path, earlier, last_depth, taken, counts, ints, floats, mores, work):
    """Does check c hold with `current` as current row, which is the event at depth `at` of the path (-1: none)?"""
    test = m.test[c]
    if test >= 0:
        return compares(m.tests, m.navs, lanes.ints, lanes.floats, lanes.valid, test, at, current, path, earlier,
                        last_depth, taken)  # fmt: skip
    ri, rf, rn, nav_rows, nav_labels, run_i, run_f, run_n = work
    p = m.program[c]
    for i in range(m.nav_from[p], m.nav_from[p + 1]):
        nav = m.nav_ids[i]
        nav_rows[nav] = event(m.navs, nav, at, path, earlier, last_depth, taken)
    for a in range(len(m.agg_function)):
        reach = m.agg_reach[a]
        state = depth if reach == ALL or at < 0 else at if reach == CURRENT else max(0, at - 1)
        run_i[a], run_f[a], run_n[a] = finished(
            m.agg_function[a], m.agg_float[a], counts[state, a], ints[state, a], floats[state, a], mores[state, a]
        )
        if m.agg_high[a] >= 0:
            run_i[a], run_i[m.agg_high[a]], run_n[a] = finished_words(
                m.agg_function[a], counts[state, a], ints[state, a], floats[state, a], mores[state, a]
            )
            run_n[m.agg_high[a]] = run_n[a]
    machine.run(m.code, m.program_from[p], m.program_to[p], ri, rf, rn, 1, current, lanes.key, lanes.ints, lanes.floats,
                lanes.valid, m.const_i, m.const_f, nav_rows, nav_labels, run_i, run_f, run_n,
                machine.NO_NUMBER)  # fmt: skip
    result = m.program_result[p]
    return rn[result, 0] == 0 and ri[result, 0] != 0


@njit(cache=True, nogil=True)
def all_hold(m, lanes, first, stop, checks, depth, path, trans, earlier, last_depth, taken, counts, ints, floats,
              mores, work):  # fmt: skip
    """Do the listed checks hold for the path up to `depth`?"""
    for i in range(first, stop):
        c = checks[i]
        if m.kind[c] == ONCE:
            at = depth
            v = m.loop_variable[c]
            if v >= 0 and taken[v] <= m.back[c]:
                continue
            if not check(m, lanes, c, at, path[at], depth, path, earlier, last_depth, taken, counts, ints, floats,
                          mores, work):  # fmt: skip
                return False
        else:
            v = m.loop_variable[c]
            at, number = last_depth[v], taken[v]
            while at >= 0 and number > m.back[c]:
                if not check(m, lanes, c, at, path[at], depth, path, earlier, last_depth, taken, counts, ints, floats,
                              mores, work):  # fmt: skip
                    return False
                at, number = earlier[at], number - 1
    return True


@njit(cache=True, nogil=True)
def negated(m, lanes, n, low, high, first_row, stop_row, bits, start, end, depth, path, earlier, last_depth, taken,
             counts, ints, floats, mores, work):  # fmt: skip
    """Is there an event of negation n in low .. high, both included? (Not one of the path's own.)"""
    mask = np.uint64(1) << np.uint64(m.negation_bit[n])
    for row in range(first_row, stop_row):
        if end[row] > high:
            break
        if bits[row] & mask and start[row] >= low:
            own = False
            for d in range(depth + 1):
                if path[d] == row:
                    own = True
            if own:
                continue
            passed = True
            for i in range(m.negation_from[n], m.negation_from[n + 1]):
                if not check(m, lanes, m.negation_check[i], NO_DEPTH, row, depth, path, earlier, last_depth, taken,
                             counts, ints, floats, mores, work):  # fmt: skip
                    passed = False
                    break
            if passed:
                return True
    return False


@njit(cache=True, nogil=True)
def late_hole(m, n, first, stop, newest, window, start, end, depth, path, trans):
    """Where negation n lies, which is looked at in the end: (NOT_THERE, REFUSED or DROPPED, low, high, rows from, to).

    first:stop are the rows of the partition; newest: the end of the window that begins with the match. low .. high,
    both included, must be free of it."""
    begins, ends = start[path[0]], end[path[depth]]
    before = 0 if m.negation_place[n] == FIRST else -1
    if m.negation_place[n] == MIDDLE:
        for d in range(depth + 1):
            for j in range(m.cross_from[trans[d]], m.cross_from[trans[d] + 1]):
                if m.cross_negation[j] == -1 - n:
                    before = d
                elif m.cross_negation[j] == n:
                    before = LOOKED_AT
    if before > 0:
        high = start[path[before]] - 1
        return REFUSED, end[path[before - 1]] + 1, high, path[before - 1] + 1, path[before]
    if before == 0 and begins != NEVER:
        low = window_start(ends, window)
        return REFUSED, low, begins - 1, first_at_least(end, first, path[0], low), path[0]
    if before == -1 and ends != EVER:
        return DROPPED, ends + 1, newest, path[depth] + 1, stop
    return NOT_THERE, 0, 0, 0, 0


@njit(cache=True, nogil=True)
def late_negation(m, lanes, n, first, stop, newest, window, bits, start, end, depth, path, trans, earlier, last_depth,
                  taken, counts, ints, floats, mores, work):  # fmt: skip
    """Is there an event of negation n, which is looked at in the end: NOT_THERE, REFUSED or DROPPED."""
    place, low, high, first_row, stop_row = late_hole(
        m, n, first, stop, newest, window, start, end, depth, path, trans
    )  # fmt: skip
    if place != NOT_THERE and negated(m, lanes, n, low, high, first_row, stop_row, bits, start, end, depth, path,
                                      earlier, last_depth, taken, counts, ints, floats, mores, work):  # fmt: skip
        return place
    return NOT_THERE


@njit(cache=True, nogil=True)
def scratch(m):
    """Registers of the machine, rows of navigations, values of aggregates."""
    values = len(m.agg_function) + np.count_nonzero(m.agg_high >= 0)
    registers = max(1, m.registers)
    return (
        np.zeros((registers, 1), np.int64), np.zeros((registers, 1), np.float64), np.zeros((registers, 1), np.uint8),
        np.full(max(1, len(m.navs)), -1, np.int64), np.full(max(1, len(m.navs)), -1, np.int64),
        np.zeros(values, np.int64), np.zeros(values, np.float64), np.zeros(values, np.uint8),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def wider(values):
    """The array with room for twice as many values."""
    out = np.zeros(2 * len(values), values.dtype)
    out[: len(values)] = values
    return out


@njit(cache=True, nogil=True)
def taller(values):
    """The array with room for twice as many rows."""
    out = np.zeros((2 * values.shape[0], values.shape[1]), values.dtype)
    out[: values.shape[0]] = values
    return out
