"""Rows of classes and chains of them, against sets and loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from episode.kernels.chains import near_chains
from episode.kernels.row_classes import add_class, joined, with_next

ROWS = st.sets(st.integers(0, 20))
OTHERS = np.uint64(1 << 63)


def array(rows: set[int]) -> np.ndarray:
    return np.array(sorted(rows), np.int64)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_rows_of_several_classes_with_their_bits(classes: list[set[int]]) -> None:
    rows, bits = np.zeros(0, np.int64), np.zeros(0, np.uint64)
    every = np.full(21, OTHERS)
    for at, own in enumerate(classes):
        rows, bits = joined(rows, bits, array(own), np.uint64(1 << at), OTHERS)
        add_class(every, array(own), np.uint64(1 << at))
    expected = {row: sum(1 << at for at, own in enumerate(classes) if row in own) for row in set().union(*classes)}
    assert dict(zip(rows.tolist(), (int(one) - (1 << 63) for one in bits), strict=True)) == expected
    assert [int(one) - (1 << 63) for one in every] == [expected.get(row, 0) for row in range(21)]


@given(ROWS, st.sets(st.integers(1, 20)))
def test_the_row_after_each_is_of_its_partition(chosen: set[int], cuts: set[int]) -> None:
    bounds = np.array([0, *sorted(cuts), 21], np.int64)
    rows, bits = with_next(array(chosen), np.ones(len(chosen), np.uint64), bounds, OTHERS)
    after = {row + 1 for row in chosen if row + 1 < 21 and row + 1 not in cuts}
    assert rows.tolist() == sorted(chosen | after)
    assert [int(one) for one in bits] == [1 if row in chosen else 1 << 63 for row in rows.tolist()]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0, 1, 2, 3])), max_size=12),
    st.integers(0, 12),
    st.integers(0, 10),
)
def test_events_beside_a_chain_count_within_its_window(
    events: list[tuple[int, int]], cut: int, window: int
) -> None:  # fmt: skip
    cut = min(cut, len(events))
    parts = [sorted(events[:cut]), sorted(events[cut:])]
    time = np.array([one for part in parts for one, _ in part], np.int64)
    bits = np.array([one for part in parts for _, one in part], np.uint64)
    kept = near_chains(bits, np.uint64(1), np.uint64(2), np.array([0, cut, len(events)], np.int64), time, window)
    expected = [
        bool(own & 1) or (own == 2 and any(other & 1 and abs(at - now) <= window for at, other in part))
        for part in parts
        for now, own in part
    ]
    assert kept.tolist() == expected
