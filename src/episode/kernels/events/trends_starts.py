"""Aggregates over all matches where conditions relate an event to the one before it in the match, or to the first one.

For every start event, dynamic programming over the events of its window: the value of an event in a place is the sum
over the events that may come before it. Where a condition compares the two, the sum is one over a range of values, from
a Fenwick tree over their ranks: n log n for a window of n events (Greta's graph without its edges). Where a link has
several conditions, the events before are looked at one by one: n^2.

Starts are taken in blocks, as lanes that are computed side by side. Lanes begin in order of time, and so they expire:
at each event a range of them is at work. Where all starts have the same window (there is none), one lane serves all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from episode.kernels.events.trends import NOTHING, Values, plus, times
from episode.kernels.events.trends_short import EQ, GE, GT, LE, LT, NE, PLAIN, holds, short
from episode.kernels.times import window_end

TREE, TABLE, SCAN = range(PLAIN + 1, PLAIN + 4)
_NONE, _ONE = np.uint64(0), np.uint64(1)
NO_KEY = -1


class Tests(NamedTuple):
    """Conditions `current operation other`, on int64 images of values.

    Of links: source, target, kind int64[links]; test_from int64[links + 1] into operation int64[tests], and current,
    before int64[tests, n] with current_valid, before_valid bool[tests, n].
    With the first event: first_of bool[places, firsts], first_operation int64[firsts], and first_current, first int64
    [firsts, n] with first_current_valid, first_valid bool[firsts, n].
    """

    source: np.ndarray
    target: np.ndarray
    kind: np.ndarray
    test_from: np.ndarray
    operation: np.ndarray
    current: np.ndarray
    before: np.ndarray
    current_valid: np.ndarray
    before_valid: np.ndarray
    first_of: np.ndarray
    first_operation: np.ndarray
    first_current: np.ndarray
    first: np.ndarray
    first_current_valid: np.ndarray
    first_valid: np.ndarray


class Lanes(NamedTuple):
    """Values by place and lane: low, high uint64[exact, rows, lanes], real float64[…], least int64[…]."""

    low: np.ndarray
    high: np.ndarray
    real: np.ndarray
    least: np.ndarray


@njit(cache=True, nogil=True)
def _empty(exact, real, least, rows, lanes):
    return Lanes(
        np.zeros((exact, rows, lanes), np.uint64),
        np.zeros((exact, rows, lanes), np.uint64),
        np.zeros((real, rows, lanes), np.float64),
        np.full((least, rows, lanes), NOTHING, np.int64),
    )


@njit(cache=True, nogil=True)
def _clear(lanes, begin, end, used):
    """No matches in the lanes that are used."""
    for at in range(begin, end):
        for lane in range(used):
            for kind in range(lanes.low.shape[0]):
                lanes.low[kind, at, lane] = lanes.high[kind, at, lane] = _NONE
            for kind in range(lanes.real.shape[0]):
                lanes.real[kind, at, lane] = 0.0
            for kind in range(lanes.least.shape[0]):
                lanes.least[kind, at, lane] = NOTHING


@njit(cache=True, nogil=True)
def _add(lanes, at, other, begin, end):
    """lanes[at] += lanes[other], of a range of lanes"""
    for kind in range(lanes.low.shape[0]):
        for lane in range(begin, end):
            lanes.low[kind, at, lane], lanes.high[kind, at, lane] = plus(
                lanes.low[kind, at, lane],
                lanes.high[kind, at, lane],
                lanes.low[kind, other, lane],
                lanes.high[kind, other, lane],
            )
    for kind in range(lanes.real.shape[0]):
        for lane in range(begin, end):
            lanes.real[kind, at, lane] += lanes.real[kind, other, lane]
    for kind in range(lanes.least.shape[0]):
        for lane in range(begin, end):
            lanes.least[kind, at, lane] = min(lanes.least[kind, at, lane], lanes.least[kind, other, lane])


@njit(cache=True, nogil=True)
def _take(lanes, at, weights, place, row, begin, end):
    """lanes[at] *= the event of a row as that of a place"""
    for kind in range(1, lanes.low.shape[0]):
        if weights.of_exact[place, kind]:
            weight = weights.exact[kind, row]
            for lane in range(begin, end):
                low, high = times(lanes.low[0, at, lane], lanes.high[0, at, lane], weight, _NONE)
                lanes.low[kind, at, lane], lanes.high[kind, at, lane] = plus(
                    lanes.low[kind, at, lane], lanes.high[kind, at, lane], low, high
                )
    for kind in range(1, lanes.real.shape[0]):
        if weights.of_real[place, kind]:
            for lane in range(begin, end):
                if lanes.real[0, at, lane] != 0.0 and weights.real[kind, row] != 0.0:
                    lanes.real[kind, at, lane] += lanes.real[0, at, lane] * weights.real[kind, row]
    for kind in range(lanes.least.shape[0]):
        if weights.of_least[place, kind]:
            for lane in range(begin, end):
                if lanes.low[0, at, lane] != _NONE or lanes.high[0, at, lane] != _NONE:
                    lanes.least[kind, at, lane] = min(lanes.least[kind, at, lane], weights.least[kind, row])


@njit(cache=True, nogil=True)
def _drop(lanes, at, lane):
    """No matches in a lane."""
    for kind in range(lanes.low.shape[0]):
        lanes.low[kind, at, lane] = lanes.high[kind, at, lane] = _NONE
    for kind in range(lanes.real.shape[0]):
        lanes.real[kind, at, lane] = 0.0
    for kind in range(lanes.least.shape[0]):
        lanes.least[kind, at, lane] = NOTHING


@njit(cache=True, nogil=True)
def _add_total(total, slot, lanes, at, lane):
    for kind in range(lanes.low.shape[0]):
        total.low[slot, kind], total.high[slot, kind] = plus(
            total.low[slot, kind], total.high[slot, kind], lanes.low[kind, at, lane], lanes.high[kind, at, lane]
        )
    for kind in range(lanes.real.shape[0]):
        total.real[slot, kind] += lanes.real[kind, at, lane]
    for kind in range(lanes.least.shape[0]):
        total.least[slot, kind] = min(total.least[slot, kind], lanes.least[kind, at, lane])


# ---- totals by the first event ---------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _rehashed(keys, count):
    table = np.full(4 * len(keys), NO_KEY, np.int64)
    for number in range(count):
        at = _hash(keys[number], len(table))
        while table[at] != NO_KEY:
            at = (at + 1) % len(table)
        table[at] = number
    return table


@njit(cache=True, nogil=True)
def _hash(key, size):
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(20)) % np.uint64(size))


# ---- ranks -----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _ranks(shape, tests, link, bits, begin, end, rank, below, above):
    """Of the rows begin:end: the rank of what they are compared by as events before; as current ones, how many ranks
    are below, and from which rank on they are above. Negative: no event fits. Returns the number of ranks."""
    test = tests.test_from[link]
    operation = tests.operation[test]
    source, target = shape.bit[tests.source[link]], shape.bit[tests.target[link]]
    values = np.empty(end - begin, np.int64)
    count = 0
    for row in range(begin, end):
        if bits[row] & source != _NONE and tests.before_valid[test, row]:
            values[count] = tests.before[test, row]
            count += 1
    values = np.sort(values[:count])
    for row in range(begin, end):
        at = row - begin
        rank[link, at] = below[link, at] = above[link, at] = -1
        if bits[row] & source != _NONE and tests.before_valid[test, row]:
            rank[link, at] = np.searchsorted(values, tests.before[test, row])
        if bits[row] & target != _NONE and tests.current_valid[test, row]:
            value = tests.current[test, row]
            left = np.searchsorted(values, value)
            if operation == EQ:
                below[link, at] = left if left < count and values[left] == value else -1
                continue
            right = left
            if left < count and values[left] == value and operation != GT and operation != LE:
                right = np.searchsorted(values, value, side="right")
            if operation == GT or operation == NE:
                below[link, at] = left
            elif operation == GE:
                below[link, at] = right
            if operation == LT or operation == NE:
                above[link, at] = right
            elif operation == LE:
                above[link, at] = left
    return count


# ---- the pass --------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _add_before(lanes, at, tests, link, bases, sizes, row, offset, below, above, stored, begin, end):
    """lanes[at] += the events that may come before a row's, along a link with conditions"""
    base, size = bases[link], sizes[link]
    if tests.kind[link] == TABLE:
        if below[link, offset] >= 0:
            _add(lanes, at, base + below[link, offset], begin, end)
    elif tests.kind[link] == TREE:
        node = below[link, offset]
        while node > 0:
            _add(lanes, at, base + node - 1, begin, end)
            node -= node & -node
        if above[link, offset] >= 0:
            back = base + (size if tests.operation[tests.test_from[link]] == NE else 0)
            node = size - above[link, offset]
            while node > 0:
                _add(lanes, at, back + node - 1, begin, end)
                node -= node & -node
    else:
        for number in range(stored[link, 0]):
            before = stored[link, number + 1]
            fits = True
            for test in range(tests.test_from[link], tests.test_from[link + 1]):
                fits &= tests.current_valid[test, row] and tests.before_valid[test, before]
                fits = fits and holds(tests.operation[test], tests.current[test, row], tests.before[test, before])
            if fits:
                _add(lanes, at, base + number, begin, end)


