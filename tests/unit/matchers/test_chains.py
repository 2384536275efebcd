"""Chains of events by time alone, against loops over all of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers.chains import near_chains, near_program, viable, viable_program
from episode.matchers.times import EVER, NEVER
from tests.unit.native.runs import run_all_ways

EVENTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6), st.integers(0, 7)), max_size=9)
"""(end, how long it lasts, bits)"""


def expected_viable(events: list[tuple[int, int, int]], masks: list[int], window: int, whole: bool) -> list[int]:
    """Of one partition."""
    ends, starts, bits = (
        [end for end, _, _ in events],
        [end - lasts for end, lasts, _ in events],
        [b for *_, b in events],
    )
    rows = range(len(events))
    within = float("inf") if window == EVER else window

    def taken(bits: list[int], reach) -> list[int]:
        lost = [
            [mask for place, mask in enumerate(masks) if bits[row] & mask and reach(row, place) is None] for row in rows
        ]
        return [bits[row] & ~sum_bits(lost[row]) for row in rows]

    def latest_start(row: int, place: int) -> int | None:
        """The latest start of a chain up to this place that ends with this row and fits the window."""
        earlier = [latest_start(other, place - 1) for other in range(row) if place and bits[other] & masks[place - 1]]
        found = [starts[row]] if place == 0 else [one for one in earlier if one is not None]
        return max(found) if found and ends[row] - max(found) <= within else None

    left = taken(bits, latest_start)

    def earliest_end(row: int, place: int) -> int | None:
        last = place == len(masks) - 1
        later = [
            earliest_end(other, place + 1)
            for other in range(row + 1, len(events))
            if not last and left[other] & masks[place + 1]
        ]
        found = [ends[row]] if last else [one for one in later if one is not None]
        return min(found) if found and min(found) - starts[row] <= within else None

    return taken(left, earliest_end) if whole else left


def sum_bits(masks: list[int]) -> int:
    return int(np.bitwise_or.reduce(masks)) if masks else 0


@settings(max_examples=60, deadline=None)
@given(EVENTS, EVENTS, st.lists(st.integers(1, 7), max_size=3), st.integers(0, 25) | st.just(EVER), st.booleans())
def test_events_of_no_chain_are_left_out(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], masks: list[int], window: int, whole: bool
) -> None:
    parts = [sorted(one), sorted(other)]
    events = [event for part in parts for event in part]
    bounds = np.array([0, len(one), len(events)], np.int64)
    end = np.array([event[0] for event in events], np.int64)
    start = end - np.array([event[1] for event in events], np.int64)
    bits = np.array([event[2] for event in events], np.uint64)
    found = viable(bits, np.array(masks, np.uint64), bounds, start, end, window, whole)
    assert found.tolist() == [left for part in parts for left in expected_viable(part, masks, window, whole)]
    room = [np.zeros(len(bits), np.uint64), np.zeros(len(masks), np.int64), np.zeros(len(masks), np.uint8)]
    given_ = [bits, np.array(masks, np.uint64), bounds, start, end, *room]
    assert run_all_ways(viable_program(), given_, window, whole)[1][5].tolist() == found.tolist()


def test_times_at_the_edges_do_not_wrap_around() -> None:
    bits, masks, times = np.array([1, 2], np.uint64), np.array([1, 2], np.uint64), np.array([NEVER, EVER])
    for window, left in ((EVER, [1, 2]), (5, [0, 0])):
        assert viable(bits, masks, np.array([0, 2]), times, times, window, True).tolist() == left
        assert near_chains(bits, 1, 2, np.array([0, 2]), times, window).tolist() == [True, window == EVER]


@settings(max_examples=50, deadline=None)
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
    bounds = np.array([0, cut, len(events)], np.int64)
    kept = near_chains(bits, 1, 2, bounds, time, window)
    expected = [
        bool(own & 1) or (own == 2 and any(other & 1 and abs(at - now) <= window for at, other in part))
        for part in parts
        for now, own in part
    ]
    assert kept.tolist() == expected
    given_ = [bits, bounds, time, np.zeros(len(bits), np.uint8)]
    assert run_all_ways(near_program(), given_, window, 1, 2)[1][3].tolist() == kept.tolist()
