"""Negations: is there an event, or a match of a negated pattern, where none may be?"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.events.checks import FIRST, LAST, add, all_hold, negated, taller, wider
from episode.kernels.times import EVER, NEVER


@njit(cache=True, nogil=True)
def forbids(m, lanes, n, low, high, first_row, stop_row, bits, start, end, depth, path, trans, earlier, last_depth,
            taken, counts, ints, floats, mores, work, budget):  # fmt: skip
    """Does negation n find what it forbids in low .. high, both included, among rows first_row:stop_row?

    Returns (does it, steps); the steps end soon after the budget.
    """
    if m.negation_root[n] < 0:
        return negated(m, lanes, n, low, high, first_row, stop_row, bits, start, end, depth, path, earlier, last_depth,
                       taken, counts, ints, floats, mores, work), 0  # fmt: skip
    return occurs(m, lanes, n, low, high, first_row, stop_row, bits, start, end, depth, path, trans, earlier,
                  last_depth, taken, counts, ints, floats, mores, work, budget)  # fmt: skip


@njit(cache=True, nogil=True)
def occurs(m, lanes, n, low, high, first_row, stop_row, bits, start, end, base, path, trans, earlier, last_depth, taken,
           counts, ints, floats, mores, work, budget):  # fmt: skip
    """Is there a match of the negated pattern n? See `forbids`.

    Depth first, as `runs` under skip-till-any-match, up to the first match. Its events are taken onto the path of the
    match around it, above the depth `base`, so that conditions find the events of both; in the end they are off again.
    """
    state, cursor_row, cursor_option = (
        np.zeros(len(path), np.int64),
        np.zeros(len(path), np.int64),
        np.zeros(len(path), np.int64),
    )
    state[base] = m.negation_root[n]
    row, option, depth, steps, found = first_row, 0, base, 0, False
    while not found and steps <= budget:
        s = state[depth]
        pushed = -1
        while row < stop_row and end[row] <= high:
            steps += 1
            if bits[row] & m.mask[s] and (start[row] >= low if depth == base else start[row] > end[path[depth]]):
                t = m.from_[s] + option
                while t < m.from_[s + 1] and not bits[row] >> np.uint64(m.variable[t]) & np.uint64(1):
                    t += 1
                if t < m.from_[s + 1] and not _is_of_match(path, base, row):
                    pushed = t
                    break
            row += 1
            option = 0
        if pushed >= 0:
            if depth + 1 == len(path):
                path, trans, earlier = wider(path), wider(trans), wider(earlier)
                state, cursor_row, cursor_option = wider(state), wider(cursor_row), wider(cursor_option)
                counts, ints, floats, mores = taller(counts), taller(ints), taller(floats), taller(mores)
            cursor_row[depth], cursor_option[depth] = row, pushed + 1 - m.from_[s]
            depth += 1
            v = m.variable[pushed]
            path[depth], trans[depth], state[depth] = row, pushed, m.target[pushed]
            earlier[depth] = last_depth[v]
            last_depth[v] = depth
            taken[v] += 1
            for a in range(len(m.agg_function)):
                counts[depth, a], ints[depth, a] = counts[depth - 1, a], ints[depth - 1, a]
                floats[depth, a], mores[depth, a] = floats[depth - 1, a], mores[depth - 1, a]
                if m.agg_variable[a] == v:
                    add(m, lanes, a, row, counts, ints, floats, mores, depth)
            if all_hold(m, lanes, m.take_from[pushed], m.take_from[pushed + 1], m.take_check, depth, path, trans,
                        earlier, last_depth, taken, counts, ints, floats, mores, work):  # fmt: skip
                s = state[depth]
                found = m.accepting[s] and all_hold(
                    m, lanes, m.end_from[s], m.end_from[s + 1], m.end_check, depth, path, trans, earlier, last_depth,
                    taken, counts, ints, floats, mores, work,
                ) and not _lifted(
                    m, lanes, s, low, high, first_row, stop_row, bits, start, end, base, depth, path, trans, earlier,
                    last_depth, taken, counts, ints, floats, mores, work,
                )  # fmt: skip
                row, option = row + 1, 0
                continue
        if depth == base:
            break
        v = m.variable[trans[depth]]
        last_depth[v] = earlier[depth]
        taken[v] -= 1
        depth -= 1
        row, option = cursor_row[depth], cursor_option[depth]
    while depth > base:
        v = m.variable[trans[depth]]
        last_depth[v] = earlier[depth]
        taken[v] -= 1
        depth -= 1
    return found, steps


@njit(cache=True, nogil=True)
def _lifted(m, lanes, s, low, high, first_row, stop_row, bits, start, end, base, depth, path, trans, earlier,
            last_depth, taken, counts, ints, floats, mores, work):  # fmt: skip
    """Does a negation inside the negated pattern find an event, so that its match in state s does not count?

    All of them are looked at here, where all events are known: between events, from `low` or to `high` at the edges.
    """
    for d in range(base + 1, depth + 1):
        after = low if d == base + 1 else end[path[d - 1]] + 1
        for j in range(m.cross_from[trans[d]], m.cross_from[trans[d] + 1]):
            n = m.cross_negation[j]
            n = n if n >= 0 else -1 - n
            if negated(m, lanes, n, after, start[path[d]] - 1, first_row, stop_row, bits, start, end, depth, path,
                       earlier, last_depth, taken, counts, ints, floats, mores, work):  # fmt: skip
                return True
    for j in range(m.late_from[s], m.late_from[s + 1]):
        n = m.late_negation[j]
        first, last = start[path[base + 1]], end[path[depth]]
        if m.negation_place[n] == FIRST and first != NEVER:
            after, before = low, first - 1
        elif m.negation_place[n] == LAST and last != EVER:
            after, before = last + 1, high
        else:
            continue
        if negated(m, lanes, n, after, before, first_row, stop_row, bits, start, end, depth, path, earlier, last_depth,
                   taken, counts, ints, floats, mores, work):  # fmt: skip
            return True
    return False


@njit(cache=True, nogil=True)
def _is_of_match(path, depth, row):
    for d in range(depth + 1):
        if path[d] == row:
            return True
    return False
