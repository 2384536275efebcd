"""Slices that rows go to, against what the description says row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers.slices import units as slice_units
from episode.matchers.slices.keys import SlicedKey, SlicedKeys
from episode.matchers.slices.slicing import Overlap
from tests.unit.native.runs import run_all_ways

LEAST, GREATEST = -(2**63), 2**63 - 1
TIMES = st.integers(-3, 12) | st.sampled_from([LEAST, LEAST + 1, GREATEST - 1, GREATEST])
CUTS = st.lists(st.integers(0, 9), max_size=3, unique=True).map(sorted)
KEYS = st.lists(CUTS, min_size=1, max_size=3)
ROWS = st.lists(st.tuples(st.integers(0, 2), TIMES), max_size=10)


def keys_of(cuts: list[list[int]], before: int = 0, after: int = 0) -> SlicedKeys:
    keys = tuple(SlicedKey(at, tuple(own)) for at, own in enumerate(cuts))
    return SlicedKeys(keys, Overlap(before_time=before, after_time=after), 5)


def columns(rows: list[tuple[int, int]], cuts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    groups = np.array([group % len(cuts) for group, _ in rows], np.int32)
    return groups, np.array([time for _, time in rows], np.int64)


@settings(max_examples=60, deadline=None)
@given(ROWS, KEYS, st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_rows_go_to_their_slice_and_to_those_that_overlap(
    rows: list[tuple[int, int]], cuts: list[list[int]], before: int, after: int, ordered: bool
) -> None:
    rows = sorted(rows) if ordered else rows
    groups, times = columns(rows, cuts)
    sliced, places, numbers = keys_of(cuts, before, after), np.arange(len(rows)) * 2, np.zeros(2 * len(rows), np.int32)
    owners: list[int] = []
    later: list[tuple[int, int]] = []
    earlier: list[tuple[int, int]] = []
    for place, group, time in zip(places.tolist(), groups.tolist(), times.tolist(), strict=True):
        first = 5 + sum(len(one) + 1 for one in cuts[:group])
        own = sum(cut <= time for cut in cuts[group])
        owners.append(first + own)
        later += [(place, first + at + 1) for at, cut in enumerate(cuts[group]) if at >= own and time >= cut - before]
        backwards = reversed(list(enumerate(cuts[group])))
        earlier += [(place, first + at) for at, cut in backwards if at < own and time <= cut + after]
    copies = slice_units.route(places, groups, times, sliced, numbers)
    assert numbers[::2].tolist() == owners
    found = ([], []) if copies is None else (pairs(copies[:2]), pairs(copies[2:]))
    assert found == (later, earlier)
    of_rows = [places, groups, times, sliced.first_cut, sliced.cuts, sliced.lows, sliced.highs, sliced.first_unit]
    counts = np.zeros(2, np.int64)
    _, (*_, again, counts) = run_all_ways(
        slice_units.routes_program(copies=False), [*of_rows, np.zeros_like(numbers), counts]
    )
    assert again.tolist() == numbers.tolist()
    assert counts.tolist() == [len(later), len(earlier)]
    room = [np.zeros(len(side), kind) for side in (later, earlier) for kind in (np.int64, np.int32)]
    _, arrays = run_all_ways(slice_units.routes_program(copies=True), [*of_rows, *room])
    assert (pairs(arrays[-4:-2]), pairs(arrays[-2:])) == (later, earlier)


def pairs(arrays: Any) -> list[tuple[int, int]]:
    return list(zip(*(one.tolist() for one in arrays), strict=True))


@settings(max_examples=60, deadline=None)
@given(ROWS, KEYS, st.booleans(), st.integers(1, 3), st.booleans())
def test_the_nearest_rows_of_each_interval_are_among_those_found(
    rows: list[tuple[int, int]], cuts: list[list[int]], after: bool, most: int, ordered: bool
) -> None:
    rows = sorted(rows) if ordered else rows
    groups, times = columns(rows, cuts)
    sliced = keys_of(cuts)
    expected: set[tuple[int, int]] = set()
    for group, own in enumerate(cuts):
        first = int(sliced.first_cut[group]) + group
        of_interval: dict[int, list[int]] = {}
        for row in np.flatnonzero(groups == group).tolist():
            passed = sum(cut < times[row] if after else cut <= times[row] for cut in own)
            if passed > 0 if after else passed < len(own):
                of_interval.setdefault(first + passed, []).append(row)
        for interval, members in of_interval.items():
            farthest = sorted((int(times[row]) for row in members), reverse=not after)[:most][-1]
            near = [row for row in members if (times[row] <= farthest if after else times[row] >= farthest)]
            expected |= {(row, interval) for row in near}
    found = slice_units.nearest(groups, times, sliced.first_cut, sliced.cuts, after, most)
    assert sorted(pairs(found)) == sorted(expected)
    intervals = len(sliced.cuts) + len(cuts)
    room = [np.zeros(intervals * most, np.int64), np.zeros(intervals, np.int64)]
    room += [np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int32)]
    given_ = [groups, times, sliced.first_cut, sliced.cuts, *room]
    kept, (*_, places, its) = run_all_ways(slice_units.nearest_program(after), given_, most)
    assert (places[:kept].tolist(), its[:kept].tolist()) == (found[0].tolist(), found[1].tolist())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=12),
    st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=4),
    st.data(),
)
def test_rows_of_sliced_keys(hashes: list[int], others: set[int], data: st.DataObject) -> None:
    known = data.draw(st.sets(st.sampled_from(hashes))) if hashes else set()
    sliced = sorted(known | others)
    every, chosen = np.array(hashes, np.uint64), np.array(sliced, np.uint64)
    expected = [(row, sliced.index(one)) for row, one in enumerate(hashes) if one in sliced]
    assert pairs(slice_units.of_sliced_keys(every, chosen)) == expected
    room = [np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int32)]
    count, (_, _, rows, groups) = run_all_ways(slice_units.keys_program(), [every, chosen, *room])
    assert pairs((rows[:count], groups[:count])) == expected
