"""Numbers of choices: how many final matches an intermediate match stands for, without making any of them.

Between two single events stand closures one after the other. A choice takes events of each, in order: every event
begins after the one before it has ended. Choices are counted by dynamic programming over the events of one
intermediate match, as event trend aggregation does: the number of choices that end with an event is the sum over the
events that may be chosen right before it. Conditions between successive events make it a sum over some of those: from
a Fenwick tree where one value is compared, else from a table of pairs.

Numbers are three words: `high` and `low` (uint64), exact modulo 2**128, and `near` (float64), which says how large they
are; only additions and products are made, so that `near` is off by rounding alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.comparing import AT_LEAST, AT_MOST, EQUAL, GREATER, LESS
from episode.kernels.events.joins import first_at_least
from episode.kernels.times import EVER

ALL, TREE, PAIRS = 0, 1, 2
"""How an event is related to the one chosen before it: not at all, by one comparison, by a table."""
NEEDED, LEAST, MOST, MAY_BE_EMPTY, RELATION, COMPARE = range(6)
"""Columns of closures. NEEDED: bits of the conditions that some event must satisfy; MOST: -1 for any number."""
_NONE, _ONE, _HALF, _MASK = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(2**32 - 1)


@njit(cache=True, nogil=True)
def _add(high, low, near, at, by_high, by_low, by_near):
    """Adds a number to the one at a place."""
    total = low[at] + by_low
    carry = _ONE if total < by_low else _NONE
    low[at] = total
    high[at] = high[at] + by_high + carry
    near[at] += by_near


@njit(cache=True, nogil=True)
def _product(a_high, a_low, b_high, b_low):
    """(high, low) of a product, modulo 2**128."""
    a0, a1, b0, b1 = a_low & _MASK, a_low >> _HALF, b_low & _MASK, b_low >> _HALF
    p00, p01, p10, p11 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
    middle = (p00 >> _HALF) + (p01 & _MASK) + (p10 & _MASK)
    low = (p00 & _MASK) | (middle << _HALF)
    high = p11 + (p01 >> _HALF) + (p10 >> _HALF) + (middle >> _HALF)
    return high + a_high * b_low + a_low * b_high, low


@njit(cache=True, nogil=True)
def multiply(high, low, near, by_high, by_low, by_near):
    """Numbers times others, in place."""
    for i in range(len(high)):
        high[i], low[i] = _product(high[i], low[i], by_high[i], by_low[i])
        near[i] *= by_near[i]


@njit(cache=True, nogil=True)
def count_choices(from_, start, end, order, first_ok, last_ok, flags, value, value_before, closures, pair_from, pairs):
    """(high, low, near) per match: the choices of the closures that stand between two single events.

    from_ int64[closures, matches + 1]: where the events of each closure and match are in the other arrays, sorted by
    end; order int64: the same events, sorted by start. first_ok, last_ok uint8: may an event be the first, the last of
    its closure? flags int64: which of the needed conditions it satisfies. value, value_before int64: ranks of what is
    compared with the event chosen before it, and by the one chosen after it, among all of both in the match (-1: null).
    closures int64[closures, 6], in columns NEEDED …; pairs uint8[pair_from[closure, match] + before * events + event].
    """
    count, matches = len(closures), from_.shape[1] - 1
    high, low, near = np.zeros(matches, np.uint64), np.zeros(matches, np.uint64), np.zeros(matches, np.float64)
    # Choices up to and with each event that are complete, summed up over the events of the closure.
    sums_high, sums_low = np.zeros(len(end), np.uint64), np.zeros(len(end), np.uint64)
    sums_near = np.zeros(len(end), np.float64)
    base_high, base_low, base_near = np.zeros(1, np.uint64), np.zeros(1, np.uint64), np.zeros(1, np.float64)
    for match in range(matches):
        for k in range(count):
            begin, stop = from_[k, match], from_[k, match + 1]
            events = stop - begin
            if len(base_near) < events:
                base_high, base_low = np.zeros(2 * events, np.uint64), np.zeros(2 * events, np.uint64)
                base_near = np.zeros(2 * events, np.float64)
            for i in range(events):
                base_high[i], base_low[i], base_near[i] = _NONE, _NONE, 0.0
                _add_before(k - 1, match, start[begin + i], from_, end, closures, sums_high, sums_low, sums_near,
                            base_high, base_low, base_near, i)  # fmt: skip
            _closure(begin, stop, start, end, order, first_ok, last_ok, flags, value, value_before, closures[k],
                     pair_from[k, match], pairs, base_high, base_low, base_near, sums_high, sums_low,
                     sums_near)  # fmt: skip
        _add_before(count - 1, match, EVER, from_, end, closures, sums_high, sums_low, sums_near, high, low, near,
                    match)  # fmt: skip
    return high, low, near


@njit(cache=True, nogil=True)
def _add_before(last, match, time, from_, end, closures, sums_high, sums_low, sums_near, high, low, near, at):
    """Adds the choices of the closures up to number `last` whose events have all ended before a time."""
    for k in range(last, -1, -1):
        begin, stop = from_[k, match], from_[k, match + 1]
        before = first_at_least(end, begin, stop, time) if time < EVER else stop
        if before > begin:
            _add(high, low, near, at, sums_high[before - 1], sums_low[before - 1], sums_near[before - 1])
        if not closures[k, MAY_BE_EMPTY]:
            return
    _add(high, low, near, at, _NONE, _ONE, 1.0)


@njit(cache=True, nogil=True)
def _closure(begin, stop, start, end, order, first_ok, last_ok, flags, value, value_before, closure, pair_from, pairs,
             base_high, base_low, base_near, sums_high, sums_low, sums_near):  # fmt: skip
    """The choices of one closure in one match. base_*[i]: in how many ways event i may be its first."""
    needed, least, most = closure[NEEDED], closure[LEAST], closure[MOST]
    relation, compare = closure[RELATION], closure[COMPARE]
    count = stop - begin
    levels = max(1, most if most >= 0 else least)
    states = levels * (needed + 1)
    possible = most < 0 or (most > 0 and least <= most)
    high, low = np.zeros(count * states, np.uint64), np.zeros(count * states, np.uint64)
    near = np.zeros(count * states, np.float64)
    # What may come before an event, by state; in the tree also by rank.
    width = 2 * count + 1
    room = states * width if relation == TREE else states
    all_high, all_low, all_near = np.zeros(room, np.uint64), np.zeros(room, np.uint64), np.zeros(room, np.float64)
    now_high, now_low = np.zeros(states, np.uint64), np.zeros(states, np.uint64)
    now_near = np.zeros(states, np.float64)
    inserted = 0
    for number in range(count if possible else 0):
        event = order[begin + number]
        i = event - begin
        while inserted < count and end[begin + inserted] < start[event]:
            if relation == ALL:
                for s in range(states):
                    k = inserted * states + s
                    _add(all_high, all_low, all_near, s, high[k], low[k], near[k])
            elif relation == TREE and value_before[begin + inserted] >= 0:
                _insert(width, compare, value_before[begin + inserted], states, inserted, high, low, near,
                        all_high, all_low, all_near)  # fmt: skip
            inserted += 1
        for s in range(states):
            now_high[s], now_low[s], now_near[s] = _NONE, _NONE, 0.0
            if relation == ALL:
                now_high[s], now_low[s], now_near[s] = all_high[s], all_low[s], all_near[s]
        if relation == TREE and value[event] >= 0:
            _query(width, compare, value[event], states, all_high, all_low, all_near, now_high, now_low,
                   now_near)  # fmt: skip
        elif relation == PAIRS:
            for j in range(inserted):
                if pairs[pair_from + j * count + i]:
                    for s in range(states):
                        k = j * states + s
                        _add(now_high, now_low, now_near, s, high[k], low[k], near[k])
        for level in range(levels):
            following = level + 1
            if following == levels:
                if most >= 0:
                    continue
                following = level
            for mask in range(needed + 1):
                s = level * (needed + 1) + mask
                k = i * states + following * (needed + 1) + (mask | flags[event])
                _add(high, low, near, k, now_high[s], now_low[s], now_near[s])
        if first_ok[event]:
            _add(high, low, near, i * states + flags[event], base_high[i], base_low[i], base_near[i])
    for i in range(count):
        at = begin + i
        sums_high[at], sums_low[at], sums_near[at] = _NONE, _NONE, 0.0
        if i > 0:
            sums_high[at], sums_low[at], sums_near[at] = sums_high[at - 1], sums_low[at - 1], sums_near[at - 1]
        if last_ok[at]:
            for level in range(max(0, least - 1), levels):
                k = i * states + level * (needed + 1) + needed
                _add(sums_high, sums_low, sums_near, at, high[k], low[k], near[k])


@njit(cache=True, nogil=True)
def _insert(width, compare, rank, states, event, high, low, near, all_high, all_low, all_near):
    """An event into the Fenwick tree: ranks from the least on, or from the greatest on."""
    at = rank
    if compare == GREATER or compare == AT_LEAST:
        at = rank + 1
    elif compare != EQUAL:
        at = width - 1 - rank
    while at < width:
        for s in range(states):
            k = event * states + s
            _add(all_high, all_low, all_near, s * width + at, high[k], low[k], near[k])
        if compare == EQUAL:
            return
        at += at & -at


@njit(cache=True, nogil=True)
def _query(width, compare, rank, states, all_high, all_low, all_near, now_high, now_low, now_near):
    """The sums over the events before whose rank is related to `rank` as asked."""
    at = rank
    if compare == AT_LEAST:
        at = rank + 1
    elif compare == LESS:
        at = width - 2 - rank
    elif compare == AT_MOST:
        at = width - 1 - rank
    while at > 0 or compare == EQUAL:
        for s in range(states):
            k = s * width + at
            _add(now_high, now_low, now_near, s, all_high[k], all_low[k], all_near[k])
        if compare == EQUAL:
            return
        at -= at & -at
