"""The search for situations that stand in Allen's relations to each other.

Situations of one symbol and partition never overlap, so a buffer of them is sorted by start and by end at once: a
buffer is a range of slots lo:hi of flat arrays, the slot `hi` after the finished ones holds the one that lasts. Slots
leave at the front when they fall out of the window.

Relations are bits 0 .. 12: before, meets, overlaps, starts, during, finishes, equals, after, met-by, overlapped-by,
started-by, contains, finished-by; `masks[y, z]` are those that y may have to z.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ALL = 0x1FFF
BEFORE, MEETS, OVERLAPS, STARTS, DURING, FINISHES, EQUALS = range(7)
AFTER, MET_BY, OVERLAPPED_BY, STARTED_BY, CONTAINS, FINISHED_BY = range(7, 13)

BOTH_LAST_FIRST = 1 << OVERLAPS | 1 << FINISHES | 1 << CONTAINS
BOTH_LAST_TOGETHER = 1 << STARTS | 1 << EQUALS | 1 << STARTED_BY
BOTH_LAST_SECOND = 1 << DURING | 1 << FINISHED_BY | 1 << OVERLAPPED_BY
"""What two situations that both last may come to be, by which began first: TPStream's prefix groups."""

RANGES = 16


@njit(cache=True, nogil=True, inline="always")
def relation(a_start, a_end, b_start, b_end):
    """The relation of a to b."""
    if a_end <= b_start:
        return BEFORE if a_end < b_start else MEETS
    if b_end <= a_start:
        return AFTER if b_end < a_start else MET_BY
    if a_start < b_start:
        return OVERLAPS if a_end < b_end else FINISHES if a_end == b_end else CONTAINS
    if a_start == b_start:
        return STARTS if a_end < b_end else EQUALS if a_end == b_end else STARTED_BY
    return DURING if a_end < b_end else FINISHED_BY if a_end == b_end else OVERLAPPED_BY


@njit(cache=True, nogil=True, inline="always")
def relation_to_lasting(a_start, a_end, b_start):
    """The relation of a to b, which lasts: it ends later than anything, even at the greatest time."""
    if a_end <= b_start:
        return BEFORE if a_end < b_start else MEETS
    return OVERLAPS if a_start < b_start else STARTS if a_start == b_start else DURING


@njit(cache=True, nogil=True, inline="always")
def relation_of_lasting(a_start, b_start, b_end):
    """The relation of a, which lasts, to b."""
    if b_end <= a_start:
        return AFTER if b_end < a_start else MET_BY
    return CONTAINS if a_start < b_start else STARTED_BY if a_start == b_start else OVERLAPPED_BY


@njit(cache=True, nogil=True, inline="always")
def both_last(a_start, b_start):
    """The relations that two lasting situations may come to have."""
    return BOTH_LAST_FIRST if a_start < b_start else BOTH_LAST_TOGETHER if a_start == b_start else BOTH_LAST_SECOND


@njit(cache=True, nogil=True, inline="always")
def undecided(mask, a_start, b_start):
    """Could two situations that both last come to have a relation that is not allowed?"""
    group = both_last(a_start, b_start)
    return mask & group != group


@njit(cache=True, nogil=True, inline="always")
def _first_at_least(values, lo, hi, limit):
    """The first slot of lo:hi with a value >= limit, else hi. Looks from the end: what is asked is often recent."""
    step = 1
    high = hi
    while hi - step >= lo and values[hi - step] >= limit:
        high = hi - step
        step *= 2
    low = max(lo, hi - step + 1) if hi - step >= lo else lo
    while low < high:
        middle = (low + high) // 2
        if values[middle] >= limit:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def _allowed(mask, starts, ends, lo, hi, z_start, z_end, z_lasts, out):
    """The slots of lo:hi whose relation to z is in the mask, as sorted disjoint ranges; how many ranges.

    Along the buffer the relation to z runs through before, meets, [one that holds z's start], during, [one that holds
    z's end], met-by, after; the two in brackets are single slots. z_lasts: z has no end yet, and nothing is after it.
    """
    count = 0
    at = lo
    for part in range(7):
        if at >= hi:
            break
        if part == 0:
            to, bit = _first_at_least(ends, at, hi, z_start), BEFORE
        elif part == 1:
            to, bit = at + (ends[at] == z_start), MEETS
        elif part == 2:
            to = at + (starts[at] <= z_start)
            if z_lasts:
                bit = relation_to_lasting(starts[at], ends[at], z_start)
            else:
                bit = relation(starts[at], ends[at], z_start, z_end)
        elif part == 3:
            to, bit = (hi if z_lasts else _first_at_least(ends, at, hi, z_end)), DURING
        elif part == 4:
            to = at + (starts[at] < z_end)
            bit = relation(starts[at], ends[at], z_start, z_end)
        elif part == 5:
            to, bit = at + (starts[at] == z_end), MET_BY
        else:
            to, bit = hi, AFTER
        if to > at and mask >> bit & 1:
            if count and out[count - 1, 1] == at:
                out[count - 1, 1] = to
            else:
                out[count, 0], out[count, 1] = at, to
                count += 1
        at = to
    return count