@njit(cache=True, nogil=True)
def _store(lanes, at, tests, link, bases, sizes, row, offset, rank, stored, begin, end):
    """Let the value of a row's event be found along a link with conditions."""
    base, size, place = bases[link], sizes[link], rank[link, offset]
    if tests.kind[link] == SCAN:
        _add(lanes, base + stored[link, 0], at, begin, end)
        stored[link, 0] += 1
        stored[link, stored[link, 0]] = row
        return
    if place < 0:
        return
    if tests.kind[link] == TABLE:
        _add(lanes, base + place, at, begin, end)
        return
    operation = tests.operation[tests.test_from[link]]
    if operation == GT or operation == GE or operation == NE:
        node = place + 1
        while node <= size:
            _add(lanes, base + node - 1, at, begin, end)
            node += node & -node
    if operation == LT or operation == LE or operation == NE:
        back = base + (size if operation == NE else 0)
        node = size - place
        while node <= size:
            _add(lanes, back + node - 1, at, begin, end)
            node += node & -node


@njit(cache=True, nogil=True)
def _place_of(table, keys, known, key):
    """Where a key is among the known ones; a new one is the next of them, and they have room for it."""
    spot = _hash(key, len(table))
    while table[spot] != NO_KEY and keys[table[spot]] != key:
        spot = (spot + 1) % len(table)
    if table[spot] == NO_KEY:
        keys[known[0]] = key
        table[spot] = known[0]
        known[0] += 1
    return table[spot]


