"""Slices of time that a row of a sliced key goes to: the one that owns it, and those in whose overlap it is.

Shapes: rows int64[h], the rows of sliced keys, ascending; groups int32[h], the key of each (its place among the sliced
ones); times int64[h]; first_cut int64[k + 1], where the cuts of each of the k keys begin among all cuts; cuts, lows,
highs int64[m], ascending within a key: slice s of a key owns times from its cut s - 1 up to before its cut s, the slice
after a cut is given rows from `lows` on, the one before it up to `highs`; first_unit int32[k], the number of a key's
first slice.

Rows mostly come in order of time, so that a row mostly is where the one before it was: that is looked at first.

See decision 35.
"""

from __future__ import annotations

import numpy as np

from episode.matchers.code.searching import first_after, first_at_least
from episode.matchers.slices.keys import SlicedKeys
from episode.matchers.times import EVER, NEVER
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope
from episode.native.ir import BOOL, I32, I64, U64, Value, Variable
from episode.native.running import compiled_for

_TOP = 58

_TYPES: ArrayTypes = {
    "hashes": (U64, False), "sliced": (U64, False), "rows": (I64, False), "groups": (I32, False), "times": (I64, False),
    "first_cut": (I64, False), "cuts": (I64, False), "lows": (I64, False), "highs": (I64, False),
    "first_unit": (I32, False), "numbers": (I32, True), "counts": (I64, True),
    "after_rows": (I64, True), "after_units": (I32, True), "before_rows": (I64, True), "before_units": (I32, True),
    "limits": (I64, False), "heaps": (I64, True), "sizes": (I64, True), "places": (I64, True), "intervals": (I32, True),
    "found": (I64, True), "found_groups": (I32, True),
}  # fmt: skip


