"""Bounds: can a comparison over a whole closure still hold, whatever is chosen of the events that are left?

Of each term (an aggregate over the closure, a value of its first or last event) the least and the greatest value that
it can come to are known: from the events taken, and from sums and extremes of the events that are left, which `prepare`
adds up from the last event to the first, once for each intermediate match. Where adding up may have been rounded there
is some slack, so that no match is lost; where it cannot (small whole numbers, short binary fractions) there is none, so
that a sum that just fails to be great enough is seen to fail.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from episode.kernels import machine
from episode.kernels import opcodes as oc
from episode.kernels.comparing import AT_LEAST, AT_MOST, EQUAL, GREATER, LESS

Bounds = namedtuple(
    "Bounds",
    [
        "compare", "left", "right", "need_from", "need", "by_from", "by_variable",
        "function", "variable", "column", "valid", "floating", "aggregate",
        "program_from", "program_to", "program_result", "nav_from", "nav_ids", "nav_variable",
    ],
)  # fmt: skip
"""Comparison k: compare[k] of left[k] and right[k], each the number of a term, or -1 - p: what program p makes of
single events. need[need_from[k]:…]: variables of single events without which nothing is demanded.
by_variable[by_from[v]:…]: the comparisons about closure v.
Term t: function (of opcodes, or FIRST, LAST) of a column of a variable, with its validity (-1: never null) and lane;
aggregate: which one it is of the automaton's, -1 for FIRST and LAST."""

Levels = namedtuple("Levels", ["fixed", "known", "least", "greatest", "some", "slack", "rests"])
"""Of one intermediate match: fixed[p], known[p]: what programs give, and whether it is not null. least, greatest,
some[t, j]: of the events from the j-th on: for sums, what the negative and the positive values add up to, else
extremes; and how many have a value. slack[t]: what rounding may change. rests[k]: comparison k decides nothing."""

FIRST, LAST = 100, 101
WHOLE = 2.0**53
"""Whole numbers up to here are exact in floating point."""
FRACTION, MOST_FRACTIONS = 1024.0, 2.0**43
"""Fractions of 1 / 1024 whose sums are exact, and up to where."""
RELATIVE = 1e-9


@njit(cache=True, nogil=True)
def fix(b, lanes, m, i, low, tops, members, work, levels):
    """What the programs make of the single events of intermediate match i; numbers once, for the first one."""
    ri, rf, rn, nav_rows, nav_labels, run_i, run_f, run_n = work
    for p in range(len(b.program_from)):
        if i > 0 and b.nav_from[p] == b.nav_from[p + 1] and levels.known[p]:
            continue
        for j in range(b.nav_from[p], b.nav_from[p + 1]):
            v = b.nav_variable[j]
            nav_rows[b.nav_ids[j]] = members[low[i, v]] if low[i, v] < tops[v] else -1
        machine.run(m.code, b.program_from[p], b.program_to[p], ri, rf, rn, 1, np.int64(0), lanes.key, lanes.ints,
                    lanes.floats, lanes.valid, m.const_i, m.const_f, nav_rows, nav_labels, run_i, run_f, run_n,
                    machine.NO_NUMBER)  # fmt: skip
        result = b.program_result[p]
        levels.known[p] = rn[result, 0] == 0
        levels.fixed[p] = rf[result, 0]


@njit(cache=True, nogil=True)
def prepare(b, lanes, i, low, tops, members, levels):
    """The levels of intermediate match i: candidates of variable v are members[low[i, v]:tops[v]]."""
    finite = True
    for t in range(len(b.function)):
        finite &= _sum_up(b, lanes, t, low[i, b.variable[t]], tops[b.variable[t]], members, levels)
    for k in range(len(b.compare)):
        levels.rests[k] = not finite
        for j in range(b.need_from[k], b.need_from[k + 1]):
            if low[i, b.need[j]] == tops[b.need[j]]:
                levels.rests[k] = 1
        for side in (b.left[k], b.right[k]):
            if side < 0 and levels.known[-1 - side] and not np.isfinite(levels.fixed[-1 - side]):
                levels.rests[k] = 1


