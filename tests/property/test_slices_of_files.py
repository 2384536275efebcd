"""The row groups that a slice reads have all its rows and all of its overlap, in whatever order files are."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.matchers.slices.slicing import Overlap, bounds_between
from episode.spark.scan.direct import groups_of_slice
from tests.support.slices import fed_rows

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))

groups = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), min_size=1, max_size=8)
overlaps = st.builds(Overlap, st.integers(0, 6), st.integers(0, 5), st.integers(0, 6), st.integers(0, 5))
cut_lists = st.lists(st.integers(-2, 32), max_size=5, unique=True).map(sorted)


@SETTINGS
@given(groups, overlaps, cut_lists)
def test_slices_read_all_that_they_need(times: list[list[int]], overlap: Overlap, cuts: list[int]) -> None:
    first, last = (np.array([end(group) for group in times], np.int64) for end in (min, max))
    rows = np.array([len(group) for group in times], np.int64)
    every = sorted(time for group in times for time in group)
    for bounds in bounds_between(cuts):
        begin, end = fed_rows(np.array(every, np.int64), bounds, overlap)
        chosen = groups_of_slice(first, last, rows, bounds, overlap)
        read = sorted(time for group in chosen for time in times[group])
        found = fed_rows(np.array(read, np.int64), bounds, overlap)
        assert read[slice(*found)] == every[begin:end]


def test_files_in_order_of_time_are_read_once() -> None:
    first = np.arange(0, 100, 10)
    rows = np.full(10, 10)
    (before, after) = bounds_between([50])
    assert groups_of_slice(first, first + 9, rows, before, Overlap()).tolist() == [0, 1, 2, 3, 4, 5]
    assert groups_of_slice(first, first + 9, rows, after, Overlap(before_rows=1)).tolist() == [4, 5, 6, 7, 8, 9]
    assert groups_of_slice(first, first + 9, rows, after, Overlap(before_rows=11)).tolist() == [3, 4, 5, 6, 7, 8, 9]
