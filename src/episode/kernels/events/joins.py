"""Joins of event buffers: the operators of tree plans.

A buffer holds records sorted by (group, end): `from_` int64[groups + 1] offsets of each partition's records,
`start` and `end` int64 times, `rows` int32[records, width]: the event of each variable (-1: not part of the record).

Value tests come as a `Tests` tuple of arrays and are evaluated on (left record, right record). A test compares two
columns; what is more than that is a program of the expression machine. A test that mentions an absent event holds.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from episode.kernels import machine
from episode.kernels.comparing import (
    AT_MOST,
    GREATER,
    LESS,
    UNEQUAL,
    accepts,
    compare_floats,
    compare_ints,
    turned,
)
from episode.kernels.times import EVER, NEVER, window_end, window_start

Tests = namedtuple(
    "Tests",
    [
        "plain", "program_from", "program_to", "program_result", "nav_from", "nav_number", "nav_side", "nav_at", "navs",
        "code", "registers", "const_i", "const_f",
    ],
)  # fmt: skip
"""plain int64[tests, 10]: comparisons, in columns COMPARE … B_AT. program_*: machine programs, each with navigations
nav_from[p]:nav_from[p + 1] (number, side, variable); navs: how many there are at all.

Kernels take the arrays that their inner loops read out of the tuples first: taking them out counts references."""

COMPARE, FLOATING, A, A_VALID, A_SIDE, A_AT, B, B_VALID, B_SIDE, B_AT = range(10)
"""COMPARE: see `kernels.comparing`; FLOATING: in which lane; A, B: columns; *_VALID: row of validity or -1;
*_SIDE: 0 left record, 1 right record; *_AT: which variable of it."""

Lanes = namedtuple("Lanes", ["ints", "floats", "valid", "key"])
FINE, TOO_MANY = 0, 1
LEAST_ROOM = 1024
NEAR = 8


@njit(cache=True, nogil=True)
def scratch(tests):
    """Registers and navigation rows for the programs of `tests`."""
    registers = max(1, tests.registers)
    return (
        np.zeros((registers, 1), np.int64), np.zeros((registers, 1), np.float64), np.zeros((registers, 1), np.uint8),
        np.full(max(1, tests.navs), -1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float64),
        np.zeros(0, np.uint8),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def compares(plain, first, ints, floats, valid, l_rows, left, r_rows, right):
    """Do the comparisons from number `first` on hold for a left and a right record?"""
    for i in range(first, len(plain)):
        a = l_rows[left, plain[i, A_AT]] if plain[i, A_SIDE] == 0 else r_rows[right, plain[i, A_AT]]
        b = l_rows[left, plain[i, B_AT]] if plain[i, B_SIDE] == 0 else r_rows[right, plain[i, B_AT]]
        if a < 0 or b < 0:
            continue
        if plain[i, A_VALID] >= 0 and valid[plain[i, A_VALID], a] == 0:
            return False
        if plain[i, B_VALID] >= 0 and valid[plain[i, B_VALID], b] == 0:
            return False
        if plain[i, FLOATING]:
            order = compare_floats(floats[plain[i, A], a], floats[plain[i, B], b])
        else:
            order = compare_ints(ints[plain[i, A], a], ints[plain[i, B], b])
        if not accepts(plain[i, COMPARE], order):
            return False
    return True


@njit(cache=True, nogil=True)
def programs_hold(tests, lanes, work, l_rows, left, r_rows, right):
    """Do the programs hold?"""
    ri, rf, rn, nav_rows, none_i, none_f, none_n = work
    for p in range(len(tests.program_from)):
        base, absent = np.int64(0), False
        for n in range(tests.nav_from[p], tests.nav_from[p + 1]):
            row = l_rows[left, tests.nav_at[n]] if tests.nav_side[n] == 0 else r_rows[right, tests.nav_at[n]]
            nav_rows[tests.nav_number[n]] = row
            if row < 0:
                absent = True
            else:
                base = row
        if absent:
            continue
        machine.run(tests.code, tests.program_from[p], tests.program_to[p], ri, rf, rn, 1, base, lanes.key, lanes.ints,
                    lanes.floats, lanes.valid, tests.const_i, tests.const_f, nav_rows, none_i, none_i, none_f, none_n,
                    machine.NO_NUMBER)  # fmt: skip
        result = tests.program_result[p]
        if rn[result, 0] != 0 or ri[result, 0] == 0:
            return False
    return True


@njit(cache=True, nogil=True, inline="always")
def holds(plain, ints, floats, valid, programs, tests, lanes, work, l_rows, left, r_rows, right):
    """Do all tests hold for a left and a right record?"""
    return compares(plain, 0, ints, floats, valid, l_rows, left, r_rows, right) and (
        not programs or programs_hold(tests, lanes, work, l_rows, left, r_rows, right)
    )


@njit(cache=True, nogil=True)
def _grown(rows, start, end, count):
    """The output arrays with twice the room."""
    room = 2 * len(start)
    wide = np.empty((room, rows.shape[1]), np.int32)
    wide[:count] = rows[:count]
    begins, ends = np.empty(room, np.int64), np.empty(room, np.int64)
    begins[:count] = start[:count]
    ends[:count] = end[:count]
    return wide, begins, ends


@njit(cache=True, nogil=True)
def first_at_least(values, low, high, wanted):
    """First index in [low, high) whose value is at least `wanted`."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def leaf(bits, bit, from_, start, end):
    """The buffer of one variable: rows that qualify for it."""
    mask = np.uint64(1) << np.uint64(bit)
    groups = len(from_) - 1
    count = 0
    for row in range(from_[0], from_[groups]):
        count += (bits[row] & mask) != 0
    rows = np.empty((count, 1), np.int32)
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    out_from = np.zeros(groups + 1, np.int64)
    at = 0
    for g in range(groups):
        for row in range(from_[g], from_[g + 1]):
            if bits[row] & mask:
                rows[at, 0] = row
                begins[at] = start[row]
                ends[at] = end[row]
                at += 1
        out_from[g + 1] = at
    return out_from, begins, ends, rows


