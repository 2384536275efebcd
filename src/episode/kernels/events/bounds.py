"""Bounds: can a condition on a closure still hold, must it, whatever is chosen of the events that are left?

Of each term (an aggregate over the closure, a value of its first or last event) the least and the greatest value that
it can come to are known: from the events taken, and from sums and extremes of the events that are left, which `prepare`
adds up from the last event to the first, once for each intermediate match. Where adding up may have been rounded there
is some slack, so that no match is lost; where it cannot (small whole numbers, short binary fractions) there is none, so
that a sum that just fails to be great enough is seen to fail.

What follows: a branch of the choices in which a condition cannot hold is cut (`feasible`); where it must hold it is not
tested any more (`decided`: these events are SAFE, after SASE++, section 5.2); events that no choice may have are left
out before (`possible`); and conditions on b[i] are decided for each event once, whatever comes before it (`mark`).
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from episode.kernels import machine
from episode.kernels import opcodes as oc
from episode.kernels.comparing import AT_LEAST, AT_MOST, EQUAL, GREATER, LESS

Tables = namedtuple("Tables", ["compare_from", "compared", "part_from", "part", "factor", "sides", "term"])
"""What is compared. Bound q: comparisons compare_from[q]:compare_from[q + 1], in branches, of which one must hold.
compared int64[:, 3], in columns COMPARE … WHOLE_BRANCH: the comparison; the number of its branch, in which all must
hold; does the branch have no further conditions? Comparison k is one of side 2 k and side 2 k + 1. Side s is the sum of
the parts part_from[s]:part_from[s + 1], each factor times the term with this number, or -1 - p: what program p makes of
single events. sides float64[:, 2], in columns COMPUTED, LIMIT: may it be rounded? and greater numbers may be null. term
int64[:, 6], in columns FUNCTION … AGGREGATE: function (of opcodes, or FIRST, LAST, BEFORE, OWN) of a column of a
closure, with its validity (-1: never null) and lane; which aggregate it is of the automaton's, or ONLY_BEFORE or
WITH_CURRENT where it is one of b[..i-1] or b[..i]."""

Bounds = namedtuple(
    "Bounds",
    [
        "tables", "bound", "need_from", "need", "by_from", "by_variable", "check_from", "check_bound", "check_mask",
        "programs", "nav_from", "nav_ids", "nav_variable",
    ],
)  # fmt: skip
"""bound int64[:, 3], in columns VARIABLE … BACK: the closure; is it about each of its events, but the first so many?
need[need_from[q]:…]: variables of single events without which nothing is demanded by bound q.
by_variable[by_from[v]:…]: the bounds about closure v as a whole. Check c holds if the bounds
check_bound[check_from[c]:…] do; none: it is not known. check_mask[c]: the same for checks of each event, as bits by
number of the bound. programs int64[:, 3]: from, to and result of a program of single events."""

Known = namedtuple("Known", ["fixed", "level", "facts"])
"""Of one intermediate match: fixed float64[:, 2]: what programs give, and whether it is not null. level[t, j], in
columns LOWEST … SOME: of the values from the j-th candidate on: extremes; what the negative and the positive ones add
up to (of COUNT: 0 and how many there are); how many there are. facts float64[:, 3], in columns SLACK … SHORT: what
rounding may change; no value is greater; are sums of its values exact?"""

Levels = namedtuple("Levels", ["known", "rests", "settled", "safe", "doom"])
"""Of one intermediate match: rests[q]: bound q decides nothing. settled[q]: a depth; of choices with another event
after it, bound q holds. By member: safe: the bounds on each event that hold for it, as bits; doom: it is not taken
after so many."""

VARIABLE, EACH, BACK = range(3)
COMPARE, BRANCH, WHOLE_BRANCH = range(3)
COMPUTED, LIMIT = range(2)
FUNCTION, OF, COLUMN, VALID, FLOATING, AGGREGATE = range(6)
VALUE, KNOWN = range(2)
LOWEST, HIGHEST, LEAST, GREATEST, SOME = range(5)
SLACK, SIZE, SHORT = range(3)
ONLY_BEFORE, WITH_CURRENT = 0, 1
FIRST, LAST, BEFORE, OWN = 100, 101, 102, 103
IMPOSSIBLE, OPEN, CERTAIN = 0, 1, 2
NOT_SETTLED = 1 << 40
NO_DOOM = 1 << 30
MOST_MARKS = 60
"""Bounds on each event that there is a bit for."""
WALKING, CONTAINING, PRECEDING = 0, 1, 2
WHOLE = 2.0**53
"""Whole numbers up to here are exact in floating point."""
FRACTION, MOST_FRACTIONS = 1024.0, 2.0**43
"""Fractions of 1 / 1024 whose sums are exact, and up to where."""
RELATIVE = 1e-9
LARGEST = 2.0**62
"""Whole numbers up to here do not overflow."""


@njit(cache=True, nogil=True)
def fix(b, lanes, m, i, low, tops, members, work, known):
    """What the programs make of the single events of intermediate match i; numbers once, for the first one."""
    ri, rf, rn, nav_rows, nav_labels, run_i, run_f, run_n = work
    for p in range(len(b.programs)):
        if i > 0 and b.nav_from[p] == b.nav_from[p + 1] and known.fixed[p, KNOWN]:
            continue
        for j in range(b.nav_from[p], b.nav_from[p + 1]):
            v = b.nav_variable[j]
            nav_rows[b.nav_ids[j]] = members[low[i, v]] if low[i, v] < tops[v] else -1
        machine.run(m.code, b.programs[p, 0], b.programs[p, 1], ri, rf, rn, 1, np.int64(0), lanes.key, lanes.ints,
                    lanes.floats, lanes.valid, m.const_i, m.const_f, nav_rows, nav_labels, run_i, run_f, run_n,
                    machine.NO_NUMBER)  # fmt: skip
        result = b.programs[p, 2]
        known.fixed[p, KNOWN] = rn[result, 0] == 0
        known.fixed[p, VALUE] = rf[result, 0]


@njit(cache=True, nogil=True)
def prepare(b, lanes, i, low, tops, members, levels):
    """The levels of intermediate match i: candidates of variable v are members[low[i, v]:tops[v]]."""
    finite, term, tables, fixed = True, b.tables.term, b.tables, levels.known.fixed
    for t in range(len(term)):
        v = term[t, OF]
        finite &= _sum_up(term, lanes.ints, lanes.floats, lanes.valid, t, low[i, v], tops[v], members,
                          levels.known.level, levels.known.facts)  # fmt: skip
    for q in range(len(b.bound)):
        levels.rests[q], levels.settled[q] = not finite, NOT_SETTLED
        for j in range(b.need_from[q], b.need_from[q + 1]):
            if low[i, b.need[j]] == tops[b.need[j]]:
                levels.rests[q] = 1
        first, stop = tables.compare_from[q], tables.compare_from[q + 1]
        for j in range(tables.part_from[2 * first], tables.part_from[2 * stop]):
            p = -1 - tables.part[j]
            if p >= 0 and fixed[p, KNOWN] and not np.isfinite(fixed[p, VALUE]):
                levels.rests[q] = 1


@njit(cache=True, nogil=True)
def _sum_up(term, whole, real, valid, t, first, stop, members, levels, facts):
    """Sums and extremes of a term's values from each candidate on; False where a value is not finite."""
    function, column, check, floating = term[t, FUNCTION], term[t, COLUMN], term[t, VALID], term[t, FLOATING]
    level = levels[t]
    adds_up = function == oc.SUM or function == oc.AVG or function == oc.AVG_WHOLE
    size = stop - first
    lowest, highest, least, greatest, some = np.inf, -np.inf, 0.0, 0.0, 0.0
    total, exact = 0.0, True
    for j in range(size - 1, -1, -1):
        row = members[first + j]
        if check < 0 or valid[check, row] != 0:
            value = 1.0 if function == oc.COUNT else real[column, row] if floating else float(whole[column, row])
            if floating and not np.isfinite(value):
                return False
            some += 1.0
            total = total + abs(value) if adds_up else max(total, abs(value))
            exact &= not floating or value * FRACTION == np.floor(value * FRACTION)
            lowest, highest = min(lowest, value), max(highest, value)
            least, greatest = least + min(value, 0.0), greatest + max(value, 0.0)
        level[j, LOWEST], level[j, HIGHEST], level[j, LEAST], level[j, GREATEST] = lowest, highest, least, greatest
        level[j, SOME] = some
    level[size, LOWEST], level[size, HIGHEST], level[size, LEAST], level[size, GREATEST] = np.inf, -np.inf, 0.0, 0.0
    level[size, SOME] = 0.0
    facts[t, SHORT] = exact and (function == oc.SUM or not adds_up)
    if adds_up:
        exact &= total < (MOST_FRACTIONS if floating else WHOLE)
    else:
        exact = floating or total < WHOLE
    scale = 10000.0 if function == oc.AVG_WHOLE else 1.0
    facts[t, SLACK] = 0.0 if exact else RELATIVE * total * scale
    facts[t, SIZE] = float(size) if function == oc.COUNT else total * scale
    return True


