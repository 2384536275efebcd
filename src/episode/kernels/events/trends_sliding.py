"""Aggregates over all matches where conditions are about single events: one pass, whatever the length of the window.

Events between two times act on sets of unfinished matches, by the place of their last event, as a matrix acts on a
vector: a segment of events is (T, s), T from the matches before it to those after it, s the matches that begin inside.
(T1, s1)(T2, s2) = (T1 T2, s1 T2 + s2) is associative, so the segment of a sliding window is kept as two stacks: the
back as its product, the front as the s of each of its suffixes. Every event is multiplied in twice, once on either
side.

Events of one time come one after another in no match: they act together, as one matrix.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.events.trends import (
    NOTHING,
    Values,
    add,
    add_product,
    add_taken,
    clear,
    copy,
)
from episode.kernels.times import EVER, window_start

_NONE = np.uint64(0)


@njit(cache=True, nogil=True)
def _room(count, like):
    return Values(
        np.zeros((count, like.low.shape[1]), np.uint64),
        np.zeros((count, like.low.shape[1]), np.uint64),
        np.zeros((count, like.real.shape[1]), np.float64),
        np.full((count, like.least.shape[1]), NOTHING, np.int64),
    )


@njit(cache=True, nogil=True)
def _identity(matrix, one, places):
    """Of places to places; the row after them, of matches that begin inside, is empty."""
    for at in range((places + 1) * places):
        clear(matrix, at)
    for place in range(places):
        copy(matrix, place * places + place, one, 0)


@njit(cache=True, nogil=True)
def _append(matrix, shape, one, weights, bits, begin, end, windowed):
    """matrix * the events of rows begin:end. Without a window only what begins inside is of interest.

    From the last place to the first, so that each is added to others before it changes."""
    places = len(shape.bit)
    spare = (places + 1) * places
    first = 0 if windowed else places
    count = places + 1 - first
    for place in range(places - 1, -1, -1):
        if not shape.goes_on[place]:
            continue
        loops = shape.link[place, place]
        kept = False
        for row in range(begin, end):
            if bits[row] & shape.bit[place] == _NONE:
                continue
            if loops and not kept:
                kept = True
                for start in range(first, places + 1):
                    copy(matrix, spare + start, matrix, start * places + place)
            at = first * places + place
            for before in range(place):
                if shape.link[before, place]:
                    source = first * places + before
                    add_taken(matrix, at, places, matrix, source, places, count, weights, place, row)
            if loops:
                add_taken(matrix, at, places, matrix, spare + first, 1, count, weights, place, row)
            if shape.link[places, place]:
                add_taken(matrix, places * places + place, 1, one, 0, 1, 1, weights, place, row)


@njit(cache=True, nogil=True)
def _prepend(matrix, shape, weights, bits, begin, end):
    """The events of rows begin:end * matrix. From the beginning on, so that each place is read before it changes; a
    place that follows itself is the first that is added to it, from a copy."""
    places = len(shape.bit)
    spare = (places + 1) * places
    for step in range(places + 1):
        before = places if step == 0 else step - 1
        for place in range(0 if before == places else before, places):
            if not shape.link[before, place] or not shape.goes_on[place]:
                continue
            source = place * places
            for row in range(begin, end):
                if bits[row] & shape.bit[place] == _NONE:
                    continue
                if place == before and source != spare:
                    for to in range(places):
                        copy(matrix, spare + to, matrix, source + to)
                    source = spare
                to = before * places + place
                add_taken(matrix, to, 1, matrix, source + place, 1, places - place, weights, place, row)


@njit(cache=True, nogil=True)
def _most_in_window(time, from_, window):
    """The most rows of a partition within a window."""
    most = 0
    for part in range(len(from_) - 1):
        first = from_[part]
        for row in range(from_[part], from_[part + 1]):
            while time[first] < window_start(time[row], window):
                first += 1
            most = max(most, row + 1 - first)
    return most


@njit(cache=True, nogil=True)
def slide(shape, weights, one, bits, time, from_, window, slot, total):
    """Adds up the matches of partitions from_[g]:from_[g + 1], whose rows are in order of time.

    slot int64[n]: where in `total` the matches go that end with a row; negative: nowhere. A match lasts at most
    `window`.
    """
    places = len(shape.bit)
    windowed = window < EVER
    back = _room((places + 1) * (places + 1), total)
    suffix = _room((places + 1) * places + places, total)
    reached = _room(places, total)
    most = _most_in_window(time, from_, window) if windowed else 0
    front = _room((most + 1) * places, total)
    row_of = np.empty(2 * most + 2, np.int64)
    for part in range(len(from_) - 1):
        low, high = from_[part], from_[part + 1]
        _identity(back, one, places)
        # Items are times with events; row_of[i]: where they begin. The front has first:middle, the back middle:items.
        first = middle = items = 0
        row = low
        while row < high:
            now = time[row]
            begin, mask, wanted = row, bits[row], slot[row] >= 0
            row += 1
            while row < high and time[row] == now:
                mask |= bits[row]
                wanted |= slot[row] >= 0
                row += 1
            if mask == _NONE:
                continue
            if windowed:
                earliest = window_start(now, window)
                if first < items and time[row_of[items - 1]] < earliest:
                    _identity(back, one, places)
                    first = middle = items = 0
                while first < items and time[row_of[first]] < earliest:
                    if first == middle:
                        _identity(suffix, one, places)
                        for item in range(items - 1, first - 1, -1):
                            end = row_of[item]
                            while end < high and time[end] == time[row_of[item]]:
                                end += 1
                            _prepend(suffix, shape, weights, bits, row_of[item], end)
                            for place in range(places):
                                copy(front, (item - first) * places + place, suffix, places * places + place)
                        for item in range(first, items):
                            row_of[item - first] = row_of[item]
                        items -= first
                        first, middle = 0, items
                        _identity(back, one, places)
                    first += 1
            if wanted:
                for place in range(places):
                    clear(reached, place)
                    if shape.goes_on[place]:
                        add(reached, place, back, places * places + place)
                        if first < middle:
                            for before in range(place + 1):
                                add_product(
                                    reached, place, front, first * places + before, back, before * places + place
                                )
                for end in range(begin, row):
                    if slot[end] < 0:
                        continue
                    for place in range(places):
                        if bits[end] & shape.bit[place] == _NONE or not shape.ends[place]:
                            continue
                        for before in range(places):
                            if shape.link[before, place]:
                                add_taken(total, slot[end], 1, reached, before, 1, 1, weights, place, end)
                        if shape.link[places, place]:
                            add_taken(total, slot[end], 1, one, 0, 1, 1, weights, place, end)
            _append(back, shape, one, weights, bits, begin, row, windowed)
            if windowed:
                row_of[items] = begin
                items += 1
