"""Probabilities of orders: independent event times, each over the points of an interval (SASE++, sections 2.3 and 5.3).

A match is a row of blocks: single events, and sets of events whose order among themselves does not count. All events of
a block lie strictly before those of the next. The *frontier* is where the last block ends: times in ascending order,
each with the probability that the blocks so far are in order and their last event is of that time. A block is added to
it with prefix sums over the points of its events; no combination of times is enumerated. All sums are of what is not
negative, so a probability is zero only where it must be.

Frontiers stand one after the other in two arrays, `times` int64 and `mass` float64; before the first block there is
one time, NEVER, of probability 1.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from episode.kernels.times import EVER, window_end

Clock = namedtuple("Clock", ["lo", "hi", "step", "from_", "exactly", "at_most"])
"""Times of events: points lo, lo + step … hi. Where probabilities are given, those of event r are exactly[from_[r]:…],
and at_most has their running sums; else these are empty, and all points of an event are as probable."""


@njit(cache=True, nogil=True)
def running_sums(given, from_):
    """Probabilities that add up to about 1 for every event, as `exactly` and `at_most` of a clock."""
    exactly, at_most = np.empty_like(given), np.empty_like(given)
    for row in range(len(from_) - 1):
        total = 0.0
        for i in range(from_[row], from_[row + 1]):
            total += given[i]
        running = 0.0
        for i in range(from_[row], from_[row + 1]):
            running += given[i]
            exactly[i], at_most[i] = given[i] / total, running / total
    return exactly, at_most


@njit(cache=True, nogil=True, inline="always")
def points(clock, row):
    """How many times an event can have."""
    return (clock.hi[row] - clock.lo[row]) // clock.step + 1


@njit(cache=True, nogil=True)
def _up_to(clock, row, time):
    """How many of an event's times are not after `time`."""
    if time < clock.lo[row]:
        return 0
    if time >= clock.hi[row]:
        return points(clock, row)
    return (time - clock.lo[row]) // clock.step + 1


@njit(cache=True, nogil=True)
def _point(clock, row, number):
    """The probability of an event's time of this number."""
    if len(clock.from_) == 0:
        return 1.0 / points(clock, row)
    return clock.exactly[clock.from_[row] + number]