@njit(cache=True, nogil=True)
def decided(check_from, check_bound, bound, settled, c, last_depth):
    """Is check c known to hold?"""
    known = check_from[c] < check_from[c + 1]
    for at in range(check_from[c], check_from[c + 1]):
        q = check_bound[at]
        known = known and last_depth[bound[q, VARIABLE]] > settled[q]
    return known


@njit(cache=True, nogil=True)
def feasible(tables, by_from, by_variable, rests, settled, known, lanes, v, j, left, more, depth, path, first_depth,
             last_depth, taken, counts, ints, floats, mores):  # fmt: skip
    """Can all bounds about closure v hold with what is taken up to `depth` and some of the j-th candidate on?

    left: how many these are; more: at least one of them is taken. Notes which bounds must hold."""
    for at in range(by_from[v], by_from[v + 1]):
        q = by_variable[at]
        if rests[q] or settled[q] < depth:
            continue
        verdict = _judge(tables, known, lanes, q, WALKING, -1, j, left, more, depth, path, first_depth, last_depth,
                         taken, counts, ints, floats, mores)  # fmt: skip
        if verdict == IMPOSSIBLE:
            return False
        if verdict == CERTAIN and more:
            settled[q] = depth
    return True


@njit(cache=True, nogil=True)
def possible(b, lanes, i, v, low, tops, members, path, first_depth, last_depth, taken, counts, ints, floats, mores,
             levels):  # fmt: skip
    """Leaves candidates of closure v out that no choice may have, whatever else it has; how many are left out."""
    size = kept = tops[v] - low[i, v]
    open_ = False
    for at in range(b.by_from[v], b.by_from[v + 1]):
        q = b.by_variable[at]
        open_ = open_ or (not levels.rests[q] and levels.settled[q] == NOT_SETTLED)
    if open_:
        kept = 0
        for j in range(size):
            row = members[low[i, v] + j]
            fits = True
            for at in range(b.by_from[v], b.by_from[v + 1]):
                q = b.by_variable[at]
                if fits and not levels.rests[q] and levels.settled[q] == NOT_SETTLED:
                    verdict = _judge(b.tables, levels.known, lanes, q, CONTAINING, row, 0, size, True, -1, path,
                                     first_depth, last_depth, taken, counts, ints, floats, mores)  # fmt: skip
                    fits = verdict != IMPOSSIBLE
            if fits:
                members[low[i, v] + kept] = row
                kept += 1
    tops[v] = low[i, v] + kept
    return size - kept