@njit(cache=True, nogil=True)
def _image(value):
    """An int64 that is ordered as the floating point numbers are, NaN last, zeros alike."""
    if value != value:
        return EVER
    bits = np.float64(value + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & EVER)


@njit(cache=True, nogil=True)
def _values(rows, at, column, floating, ints, floats):
    """(int64 values of a column of one variable's events, is an event absent?)"""
    out = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        row = rows[i, at]
        if row < 0:
            return out, True
        out[i] = _image(floats[column, row]) if floating else ints[column, row]
    return out, False


@njit(cache=True, nogil=True)
def _first_comparison(plain, ints, floats, l_rows, r_rows):
    """The first comparison as values to compare, if it is one of left and right events without nulls.

    Returns (is it, comparison of left with right, values of the left records, of the right records).
    """
    nothing = np.zeros(0, np.int64)
    if len(plain) == 0:
        return False, 0, nothing, nothing
    test = plain[0]
    if test[A_SIDE] == test[B_SIDE] or test[A_VALID] >= 0 or test[B_VALID] >= 0:
        return False, 0, nothing, nothing
    compare = test[COMPARE]
    if test[A_SIDE] == 0:
        l_at, l_column, r_at, r_column = test[A_AT], test[A], test[B_AT], test[B]
    else:
        l_at, l_column, r_at, r_column = test[B_AT], test[B], test[A_AT], test[A]
        compare = turned(compare)
    l_values, l_absent = _values(l_rows, l_at, l_column, test[FLOATING] != 0, ints, floats)
    r_values, r_absent = _values(r_rows, r_at, r_column, test[FLOATING] != 0, ints, floats)
    return not (l_absent or r_absent), compare, l_values, r_values