@njit(cache=True, nogil=True)
def _sweep(
    shape, tests, weights, bits, time, window, shared, slot, group, groups, total, keys, table, known, lanes, block,
    bases, sizes, ranked_from, rank, below, above, stored, buffer, start_of, pairs_of,
):  # fmt: skip
    """The events of one block, in order of time. block: its first row, the row after its last start, and its end;
    the bits of first events; how many lanes it uses."""
    start, next_start, stop, first_bits = block[0], block[1], block[2], np.uint64(block[3])
    used = block[4]
    places, links = len(shape.bit), len(tests.source)
    real = lanes.real.shape[0]
    # Lanes alive:begun are at work.
    alive = begun = 0
    row = start
    while row < stop:
        now, begin = time[row], row
        while row < stop and time[row] == now:
            row += 1
        if not shared:
            while alive < begun and window_end(time[start_of[alive]], window) < now:
                alive += 1
        pairs = 0
        fresh = begun
        for event in range(begin, row):
            if bits[event] == _NONE:
                continue
            starts = event < next_start and bits[event] & first_bits != _NONE
            if starts and not shared:
                start_of[fresh] = event
                fresh += 1
            for place in range(places):
                if bits[event] & shape.bit[place] == _NONE:
                    continue
                at = buffer + pairs
                _clear(lanes, at, at + 1, used)
                for link in range(links):
                    if tests.target[link] != place:
                        continue
                    if tests.kind[link] == PLAIN:
                        _add(lanes, at, tests.source[link], alive, begun)
                    else:
                        _add_before(
                            lanes, at, tests, link, bases, sizes, event, event - ranked_from, below, above, stored,
                            alive, begun,
                        )  # fmt: skip
                for test in range(len(tests.first_operation)):
                    if tests.first_of[place, test]:
                        _drop_unlike_first(lanes, at, tests, test, event, start_of, alive, begun)
                if starts and shape.link[places, place]:
                    own = 0 if shared else fresh - 1
                    lanes.low[0, at, own], lanes.high[0, at, own] = plus(
                        lanes.low[0, at, own], lanes.high[0, at, own], _ONE, _NONE
                    )
                    if real > 0:
                        lanes.real[0, at, own] += 1.0
                reach = 1 if shared else fresh
                _take(lanes, at, weights, place, event, alive, reach)
                if shape.ends[place] and slot[event] >= 0:
                    for lane in range(alive, reach):
                        if lanes.low[0, at, lane] != _NONE or lanes.high[0, at, lane] != _NONE:
                            where = slot[event]
                            if groups > 1:
                                where = _place_of(table, keys, known, where * groups + group[start_of[lane]])
                            _add_total(total, where, lanes, at, lane)
                if shape.goes_on[place]:
                    pairs_of[0, pairs], pairs_of[1, pairs] = event, place
                    pairs += 1
        begun = 1 if shared else fresh
        for pair in range(pairs):
            at, event, place = buffer + pair, pairs_of[0, pair], pairs_of[1, pair]
            plain = False
            for link in range(links):
                if tests.source[link] == place:
                    if tests.kind[link] == PLAIN:
                        plain = True
                    else:
                        _store(
                            lanes, at, tests, link, bases, sizes, event, event - ranked_from, rank, stored, alive, begun
                        )
            if plain:
                _add(lanes, place, at, alive, begun)