@njit(cache=True, nogil=True)
def mark(b, lanes, i, low, tops, members, path, first_depth, last_depth, taken, counts, ints, floats, mores, levels):
    """Decides bounds on each event of closures, whatever is chosen of the candidates before it."""
    for q in range(len(b.bound)):
        if b.bound[q, EACH]:
            v = b.bound[q, VARIABLE]
            levels.safe[low[i, v] : tops[v]] = 0
            levels.doom[low[i, v] : tops[v]] = NO_DOOM
    for q in range(len(b.bound)):
        if not b.bound[q, EACH] or levels.rests[q]:
            continue
        v, back = b.bound[q, VARIABLE], b.bound[q, BACK]
        bit = np.int64(1) << min(q, MOST_MARKS)
        _begin(b.tables, q, levels.known.level)
        for c in range(low[i, v], tops[v]):
            verdict = _judge(b.tables, levels.known, lanes, q, PRECEDING, members[c], c - low[i, v], back, False, -1,
                             path, first_depth, last_depth, taken, counts, ints, floats, mores)  # fmt: skip
            if verdict == CERTAIN and q < MOST_MARKS:
                levels.safe[c] |= bit
            elif verdict == IMPOSSIBLE:
                levels.doom[c] = min(levels.doom[c], back)
            _go_on(b.tables, lanes, q, members[c], levels.known.level)