@njit(cache=True, nogil=True)
def sequence(l_from, l_start, l_end, l_rows, r_from, r_start, r_end, r_rows, window, done, r_low, r_high, l_bars, l_low,
             l_high, tests, lanes, limit, timed):  # fmt: skip
    """Left records that end before right records begin, within the window; sorted by end.

    done int64[groups]: only right records that end later are joined. r_low <= left's end < r_high, per right record;
    if l_bars, l_low < right's start <= l_high, per left record: what negations and closures between them demand.
    First the left records that fit each right one are listed (the first comparison is a range of values to be in), then
    the records are written. timed: with their times; else `start` and `end` are empty.
    Returns (status, from, start, end, rows, pairs tried).
    """
    groups = len(l_from) - 1
    work = scratch(tests)
    plain, ints, floats, valid = tests.plain, lanes.ints, lanes.floats, lanes.valid
    programs = len(tests.program_from) > 0
    ranged, compare, l_values, r_values = _first_comparison(plain, ints, floats, l_rows, r_rows)
    others = 1 if ranged else 0
    tested = len(plain) > others or programs
    pairs = np.empty(max(LEAST_ROOM, len(r_end)), np.int32)
    listed = np.zeros(len(r_end) + 1, np.int64)
    count, tried, status = 0, 0, FINE
    for g in range(groups):
        low, stop = l_from[g], l_from[g + 1]
        high, last, before = low, low, NEVER
        for right in range(r_from[g], r_from[g + 1]):
            listed[right + 1] = count
            if low == stop or r_end[right] <= done[g]:
                continue
            oldest = window_start(r_end[right], window)
            while low < stop and l_end[low] < oldest:
                low += 1
            while high < stop and l_end[high] < r_end[right]:
                high += 1
            first = low
            if r_low[right] > oldest:
                first = first_at_least(l_end, low, high, r_low[right])
            # Right records with one end begin one after the other: most often the last left one is near the last last.
            bound = min(r_start[right], r_high[right])
            last = max(low, last if bound >= before else low)
            before = bound
            near = min(high, last + NEAR)
            while last < near and l_end[last] < bound:
                last += 1
            if last == near:
                last = first_at_least(l_end, last, high, bound)
            if last <= first:
                continue
            tried += last - first
            if count + last - first > len(pairs):
                wider = np.empty(2 * (count + last - first), np.int32)
                wider[:count] = pairs[:count]
                pairs = wider
            fit = count
            if ranged:
                least, most = _range(compare, r_values[right])
                wanted = compare != UNEQUAL
                for left in range(first, last):
                    pairs[fit] = left
                    inside = (l_values[left] >= least) & (l_values[left] <= most)
                    fit += (l_start[left] >= oldest) & (inside == wanted)
            else:
                for left in range(first, last):
                    pairs[fit] = left
                    fit += l_start[left] >= oldest
            if l_bars:
                kept = count
                for i in range(count, fit):
                    left = pairs[i]
                    pairs[kept] = left
                    kept += (l_low[left] < r_start[right]) & (r_start[right] <= l_high[left])
                fit = kept
            if tested:
                kept = count
                for i in range(count, fit):
                    left = pairs[i]
                    if compares(plain, others, ints, floats, valid, l_rows, left, r_rows, right) and (
                        not programs or programs_hold(tests, lanes, work, l_rows, left, r_rows, right)
                    ):
                        pairs[kept] = left
                        kept += 1
                fit = kept
            count = fit
            listed[right + 1] = count
            if count > limit:
                status = TOO_MANY
                break
        if status != FINE:
            break
    if status != FINE:
        none = np.zeros(0, np.int64)
        return status, np.zeros(groups + 1, np.int64), none, none, np.zeros((0, 1), np.int32), tried
    return (FINE, listed[r_from], *_written(pairs, listed, l_start, l_rows, r_end, r_rows, timed), tried)


@njit(cache=True, nogil=True)
def _range(compare, value):
    """Least and greatest of the values that a comparison with `value` lets through (<>: that it does not)."""
    if compare <= UNEQUAL:
        return value, value
    if compare == LESS:
        return (NEVER, value - 1) if value > NEVER else (EVER, NEVER)
    if compare == AT_MOST:
        return NEVER, value
    if compare == GREATER:
        return (value + 1, EVER) if value < EVER else (EVER, NEVER)
    return value, EVER


@njit(cache=True, nogil=True)
def _written(pairs, listed, l_start, l_rows, r_end, r_rows, timed):
    """(start, end, rows) of joined records; pairs[listed[r]:listed[r + 1]]: the left records of right record r."""
    total = listed[len(r_end)]
    left_width, right_width = l_rows.shape[1], r_rows.shape[1]
    rows = np.empty((total, left_width + right_width), np.int32)
    times = total if timed else 0
    start, end = np.empty(times, np.int64), np.empty(times, np.int64)
    for right in range(len(r_end)):
        first, stop = listed[right], listed[right + 1]
        if timed:
            for i in range(first, stop):
                start[i] = l_start[pairs[i]]
                end[i] = r_end[right]
        if left_width == 1 and right_width == 1:
            for i in range(first, stop):
                rows[i, 0] = l_rows[pairs[i], 0]
                rows[i, 1] = r_rows[right, 0]
        elif left_width == 2 and right_width == 1:
            for i in range(first, stop):
                left = pairs[i]
                rows[i, 0] = l_rows[left, 0]
                rows[i, 1] = l_rows[left, 1]
                rows[i, 2] = r_rows[right, 0]
        elif left_width == 1 and right_width == 2:
            for i in range(first, stop):
                rows[i, 0] = l_rows[pairs[i], 0]
                rows[i, 1] = r_rows[right, 0]
                rows[i, 2] = r_rows[right, 1]
        else:
            for i in range(first, stop):
                left = pairs[i]
                for c in range(left_width):
                    rows[i, c] = l_rows[left, c]
                for c in range(right_width):
                    rows[i, left_width + c] = r_rows[right, c]
    return start, end, rows


