"""Rows of classes, against sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers.rules.classes import join_classes, next_program, with_next
from tests.unit.native.runs import run_all_ways

ROWS = st.sets(st.integers(0, 20))
OTHERS = np.uint64(1 << 63)


def array(rows: set[int]) -> np.ndarray:
    return np.array(sorted(rows), np.int64)


@given(st.lists(ROWS, max_size=4), st.integers(0, 59))
def test_rows_of_several_classes_with_their_bits(classes: list[set[int]], first: int) -> None:
    rows, bits = join_classes({first + at: array(own) for at, own in enumerate(classes)}, OTHERS)
    every = set().union(*classes)
    expected = {row: sum(1 << first + at for at, own in enumerate(classes) if row in own) for row in every}
    assert dict(zip(rows.tolist(), (int(one) - (1 << 63) for one in bits), strict=True)) == expected
    assert rows.tolist() == sorted(every)


@settings(max_examples=50, deadline=None)
@given(ROWS, st.sets(st.integers(1, 20)))
def test_the_row_after_each_is_of_its_partition(chosen: set[int], cuts: set[int]) -> None:
    bounds = np.array([0, *sorted(cuts), 21], np.int64)
    rows, bits = with_next(array(chosen), np.ones(len(chosen), np.uint64), bounds, OTHERS)
    after = {row + 1 for row in chosen if row + 1 < 21 and row + 1 not in cuts}
    assert rows.tolist() == sorted(chosen | after)
    assert [int(one) for one in bits] == [1 if row in chosen else 1 << 63 for row in rows.tolist()]
    room = (np.zeros(2 * len(chosen), np.int64), np.zeros(2 * len(chosen), np.uint64))
    given_ = [array(chosen), np.ones(len(chosen), np.uint64), bounds, *room]
    n, (*_, out, out_bits) = run_all_ways(next_program(), given_, 1 << 63)
    assert (out[:n].tolist(), out_bits[:n].tolist()) == (rows.tolist(), bits.tolist())
