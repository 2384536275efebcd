"""Result construction: the final matches of intermediate ones, after SASE++ (SIGMOD 2014, section 5.1).

An intermediate match has, for each variable, the rows that a match may take for it, in order: one for a single event,
all candidates for a closure. The transitions of an automaton are followed over these rows alone, depth first, without
recursion. What must hold is tested as soon as it is decided, so that a prefix that fails cuts its whole branch. Where a
condition on a closure can no longer hold, whatever is chosen of what is left (`bounds`), the branch is cut before that;
where it must hold, it is not tested. The walk stands in arrays of its own, `Walk`: when the output is full it stops,
and it goes on from there with the next call.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from episode.kernels.events import bounds
from episode.kernels.events.checks import NOT_THERE, ONCE, add, all_hold, compares, late_negation, negated
from episode.kernels.times import NEVER, window_end

Walk = namedtuple(
    "Walk",
    [
        "at", "path", "place", "trans", "state", "earlier", "option", "cursor",
        "counts", "ints", "floats", "mores", "first_depth", "last_depth", "taken", "tops",
    ],
)  # fmt: skip
"""at: MATCH, ALTERNATIVE, DEPTH (NOT_BEGUN) and STEPS since the last match that was put out. By depth: the row taken,
its place among the members, the transition that took it, the state after it, the depth of the event of its variable
before it, and what has been taken and aggregated. option, cursor, by depth + 1: the transition and the member to be
tried next (-1: the first). tops: by variable, where its candidates end that the rest of the match can follow."""

Candidates = namedtuple("Candidates", ["low", "high", "members", "first", "stop"])
"""Intermediate match i may take the rows members[low[i, v]:high[i, v]] for variable v, and has first[i]:stop[i], the
rows of its partition, around it."""

Places = namedtuple("Places", ["from_", "variable", "needed"])
"""variable[from_[a]:from_[a + 1]]: the variables of alternative a in order; needed: must a match have one of it?"""

Events = namedtuple("Events", ["bits", "start", "end", "lasting"])
"""By row: the variables that it qualifies for, its time; lasting: do events begin before they end?"""

Out = namedtuple("Out", ["offsets", "rows", "variables"])
"""The events of match i: rows[offsets[i]:offsets[i + 1]], with their variables."""

MATCH, ALTERNATIVE, DEPTH, STEPS = range(4)
NOT_BEGUN = -2
FINE, FULL, BUDGET_SPENT = 0, 1, 2


@njit(cache=True, nogil=True)
def subsets(m, lanes, b, levels, walk, work, candidates, places, events, window, budget, out):
    """Final matches of intermediate ones, as far as `out` has room, in at most `budget` steps without a match.

    Returns (status, matches): `out` holds their events, as those of `runs`. FULL: there are more, to be had by calling
    again with the same arrays.
    """
    low, high, members, first, stop = candidates
    place_from, place_variable, place_needed = places
    bits, start, end, lasting = events
    offsets, out_rows, out_variables = out
    state_from, variable, target, accepting = m.from_, m.variable, m.target, m.accepting
    take_from, take_check, end_from, late_from, cross_from = (
        m.take_from,
        m.take_check,
        m.end_from,
        m.late_from,
        m.cross_from,
    )
    check_test, check_kind, check_variable = m.test, m.kind, m.loop_variable
    at, path, place, trans, state, earlier = walk.at, walk.path, walk.place, walk.trans, walk.state, walk.earlier
    option, cursor, counts, ints, floats, mores = (
        walk.option,
        walk.cursor,
        walk.counts,
        walk.ints,
        walk.floats,
        walk.mores,
    )
    first_depth, last_depth, taken, tops = walk.first_depth, walk.last_depth, walk.taken, walk.tops
    aggregates, agg_variable, by_from = len(m.agg_function), m.agg_variable, b.by_from
    bounded, marked = len(b.bound) > 0, len(levels.safe) > 0
    safe, doom, masks, rests, settled = levels.safe, levels.doom, b.check_mask, levels.rests, levels.settled
    by_variable, bound, check_from, check_bound = b.by_variable, b.bound, b.check_from, b.check_bound
    matches = 0
    offsets[0] = 0
    while at[MATCH] < len(low):
        i = at[MATCH]
        root = m.start_states[at[ALTERNATIVE]]
        depth = at[DEPTH]
        steps = at[STEPS]
        if depth == NOT_BEGUN:
            steps = 0
            a = at[ALTERNATIVE]
            fits = _trim(i, low, high, members, place_from[a], place_from[a + 1], place_variable, place_needed, start,
                         end, lasting, tops)  # fmt: skip
            if fits and bounded:
                fits = _begin(b, lanes, m, i, low, tops, members, place_from[a], place_from[a + 1], place_variable,
                              place_needed, work, path, first_depth, last_depth, taken, counts, ints, floats, mores,
                              levels)  # fmt: skip
            if fits:
                depth = -1
                option[0], cursor[0] = state_from[root], -1
        while depth != NOT_BEGUN:
            if matches + 2 > len(offsets) or offsets[matches] + depth + 2 > len(out_rows):
                at[DEPTH], at[STEPS] = depth, steps
                return FULL, matches
            # ---- find the next event to take ---------------------------------------------------------------
            s = root if depth < 0 else state[depth]
            before = NEVER if depth < 0 else end[path[depth]]
            pushed, row, c = -1, -1, cursor[depth + 1]
            o = option[depth + 1]
            while o < state_from[s + 1]:
                v = variable[o]
                if c < 0:
                    for q in by_variable[by_from[v] : by_from[v + 1]]:
                        if settled[q] >= depth:
                            settled[q] = bounds.NOT_SETTLED
                    c = low[i, v]
                    if depth >= 0 and variable[trans[depth]] == v:
                        c = place[depth] + 1
                while c < tops[v]:
                    steps += 1
                    row = members[c]
                    if (depth < 0 or start[row] > before) and not (marked and taken[v] >= doom[c]):
                        break
                    c += 1
                open_ = False
                for q in by_variable[by_from[v] : by_from[v + 1]]:
                    open_ = open_ or (settled[q] >= depth and not rests[q])
                if c < tops[v] and (
                    not open_
                    or bounds.feasible(
                        b.tables, by_from, by_variable, rests, settled, levels.known, lanes, v, c - low[i, v],
                        tops[v] - c, True, depth, path, first_depth, last_depth, taken, counts, ints, floats, mores
                    )
                ):  # fmt: skip
                    pushed = o
                    break
                o += 1
                c = -1
            option[depth + 1], cursor[depth + 1] = o, c + 1
            if steps > budget:
                return BUDGET_SPENT, matches
            if pushed < 0:
                if depth < 0:
                    depth = NOT_BEGUN
                    break
                v = variable[trans[depth]]
                last_depth[v] = earlier[depth]
                taken[v] -= 1
                depth -= 1
                continue
            # ---- take it -----------------------------------------------------------------------------------
            depth += 1
            v = variable[pushed]
            path[depth], place[depth], trans[depth], state[depth] = row, c, pushed, target[pushed]
            earlier[depth] = last_depth[v]
            last_depth[v] = depth
            if taken[v] == 0:
                first_depth[v] = depth
            taken[v] += 1
            option[depth + 1], cursor[depth + 1] = state_from[target[pushed]], -1
            for a in range(aggregates):
                if depth > 0:
                    counts[depth, a], ints[depth, a] = counts[depth - 1, a], ints[depth - 1, a]
                    floats[depth, a], mores[depth, a] = floats[depth - 1, a], mores[depth - 1, a]
                else:
                    counts[depth, a], ints[depth, a] = 0, 0
                    floats[depth, a], mores[depth, a] = 0.0, 0.0
                if agg_variable[a] == v:
                    add(m, lanes, a, row, counts, ints, floats, mores, depth)
            fits = True
            for k in range(take_from[pushed], take_from[pushed + 1]):
                if not fits:
                    break
                n = take_check[k]
                if bounded and (
                    (masks[n] != 0 and safe[c] & masks[n] == masks[n])
                    or bounds.decided(check_from, check_bound, bound, settled, n, last_depth)
                ):
                    continue
                if check_test[n] >= 0 and check_kind[n] == ONCE and check_variable[n] < 0:
                    fits = compares(m.tests, m.navs, lanes.ints, lanes.floats, lanes.valid, check_test[n], depth, row,
                                    path, earlier, last_depth, taken)  # fmt: skip
                else:
                    fits = all_hold(m, lanes, k, k + 1, take_check, depth, path, trans, earlier, last_depth, taken,
                                    counts, ints, floats, mores, work)  # fmt: skip
            if fits and depth > 0:
                for k in range(cross_from[pushed], cross_from[pushed + 1]):
                    if fits and m.cross_negation[k] >= 0 and negated(
                        m, lanes, m.cross_negation[k], end[path[depth - 1]] + 1, start[row] - 1, path[depth - 1] + 1,
                        row, bits, start, end, depth, path, earlier, last_depth, taken, counts, ints, floats, mores,
                        work,
                    ):  # fmt: skip
                        fits = False
            s = state[depth]
            if fits and accepting[s]:
                complete = True
                for k in range(end_from[s], end_from[s + 1]):
                    n = m.end_check[k]
                    complete = complete and (
                        (bounded and bounds.decided(check_from, check_bound, bound, settled, n, last_depth))
                        or all_hold(m, lanes, k, k + 1, m.end_check, depth, path, trans, earlier, last_depth, taken,
                                    counts, ints, floats, mores, work)
                    )  # fmt: skip
                newest = window_end(start[path[0]], window)
                for k in range(late_from[s], late_from[s + 1]):
                    complete = complete and late_negation(
                        m, lanes, m.late_negation[k], first[i], stop[i], newest, window, bits, start, end, depth, path,
                        trans, earlier, last_depth, taken, counts, ints, floats, mores, work,
                    ) == NOT_THERE  # fmt: skip
                if complete:
                    size = offsets[matches]
                    for d in range(depth + 1):
                        out_rows[size + d] = path[d]
                        out_variables[size + d] = variable[trans[d]]
                    matches += 1
                    offsets[matches] = size + depth + 1
                    steps = 0
            if not fits:
                last_depth[v] = earlier[depth]
                taken[v] -= 1
                depth -= 1
        at[DEPTH] = NOT_BEGUN
        at[ALTERNATIVE] += 1
        if at[ALTERNATIVE] == len(m.start_states):
            at[ALTERNATIVE] = 0
            at[MATCH] += 1
    return FINE, matches


@njit(cache=True, nogil=True)
def _trim(i, low, high, members, first_place, stop_place, place_variable, place_needed, start, end, lasting, tops):
    """Leave candidates of intermediate match i out that nothing can follow. False: an alternative has no match in it.

    An event must end before what comes after it: at the latest before the last one that can be taken there."""
    for v in range(len(tops)):
        tops[v] = high[i, v]
    latest, open_ = np.int64(0), True
    for p in range(stop_place - 1, first_place - 1, -1):
        v = place_variable[p]
        while not open_ and tops[v] > low[i, v] and end[members[tops[v] - 1]] >= latest:
            tops[v] -= 1
        if tops[v] > low[i, v]:
            last = start[members[tops[v] - 1]]
            if lasting:
                for c in range(low[i, v], tops[v]):
                    last = max(last, start[members[c]])
            latest = last if open_ or place_needed[p] else max(latest, last)
            open_ = False
        elif place_needed[p]:
            return False
    return True


@njit(cache=True, nogil=True)
def _begin(b, lanes, m, i, low, tops, members, first_place, stop_place, place_variable, place_needed, work, path,
           first_depth, last_depth, taken, counts, ints, floats, mores, levels):  # fmt: skip
    """What bounds know of intermediate match i. False: an alternative has no match in it."""
    bounds.fix(b, lanes, m, i, low, tops, members, work, levels.known)
    for again in range(2):
        bounds.prepare(b, lanes, i, low, tops, members, levels)
        for p in range(first_place, stop_place):
            v = place_variable[p]
            if not bounds.feasible(
                b.tables, b.by_from, b.by_variable, levels.rests, levels.settled, levels.known, lanes, v, 0,
                tops[v] - low[i, v], place_needed[p], -1, path, first_depth, last_depth, taken, counts, ints, floats,
                mores,
            ):  # fmt: skip
                return False
        left_out = 0
        for p in range(first_place, stop_place):
            v = place_variable[p]
            if again == 0 and b.by_from[v] < b.by_from[v + 1]:
                left_out += bounds.possible(b, lanes, i, v, low, tops, members, path, first_depth, last_depth, taken,
                                            counts, ints, floats, mores, levels)  # fmt: skip
                if place_needed[p] and tops[v] == low[i, v]:
                    return False
        if left_out == 0:
            break
    if len(levels.safe) > 0:
        bounds.mark(b, lanes, i, low, tops, members, path, first_depth, last_depth, taken, counts, ints, floats, mores,
                    levels)  # fmt: skip
    return True