@njit(cache=True, nogil=True, inline="always")
def _bucket(value, mask):
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(20)) & mask


@njit(cache=True, nogil=True)
def sequence_by_hash(l_from, l_start, l_end, l_rows, l_codes, r_from, r_start, r_end, r_rows, r_codes, window, done,
                     r_low, r_high, l_bars, l_low, l_high, tests, lanes, limit):  # fmt: skip
    """As `sequence`, where left and right records must have the same code (int64; the tests check it, too).

    Left records enter a hash table as time goes on; the records of a bucket are chained from the latest back.
    """
    groups = len(l_from) - 1
    left_width, right_width = l_rows.shape[1], r_rows.shape[1]
    room = max(LEAST_ROOM, len(r_end))
    rows = np.empty((room, left_width + right_width), np.int32)
    start, end = np.empty(room, np.int64), np.empty(room, np.int64)
    out_from = np.zeros(groups + 1, np.int64)
    work = scratch(tests)
    plain, ints, floats, valid = tests.plain, lanes.ints, lanes.floats, lanes.valid
    programs = len(tests.program_from) > 0
    largest = 1
    for g in range(groups):
        largest = max(largest, l_from[g + 1] - l_from[g])
    size = 1
    while size < 2 * largest and size < 1 << 22:
        size *= 2
    heads = np.full(size, -1, np.int64)
    chain = np.empty(len(l_end), np.int64)
    count, tried = 0, 0
    for g in range(groups):
        begin, stop = l_from[g], l_from[g + 1]
        entered = begin
        for right in range(first_at_least(r_end, r_from[g], r_from[g + 1], done[g] + 1), r_from[g + 1]):
            while entered < stop and l_end[entered] < r_end[right]:
                bucket = _bucket(l_codes[entered], size - 1)
                chain[entered] = heads[bucket]
                heads[bucket] = entered
                entered += 1
            oldest = window_start(r_end[right], window)
            low = max(oldest, r_low[right])
            before = min(r_start[right], r_high[right])
            left = heads[_bucket(r_codes[right], size - 1)]
            while left >= 0 and l_end[left] >= low:
                tried += 1
                if (
                    l_codes[left] == r_codes[right]
                    and l_end[left] < before
                    and l_start[left] >= oldest
                    and not (l_bars and not (l_low[left] < r_start[right] <= l_high[left]))
                    and holds(plain, ints, floats, valid, programs, tests, lanes, work, l_rows, left, r_rows, right)
                ):
                    if count == len(start):
                        rows, start, end = _grown(rows, start, end, count)
                    for i in range(left_width):
                        rows[count, i] = l_rows[left, i]
                    for i in range(right_width):
                        rows[count, left_width + i] = r_rows[right, i]
                    start[count] = l_start[left]
                    end[count] = r_end[right]
                    count += 1
                left = chain[left]
            if count > limit:
                return TOO_MANY, out_from, start[:count], end[:count], rows[:count], tried
        for left in range(begin, entered):
            heads[_bucket(l_codes[left], size - 1)] = -1
        out_from[g + 1] = count
    return FINE, out_from, start[:count], end[:count], rows[:count], tried


