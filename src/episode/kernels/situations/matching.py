"""Situations and temporal patterns: deriving runs of events, and detecting matches of them as they come.

The rows of a batch are contiguous by partition ("group") and in order of time within one. Bit s of a row's `bits` says
whether the condition of symbol s holds. All rows of a group with one time are one *instant*; what is certain is asked
after its last row. Buffers of situations, relations and their masks are those of `situation_search`.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from episode.kernels.situations.search import ALL, RANGES, grown, search, undecided
from episode.kernels.times import EVER, is_as_long_as, window_end, window_start

DONE, FULL, REPLAN, TOO_MANY = range(4)

Pattern = namedtuple("Pattern", ["masks", "at_least", "at_most", "window", "eager", "on_start", "on_end"])
"""masks int64[S, S]; at_least, at_most int64[S]; eager: may situations that last be part of a match? on_start, on_end
bool[S]: can the start (or the end) of a symbol's situation make a match certain at all?"""

Rows = namedtuple("Rows", ["from_", "until_row", "time", "bits"])
"""from_ int64[groups + 1]; until_row int64[groups]: rows of a group from here on are left for later."""

Before = namedtuple("Before", ["open", "open_start", "open_seen", "held_from", "held_to", "held_start", "held_end"])
"""What earlier batches left: [groups, S] open: does one last, open_start: since when, open_seen: was it visible;
finished situations of symbol s and group g at held_from[s, g]:held_to[s, g]."""

Buffers = namedtuple("Buffers", ["start", "end", "first", "last"])
"""Slots. first: first row in this batch (-1: it began before it). last: last row (-1: before this batch; -2 - i: it is
the held situation i)."""

Place = namedtuple("Place", ["at", "lo", "hi", "seen"])
"""Where a run stands, to go on from there. at int64[4]: group, row, is the group begun, symbols that last as bits."""

Groups = namedtuple("Groups", ["lo", "hi", "open_slot", "open_seen"])
"""How every group ends: [groups, S]. open_slot -1: none lasts."""

Statistics = namedtuple(
    "Statistics",
    [
        "smoothing", "share_smoothing", "threshold", "pause", "size", "selectivity", "size_then", "selectivity_then",
        "sizes_seen", "shares_seen", "look_at", "partial", "searches",
    ],
)  # fmt: skip
"""Moving averages of buffer sizes float64[S] and selectivities float64[S, S], those that the plan was made for, of how
many values each is (the first ones count alike; int64[1], int64[S, S]), and counts: partial int64[S, S] records per
(pinned symbol, step), searches int64[S]. smoothing, share_smoothing: the weight of a new size and of a new share of a
buffer that fits. look_at int64[1]: whether the plan still fits is looked at from so many sizes on. threshold: by which
share they may differ; 0: the plan stays. pause: instants between two looks."""

ENDED_IN_VAIN, ENDED_SEEN, ENDED, STARTED = range(4)
"""What is new at an instant, in the order of searching: ends of situations that were visible (without and with
something that they may make certain), ends of others, situations that are visible from now on."""


@njit(cache=True, nogil=True)
def count_starts(bits, from_, symbols):
    """How many runs of each symbol begin in the batch, at the most."""
    counts = np.zeros(symbols, np.int64)
    every = np.uint64((1 << symbols) - 1)
    for g in range(len(from_) - 1):
        before = np.uint64(0)
        for i in range(from_[g], from_[g + 1]):
            new = bits[i] & ~before & every
            before = bits[i]
            s = 0
            while new:
                counts[s] += np.int64(new & np.uint64(1))
                new >>= np.uint64(1)
                s += 1
    return counts


@njit(cache=True, nogil=True)
def complete_rows(from_, time, until):
    """For each group, the row after its last complete instant: a last instant later than `until` may grow."""
    groups = len(from_) - 1
    out = np.empty(groups, np.int64)
    for g in range(groups):
        stop = from_[g + 1]
        if stop > from_[g] and time[stop - 1] > until:
            last = time[stop - 1]
            while stop > from_[g] and time[stop - 1] == last:
                stop -= 1
        out[g] = stop
    return out


FEW = 1.0


@njit(cache=True, nogil=True)
def _plan_is_stale(masks, statistics):
    """Does the number of situations that fit another one differ from what the plan was made for? Less than FEW of them
    are as good as none, however their number moves."""
    symbols = len(masks)
    for s in range(symbols):
        for z in range(symbols):
            if s != z and masks[s, z] != ALL:
                now = statistics.size[s] * statistics.selectivity[s, z]
                then = statistics.size_then[s] * statistics.selectivity_then[s, z]
                if abs(now - then) > statistics.threshold * max(then, FEW):
                    return True
    return False