@njit(cache=True, nogil=True)
def _sum_up(b, lanes, t, first, stop, members, levels):
    """Sums or extremes of a term's values from each candidate on; False where a value is not finite."""
    function, column, check, floating = b.function[t], b.column[t], b.valid[t], b.floating[t]
    least, greatest, some = levels.least[t], levels.greatest[t], levels.some[t]
    valid, whole, real = lanes.valid, lanes.ints, lanes.floats  # out of the tuple, where taking one counts references
    adds = function == oc.SUM or function == oc.COUNT
    adds_up = function == oc.SUM or function == oc.AVG or function == oc.AVG_WHOLE
    size = stop - first
    least[size], greatest[size], some[size] = (0.0, 0.0, 0) if adds else (np.inf, -np.inf, 0)
    total, exact = 0.0, True
    for j in range(size - 1, -1, -1):
        row = members[first + j]
        least[j], greatest[j], some[j] = least[j + 1], greatest[j + 1], some[j + 1]
        if check >= 0 and valid[check, row] == 0:
            continue
        some[j] += 1
        if function == oc.COUNT:
            greatest[j] += 1.0
            continue
        value = real[column, row] if floating else float(whole[column, row])
        if floating and not np.isfinite(value):
            return False
        total = total + abs(value) if adds_up else max(total, abs(value))
        exact &= not floating or value * FRACTION == np.floor(value * FRACTION)
        if not adds:
            least[j], greatest[j] = min(least[j], value), max(greatest[j], value)
        elif value < 0:
            least[j] += value
        else:
            greatest[j] += value
    if adds_up:
        exact &= total < (MOST_FRACTIONS if floating else WHOLE)
    else:
        exact = floating or total < WHOLE
    levels.slack[t] = 0.0 if exact else RELATIVE * total
    return True


@njit(cache=True, nogil=True)
def feasible(b, lanes, v, j, depth, path, first_depth, last_depth, taken, counts, ints, floats, mores, levels):
    """Can all comparisons about closure v hold with what is taken up to `depth` and some of the j-th candidate on?"""
    for at in range(b.by_from[v], b.by_from[v + 1]):
        k = b.by_variable[at]
        if levels.rests[k]:
            continue
        possible, low, high = _range(b, lanes, b.left[k], j, depth, path, first_depth, last_depth, taken, counts, ints,
                                     floats, mores, levels)  # fmt: skip
        if not possible:
            return False
        possible, least, greatest = _range(b, lanes, b.right[k], j, depth, path, first_depth, last_depth, taken, counts,
                                           ints, floats, mores, levels)  # fmt: skip
        if not possible:
            return False
        compare = b.compare[k]
        if compare == LESS:
            possible = low < greatest
        elif compare == AT_MOST:
            possible = low <= greatest
        elif compare == GREATER:
            possible = high > least
        elif compare == AT_LEAST:
            possible = high >= least
        elif compare == EQUAL:
            possible = low <= greatest and least <= high
        else:
            possible = low != high or least != greatest or low != least
        if not possible:
            return False
    return True


@njit(cache=True, nogil=True)
def _range(b, lanes, side, j, depth, path, first_depth, last_depth, taken, counts, ints, floats, mores, levels):
    """(can it be anything but null?, least, greatest) of one side."""
    if side < 0:
        value = levels.fixed[-1 - side]
        slack = RELATIVE * abs(value) if abs(value) >= WHOLE else 0.0
        return levels.known[-1 - side] != 0, value - slack, value + slack
    t, v, function = side, b.variable[side], b.function[side]
    least, greatest, some = levels.least[t, j], levels.greatest[t, j], levels.some[t, j]
    if function >= FIRST:
        if taken[v] > 0:
            row = path[first_depth[v] if function == FIRST else last_depth[v]]
            check = b.valid[t]
            null = check >= 0 and lanes.valid[check, row] == 0
            if function == FIRST:
                least, greatest, some = np.inf, -np.inf, 0
            if not null:
                value = lanes.floats[b.column[t], row] if b.floating[t] else float(lanes.ints[b.column[t], row])
                least, greatest, some = min(least, value), max(greatest, value), 1
        return some > 0, least - levels.slack[t], greatest + levels.slack[t]
    a = b.aggregate[t]
    count = counts[depth, a] if depth >= 0 else 0
    if function == oc.COUNT:
        return True, float(count), count + greatest
    if count == 0:
        if function == oc.AVG_WHOLE:
            least, greatest = least * 10000.0, greatest * 10000.0
            return some > 0, least - 1.0 - 10000.0 * levels.slack[t], greatest + 1.0 + 10000.0 * levels.slack[t]
        return some > 0, least - levels.slack[t], greatest + levels.slack[t]
    now = floats[depth, a] if b.floating[t] else float(ints[depth, a])
    if function == oc.SUM or function == oc.AVG_WHOLE:
        if not b.floating[t]:
            now += mores[depth, a] * 2.0**64
    slack = levels.slack[t]
    if function == oc.SUM:
        return True, now + least - slack, now + greatest + slack
    if function == oc.MIN:
        return True, min(now, least) - slack, now + slack
    if function == oc.MAX:
        return True, now - slack, max(now, greatest) + slack
    now /= count
    if function == oc.AVG_WHOLE:
        now, least, greatest, slack = now * 10000.0, least * 10000.0, greatest * 10000.0, 10000.0 * slack + 1.0
    return True, min(now, least) - slack, max(now, greatest) + slack