@njit(cache=True, nogil=True)
def conjunction(l_from, l_start, l_end, l_rows, r_from, r_start, r_end, r_rows, window, done, distinct, tests, lanes,
                limit):  # fmt: skip
    """Left and right records in any order, within the window; sorted by end. distinct: no event may be in both."""
    groups = len(l_from) - 1
    left_width, right_width = l_rows.shape[1], r_rows.shape[1]
    room = max(LEAST_ROOM, len(r_end))
    rows = np.empty((room, left_width + right_width), np.int32)
    start, end = np.empty(room, np.int64), np.empty(room, np.int64)
    out_from = np.zeros(groups + 1, np.int64)
    work = scratch(tests)
    plain, ints, floats, valid = tests.plain, lanes.ints, lanes.floats, lanes.valid
    programs = len(tests.program_from) > 0
    count, tried = 0, 0
    for g in range(groups):
        left, right = l_from[g], r_from[g]
        l_low, r_low = left, right
        while left < l_from[g + 1] or right < r_from[g + 1]:
            from_right = left == l_from[g + 1] or (right < r_from[g + 1] and r_end[right] < l_end[left])
            now_end = r_end[right] if from_right else l_end[left]
            now_start = r_start[right] if from_right else l_start[left]
            oldest = window_start(now_end, window)
            while l_low < left and l_end[l_low] < oldest:
                l_low += 1
            while r_low < right and r_end[r_low] < oldest:
                r_low += 1
            if (now_end > done[g] or done[g] == NEVER) and now_start >= oldest:
                first, last = (l_low, left) if from_right else (r_low, right)
                tried += last - first
                for other in range(first, last):
                    a, b = (other, right) if from_right else (left, other)
                    begins = l_start[a] if from_right else r_start[b]
                    if begins < oldest:
                        continue
                    if distinct and _share(l_rows, a, r_rows, b):
                        continue
                    if not holds(plain, ints, floats, valid, programs, tests, lanes, work, l_rows, a, r_rows, b):
                        continue
                    if count == len(start):
                        rows, start, end = _grown(rows, start, end, count)
                    for i in range(left_width):
                        rows[count, i] = l_rows[a, i]
                    for i in range(right_width):
                        rows[count, left_width + i] = r_rows[b, i]
                    start[count] = min(begins, now_start)
                    end[count] = now_end
                    count += 1
                if count > limit:
                    return TOO_MANY, out_from, start[:count], end[:count], rows[:count], tried
            if from_right:
                right += 1
            else:
                left += 1
        out_from[g + 1] = count
    return FINE, out_from, start[:count], end[:count], rows[:count], tried


@njit(cache=True, nogil=True)
def _share(l_rows, left, r_rows, right):
    for i in range(l_rows.shape[1]):
        for j in range(r_rows.shape[1]):
            if l_rows[left, i] >= 0 and l_rows[left, i] == r_rows[right, j]:
                return True
    return False


@njit(cache=True, nogil=True)
def latest_before(r_from, r_start, r_end, r_rows, n_from, n_start, n_end, n_rows, nth, window, tests, lanes):
    """Per record, the greatest start of the records of N that end before it begins and for which the tests hold.

    The tests see N as their left side. nth: not the last but the nth last of them, where N holds single events.
    NEVER where there is none within the window.
    """
    found = np.full(len(r_start), NEVER, np.int64)
    work = scratch(tests)
    plain, ints, floats, valid = tests.plain, lanes.ints, lanes.floats, lanes.valid
    programs = len(tests.program_from) > 0
    for g in range(len(r_from) - 1):
        for right in range(r_from[g], r_from[g + 1]):
            oldest = window_start(r_end[right], window)
            left, best, seen = first_at_least(n_end, n_from[g], n_from[g + 1], r_start[right]) - 1, NEVER, 0
            while left >= n_from[g] and n_end[left] >= oldest and n_end[left] > best:
                if n_start[left] >= oldest and holds(
                    plain, ints, floats, valid, programs, tests, lanes, work, n_rows, left, r_rows, right
                ):
                    seen += 1
                    if seen >= nth:
                        best = max(best, n_start[left])
                left -= 1
            found[right] = best
    return found


@njit(cache=True, nogil=True)
def earliest_after(l_from, l_start, l_end, l_rows, n_from, n_start, n_end, n_rows, nth, window, tests, lanes):
    """Per record, the least end of the records of N that begin after it ends and for which the tests hold; else EVER.

    The tests see N as their right side. nth as in `latest_before`.
    """
    found = np.full(len(l_start), EVER, np.int64)
    work = scratch(tests)
    plain, ints, floats, valid = tests.plain, lanes.ints, lanes.floats, lanes.valid
    programs = len(tests.program_from) > 0
    for g in range(len(l_from) - 1):
        for left in range(l_from[g], l_from[g + 1]):
            newest = window_end(l_start[left], window)
            right, seen = first_at_least(n_end, n_from[g], n_from[g + 1], window_end(l_end[left], 1)), 0
            while right < n_from[g + 1] and n_end[right] <= newest:
                if n_start[right] > l_end[left] and holds(
                    plain, ints, floats, valid, programs, tests, lanes, work, l_rows, left, n_rows, right
                ):
                    seen += 1
                    if seen >= nth:
                        found[left] = n_end[right]
                        break
                right += 1
    return found