@njit(cache=True, nogil=True)
def _intersect(left, n_left, right, n_right, out):
    """Ranges in both lists."""
    count = i = j = 0
    while i < n_left and j < n_right:
        low, high = max(left[i, 0], right[j, 0]), min(left[i, 1], right[j, 1])
        if low < high:
            out[count, 0], out[count, 1] = low, high
            count += 1
        if left[i, 1] < right[j, 1]:
            i += 1
        else:
            j += 1
    return count


@njit(cache=True, nogil=True)
def _was_certain(masks, starts, lasted, chosen):
    """Was the match certain before this instant? Of each pair, one had ended, or the mask has all it could become."""
    symbols = len(chosen)
    for a in range(symbols):
        if lasted[a]:
            for b in range(a + 1, symbols):
                if lasted[b] and undecided(masks[a, b], starts[chosen[a]], starts[chosen[b]]):
                    return False
    return True


@njit(cache=True, nogil=True)
def grown(array, count):
    out = np.empty((2 * len(array), array.shape[1]), array.dtype)
    out[:count] = array[:count]
    return out


@njit(cache=True, nogil=True)
def search(pinned, order, masks, starts, ends, lo, hi, candidate, open_slot, ended_seen, check_new, chosen, lasts,
           lasted, ranges, scratch, statistics, found, count, most):  # fmt: skip
    """All matches with the pinned situation (chosen[pinned]), the others along `order`; (found, count).

    candidate: does the lasting situation of a symbol take part? hi: after the finished ones that take part.
    ended_seen: slot of each symbol that has ended just now and was visible before, or -1.
    check_new: leave out what was certain before this instant. found int64[room, S + 1]: slots, and which last as bits.
    statistics: those of `situations`; selectivities and partial records are kept up to date.
    """
    symbols = len(chosen)
    steps = symbols - 1
    n_ranges = np.zeros(symbols, np.int64)
    which = np.zeros(symbols, np.int64)
    at = np.zeros(symbols, np.int64)
    step = 0
    entering = True
    while True:
        if step == steps:
            if not check_new or not _was_certain(masks, starts, lasted, chosen):
                if count == len(found):
                    found = grown(found, count)
                open_bits = np.int64(0)
                for s in range(symbols):
                    found[count, s] = chosen[s]
                    open_bits |= np.int64(lasts[s]) << s
                found[count, symbols] = open_bits
                count += 1
                if count >= most:
                    return found, count
            step -= 1
            entering = False
            if step < 0:
                return found, count
            continue
        y = order[step]
        if entering:
            n = 1 if lo[y] < hi[y] else 0
            ranges[step, 0, 0], ranges[step, 0, 1] = lo[y], hi[y]
            for before in range(-1, step):
                z = pinned if before < 0 else order[before]
                mask = masks[y, z]
                if mask == ALL:
                    continue
                if n == 0:
                    break
                slot = chosen[z]
                matching = _allowed(
                    mask, starts, ends, lo[y], hi[y], starts[slot], ends[slot], lasts[z], scratch[0]
                )  # fmt: skip
                kept = 0
                for r in range(matching):
                    kept += scratch[0, r, 1] - scratch[0, r, 0]
                share = kept / (hi[y] - lo[y])
                statistics.shares_seen[y, z] += 1
                statistics.shares_seen[z, y] += 1
                weight = max(statistics.share_smoothing, 1.0 / statistics.shares_seen[y, z])
                statistics.selectivity[y, z] += weight * (share - statistics.selectivity[y, z])
                statistics.selectivity[z, y] = statistics.selectivity[y, z]
                n = _intersect(ranges[step], n, scratch[0], matching, scratch[1])
                for r in range(n):
                    ranges[step, r, 0], ranges[step, r, 1] = scratch[1, r, 0], scratch[1, r, 1]
            n_ranges[step] = n
            which[step] = 0
            at[step] = ranges[step, 0, 0] if n else 0
        # The next candidate of this step: finished ones range by range, then the one that lasts.
        advanced = False
        if which[step] < n_ranges[step]:
            chosen[y], lasts[y] = at[step], False
            lasted[y] = at[step] == ended_seen[y]
            at[step] += 1
            if at[step] == ranges[step, which[step], 1]:
                which[step] += 1
                if which[step] < n_ranges[step]:
                    at[step] = ranges[step, which[step], 0]
            advanced = True
        elif which[step] == n_ranges[step]:
            which[step] += 1
            if candidate[y]:
                fits = True
                y_start = starts[open_slot[y]]
                for before in range(-1, step):
                    z = pinned if before < 0 else order[before]
                    mask = masks[y, z]
                    if mask == ALL:
                        continue
                    if lasts[z]:
                        group = both_last(y_start, starts[chosen[z]])
                        fits = mask & group == group
                    else:
                        fits = mask >> relation_of_lasting(y_start, starts[chosen[z]], ends[chosen[z]]) & 1 == 1
                    if not fits:
                        break
                if fits:
                    chosen[y], lasts[y], lasted[y] = open_slot[y], True, True
                    advanced = True
        if advanced:
            statistics.partial[pinned, step] += 1
            step += 1
            entering = True
        else:
            step -= 1
            entering = False
            if step < 0:
                return found, count