@njit(cache=True, nogil=True)
def _judge(tables, known, lanes, q, mode, row, j, left, more, depth, path, first_depth, last_depth, taken, counts, ints,
           floats, mores):  # fmt: skip
    """IMPOSSIBLE: bound q does not hold for any choice; CERTAIN: it holds for all; else OPEN."""
    compared = tables.compared
    found, k, stop = IMPOSSIBLE, tables.compare_from[q], tables.compare_from[q + 1]
    while k < stop:
        branch = compared[k, BRANCH]
        verdict = CERTAIN if compared[k, WHOLE_BRANCH] else OPEN
        while k < stop and compared[k, BRANCH] == branch:
            least = greatest = low = high = 0.0
            sure = there = True
            for side in range(2 * k, 2 * k + 2):
                found_one, never, here, up = _side(tables, known, lanes, side, mode, row, j, left, more, depth, path,
                                                   first_depth, last_depth, taken, counts, ints, floats,
                                                   mores)  # fmt: skip
                there, sure = there and found_one, sure and never
                low, high, least, greatest = least, greatest, here, up
            holds = _compared(compared[k, COMPARE], low, high, least, greatest)
            if not there or holds == IMPOSSIBLE:
                verdict = IMPOSSIBLE
            elif verdict == CERTAIN and (holds == OPEN or not sure):
                verdict = OPEN
            k += 1
        found = max(found, verdict)
    return found


@njit(cache=True, nogil=True, inline="always")
def _compared(compare, low, high, least, greatest):
    """Of a value in low .. high with one in least .. greatest."""
    if compare == LESS:
        return CERTAIN if high < least else OPEN if low < greatest else IMPOSSIBLE
    if compare == AT_MOST:
        return CERTAIN if high <= least else OPEN if low <= greatest else IMPOSSIBLE
    if compare == GREATER:
        return CERTAIN if low > greatest else OPEN if high > least else IMPOSSIBLE
    if compare == AT_LEAST:
        return CERTAIN if low >= greatest else OPEN if high >= least else IMPOSSIBLE
    apart = high < least or greatest < low
    same = low == high and least == greatest and low == least
    if compare == EQUAL:
        return CERTAIN if same else IMPOSSIBLE if apart else OPEN
    return CERTAIN if apart else IMPOSSIBLE if same else OPEN