@njit(cache=True, nogil=True)
def _at(clock, row, time):
    """The probability that an event is of this very time."""
    if time < clock.lo[row] or time > clock.hi[row] or (time - clock.lo[row]) % clock.step != 0:
        return 0.0
    return _point(clock, row, (time - clock.lo[row]) // clock.step)


@njit(cache=True, nogil=True)
def _between(clock, row, after, until):
    """The probability that an event is after one time, and not after the other."""
    low, high = _up_to(clock, row, after), _up_to(clock, row, until)
    if low >= high:
        return 0.0
    if len(clock.from_) == 0:
        return (high - low) / points(clock, row)
    first = clock.from_[row]
    return clock.at_most[first + high - 1] - (clock.at_most[first + low - 1] if low > 0 else 0.0)


@njit(cache=True, nogil=True)
def _all_between(clock, path, first, stop, after, until, exact):
    """The probability of that for all events path[first:stop]; exact: that the first of them is of the time `after`."""
    some, none = (0.0, 1.0) if exact else (1.0, 0.0)
    for i in range(first, stop):
        inside = _between(clock, path[i], after, until)
        if exact:
            here = _at(clock, path[i], after) if after <= until else 0.0
            some = some * (inside + here) + none * here
            none *= inside
        else:
            some *= inside
    return some


@njit(cache=True, nogil=True)
def outlasting(clock, row, times, mass, begin, end, at):
    """A frontier, and an event that is after it: the same times, weighed by that. Returns where it ends."""
    for i in range(begin, end):
        times[at] = times[i]
        mass[at] = mass[i] * _between(clock, row, times[i], EVER)
        at += 1
    return at


@njit(cache=True, nogil=True)
def following(clock, path, first, stop, row, until, exact, times, mass, begin, end, own, at):
    """The frontier at `at` of a single event after begin:end and the set path[first:stop]. Returns where it ends.

    own: the frontier begin:end weighed by the set's events, which are after it. until: the last time that counts.
    exact: begin:end is one time, and the very first event is of it.
    """
    lo, latest, entangled = clock.lo[row], times[end - 1], False
    for i in range(first, stop):
        if clock.hi[path[i]] >= lo and clock.lo[path[i]] <= latest:
            entangled = True
    before, total = begin, 0.0
    for number in range(points(clock, row)):
        time = lo + number * clock.step
        if time > until:
            break
        value = _point(clock, row, number)
        if value == 0.0:
            continue
        if exact:
            if first == stop:
                value = value if time == times[begin] else 0.0
            else:
                value *= mass[begin] * _all_between(clock, path, first, stop, times[begin], time - 1, True)
        elif entangled:
            total = 0.0
            for i in range(begin, end):
                if times[i] >= time:
                    break
                total += mass[i] * _all_between(clock, path, first, stop, times[i], time - 1, False)
            value *= total
        else:
            while before < end and times[before] < time:
                total += mass[own + before - begin]
                before += 1
            value *= total
            for i in range(first, stop):
                if clock.hi[path[i]] >= lo and value > 0.0:
                    value *= _between(clock, path[i], latest, time - 1)
        if value > 0.0:
            times[at], mass[at] = time, value
            at += 1
    return at


@njit(cache=True, nogil=True)
def last_of_set(clock, path, first, stop, exact, times, mass, begin, end, at):
    """The frontier at `at` of the set path[first:stop] after begin:end: the time of its last event."""
    after = clock.lo[path[first]]
    for i in range(first, stop):
        after = max(after, clock.lo[path[i]])
    found = times_of_set(clock, path, first, stop, after, EVER)
    for time in found:
        total = 0.0
        for i in range(begin, end):
            if times[i] > time or (times[i] == time and not exact):
                break
            total += mass[i] * _ends_at(clock, path, first, stop, times[i], time, exact)
        if total > 0.0:
            times[at], mass[at] = time, total
            at += 1
    return at


@njit(cache=True, nogil=True)
def _ends_at(clock, path, first, stop, after, time, exact):
    """The probability that all events of a set are after `after` and the last is of this time; exact: see above.

    By whether one is at the beginning, and one at the end, among the events seen."""
    if exact and after == time:
        all_here = 1.0
        for i in range(first, stop):
            all_here *= _at(clock, path[i], time)
        return all_here
    neither, begun, ended, both = (1.0, 0.0, 0.0, 0.0) if exact else (0.0, 1.0, 0.0, 0.0)
    for i in range(first, stop):
        inside = _between(clock, path[i], after, time - 1)
        here = _at(clock, path[i], after) if exact else 0.0
        there = _at(clock, path[i], time)
        both = both * (inside + here + there) + begun * there + ended * here
        ended = ended * (inside + there) + neither * there
        begun = begun * (inside + here) + neither * here
        neither *= inside
    return both


@njit(cache=True, nogil=True)
def times_of_set(clock, path, first, stop, after, until):
    """All times from `after` to `until` that events of a set can have, in order."""
    count = 0
    for i in range(first, stop):
        count += points(clock, path[i])
    found = np.empty(count, np.int64)
    count = 0
    for i in range(first, stop):
        for number in range(_up_to(clock, path[i], after - 1), points(clock, path[i])):
            time = clock.lo[path[i]] + number * clock.step
            if time > until:
                break
            found[count] = time
            count += 1
    return np.unique(found[:count])


@njit(cache=True, nogil=True)
def in_window(clock, path, set_stop, count, window, last, times, mass, at):
    """The probability that the events path[:count] are in order and in a window.

    set_stop[i]: where the set that begins with event i ends; 0: it is a single event. last: the latest time of all.
    By the time of the first event: for each of its times from which the window may end too early, and for all others
    together. times, mass from `at` on: room for the frontiers.
    """
    stop = set_stop[0] if set_stop[0] > 0 else 1
    earliest, latest = clock.lo[path[0]], clock.hi[path[0]]
    for i in range(stop):
        earliest, latest = min(earliest, clock.lo[path[i]]), min(latest, clock.hi[path[i]])
    safe = last - window
    total = 0.0
    if latest >= safe:
        total += _in_order(clock, path, set_stop, count, safe - 1, EVER, False, times, mass, at)
        latest = safe - 1
    for begin in times_of_set(clock, path, 0, stop, earliest, latest):
        total += _in_order(clock, path, set_stop, count, begin, window_end(begin, window), True, times, mass, at)
    return total


@njit(cache=True, nogil=True)
def _in_order(clock, path, set_stop, count, after, until, exact, times, mass, at):
    """The probability that events are in order, all after one time (exact: the first of that time), none after the
    other."""
    times[at], mass[at] = after, 1.0
    begin, end, i = at, at + 1, 0
    while i < count:
        stop = set_stop[i] if set_stop[i] > 0 else i
        free = end
        own = begin
        if stop == count:
            total = 0.0
            for j in range(begin, end):
                total += mass[j] * _all_between(clock, path, i, stop, times[j], until, exact)
            return total
        if set_stop[stop] > 0:
            end = last_of_set(clock, path, i, stop, exact, times, mass, begin, end, free)
            i = stop
        else:
            if stop > i and not exact:
                own, source = free, begin
                for j in range(i, stop):
                    free = outlasting(clock, path[j], times, mass, source, source + end - begin, own)
                    source = own
            end = following(clock, path, i, stop, path[stop], until, exact, times, mass, begin, end, own, free)
            i = stop + 1
        begin, exact = free, False
        if begin == end:
            return 0.0
    total = 0.0
    for j in range(begin, end):
        total += mass[j]
    return total