@njit(cache=True, nogil=True)
def any_between(groups_of, rows, low, high, n_from, n_start, n_end, n_rows, tests, lanes):
    """Per record, is there a record of N that lies in low .. high, both included, and for which the tests hold?

    An event of the record itself does not count. The tests see N as their right side.
    """
    found = np.zeros(len(low), np.bool_)
    work = scratch(tests)
    plain, ints, floats, valid = tests.plain, lanes.ints, lanes.floats, lanes.valid
    programs = len(tests.program_from) > 0
    for i in range(len(low)):
        g = groups_of[i]
        at = first_at_least(n_end, n_from[g], n_from[g + 1], low[i])
        while at < n_from[g + 1] and n_end[at] <= high[i]:
            if n_start[at] >= low[i] and not _share(rows, i, n_rows, at):
                if holds(plain, ints, floats, valid, programs, tests, lanes, work, rows, i, n_rows, at):
                    found[i] = True
                    break
            at += 1
    return found


@njit(cache=True, nogil=True)
def all_between(groups_of, rows, low, high, n_from, n_start, n_end, n_rows, tests, lanes, limit):
    """As `any_between`, all of them: (offsets, rows of the single events of N); empty if there are over `limit`."""
    offsets = np.zeros(len(low) + 1, np.int64)
    out = np.empty(max(LEAST_ROOM, len(low)), np.int32)
    work = scratch(tests)
    plain, ints, floats, valid = tests.plain, lanes.ints, lanes.floats, lanes.valid
    programs = len(tests.program_from) > 0
    count = 0
    for i in range(len(low)):
        g = groups_of[i]
        at = first_at_least(n_end, n_from[g], n_from[g + 1], low[i])
        while at < n_from[g + 1] and n_end[at] <= high[i]:
            if n_start[at] >= low[i] and not _share(rows, i, n_rows, at):
                # Without a call that is handed all arrays where there is no program: there are many such events.
                if compares(plain, 0, ints, floats, valid, rows, i, n_rows, at) and (
                    not programs or programs_hold(tests, lanes, work, rows, i, n_rows, at)
                ):
                    if count == len(out):
                        wider = np.empty(2 * len(out), np.int32)
                        wider[:count] = out
                        out = wider
                    out[count] = n_rows[at, 0]
                    count += 1
            at += 1
        offsets[i + 1] = count
        if count > limit:
            return TOO_MANY, offsets, out[:0]
    return FINE, offsets, out[:count]


@njit(cache=True, nogil=True)
def all_following(groups_of, first, start, newest, n_from, n_start, n_end, n_rows, most, limit):
    """Per row `first`, the single events of N that come after it in the order of rows, begin not before `start` and end
    not after `newest`: (status, offsets, rows), at most `most` of each; none where `first` is -1, or over `limit`."""
    offsets = np.zeros(len(first) + 1, np.int64)
    out = np.empty(max(LEAST_ROOM, len(first)), np.int32)
    count = 0
    for i in range(len(first)):
        g, begin = groups_of[i], first[i]
        stop = n_from[g + 1] if begin >= 0 else n_from[g]
        at = first_at_least(n_rows[:, 0], n_from[g], stop, begin + 1)
        before = count
        while at < stop and n_end[at] <= newest[i] and count - before < most:
            if n_start[at] >= start[i]:
                if count == len(out):
                    wider = np.empty(2 * len(out), np.int32)
                    wider[:count] = out
                    out = wider
                out[count] = n_rows[at, 0]
                count += 1
            at += 1
        offsets[i + 1] = count
        if count > limit:
            return TOO_MANY, offsets, out[:0]
    return FINE, offsets, out[:count]


@njit(cache=True, nogil=True)
def filtered(rows, none_rows, tests, lanes):
    """Per record, do the tests (all on the left side) hold?"""
    out = np.empty(len(rows), np.bool_)
    work = scratch(tests)
    plain, ints, floats, valid = tests.plain, lanes.ints, lanes.floats, lanes.valid
    programs = len(tests.program_from) > 0
    for i in range(len(rows)):
        out[i] = holds(plain, ints, floats, valid, programs, tests, lanes, work, rows, i, none_rows, 0)
    return out