@njit(cache=True, nogil=True)
def _side(tables, known, lanes, side, mode, row, j, left, more, depth, path, first_depth, last_depth, taken, counts,
          ints, floats, mores):  # fmt: skip
    """(can it be anything but null?, is it never null?, least, greatest) of one side."""
    term, fixed, facts, level = tables.term, known.fixed, known.facts, known.level
    there, sure, least, greatest, size, short = True, True, 0.0, 0.0, 0.0, True
    for at in range(tables.part_from[side], tables.part_from[side + 1]):
        t, factor = tables.part[at], tables.factor[at]
        if t < 0:
            low = high = fixed[-1 - t, VALUE]
            found = never = fixed[-1 - t, KNOWN] != 0
            largest = abs(low)
            slack = RELATIVE * largest if largest >= WHOLE else 0.0
            short = short and low * FRACTION == np.floor(low * FRACTION)
        else:
            slack, largest = facts[t, SLACK], facts[t, SIZE]
            if largest * abs(factor) >= WHOLE and not term[t, FLOATING]:
                slack = max(slack, RELATIVE * largest)
            if mode == WALKING:
                found, never, low, high = _reached(term, level, lanes.ints, lanes.floats, lanes.valid, t, j, left, more,
                                                   depth, path, first_depth, last_depth, taken, counts, ints, floats,
                                                   mores)  # fmt: skip
            elif mode == CONTAINING:
                found, never, low, high = _containing(term, level, lanes.ints, lanes.floats, lanes.valid, t, row, left)
            else:
                found, never, low, high = _preceding(term, level, lanes.ints, lanes.floats, lanes.valid, t, row, j,
                                                     left)  # fmt: skip
            short = short and facts[t, SHORT] != 0
        there, sure = there and found, sure and never
        low, high = (low - slack) * factor, (high + slack) * factor
        least, greatest = least + min(low, high), greatest + max(low, high)
        size += largest * abs(factor)
        short = short and factor == np.floor(factor)
    if tables.sides[side, COMPUTED] and not (short and size < MOST_FRACTIONS):
        least, greatest = least - RELATIVE * size, greatest + RELATIVE * size
    return there, sure and size < min(LARGEST, tables.sides[side, LIMIT]), least, greatest


@njit(cache=True, nogil=True)
def _reached(term, level, whole, real, valid, t, j, left, more, depth, path, first_depth, last_depth, taken, counts,
             ints, floats, mores):  # fmt: skip
    """(can it be anything but null?, is it never null?, least, greatest) of a term, without slack."""
    function, floating = term[t, FUNCTION], term[t, FLOATING]
    lowest, highest, some = level[t, j, LOWEST], level[t, j, HIGHEST], level[t, j, SOME]
    valued = more and some == left  # one more event with a value is taken
    if function >= FIRST:
        v, never = term[t, OF], valued
        if taken[v] > 0 and (function == FIRST or not more):
            row = path[first_depth[v] if function == FIRST else last_depth[v]]
            if function == FIRST:
                lowest, highest, some = np.inf, -np.inf, 0.0
            never, value = _value(term, whole, real, valid, t, row)
            if never:
                lowest, highest, some = min(lowest, value), max(highest, value), 1.0
        return some > 0, never, lowest, highest
    a = term[t, AGGREGATE]
    count = counts[depth, a] if depth >= 0 else 0
    least, greatest = level[t, j, LEAST], level[t, j, GREATEST]
    if function == oc.COUNT:
        return True, True, count + (1.0 if valued else 0.0), count + greatest
    never = count > 0 or valued
    now = 0.0
    if count > 0:
        now = floats[depth, a] if floating else float(ints[depth, a])
        if (function == oc.SUM or function == oc.AVG_WHOLE) and not floating:
            now += mores[depth, a] * 2.0**64
    if function == oc.SUM:
        if some > 0 and (count == 0 or valued):  # at least one value is added
            least = lowest if least == 0.0 else least
            greatest = highest if greatest == 0.0 else greatest
        return count > 0 or some > 0, never, now + least, now + greatest
    scale = 10000.0 if function == oc.AVG_WHOLE else 1.0
    rounding = 1.0 if function == oc.AVG_WHOLE else 0.0
    if count == 0:
        return some > 0, never, lowest * scale - rounding, highest * scale + rounding
    if function == oc.MIN:
        return True, never, min(now, lowest), min(now, highest) if valued else now
    if function == oc.MAX:
        return True, never, max(now, lowest) if valued else now, max(now, highest)
    mean = now / count
    low, high = min(mean, lowest), max(mean, highest)
    if valued and highest < mean:
        high = (now + highest) / (count + 1)
    if valued and lowest > mean:
        low = (now + lowest) / (count + 1)
    return True, never, low * scale - rounding, high * scale + rounding


@njit(cache=True, nogil=True, inline="always")
def _value(term, whole, real, valid, t, row):
    """(is it there?, the value of a term's column at a row)."""
    check = term[t, VALID]
    if check >= 0 and valid[check, row] == 0:
        return False, 0.0
    if term[t, FUNCTION] == oc.COUNT:
        return True, 1.0
    return True, real[term[t, COLUMN], row] if term[t, FLOATING] else float(whole[term[t, COLUMN], row])


