"""The automaton: runs of an event pattern from every start event, under any selection strategy.

Depth first, without recursion. A run is a path of taken events; a transition takes one event of a variable. What must
hold when an event is taken (comparisons, programs of the expression machine, absence of negating events) is listed per
transition, and what must hold at the end per accepting state. The automaton's arrays come in one tuple, `Automaton`.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from episode.kernels import machine
from episode.kernels import opcodes as oc
from episode.kernels.aggregates import finished, finished_words, fold
from episode.kernels.comparing import accepts, compare_floats, compare_ints
from episode.kernels.events.joins import first_at_least
from episode.kernels.times import EVER, NEVER, window_end, window_start

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
        "negation_bit", "negation_from", "negation_check", "negation_place",
        "variables",
    ],
)  # fmt: skip
"""Transitions of state s: from_[s]:from_[s + 1], each takes `variable` and leads to `target`; mask[s]: their variables.
take_check[take_from[t]:…]: checks when t takes an event; cross_negation: negations between it and the event before it.
end_check, late_negation: the same at the end, per state.
A check: kind ONCE (with the taken event as current row) or EACH (once per event of loop_variable); back: nothing is
demanded of the first `back` events of loop_variable; test or program: its number, the other is -1.
cross_negation -1 - n: negation n lies here and is looked at in the end; found nowhere, it lies after all events.
agg_reach: which events an aggregate covers. agg_high: where the high word of its value goes, -1: it has none.
tests int64[:, 8]: comparisons, in columns COMPARE … B_NAV. navs int64[:, 3], in columns NAV_VARIABLE …: an event of a
variable: counted from its first, or back from the current or last.
negation_place: MIDDLE, FIRST or LAST in the pattern; negation_check: checks with the negating event as current row."""

COMPARE, FLOATING, A, A_VALID, A_NAV, B, B_VALID, B_NAV = range(8)
NAV_VARIABLE, NAV_FIRST, NAV_OFFSET = range(3)
ANY, NEXT, CONTIGUOUS = 0, 1, 2
ONCE, EACH = 0, 1
MIDDLE, FIRST, LAST = 0, 1, 2
ALL, BEFORE, CURRENT = 0, 1, 2
FINE, BUDGET_SPENT, TOO_MANY = 0, 1, 2
NO_ROW = -1
LOOKED_AT = -2


@njit(cache=True, nogil=True)
def _add(m, lanes, a, row, counts, ints, floats, mores, depth):
    """Add an event to aggregate a of a depth."""
    function, check, column = m.agg_function[a], m.agg_valid[a], m.agg_column[a]
    if check >= 0 and lanes.valid[check, row] == 0:
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
def _event(navs, nav, at, path, earlier, last_depth, taken):
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
def _compare(tests, navs, ints, floats, valid, test, at, current, path, earlier, last_depth, taken):
    """Does a comparison hold? See `_check`."""
    a = b = current
    if tests[test, A_NAV] >= 0:
        a = _event(navs, tests[test, A_NAV], at, path, earlier, last_depth, taken)
    if tests[test, B_NAV] >= 0:
        b = _event(navs, tests[test, B_NAV], at, path, earlier, last_depth, taken)
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
def _check(m, lanes, c, at, current, depth, path, earlier, last_depth, taken, counts, ints, floats, mores, work):
    """Does check c hold with `current` as current row, which is the event at depth `at` of the path (-1: none)?"""
    test = m.test[c]
    if test >= 0:
        return _compare(m.tests, m.navs, lanes.ints, lanes.floats, lanes.valid, test, at, current, path, earlier,
                        last_depth, taken)  # fmt: skip
    ri, rf, rn, nav_rows, nav_labels, run_i, run_f, run_n = work
    p = m.program[c]
    for i in range(m.nav_from[p], m.nav_from[p + 1]):
        nav = m.nav_ids[i]
        nav_rows[nav] = _event(m.navs, nav, at, path, earlier, last_depth, taken)
    for a in range(len(m.agg_function)):
        reach = m.agg_reach[a]
        state = depth if reach == ALL or at < 0 else at if reach == CURRENT else max(0, at - 1)
        run_i[a], run_f[a], run_n[a] = finished(
            m.agg_function[a], m.agg_float[a], counts[state, a], ints[state, a], floats[state, a], mores[state, a]
        )
        if m.agg_high[a] >= 0:
            run_i[a], run_i[m.agg_high[a]] = finished_words(
                m.agg_function[a], counts[state, a], ints[state, a], mores[state, a]
            )
            run_n[a] = run_n[m.agg_high[a]] = counts[state, a] == 0
    machine.run(m.code, m.program_from[p], m.program_to[p], ri, rf, rn, 1, current, lanes.key, lanes.ints, lanes.floats,
                lanes.valid, m.const_i, m.const_f, nav_rows, nav_labels, run_i, run_f, run_n, 0)  # fmt: skip
    result = m.program_result[p]
    return rn[result, 0] == 0 and ri[result, 0] != 0


@njit(cache=True, nogil=True)
def _all_hold(m, lanes, first, stop, checks, depth, path, trans, earlier, last_depth, taken, counts, ints, floats,
              mores, work):  # fmt: skip
    """Do the listed checks hold for the path up to `depth`?"""
    for i in range(first, stop):
        c = checks[i]
        if m.kind[c] == ONCE:
            at = depth
            v = m.loop_variable[c]
            if v >= 0 and taken[v] <= m.back[c]:
                continue
            if not _check(m, lanes, c, at, path[at], depth, path, earlier, last_depth, taken, counts, ints, floats,
                          mores, work):  # fmt: skip
                return False
        else:
            v = m.loop_variable[c]
            at, number = last_depth[v], taken[v]
            while at >= 0 and number > m.back[c]:
                if not _check(m, lanes, c, at, path[at], depth, path, earlier, last_depth, taken, counts, ints, floats,
                              mores, work):  # fmt: skip
                    return False
                at, number = earlier[at], number - 1
    return True


@njit(cache=True, nogil=True)
def _negated(m, lanes, n, low, high, first_row, stop_row, bits, start, end, depth, path, earlier, last_depth, taken,
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
                if not _check(m, lanes, m.negation_check[i], -1, row, depth, path, earlier, last_depth, taken, counts,
                              ints, floats, mores, work):  # fmt: skip
                    passed = False
                    break
            if passed:
                return True
    return False


@njit(cache=True, nogil=True)
def runs(m, lanes, strategy, bits, starts, from_, start, end, window, done, until, waits, budget, limit):
    """All matches of all start events.

    bits uint64[rows]: variables (and negations) that a row qualifies for; starts bool[rows]: may a match start here?
    done int64[groups], until: only matches that are decided later than done and not later than until are kept; a match
    is decided at its end, or, if `waits`, when its window has passed. done NEVER: nothing is out yet.
    Returns (status, row, offsets, rows, variables): the events of each match with their variables, in order.
    """
    # Out of the tuple, where taking an array counts references.
    masks, state_from, variable, target, accepting = m.mask, m.from_, m.variable, m.target, m.accepting
    take_from, take_check, end_from, late_from, cross_from = (
        m.take_from,
        m.take_check,
        m.end_from,
        m.late_from,
        m.cross_from,
    )
    check_test, check_kind, check_variable = m.test, m.kind, m.loop_variable
    tests, navs, lane_ints, lane_floats, lane_valid = m.tests, m.navs, lanes.ints, lanes.floats, lanes.valid
    deepest = 16
    path, trans, state = np.zeros(deepest, np.int64), np.zeros(deepest, np.int64), np.zeros(deepest, np.int64)
    earlier, cursor_row = np.zeros(deepest, np.int64), np.zeros(deepest, np.int64)
    cursor_option, took = np.zeros(deepest, np.int64), np.zeros(deepest, np.int64)
    aggregates = len(m.agg_function)
    values = aggregates + np.count_nonzero(m.agg_high >= 0)
    counts, ints = np.zeros((deepest, aggregates), np.int64), np.zeros((deepest, aggregates), np.int64)
    floats, mores = np.zeros((deepest, aggregates), np.float64), np.zeros((deepest, aggregates), np.float64)
    last_depth, taken = np.full(m.variables, -1, np.int64), np.zeros(m.variables, np.int64)
    registers = max(1, m.registers)
    work = (
        np.zeros((registers, 1), np.int64), np.zeros((registers, 1), np.float64), np.zeros((registers, 1), np.uint8),
        np.full(max(1, len(m.navs)), -1, np.int64), np.full(max(1, len(m.navs)), -1, np.int64),
        np.zeros(values, np.int64), np.zeros(values, np.float64), np.zeros(values, np.uint8),
    )  # fmt: skip
    offsets, out_rows = np.zeros(1024, np.int64), np.zeros(4096, np.int32)
    out_variables = np.zeros(4096, np.int32)
    matches = 0
    for g in range(len(from_) - 1):
        stop = from_[g + 1]
        for origin in range(from_[g], stop):
            if not starts[origin]:
                continue
            for alternative in range(len(m.start_states)):
                root = m.start_states[alternative]
                if not bits[origin] & masks[root]:
                    continue
                steps = 0
                newest = window_end(start[origin], window)
                root_option = state_from[root]
                depth = -1
                while True:
                    # ---- find the next event to take -------------------------------------------------------
                    pushed = -1
                    row = origin
                    if depth < 0:
                        while root_option < state_from[root + 1] and pushed < 0:
                            t = root_option
                            root_option += 1
                            if bits[origin] >> np.uint64(variable[t]) & np.uint64(1):
                                pushed = t
                        if pushed < 0:
                            break
                    else:
                        s = state[depth]
                        row = cursor_row[depth]
                        mask = masks[s]
                        while mask and row < stop:
                            steps += 1
                            if strategy == CONTIGUOUS and row > path[depth] + 1:
                                row = stop
                                break
                            if strategy == NEXT and took[depth] >= 0 and took[depth] < row:
                                row = stop
                                break
                            if end[row] > newest:
                                row = stop
                                break
                            if bits[row] & mask and start[row] > end[path[depth]]:
                                option = state_from[s] + cursor_option[depth]
                                while option < state_from[s + 1]:
                                    if bits[row] >> np.uint64(variable[option]) & np.uint64(1):
                                        pushed = option
                                        break
                                    option += 1
                                if pushed >= 0:
                                    cursor_row[depth] = row
                                    cursor_option[depth] = pushed + 1 - state_from[s]
                                    break
                            row += 1
                            cursor_option[depth] = 0
                        if steps > budget:
                            return BUDGET_SPENT, origin, offsets[:1], out_rows[:0], out_variables[:0]
                        if pushed < 0:
                            v = variable[trans[depth]]
                            last_depth[v] = earlier[depth]
                            taken[v] -= 1
                            depth -= 1
                            continue
                    # ---- take it ---------------------------------------------------------------------------
                    depth += 1
                    if depth == deepest:
                        deepest *= 2
                        path, trans, state = _wider(path), _wider(trans), _wider(state)
                        earlier, cursor_row = _wider(earlier), _wider(cursor_row)
                        cursor_option, took = _wider(cursor_option), _wider(took)
                        counts, ints = _taller(counts), _taller(ints)
                        floats, mores = _taller(floats), _taller(mores)
                    v = variable[pushed]
                    path[depth], trans[depth], state[depth] = row, pushed, target[pushed]
                    earlier[depth] = last_depth[v]
                    last_depth[v] = depth
                    taken[v] += 1
                    cursor_row[depth], cursor_option[depth], took[depth] = row + 1, 0, -1
                    for a in range(aggregates):
                        if depth > 0:
                            counts[depth, a], ints[depth, a] = counts[depth - 1, a], ints[depth - 1, a]
                            floats[depth, a], mores[depth, a] = floats[depth - 1, a], mores[depth - 1, a]
                        else:
                            counts[depth, a], ints[depth, a] = 0, 0
                            floats[depth, a], mores[depth, a] = 0.0, 0.0
                        if m.agg_variable[a] == v:
                            _add(m, lanes, a, row, counts, ints, floats, mores, depth)
                    fits = end[row] <= newest
                    for i in range(take_from[pushed], take_from[pushed + 1]):
                        if not fits:
                            break
                        c = take_check[i]
                        if check_test[c] >= 0 and check_kind[c] == ONCE and check_variable[c] < 0:
                            fits = _compare(tests, navs, lane_ints, lane_floats, lane_valid, check_test[c], depth, row,
                                            path, earlier, last_depth, taken)  # fmt: skip
                        else:
                            fits = _all_hold(m, lanes, i, i + 1, take_check, depth, path, trans, earlier, last_depth,
                                             taken, counts, ints, floats, mores, work)  # fmt: skip
                    if fits and depth > 0:
                        for i in range(cross_from[pushed], cross_from[pushed + 1]):
                            if fits and m.cross_negation[i] >= 0 and _negated(
                                m, lanes, m.cross_negation[i], end[path[depth - 1]] + 1, start[row] - 1,
                                path[depth - 1] + 1, row, bits, start, end, depth, path, earlier, last_depth, taken,
                                counts, ints, floats, mores, work,
                            ):  # fmt: skip
                                fits = False
                    if not fits:
                        last_depth[v] = earlier[depth]
                        taken[v] -= 1
                        depth -= 1
                        continue
                    # ---- is it a match? --------------------------------------------------------------------
                    s = state[depth]
                    if not accepting[s]:
                        if depth > 0:
                            took[depth - 1] = row
                        continue
                    begins, ends = start[origin], end[row]
                    complete = end_from[s] == end_from[s + 1] or _all_hold(
                        m, lanes, end_from[s], end_from[s + 1], m.end_check, depth, path, trans, earlier,
                        last_depth, taken, counts, ints, floats, mores, work,
                    )  # fmt: skip
                    refused, dropped = False, False
                    for i in range(late_from[s], late_from[s + 1]):
                        n = m.late_negation[i]
                        if not complete or refused:
                            break
                        before = 0 if m.negation_place[n] == FIRST else -1
                        if m.negation_place[n] == MIDDLE:
                            for d in range(depth + 1):
                                for j in range(cross_from[trans[d]], cross_from[trans[d] + 1]):
                                    if m.cross_negation[j] == -1 - n:
                                        before = d
                                    elif m.cross_negation[j] == n:
                                        before = LOOKED_AT
                        if before == LOOKED_AT:
                            continue
                        if before > 0:
                            low, high = end[path[before - 1]] + 1, start[path[before]] - 1
                            first_row, stop_row = path[before - 1] + 1, path[before]
                        elif before == 0:
                            if begins == NEVER:
                                continue
                            low, high, stop_row = window_start(ends, window), begins - 1, origin
                            first_row = first_at_least(end, from_[g], origin, low)
                        else:
                            if ends == EVER:
                                continue
                            low, high = ends + 1, newest
                            first_row, stop_row = row + 1, stop
                        if _negated(m, lanes, n, low, high, first_row, stop_row, bits, start, end, depth, path, earlier,
                                    last_depth, taken, counts, ints, floats, mores, work):  # fmt: skip
                            if before >= 0:
                                refused = True
                            else:
                                dropped = True
                    if refused and strategy == NEXT and m.in_last_place[s]:  # a later event may do
                        last_depth[v] = earlier[depth]
                        taken[v] -= 1
                        depth -= 1
                        continue
                    if depth > 0:
                        took[depth - 1] = row
                    if not complete or refused:
                        continue
                    if strategy == NEXT:  # this run has come to its end; those that took the event otherwise go on
                        cursor_row[depth] = stop
                    if dropped:
                        continue
                    decided = newest if waits else ends
                    if (decided > done[g] or done[g] == NEVER) and decided <= until:
                        size = offsets[matches]
                        while size + depth + 1 > len(out_rows):
                            out_rows, out_variables = _wider(out_rows), _wider(out_variables)
                        if matches + 2 > len(offsets):
                            offsets = _wider(offsets)
                        for d in range(depth + 1):
                            out_rows[size + d] = path[d]
                            out_variables[size + d] = variable[trans[d]]
                        matches += 1
                        offsets[matches] = size + depth + 1
                        if offsets[matches] > limit:
                            return TOO_MANY, origin, offsets[:1], out_rows[:0], out_variables[:0]
                if depth >= 0:
                    last_depth[:] = -1
                    taken[:] = 0
    return FINE, NO_ROW, offsets[: matches + 1], out_rows[: offsets[matches]], out_variables[: offsets[matches]]


@njit(cache=True, nogil=True)
def _wider(values):
    out = np.zeros(2 * len(values), values.dtype)
    out[: len(values)] = values
    return out


@njit(cache=True, nogil=True)
def _taller(values):
    out = np.zeros((2 * values.shape[0], values.shape[1]), values.dtype)
    out[: values.shape[0]] = values
    return out