@njit(cache=True, nogil=True)
def detect(pattern, orders, rows, before, buffers, place, groups, statistics, found, found_row, soft_limit, most):
    """Go on through the rows until all are done, there are soft_limit matches, or the plan should be made anew.

    orders int64[S, S - 1]: for each symbol, the order in which the others are searched when a situation of it is new.
    found int64[room, S + 1], found_row int64[room, 2]: space for matches.
    Returns (status, matches int64[n, S + 1]: slots and which of them last as bits, rows int64[n, 2]: the last row of
    the instant at which each became certain, and its group).
    """
    masks, at_least, at_most, window = pattern.masks, pattern.at_least, pattern.at_most, pattern.window
    starts, ends, firsts, lasts_row = buffers.start, buffers.end, buffers.first, buffers.last
    lo, hi, seen = place.lo, place.hi, place.seen
    symbols = len(masks)
    time, bits = rows.time, rows.bits
    count = np.int64(0)
    chosen = np.zeros(symbols, np.int64)
    lasts = np.zeros(symbols, np.bool_)
    lasted = np.zeros(symbols, np.bool_)
    candidate = np.zeros(symbols, np.bool_)
    top = np.zeros(symbols, np.int64)
    ended_seen = np.full(symbols, -1, np.int64)
    ending = np.full(symbols, -1, np.int64)
    item_symbol = np.zeros(2 * symbols, np.int64)
    item_kind = np.zeros(2 * symbols, np.int64)
    ranges = np.zeros((symbols, RANGES, 2), np.int64)
    scratch = np.zeros((2, RANGES, 2), np.int64)
    never_seen = np.int64(0)
    for s in range(symbols):
        if not pattern.eager or at_most[s] != EVER:
            never_seen |= np.int64(1) << s
    group, i, open_ = place.at[0], place.at[1], place.at[3]
    n_groups = len(rows.until_row)
    while group < n_groups:
        begin, stop = rows.from_[group], rows.until_row[group]
        if place.at[2] == 0:
            place.at[2] = 1
            open_ = np.int64(0)
            i = begin
            for s in range(symbols):
                for h in range(before.held_from[s, group], before.held_to[s, group]):
                    starts[hi[s]], ends[hi[s]] = before.held_start[h], before.held_end[h]
                    firsts[hi[s]], lasts_row[hi[s]] = -1, -2 - h
                    hi[s] += 1
                seen[s] = False
                if before.open[group, s]:
                    open_ |= np.int64(1) << s
                    starts[hi[s]] = before.open_start[group, s]
                    firsts[hi[s]] = -1
                    seen[s] = before.open_seen[group, s]
        unseen = np.int64(0)
        for s in range(symbols):
            if open_ >> s & 1 and not seen[s]:
                unseen |= np.int64(1) << s
        unseen &= ~never_seen
        while i < stop:
            # Rows that change nothing: no run begins or ends, and none has lasted long enough to be visible now.
            due = EVER
            if unseen:
                for s in range(symbols):
                    if unseen >> s & 1:
                        due = min(due, window_end(starts[hi[s]], at_least[s]))
            while i < stop and np.int64(bits[i]) == open_ and time[i] < due:
                i += 1
            if i == stop:
                break
            now = time[i]
            ended, ended_visible = np.int64(0), np.int64(0)
            while True:
                holds = np.int64(bits[i])
                changed = holds ^ open_
                if changed:
                    for s in range(symbols):
                        if changed >> s & 1 == 0:
                            continue
                        slot = hi[s]
                        if holds >> s & 1:
                            starts[slot] = now
                            firsts[slot] = i
                            seen[s] = False
                        else:
                            begun = starts[slot]
                            long_enough = begun < now and is_as_long_as(begun, now, at_least[s])
                            if long_enough and begun >= window_start(now, at_most[s]):
                                ends[slot] = now
                                lasts_row[slot] = i - 1 if i > begin else -1
                                hi[s] += 1
                                ended |= np.int64(1) << s
                                if seen[s]:
                                    ended_visible |= np.int64(1) << s
                            seen[s] = False
                    unseen = (unseen & holds) | (changed & holds & ~never_seen)
                    open_ = holds
                i += 1
                if i >= stop or time[i] != now:
                    break
            oldest = window_start(now, window)
            items = 0
            if ended:
                for s in range(symbols):
                    ending[s] = hi[s] - 1 if ended_visible >> s & 1 and starts[hi[s] - 1] >= oldest else -1
                    candidate[s] = False
                    if open_ >> s & 1 and seen[s]:
                        candidate[s] = starts[hi[s]] >= oldest
                # Ends that make nothing certain come first, so that what the others make certain may hold them.
                decisive = np.int64(0)
                for s in range(symbols):
                    if ended_visible >> s & 1 and pattern.on_end[s]:
                        for y in range(symbols):
                            if y != s and (
                                (candidate[y] and undecided(masks[s, y], starts[hi[s] - 1], starts[hi[y]]))
                                or (ending[y] >= 0 and undecided(masks[s, y], starts[hi[s] - 1], starts[ending[y]]))
                            ):
                                decisive |= np.int64(1) << s
                for kind in (ENDED_IN_VAIN, ENDED_SEEN, ENDED):
                    which = ended_visible & ~decisive
                    if kind == ENDED_SEEN:
                        which = decisive
                    elif kind == ENDED:
                        which = ended & ~ended_visible
                    for s in range(symbols):
                        if which >> s & 1:
                            item_symbol[items], item_kind[items] = s, kind
                            items += 1
            if unseen:
                for s in range(symbols):
                    if unseen >> s & 1 and is_as_long_as(starts[hi[s]], now, at_least[s]):
                        unseen &= ~(np.int64(1) << s)
                        item_symbol[items], item_kind[items] = s, STARTED
                        items += 1
            useful = False
            for n in range(items):
                s, kind = item_symbol[n], item_kind[n]
                if kind == STARTED:
                    useful |= pattern.on_start[s]
                    seen[s] = True
                elif kind != ENDED_IN_VAIN:
                    useful |= pattern.on_end[s]
            if not useful:
                continue
            for s in range(symbols):
                ended_seen[s] = -1
                while lo[s] < hi[s] and starts[lo[s]] < oldest:
                    lo[s] += 1
                top[s] = max(lo[s], hi[s] - (ended >> s & 1))
                candidate[s] = False
                if open_ >> s & 1 and seen[s]:
                    candidate[s] = starts[hi[s]] >= oldest
            for n in range(items):
                if item_kind[n] == STARTED:
                    candidate[item_symbol[n]] = False  # until its own turn
            first_found = count
            for n in range(items):
                s, kind = item_symbol[n], item_kind[n]
                slot = hi[s] if kind == STARTED else hi[s] - 1
                if starts[slot] >= oldest:
                    useful = pattern.on_start[s] if kind == STARTED else pattern.on_end[s] and kind != ENDED_IN_VAIN
                    if useful:
                        statistics.searches[s] += 1
                        chosen[s], lasts[s], lasted[s] = slot, kind == STARTED, kind != ENDED
                        found, count = search(
                            s, orders[s], masks, starts, ends, lo, top, candidate, hi, ended_seen, kind == ENDED_SEEN,
                            chosen, lasts, lasted, ranges, scratch, statistics, found, count, most,
                        )  # fmt: skip
                        if count >= most:
                            place.at[0], place.at[1] = group, i - 1
                            return TOO_MANY, found[:0], found_row[:0]
                    if kind == STARTED:
                        candidate[s] = True
                    else:
                        top[s] = hi[s]
                        if kind != ENDED:
                            ended_seen[s] = slot
            while len(found_row) < count:
                found_row = grown(found_row, first_found)
            for n in range(first_found, count):
                found_row[n, 0], found_row[n, 1] = i - 1, group
            statistics.sizes_seen[0] += 1
            weight = max(statistics.smoothing, 1.0 / statistics.sizes_seen[0])
            for s in range(symbols):
                statistics.size[s] += weight * (hi[s] - lo[s] - statistics.size[s])
            status = DONE
            if count >= soft_limit:
                status = FULL
            elif statistics.threshold > 0 and statistics.sizes_seen[0] >= statistics.look_at[0]:
                statistics.look_at[0] += statistics.pause
                if _plan_is_stale(masks, statistics):
                    status = REPLAN
            if status != DONE:
                place.at[0], place.at[1], place.at[3] = group, i, open_
                return status, found[:count], found_row[:count]
        for s in range(symbols):
            if stop > begin:
                oldest = window_start(time[stop - 1], window)
                while lo[s] < hi[s] and starts[lo[s]] < oldest:
                    lo[s] += 1
            lasting = open_ >> s & 1 == 1
            groups.lo[group, s], groups.hi[group, s] = lo[s], hi[s]
            groups.open_slot[group, s] = hi[s] if lasting else -1
            groups.open_seen[group, s] = lasting and seen[s]
            if lasting:
                hi[s] += 1
            lo[s] = hi[s]
        group += 1
        place.at[0], place.at[2], place.at[3] = group, 0, 0
    place.at[1] = i
    return DONE, found[:count], found_row[:count]