@njit(cache=True, nogil=True)
def _containing(term, level, whole, real, valid, t, row, left):
    """As `_reached`, of all choices that have the event `row`, of `left` candidates."""
    function, some = term[t, FUNCTION], level[t, 0, SOME]
    lowest, highest = level[t, 0, LOWEST], level[t, 0, HIGHEST]
    there, value = _value(term, whole, real, valid, t, row)
    if function == oc.COUNT:
        return True, True, value, level[t, 0, GREATEST]
    never = (there and function < FIRST) or some == left
    if function == oc.SUM:
        least, greatest = level[t, 0, LEAST], level[t, 0, GREATEST]
        return some > 0, never, least + max(value, 0.0), greatest + min(value, 0.0)
    if function == oc.MIN and there:
        highest = value
    elif function == oc.MAX and there:
        lowest = value
    elif function == oc.AVG_WHOLE:
        lowest, highest = lowest * 10000.0 - 1.0, highest * 10000.0 + 1.0
    return some > 0, never, lowest, highest


@njit(cache=True, nogil=True)
def _begin(tables, q, level):
    """Nothing precedes the first event: the last level of the terms of bound q is of the events before one."""
    end = level.shape[1] - 1
    for at in range(tables.part_from[2 * tables.compare_from[q]], tables.part_from[2 * tables.compare_from[q + 1]]):
        if tables.part[at] >= 0:
            one = level[tables.part[at], end]
            one[LOWEST], one[HIGHEST], one[LEAST], one[GREATEST], one[SOME] = np.inf, -np.inf, 0.0, 0.0, 0.0


@njit(cache=True, nogil=True)
def _go_on(tables, lanes, q, row, level):
    """The event `row` precedes those that come: see `_begin`."""
    end = level.shape[1] - 1
    first = tables.part_from[2 * tables.compare_from[q]]
    for at in range(first, tables.part_from[2 * tables.compare_from[q + 1]]):
        t = tables.part[at]
        again = False
        for other in range(first, at):
            again = again or tables.part[other] == t
        if t < 0 or again:
            continue
        there, value = _value(tables.term, lanes.ints, lanes.floats, lanes.valid, t, row)
        if there:
            one = level[t, end]
            one[LOWEST], one[HIGHEST] = min(one[LOWEST], value), max(one[HIGHEST], value)
            one[LEAST] += min(value, 0.0)
            one[GREATEST] += max(value, 0.0)
            one[SOME] += 1.0


@njit(cache=True, nogil=True)
def _preceding(term, level, whole, real, valid, t, row, j, back):
    """As `_reached`, where `row` is b[i] and at least `back` events come before it, of the j candidates before it."""
    function, end = term[t, FUNCTION], level.shape[1] - 1
    there, value = _value(term, whole, real, valid, t, row)
    if function == OWN:
        return there, there, value, value
    lowest, highest, some = level[t, end, LOWEST], level[t, end, HIGHEST], level[t, end, SOME]
    least, greatest = level[t, end, LEAST], level[t, end, GREATEST]
    valued = back > 0 and some == j
    if function == BEFORE:
        return some > 0, valued, lowest, highest
    own = term[t, AGGREGATE] == WITH_CURRENT and there
    if function == oc.COUNT:
        return True, True, (1.0 if own else 0.0) + (1.0 if valued else 0.0), (1.0 if own else 0.0) + greatest
    if function == oc.SUM and own:
        return True, True, value + least, value + greatest
    if function == oc.SUM:
        return some > 0, valued, lowest if least == 0.0 else least, highest if greatest == 0.0 else greatest
    if own:
        some, valued = 1.0, True
        lowest, highest = min(value, lowest), max(value, highest)
        if function == oc.MIN:
            highest = value
        elif function == oc.MAX:
            lowest = value
    if function == oc.AVG_WHOLE:
        return some > 0, valued, lowest * 10000.0 - 1.0, highest * 10000.0 + 1.0
    return some > 0, valued, lowest, highest
