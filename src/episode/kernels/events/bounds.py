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
        "function", "variable", "column", "valid", "floating", "aggregate", "factor",
        "program_from", "program_to", "program_result", "nav_from", "nav_ids", "nav_variable",
    ],
)  # fmt: skip
"""Comparison k: compare[k] of left[k] and right[k], each the number of a term, or -1 - p: what program p makes of
single events. need[need_from[k]:…]: variables of single events without which nothing is demanded.
by_variable[by_from[v]:…]: the comparisons about closure v.
Term t: function (of opcodes, or FIRST, LAST) of a column of a variable, with its validity (-1: never null) and lane;
aggregate: which one it is of the automaton's, -1 for FIRST and LAST; factor: what it is multiplied with."""

Levels = namedtuple("Levels", ["fixed", "known", "least", "greatest", "lowest", "highest", "some", "slack", "rests"])
"""Of one intermediate match: fixed[p], known[p]: what programs give, and whether it is not null. lowest, highest[t, j]:
extremes of the events from the j-th on; least, greatest: for sums, what the negative and the positive values add up
to, else the same; some: how many have a value. slack[t]: what rounding may change. rests[k]: comparison k decides
nothing."""

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
    lowest, highest = levels.lowest[t], levels.highest[t]
    valid, whole, real = lanes.valid, lanes.ints, lanes.floats  # out of the tuple, where taking one counts references
    adds = function == oc.SUM or function == oc.COUNT
    adds_up = function == oc.SUM or function == oc.AVG or function == oc.AVG_WHOLE
    size = stop - first
    least[size], greatest[size], some[size] = (0.0, 0.0, 0) if adds else (np.inf, -np.inf, 0)
    lowest[size], highest[size] = np.inf, -np.inf
    total, exact = 0.0, True
    for j in range(size - 1, -1, -1):
        row = members[first + j]
        least[j], greatest[j], some[j] = least[j + 1], greatest[j + 1], some[j + 1]
        lowest[j], highest[j] = lowest[j + 1], highest[j + 1]
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
        lowest[j], highest[j] = min(lowest[j], value), max(highest[j], value)
        if not adds:
            least[j], greatest[j] = lowest[j], highest[j]
        elif value < 0:
            least[j] += value
        else:
            greatest[j] += value
    if adds_up:
        exact &= total * b.factor[t] < (MOST_FRACTIONS if floating else WHOLE)
    else:
        exact = floating or total * b.factor[t] < WHOLE
    levels.slack[t] = 0.0 if exact else RELATIVE * total * (10000.0 if function == oc.AVG_WHOLE else 1.0)
    return True


@njit(cache=True, nogil=True)
def feasible(
    b, lanes, v, j, left, more, depth, path, first_depth, last_depth, taken, counts, ints, floats, mores, levels
):
    """Can all comparisons about closure v hold with what is taken up to `depth` and some of the j-th candidate on?

    left: how many these are; more: at least one of them is taken."""
    for at in range(b.by_from[v], b.by_from[v + 1]):
        k = b.by_variable[at]
        if levels.rests[k]:
            continue
        possible, low, high = _range(b, lanes, b.left[k], j, left, more, depth, path, first_depth, last_depth, taken,
                                     counts, ints, floats, mores, levels)  # fmt: skip
        if not possible:
            return False
        possible, least, greatest = _range(b, lanes, b.right[k], j, left, more, depth, path, first_depth, last_depth,
                                           taken, counts, ints, floats, mores, levels)  # fmt: skip
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
def _range(b, lanes, side, j, left, more, depth, path, first_depth, last_depth, taken, counts, ints, floats, mores,
           levels):  # fmt: skip
    """(can it be anything but null?, least, greatest) of one side."""
    if side < 0:
        value = levels.fixed[-1 - side]
        slack = RELATIVE * abs(value) if abs(value) >= WHOLE else 0.0
        return levels.known[-1 - side] != 0, value - slack, value + slack
    possible, low, high = _reached(b, lanes, side, j, left, more, depth, path, first_depth, last_depth, taken, counts,
                                   ints, floats, mores, levels)  # fmt: skip
    factor, slack = b.factor[side], levels.slack[side]
    return possible, (low - slack) * factor, (high + slack) * factor


@njit(cache=True, nogil=True)
def _reached(b, lanes, t, j, left, more, depth, path, first_depth, last_depth, taken, counts, ints, floats, mores,
             levels):  # fmt: skip
    """(can it be anything but null?, least, greatest) of a term, without slack."""
    v, function = b.variable[t], b.function[t]
    least, greatest, some = levels.least[t, j], levels.greatest[t, j], levels.some[t, j]
    valued = more and some == left  # one more event with a value is taken
    if function >= FIRST:
        if taken[v] > 0 and (function == FIRST or not more):
            row = path[first_depth[v] if function == FIRST else last_depth[v]]
            check = b.valid[t]
            if function == FIRST:
                least, greatest, some = np.inf, -np.inf, 0
            if check < 0 or lanes.valid[check, row] != 0:
                value = lanes.floats[b.column[t], row] if b.floating[t] else float(lanes.ints[b.column[t], row])
                least, greatest, some = min(least, value), max(greatest, value), 1
        return some > 0, least, greatest
    a = b.aggregate[t]
    count = counts[depth, a] if depth >= 0 else 0
    if function == oc.COUNT:
        return True, count + (1.0 if valued else 0.0), count + greatest
    now = 0.0
    if count > 0:
        now = floats[depth, a] if b.floating[t] else float(ints[depth, a])
        if (function == oc.SUM or function == oc.AVG_WHOLE) and not b.floating[t]:
            now += mores[depth, a] * 2.0**64
    if function == oc.SUM:
        if count == 0 or valued:  # at least one value is added
            if some > 0 and least == 0.0:
                least = levels.lowest[t, j]
            if some > 0 and greatest == 0.0:
                greatest = levels.highest[t, j]
        return count > 0 or some > 0, now + least, now + greatest
    scale = 10000.0 if function == oc.AVG_WHOLE else 1.0
    rounding = 1.0 if function == oc.AVG_WHOLE else 0.0
    if count == 0:
        return some > 0, least * scale - rounding, greatest * scale + rounding
    if function == oc.MIN:
        return True, min(now, least), min(now, greatest) if valued else now
    if function == oc.MAX:
        return True, max(now, least) if valued else now, max(now, greatest)
    mean = now / count
    low, high = min(mean, least), max(mean, greatest)
    if valued and greatest < mean:
        high = (now + greatest) / (count + 1)
    if valued and least > mean:
        low = (now + least) / (count + 1)
    return True, low * scale - rounding, high * scale + rounding
