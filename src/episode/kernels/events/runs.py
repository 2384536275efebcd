"""The automaton: runs of an event pattern from every start event, under any selection strategy.

Depth first, without recursion. A run is a path of taken events; a transition takes one event of a variable. What must
hold when an event is taken (comparisons, programs of the expression machine, absence of negating events) is listed per
transition, and what must hold at the end per accepting state. The automaton's arrays come in one tuple, `Automaton`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.events.checks import (
    DROPPED,
    NO_ROW,
    NOT_THERE,
    ONCE,
    REFUSED,
    add,
    all_hold,
    compares,
    late_hole,
    negated,
    scratch,
    taller,
    wider,
)
from episode.kernels.events.negated_patterns import forbids, occurs
from episode.kernels.times import NEVER, window_end

ANY, NEXT, CONTIGUOUS = 0, 1, 2
FINE, BUDGET_SPENT, TOO_MANY = 0, 1, 2


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
    counts, ints = np.zeros((deepest, aggregates), np.int64), np.zeros((deepest, aggregates), np.int64)
    floats, mores = np.zeros((deepest, aggregates), np.float64), np.zeros((deepest, aggregates), np.float64)
    last_depth, taken = np.full(m.variables, -1, np.int64), np.zeros(m.variables, np.int64)
    work = scratch(m)
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
                steps, before = 0, matches
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
                        path, trans, state = wider(path), wider(trans), wider(state)
                        earlier, cursor_row = wider(earlier), wider(cursor_row)
                        cursor_option, took = wider(cursor_option), wider(took)
                        counts, ints = taller(counts), taller(ints)
                        floats, mores = taller(floats), taller(mores)
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
                            add(m, lanes, a, row, counts, ints, floats, mores, depth)
                    fits = end[row] <= newest
                    for i in range(take_from[pushed], take_from[pushed + 1]):
                        if not fits:
                            break
                        c = take_check[i]
                        if check_test[c] >= 0 and check_kind[c] == ONCE and check_variable[c] < 0:
                            fits = compares(tests, navs, lane_ints, lane_floats, lane_valid, check_test[c], depth, row,
                                            path, earlier, last_depth, taken)  # fmt: skip
                        else:
                            fits = all_hold(m, lanes, i, i + 1, take_check, depth, path, trans, earlier, last_depth,
                                             taken, counts, ints, floats, mores, work)  # fmt: skip
                    if fits and depth > 0:
                        for i in range(cross_from[pushed], cross_from[pushed + 1]):
                            n = m.cross_negation[i]
                            if n < 0 or not fits:
                                continue
                            low, high, first_row = end[path[depth - 1]] + 1, start[row] - 1, path[depth - 1] + 1
                            if m.negation_root[n] < 0:
                                fits = not negated(m, lanes, n, low, high, first_row, row, bits, start, end, depth,
                                                   path, earlier, last_depth, taken, counts, ints, floats, mores,
                                                   work)  # fmt: skip
                            else:
                                found, tried = occurs(m, lanes, n, low, high, first_row, row, bits, start, end, depth,
                                                      path, trans, earlier, last_depth, taken, counts, ints, floats,
                                                      mores, work, budget)  # fmt: skip
                                fits = not found
                                steps += tried
                        if steps > budget:
                            return BUDGET_SPENT, origin, offsets[:1], out_rows[:0], out_variables[:0]
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
                    ends = end[row]
                    complete = end_from[s] == end_from[s + 1] or all_hold(
                        m, lanes, end_from[s], end_from[s + 1], m.end_check, depth, path, trans, earlier,
                        last_depth, taken, counts, ints, floats, mores, work,
                    )  # fmt: skip
                    refused, dropped = False, False
                    for i in range(late_from[s], late_from[s + 1]):
                        if not complete or refused:
                            break
                        n = m.late_negation[i]
                        place, low, high, first_row, stop_row = late_hole(
                            m, n, from_[g], stop, newest, window, start, end, depth, path, trans
                        )
                        if place == NOT_THERE:
                            continue
                        found, tried = forbids(
                            m, lanes, n, low, high, first_row, stop_row, bits, start, end, depth, path, trans, earlier,
                            last_depth, taken, counts, ints, floats, mores, work, budget,
                        )  # fmt: skip
                        steps += tried
                        if steps > budget:
                            return BUDGET_SPENT, origin, offsets[:1], out_rows[:0], out_variables[:0]
                        if found:
                            refused |= place == REFUSED
                            dropped |= place == DROPPED
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
                            out_rows, out_variables = wider(out_rows), wider(out_variables)
                        if matches + 2 > len(offsets):
                            offsets = wider(offsets)
                        for d in range(depth + 1):
                            out_rows[size + d] = path[d]
                            out_variables[size + d] = variable[trans[d]]
                        offsets[matches + 1] = size + depth + 1
                        if m.repeats and _is_there(offsets, out_rows, out_variables, before, matches):
                            continue
                        matches += 1
                        if offsets[matches] > limit:
                            return TOO_MANY, origin, offsets[:1], out_rows[:0], out_variables[:0]
                if depth >= 0:
                    last_depth[:] = -1
                    taken[:] = 0
    return FINE, NO_ROW, offsets[: matches + 1], out_rows[: offsets[matches]], out_variables[: offsets[matches]]


@njit(cache=True, nogil=True)
def _is_there(offsets, rows, variables, first, last):
    """Is match `last` one of first .. last - 1 as well?"""
    at, size = offsets[last], offsets[last + 1] - offsets[last]
    for m in range(first, last):
        if offsets[m + 1] - offsets[m] == size:
            same = True
            for i in range(size):
                if rows[offsets[m] + i] != rows[at + i] or variables[offsets[m] + i] != variables[at + i]:
                    same = False
                    break
            if same:
                return True
    return False