def of_sliced_keys(hashes: np.ndarray, sliced: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, groups) of the rows whose hash (uint64[n]) is among those of sliced keys (uint64[k], ascending)."""
    if len(sliced) == 1:
        rows = np.flatnonzero(hashes == sliced[0])
        return rows, np.zeros(len(rows), np.int32)
    rows, groups = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int32)
    count = compiled_for(keys_program)([hashes, sliced, rows, groups])
    return rows[:count], groups[:count]


def route(
    rows: np.ndarray, groups: np.ndarray, times: np.ndarray, sliced: SlicedKeys, numbers: np.ndarray
) -> tuple[np.ndarray, ...] | None:
    """Write the unit that owns each of the rows into `numbers` (int32[n]); return the copies that are needed, if any.

    In order of the rows: rows and units of copies for later slices, and rows and units of those for earlier ones.
    """
    of_rows = [rows, groups, times, sliced.first_cut, sliced.cuts, sliced.lows, sliced.highs, sliced.first_unit]
    counts = np.zeros(2, np.int64)
    compiled_for(routes_program, False)([*of_rows, numbers, counts])
    following, preceding = counts.tolist()
    if not following + preceding:
        return None
    after = np.empty(following, np.int64), np.empty(following, np.int32)
    before = np.empty(preceding, np.int64), np.empty(preceding, np.int32)
    compiled_for(routes_program, True)([*of_rows, *after, *before])
    return *after, *before


def nearest(
    groups: np.ndarray, times: np.ndarray, first_cut: np.ndarray, limits: np.ndarray, after: bool, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """(places int64, intervals int32): rows that may be among the `most` last ones before limits (int64[m]) of their
    key, or (after) among the first ones after them: these, and all that have the same time as the farthest.

    The c limits of a key part its rows into c + 1 intervals; each has a heap of the nearest times so far. Rows are
    looked at from where the nearest are, if they are in order of time.
    """
    n_intervals = len(limits) + len(first_cut) - 1
    heaps, sizes = np.empty(n_intervals * most, np.int64), np.zeros(n_intervals, np.int64)
    places, intervals = np.empty(len(groups), np.int64), np.empty(len(groups), np.int32)
    given = [groups, times, first_cut, limits, heaps, sizes, places, intervals]
    kept = compiled_for(nearest_program, after)(given, most)
    return places[:kept], intervals[:kept]


def keys_program() -> Program:
    """Most rows are of other keys: 64 bits mark which of the first bits of hashes occur among those of sliced keys."""
    s = entry_scope("of_sliced_keys", _TYPES, "hashes", "sliced", "found", "found_groups")
    f = s.f
    one = f.constant(1, U64)
    some = f.variable("some", f.constant(0, U64))
    with f.loop(0, s.sliced.length) as key:
        some.set(some | one << (s.sliced[key] >> _TOP))
    occurring, count = some.value, f.variable("count", 0)
    with f.loop(0, s.hashes.length) as row:
        hashed = s.hashes[row]
        with f.when((occurring >> (hashed >> _TOP) & one).differs(0)):
            key = first_at_least(s, "sliced", 0, s.sliced.length, hashed)
            with f.when(key < s.sliced.length):
                with f.when(s.sliced[key].equals(hashed)):
                    s.found[count] = row
                    s.found_groups[count] = key.to(I32)
                    count.set(count + 1)
    f.give(count)
    return f.program


_OF_ROWS = ("rows", "groups", "times", "first_cut", "cuts", "lows", "highs", "first_unit")


def routes_program(copies: bool) -> Program:
    """Every row: write the unit that owns it into `numbers`, and how many copies there are, after and before, into
    `counts`; or (copies) write the copies."""
    own = ("after_rows", "after_units", "before_rows", "before_units") if copies else ("numbers", "counts")
    s = entry_scope("copies" if copies else "owners", _TYPES, *_OF_ROWS, *own)
    f = s.f
    following, preceding = f.variable("following", 0), f.variable("preceding", 0)
    group, unit = f.variable("group", -1), f.variable("unit", f.constant(0, I32))
    above, below = f.variable("above", 0), f.variable("below", 0)

    def add_copy(side: str, count: Variable, row: Value, unit: Value) -> None:
        if copies:
            s.array(f"{side}_rows")[count] = row
            s.array(f"{side}_units")[count] = unit.to(I32)
        count.set(count + 1)

    with f.loop(0, s.rows.length) as at:
        row, time, its = s.rows[at], s.times[at], s.groups[at].to(I64)
        is_there = its.equals(group) & (time > above) & (time < below)  # as the row before, and in no overlap
        with f.when(~is_there):
            group.set(its)
            begin, end = s.first_cut[its], s.first_cut[its + 1]
            first, place = s.first_unit[its].to(I64), first_after(s, "cuts", begin, end, time) - begin
            unit.set((first + place).to(I32))
            cut = f.variable("cut", begin + place)
            below.set(EVER)
            with f.when(cut < end):
                below.set(s.lows[cut])
            with f.during(lambda: cut < end) as done:
                f.jump_if(time < s.lows[cut], done)
                add_copy("after", following, row, first + (cut - begin) + 1)
                cut.set(cut + 1)
            cut.set(begin + place - 1)
            above.set(NEVER)
            with f.when(cut >= begin):
                above.set(s.highs[cut])
            with f.during(lambda: cut >= begin) as done:
                f.jump_if(time > s.highs[cut], done)
                add_copy("before", preceding, row, first + (cut - begin))
                cut.set(cut - 1)
        if not copies:
            s.numbers[row] = unit
    if not copies:
        s.counts[0] = following
        s.counts[1] = preceding
    f.give(0)
    return f.program


def nearest_program(after: bool) -> Program:
    names = ("groups", "times", "first_cut", "limits", "heaps", "sizes", "places", "intervals")
    s = entry_scope("nearest", _TYPES, *names)
    f = s.f
    most = f.scalar("most")
    count, n = f.variable("count", 0), s.groups.length
    group, interval = f.variable("group", -1), f.variable("interval", -1)
    first, until = f.variable("first", 0), f.variable("until", 0)
    with f.loop(0, n) as step:
        at = step if after else n - 1 - step
        time, its = s.times[at], s.groups[at].to(I64)
        with f.when(its.differs(group) | (time < first) | (time >= until)):
            group.set(its)
            _find_interval(s, its, time, after, first, until, interval)
        with f.when(interval >= 0):
            value = ~time if after else time
            with f.when(s.call("is_near", _emit_is_near, interval, value, most, result=BOOL)):
                s.places[count] = at
                s.intervals[count] = interval.to(I32)
                count.set(count + 1)
    kept = f.variable("kept", 0)
    with f.loop(0, count) as one:
        place, its = s.places[one], s.intervals[one]
        value = ~s.times[place] if after else s.times[place]
        with f.when(value >= s.heaps[its.to(I64) * most]):
            s.places[kept] = place
            s.intervals[kept] = its
            kept.set(kept + 1)
    f.give(kept)
    return f.program


def _find_interval(
    s: Scope, group: Value, time: Value, after: bool, first: Variable, until: Variable, interval: Variable
) -> None:
    """The interval of a time (-1: none), and the times that are in it: from `first` up to before `until`."""
    f = s.f
    begin, end = s.first_cut[group], s.first_cut[group + 1]
    place = (first_at_least if after else first_after)(s, "limits", begin, end, time) - begin
    first.set(NEVER)
    with f.when(place > 0):
        first.set(s.limits[begin + place - 1])
        if after:
            first.set(f.least(first, EVER - 1) + 1)
    until.set(EVER)
    with f.when(begin + place < end):
        until.set(s.limits[begin + place])
    if after:
        until.set(f.least(until, EVER - 1) + 1)
    counts = place > 0 if after else begin + place < end
    interval.set(f.select(counts, begin + group + place, -1))


def _emit_is_near(s: Scope, interval: Value, value: Value, most: Value) -> None:
    """Is a value among the `most` greatest of its interval so far, or equal to the least of these? It is put into the
    heap of the interval, whose root is the least."""
    f = s.f
    heap, size = interval * most, s.sizes[interval]
    with f.when(size < most):
        s.sizes[interval] = size + 1
        s.call("add", _emit_add, heap, size, value)
        f.give(True)
    with f.when(value > s.heaps[heap]):
        s.call("replace", _emit_replace, heap, most, value)
        f.give(True)
    f.give(value.equals(s.heaps[heap]))


def _emit_add(s: Scope, heap: Value, size: Value, value: Value) -> None:
    """Add a value to the min-heap that begins at `heap` and has `size` values."""
    f = s.f
    at = f.variable("at", size)
    with f.during(lambda: at > 0) as done:
        parent = at - 1 >> 1
        above = s.heaps[heap + parent]
        f.jump_if(above <= value, done)
        s.heaps[heap + at] = above
        at.set(parent)
    s.heaps[heap + at] = value
    f.give(0)


def _emit_replace(s: Scope, heap: Value, size: Value, value: Value) -> None:
    """Put a greater value in place of the root of a full heap."""
    f = s.f
    at = f.variable("at", 0)
    with f.during(lambda: at * 2 + 1 < size) as done:
        left = at * 2 + 1
        right = f.select(left + 1 < size, left + 1, left)
        child = f.select(s.heaps[heap + right] < s.heaps[heap + left], right, left)
        below = s.heaps[heap + child]
        f.jump_if(below >= value, done)
        s.heaps[heap + at] = below
        at.set(child)
    s.heaps[heap + at] = value
    f.give(0)
