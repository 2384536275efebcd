"""The automaton over imprecise time: every match with a confidence, depth first from every event that may be its first.

As in `runs`, a path of taken events is extended by a transition at a time, and what must hold when an event is taken is
tested then. What differs: any event whose interval allows it may come next, be its row earlier or later; each depth
keeps the frontier of `confidence`, so that an event costs its own points and not those before it; and a path whose
confidence is below the threshold is given up, as that of no longer one is higher (SASE++, section 5.3).

Events of a closure that is a set are taken in the order of (lo, hi, arrival), every choice of them once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.events.checks import add, all_hold, scratch
from episode.kernels.events.confidence import following, in_window, last_of_set, outlasting, points
from episode.kernels.times import EVER, NEVER, window_end, window_start

FINE, BUDGET_SPENT, MORE = 0, 1, 2
TOLERANCE = 1e-12
"""A confidence counts as reaching the threshold if it is below it by no more than this."""

(STATE, AT, NEXT_AT, NEXT_OPTION, BEGIN, END, BASE, BASE_END, SET, FIRST_LO, FIRST_HI, LAST_LO, LAST_HI, IN_FIRST,
 SET_LO, POINTS) = range(16)  # fmt: skip
"""What is known at a depth: the state; the place of its event in the order, and the next place and option to look at;
where its frontier stands, and in a set the one before the set; the depth of the set's first event (-1: none); of the
first block, the earliest lo and hi; of all events, the latest lo and hi; whether it is of the first block; of the set,
the latest lo; and the points of all events so far."""
DEPTHS = 16


@njit(cache=True, nogil=True)
def _first_after(lo, order, first, stop, time):
    """The first place of an event that begins later than `time`."""
    while first < stop:
        middle = (first + stop) // 2
        if lo[order[middle]] > time:
            stop = middle
        else:
            first = middle + 1
    return first


@njit(cache=True, nogil=True)
def _next_places(masks, bits, order, low, stop):
    """int64[states, places]: from each place on, the next one of an event that a state can take."""
    ahead = np.empty((len(masks), stop - low + 1), np.int64)
    for state in range(len(masks)):
        ahead[state, stop - low] = stop
        for place in range(stop - 1, low - 1, -1):
            takes = bits[order[place]] & masks[state]
            ahead[state, place - low] = place if takes else ahead[state, place - low + 1]
    return ahead


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


@njit(cache=True, nogil=True)
def _is_taken(path, depth, row):
    for d in range(depth + 1):
        if path[d] == row:
            return True
    return False


@njit(cache=True, nogil=True)
def _windowed(clock, path, s, depth, window, times, mass):
    """The confidence of a path whose window may be too short."""
    set_stop = np.zeros(depth + 2, np.int64)
    for d in range(depth + 1):
        if s[d, SET] >= 0:
            set_stop[s[d, SET]] = d + 1
    at = s[depth, END]
    return in_window(clock, path, set_stop, depth + 1, window, s[depth, LAST_HI], times, mass, at)


@njit(cache=True, nogil=True)
def _place(clock, path, s, depth, row, of_set, continues, times, mass):
    """Note what is known of an event newly at `depth`, and its frontier. of_set: it is of a set, which it continues or
    begins. Returns the probability that all events so far are in order."""
    lo, hi = clock.lo[row], clock.hi[row]
    before = depth - 1
    s[depth, SET] = (s[before, SET] if continues else depth) if of_set else -1
    s[depth, SET_LO] = max(lo, s[before, SET_LO]) if continues else lo
    if depth == 0:
        s[depth, FIRST_LO], s[depth, FIRST_HI], s[depth, LAST_LO], s[depth, LAST_HI] = lo, hi, lo, hi
        s[depth, IN_FIRST] = of_set
        begin, end, at = 0, 1, 1
    else:
        s[depth, IN_FIRST] = continues and s[before, IN_FIRST]
        s[depth, FIRST_LO], s[depth, FIRST_HI] = s[before, FIRST_LO], s[before, FIRST_HI]
        if s[depth, IN_FIRST]:
            s[depth, FIRST_LO], s[depth, FIRST_HI] = min(lo, s[before, FIRST_LO]), min(hi, s[before, FIRST_HI])
        s[depth, LAST_LO], s[depth, LAST_HI] = max(lo, s[before, LAST_LO]), max(hi, s[before, LAST_HI])
        begin, end = s[before, BEGIN], s[before, END]
        at = end
    closes = depth > 0 and not continues and s[before, SET] >= 0
    if continues:
        s[depth, BASE], s[depth, BASE_END] = s[before, BASE], s[before, BASE_END]
        finish = outlasting(clock, row, times, mass, begin, end, at)
    elif of_set:
        if closes:
            begin, at = at, last_of_set(clock, path, s[before, SET], depth, False, times, mass, s[before, BASE],
                                        s[before, BASE_END], at)  # fmt: skip
            end = at
        s[depth, BASE], s[depth, BASE_END] = begin, end
        finish = outlasting(clock, row, times, mass, begin, end, at)
    elif closes:
        finish = following(clock, path, s[before, SET], depth, row, EVER, False, times, mass, s[before, BASE],
                           s[before, BASE_END], begin, at)  # fmt: skip
    else:
        finish = following(clock, path, depth, depth, row, EVER, False, times, mass, begin, end, begin, at)
    s[depth, BEGIN], s[depth, END] = at, finish
    total = 0.0
    for i in range(at, finish):
        total += mass[i]
    return total


@njit(cache=True, nogil=True)
def _earliest(s, depth, times, mass):
    """The time that the next block must be able to come after."""
    if s[depth, SET] < 0:
        return times[s[depth, BEGIN]]
    return max(_earliest_member(s, depth, times, mass), s[depth, SET_LO])


@njit(cache=True, nogil=True)
def _earliest_member(s, depth, times, mass):
    """The time that a further event of the set must be able to come after."""
    for i in range(s[depth, BEGIN], s[depth, END]):
        if mass[i] > 0.0:
            return times[i]
    return EVER


@njit(cache=True, nogil=True)
def matches(m, lanes, sets, clock, bits, order, from_, window, done, until, threshold, budget, limit, resume):
    """Matches of all start events, `limit` events of them or a little more at a time.

    sets bool[variables]: closures that are sets. order int64: rows that qualify for something, each partition's
    (from_) by (lo, hi, arrival). done int64[groups], until: a match is decided at its latest hi. resume int64[:, 4]:
    empty, or what was returned with MORE: (group, place of the start, alternative, option), steps, then of each depth
    (place, transition, next place, next option).
    Returns (status, row, offsets, rows, variables, confidence, resume).
    """
    masks, state_from, variable, target, accepting = m.mask, m.from_, m.variable, m.target, m.accepting
    take_from, take_check, end_from = m.take_from, m.take_check, m.end_from
    lo, hi = clock.lo, clock.hi
    room = DEPTHS
    s = np.zeros((room, 16), np.int64)
    path, trans, earlier = np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int64)
    times, mass = np.zeros(256, np.int64), np.zeros(256, np.float64)
    times[0], mass[0] = NEVER, 1.0
    aggregates = len(m.agg_function)
    counts, ints = np.zeros((room, aggregates), np.int64), np.zeros((room, aggregates), np.int64)
    floats, mores = np.zeros((room, aggregates), np.float64), np.zeros((room, aggregates), np.float64)
    last_depth, taken = np.full(m.variables, -1, np.int64), np.zeros(m.variables, np.int64)
    work = scratch(m)
    offsets, out_rows = np.zeros(1024, np.int64), np.zeros(4096, np.int32)
    out_variables, confidences = np.zeros(4096, np.int32), np.zeros(1024, np.float64)
    found = 0
    replay = len(resume)
    first_group = resume[0, 0] if replay else 0
    for g in range(first_group, len(from_) - 1):
        low, stop = from_[g], from_[g + 1]
        widest, new_lo = 0, EVER
        for place in range(low, stop):
            row = order[place]
            widest = max(widest, hi[row] - lo[row])
            if hi[row] > done[g] or done[g] == NEVER:
                new_lo = min(new_lo, lo[row])
        ahead = _next_places(masks, bits, order, low, stop)
        for origin in range(resume[0, 1] if replay else low, stop):
            for alternative in range(resume[0, 2] if replay else 0, len(m.start_states)):
                root = m.start_states[alternative]
                if not bits[order[origin]] & masks[root]:
                    continue
                root_option = resume[0, 3] if replay else state_from[root]
                steps = resume[1, 0] if replay else 0
                depth = -1
                while True:
                    # ---- find the next event to take -------------------------------------------------------
                    pushed, place = -1, origin
                    forced = depth + 3 < replay
                    if forced:
                        place, pushed = resume[depth + 3, 0], resume[depth + 3, 1]
                    elif depth < 0:
                        while root_option < state_from[root + 1] and pushed < 0:
                            t = root_option
                            root_option += 1
                            if bits[order[origin]] >> np.uint64(variable[t]) & np.uint64(1):
                                pushed = t
                        if pushed < 0:
                            break
                    else:
                        state = s[depth, STATE]
                        place = s[depth, NEXT_AT]
                        newest = window_end(s[depth, FIRST_HI], window)
                        in_set = s[depth, SET] >= 0
                        after = _earliest(s, depth, times, mass)
                        after_member = _earliest_member(s, depth, times, mass) if in_set else after
                        while place < stop:
                            if ahead[state, place - low] > place:
                                place = ahead[state, place - low]
                                s[depth, NEXT_OPTION] = state_from[state]
                                continue
                            steps += 1
                            row = order[place]
                            if lo[row] > newest:
                                place = stop
                                break
                            if hi[row] > after_member:
                                option = s[depth, NEXT_OPTION]
                                while option < state_from[state + 1]:
                                    v = variable[option]
                                    if bits[row] >> np.uint64(v) & np.uint64(1):
                                        if in_set and v == variable[trans[depth]]:
                                            fits = place > s[depth, AT]
                                        else:
                                            fits = hi[row] > after
                                        if fits and not _is_taken(path, depth, row):
                                            pushed = option
                                            break
                                    option += 1
                                if pushed >= 0:
                                    s[depth, NEXT_AT], s[depth, NEXT_OPTION] = place, pushed + 1
                                    break
                            place += 1
                            s[depth, NEXT_OPTION] = state_from[state]
                        if steps > budget:
                            return (BUDGET_SPENT, order[origin], offsets[:1], out_rows[:0], out_variables[:0],
                                    confidences[:0], resume[:0])  # fmt: skip
                        if pushed < 0:
                            v = variable[trans[depth]]
                            last_depth[v] = earlier[depth]
                            taken[v] -= 1
                            depth -= 1
                            continue
                    # ---- take it ---------------------------------------------------------------------------
                    row, v = order[place], variable[pushed]
                    continues = depth >= 0 and s[depth, SET] >= 0 and v == variable[trans[depth]]
                    depth += 1
                    if depth == room:
                        room *= 2
                        s, path, trans, earlier = _taller(s), _wider(path), _wider(trans), _wider(earlier)
                        counts, ints, floats, mores = _taller(counts), _taller(ints), _taller(floats), _taller(mores)
                    path[depth], trans[depth], s[depth, STATE], s[depth, AT] = row, pushed, target[pushed], place
                    earlier[depth] = last_depth[v]
                    last_depth[v] = depth
                    taken[v] += 1
                    for a in range(aggregates):
                        if depth > 0:
                            counts[depth, a], ints[depth, a] = counts[depth - 1, a], ints[depth - 1, a]
                            floats[depth, a], mores[depth, a] = floats[depth - 1, a], mores[depth - 1, a]
                        else:
                            counts[depth, a], ints[depth, a] = 0, 0
                            floats[depth, a], mores[depth, a] = 0.0, 0.0
                        if m.agg_variable[a] == v:
                            add(m, lanes, a, row, counts, ints, floats, mores, depth)
                    confidence = 0.0
                    if hi[row] <= until and (
                        forced
                        or all_hold(m, lanes, take_from[pushed], take_from[pushed + 1], take_check, depth, path, trans,
                                     earlier, last_depth, taken, counts, ints, floats, mores, work)
                    ):  # fmt: skip
                        own = points(clock, row)
                        s[depth, POINTS] = own + (s[depth - 1, POINTS] if depth > 0 else 0)
                        needed = (s[depth - 1, END] if depth > 0 else 1) + 4 * s[depth, POINTS] + 16
                        while needed > len(times):
                            times, mass = _wider(times), _wider(mass)
                        steps += own // 64
                        confidence = _place(clock, path, s, depth, row, sets[v], continues, times, mass)
                        newest = window_end(s[depth, FIRST_HI], window)
                        if s[depth, LAST_LO] > newest or (
                            s[depth, LAST_HI] <= done[g] and done[g] != NEVER and newest < new_lo
                        ):
                            confidence = 0.0
                        elif (
                            confidence > 0.0
                            and confidence + TOLERANCE >= threshold
                            and s[depth, LAST_HI] > window_end(s[depth, FIRST_LO], window)
                        ):
                            steps += own * own // 64
                            confidence = _windowed(clock, path, s, depth, window, times, mass)
                    if confidence <= 0.0 or confidence + TOLERANCE < threshold:
                        last_depth[v] = earlier[depth]
                        taken[v] -= 1
                        depth -= 1
                        continue
                    state = s[depth, STATE]
                    if forced:
                        s[depth, NEXT_AT], s[depth, NEXT_OPTION] = resume[depth + 2, 2], resume[depth + 2, 3]
                        if depth + 3 == replay:
                            replay = 0
                        continue
                    after = window_start(_earliest(s, depth, times, mass), widest)
                    s[depth, NEXT_AT] = _first_after(lo, order, low, stop, after)
                    if s[depth, SET] >= 0:
                        s[depth, NEXT_AT] = min(s[depth, NEXT_AT], place + 1)
                    s[depth, NEXT_OPTION] = state_from[state]
                    # ---- is it a match? --------------------------------------------------------------------
                    if not accepting[state] or not (s[depth, LAST_HI] > done[g] or done[g] == NEVER):
                        continue
                    if not all_hold(m, lanes, end_from[state], end_from[state + 1], m.end_check, depth, path, trans,
                                     earlier, last_depth, taken, counts, ints, floats, mores, work):  # fmt: skip
                        continue
                    size = offsets[found]
                    while size + depth + 1 > len(out_rows):
                        out_rows, out_variables = _wider(out_rows), _wider(out_variables)
                    if found + 2 > len(offsets):
                        offsets, confidences = _wider(offsets), _wider(confidences)
                    for d in range(depth + 1):
                        out_rows[size + d] = path[d]
                        out_variables[size + d] = variable[trans[d]]
                    confidences[found] = min(1.0, confidence)
                    found += 1
                    offsets[found] = size + depth + 1
                    if offsets[found] >= limit:
                        left = np.zeros((depth + 3, 4), np.int64)
                        left[0, 0], left[0, 1], left[0, 2], left[0, 3] = g, origin, alternative, root_option
                        left[1, 0] = steps
                        for d in range(depth + 1):
                            left[d + 2, 0], left[d + 2, 1] = s[d, AT], trans[d]
                            left[d + 2, 2], left[d + 2, 3] = s[d, NEXT_AT], s[d, NEXT_OPTION]
                        return (MORE, row, offsets[: found + 1], out_rows[: offsets[found]],
                                out_variables[: offsets[found]], confidences[:found], left)  # fmt: skip
    return (FINE, -1, offsets[: found + 1], out_rows[: offsets[found]], out_variables[: offsets[found]],
            confidences[:found], resume[:0])  # fmt: skip
