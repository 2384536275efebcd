"""Aggregates over all matches of a short partition that lies within one window: events before are looked at one by one.

Where a partition has a handful of events (the life of a task, a session), ranks, trees and lanes of starts take longer
than comparing each event with those before it. The values are those of `trends_starts`, in one lane for all starts.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.events.trends import NOTHING, plus, times

EQ, NE, LT, LE, GT, GE = range(6)
PLAIN = 0
_NONE, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def holds(operation, one, other):
    """one operation other"""
    if operation == EQ:
        return one == other
    if operation == NE:
        return one != other
    if operation == LT:
        return one < other
    if operation == LE:
        return one <= other
    return one > other if operation == GT else one >= other


@njit(cache=True, nogil=True)
def short(shape, tests, weights, bits, time, begin, end, slot, total, values, pairs):
    """Adds up in `total` the matches of the rows begin:end, a partition in order of time.

    values: room for the value of each place (of all its events so far, where a link has no condition) and after them of
    each event in each place; pairs int64[2, …]: the rows and places of these.
    """
    places, links = len(shape.bit), len(tests.source)
    exact, real, least = values.low.shape[1], values.real.shape[1], values.least.shape[1]
    low, high, reals, leasts = values.low, values.high, values.real, values.least
    for place in range(places):
        for kind in range(exact):
            low[place, kind] = high[place, kind] = _NONE
        for kind in range(real):
            reals[place, kind] = 0.0
        for kind in range(least):
            leasts[place, kind] = NOTHING
    known = count = places
    row = begin
    while row < end:
        now, first = time[row], row
        while row < end and time[row] == now:
            row += 1
        for event in range(first, row):
            if bits[event] == _NONE:
                continue
            for place in range(places):
                if bits[event] & shape.bit[place] == _NONE:
                    continue
                for kind in range(exact):
                    low[count, kind] = high[count, kind] = _NONE
                for kind in range(real):
                    reals[count, kind] = 0.0
                for kind in range(least):
                    leasts[count, kind] = NOTHING
                if shape.link[places, place]:
                    low[count, 0] = _ONE
                    if real > 0:
                        reals[count, 0] = 1.0
                for link in range(links):
                    if tests.target[link] != place:
                        continue
                    source = tests.source[link]
                    plain = tests.kind[link] == PLAIN
                    for other in range(source if plain else places, source + 1 if plain else known):
                        if not plain:
                            if pairs[1, other] != source:
                                continue
                            before, fits = pairs[0, other], True
                            for test in range(tests.test_from[link], tests.test_from[link + 1]):
                                fits = (
                                    fits
                                    and tests.current_valid[test, event]
                                    and tests.before_valid[test, before]
                                    and holds(
                                        tests.operation[test], tests.current[test, event], tests.before[test, before]
                                    )
                                )
                            if not fits:
                                continue
                        for kind in range(exact):
                            low[count, kind], high[count, kind] = plus(
                                low[count, kind], high[count, kind], low[other, kind], high[other, kind]
                            )
                        for kind in range(real):
                            reals[count, kind] += reals[other, kind]
                        for kind in range(least):
                            leasts[count, kind] = min(leasts[count, kind], leasts[other, kind])
                if low[count, 0] == _NONE and high[count, 0] == _NONE:
                    continue
                for kind in range(1, exact):
                    if weights.of_exact[place, kind]:
                        lower, upper = times(low[count, 0], high[count, 0], weights.exact[kind, event], _NONE)
                        low[count, kind], high[count, kind] = plus(low[count, kind], high[count, kind], lower, upper)
                for kind in range(1, real):
                    if weights.of_real[place, kind] and weights.real[kind, event] != 0.0:
                        reals[count, kind] += reals[count, 0] * weights.real[kind, event]
                for kind in range(least):
                    if weights.of_least[place, kind]:
                        leasts[count, kind] = min(leasts[count, kind], weights.least[kind, event])
                if shape.ends[place] and slot[event] >= 0:
                    where = slot[event]
                    for kind in range(exact):
                        total.low[where, kind], total.high[where, kind] = plus(
                            total.low[where, kind], total.high[where, kind], low[count, kind], high[count, kind]
                        )
                    for kind in range(real):
                        total.real[where, kind] += reals[count, kind]
                    for kind in range(least):
                        total.least[where, kind] = min(total.least[where, kind], leasts[count, kind])
                if shape.goes_on[place]:
                    pairs[0, count], pairs[1, count] = event, place
                    count += 1
        for other in range(known, count):
            place = pairs[1, other]
            for kind in range(exact):
                low[place, kind], high[place, kind] = plus(
                    low[place, kind], high[place, kind], low[other, kind], high[other, kind]
                )
            for kind in range(real):
                reals[place, kind] += reals[other, kind]
            for kind in range(least):
                leasts[place, kind] = min(leasts[place, kind], leasts[other, kind])
        known = count