@njit(cache=True, nogil=True)
def _drop_unlike_first(lanes, at, tests, test, event, start_of, begin, end):
    """No matches in lanes for whose first event a condition does not hold."""
    for lane in range(begin, end):
        first = start_of[lane]
        if not (
            tests.first_current_valid[test, event]
            and tests.first_valid[test, first]
            and holds(tests.first_operation[test], tests.first_current[test, event], tests.first[test, first])
        ):
            _drop(lanes, at, lane)


@njit(cache=True, nogil=True)
def _most_at_once(time, begin, end):
    """The most rows of one time."""
    most, at = 1, begin
    while at < end:
        after = at + 1
        while after < end and time[after] == time[at]:
            after += 1
        most = max(most, after - at)
        at = after
    return most


@njit(cache=True, nogil=True)
def by_start(shape, tests, weights, bits, time, from_, window, width, shared, slot, group, groups, total, few):
    """Adds up the matches of partitions from_[g]:from_[g + 1], whose rows are in order of time.

    slot int64[n]: to what the matches count that end with a row; negative: to nothing. width: how many starts at once.
    shared: all of them in one lane. group int64[n]: where there is more than one of `groups`, totals are kept by the
    group of the first event, too. few: partitions of at most so many rows that are within one window are compared one
    by one. Returns the totals, and what they are of: slot * groups + group.

    Arrays grow here, between blocks, and never where events are looked at.
    """
    places, links = len(shape.bit), len(tests.source)
    exact, real, least = total.low.shape[1], total.real.shape[1], total.least.shape[1]
    keys = np.arange(len(total.low))
    known = np.array([0 if groups > 1 else len(keys)])
    table = np.full(64, NO_KEY, np.int64)
    bases, sizes = np.zeros(links, np.int64), np.zeros(links, np.int64)
    lanes = _empty(exact, real, least, 1, width)
    start_of = np.empty(width, np.int64)
    pairs_of = np.empty((2, 64), np.int64)
    rank = np.empty((links, 1), np.int64)
    below, above = np.empty((links, 1), np.int64), np.empty((links, 1), np.int64)
    stored = np.zeros((links, 1), np.int64)
    block = np.empty(5, np.int64)
    ranked_from = buffer = 0
    first_bits = _NONE
    for place in range(places):
        if shape.link[places, place]:
            first_bits |= shape.bit[place]
    together = groups == 1 and len(tests.first_operation) == 0
    values = Values(
        np.empty((places * (few + 1) + 1, exact), np.uint64),
        np.empty((places * (few + 1) + 1, exact), np.uint64),
        np.empty((places * (few + 1) + 1, real), np.float64),
        np.empty((places * (few + 1) + 1, least), np.int64),
    )
    rows_and_places = np.empty((2, places * (few + 1) + 1), np.int64)
    for part in range(len(from_) - 1):
        low, high = from_[part], from_[part + 1]
        if together and low < high and high - low <= few and time[high - 1] <= window_end(time[low], window):
            short(shape, tests, weights, bits, time, low, high, slot, total, values, rows_and_places)
            continue
        ranked_to = low
        start = low
        while start < high:
            if bits[start] & first_bits == _NONE:
                start += 1
                continue
            # The block: its starts, and where its last window ends.
            next_start, count = start, 0
            last = start
            while next_start < high and (shared or count < width):
                if bits[next_start] & first_bits != _NONE:
                    count += 1
                    last = next_start
                next_start += 1
            stop = high
            if not shared:
                stop = last + np.searchsorted(time[last:high], window_end(time[last], window), side="right")
            wanted = 0
            for row in range(start, stop):
                wanted += slot[row] >= 0
            if wanted == 0:
                start = next_start
                continue
            # Ranks, for this block and about as many rows after it.
            if stop > ranked_to:
                ranked_from, ranked_to = start, min(high, stop + (stop - start))
                reach = ranked_to - ranked_from
                if rank.shape[1] < reach:
                    rank = np.empty((links, 2 * reach), np.int64)
                    below, above = np.empty((links, 2 * reach), np.int64), np.empty((links, 2 * reach), np.int64)
                scans = 0
                base = places
                for link in range(links):
                    bases[link] = base
                    if tests.kind[link] == PLAIN:
                        continue
                    if tests.kind[link] == SCAN:
                        sizes[link] = reach
                        scans = reach
                    else:
                        sizes[link] = _ranks(shape, tests, link, bits, ranked_from, ranked_to, rank, below, above)
                    twice = tests.kind[link] == TREE and tests.operation[tests.test_from[link]] == NE
                    base += sizes[link] * (2 if twice else 1)
                buffer = base
                most = _most_at_once(time, ranked_from, ranked_to) * places
                if pairs_of.shape[1] < most:
                    pairs_of = np.empty((2, most), np.int64)
                if lanes.low.shape[1] < base + most:
                    lanes = _empty(exact, real, least, 2 * (base + most), width)
                if stored.shape[1] < scans + 1:
                    stored = np.zeros((links, 2 * scans + 1), np.int64)
            if groups > 1:
                room = known[0] + wanted * count
                if len(keys) < room:
                    keys = np.concatenate((keys[: known[0]], np.empty(2 * room - known[0], np.int64)))
                    table = _rehashed(keys, known[0])
                if len(total.low) < room:
                    more = 2 * room - len(total.low)
                    total = Values(
                        np.concatenate((total.low, np.zeros((more, exact), np.uint64))),
                        np.concatenate((total.high, np.zeros((more, exact), np.uint64))),
                        np.concatenate((total.real, np.zeros((more, real), np.float64))),
                        np.concatenate((total.least, np.full((more, least), NOTHING, np.int64))),
                    )
            used = 1 if shared else count
            _clear(lanes, 0, buffer, used)
            stored[:, 0] = 0
            block[0], block[1], block[2], block[3], block[4] = start, next_start, stop, np.int64(first_bits), used
            _sweep(
                shape, tests, weights, bits, time, window, shared, slot, group, groups, total, keys, table, known,
                lanes, block, bases, sizes, ranked_from, rank, below, above, stored, buffer, start_of, pairs_of,
            )  # fmt: skip
            start = next_start
    return total, keys[: known[0]]
