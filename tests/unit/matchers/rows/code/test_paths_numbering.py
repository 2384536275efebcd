"""Orders and numbers of matches, and places of labels, against Python's own sort and slices."""

from __future__ import annotations

import numpy as np
import pytest

from episode.matchers.rows.code.paths import hold_back, number_by_end, order_by_length, place_of_label
from tests.unit.matchers.rows.code.leaves import Leaf

ORDER, NUMBER = Leaf(order_by_length, 3), Leaf(number_by_end, 2)
HOLD_BACK = Leaf(lambda s, at_end, hi, taken, *others: hold_back(s, at_end, hi, taken.differs(0), *others), 7)
LABELS = (1 << 63) | 0b101
PLACE = {
    first: Leaf(lambda s, *given, first=first: place_of_label(s, "path", *given, first=first, labels=LABELS), 2)
    for first in (False, True)
}


def output(starts: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Matches whose paths are all different."""
    room, rows = len(starts) + 3, int(lengths.sum())
    arrays = {
        "out_kind": np.arange(room).astype(np.uint8),
        "out_start": np.zeros(room, np.int64),
        "out_length": np.zeros(room, np.int64),
        "out_number": np.zeros(room, np.int64),
        "out_path_from": np.zeros(room + 1, np.int64),
        "out_path": np.arange(rows + 5).astype(np.int32),
        "pending": np.full(room, -1, np.int64),
        "ordered": np.full(2 * room, -1, np.int64),
        "copied": np.zeros(rows + 5, np.int32),
    }
    arrays["out_start"][: len(starts)], arrays["out_length"][: len(starts)] = starts, lengths
    arrays["out_path_from"][1 : len(starts) + 1] = np.cumsum(lengths)
    return arrays


def matches(arrays: dict[str, np.ndarray], begin: int, end: int) -> list[tuple[int, int, list[int]]]:
    """(start, length, path) of matches of the output."""
    ends = arrays["out_path_from"]
    return [
        (arrays["out_start"][i], arrays["out_length"][i], arrays["out_path"][ends[i] : ends[i + 1]].tolist())
        for i in range(begin, end)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_all_matches_are_ordered_by_length(seed: int) -> None:
    """Those of one start row, after others; equal lengths stay in their order."""
    draw = np.random.default_rng(seed)
    count, begin = int(draw.integers(1, 40)), 3
    lengths = draw.integers(1, 20, begin + count)
    if seed % 4 == 1:
        lengths[begin:] = np.arange(count, 0, -1)
    arrays = output(np.full(len(lengths), 5), lengths)
    end = begin + count
    before, others = matches(arrays, begin, end), matches(arrays, 0, begin)
    assert ORDER(arrays, begin, end, 70) == [70 + count]
    assert matches(arrays, begin, end) == sorted(before, key=lambda match: match[1])
    assert matches(arrays, 0, begin) == others
    assert arrays["out_number"].tolist() == [0] * begin + list(range(71, 71 + count)) + [0] * 3


@pytest.mark.parametrize("seed", range(20))
def test_numbers_follow_the_end_rows(seed: int) -> None:
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 60))
    arrays = output(draw.integers(0, 30, count), draw.integers(1, 9, count))
    pending = draw.permutation(count)[: draw.integers(0, count + 1)]
    arrays["pending"][: len(pending)] = pending
    assert NUMBER(arrays, len(pending), 7) == [7 + len(pending)]
    ends = arrays["out_start"] + arrays["out_length"]
    ordered = sorted(pending.tolist(), key=lambda match: ends[match])
    assert arrays["out_number"][ordered].tolist() == list(range(8, 8 + len(pending)))
    assert np.count_nonzero(arrays["out_number"]) == len(pending)


@pytest.mark.parametrize("seed", range(30))
def test_a_match_of_the_last_row_is_held_back(seed: int) -> None:
    draw = np.random.default_rng(seed)
    count, hi = int(draw.integers(1, 12)), 50
    starts = np.sort(draw.choice(40, count, replace=False))
    lengths = draw.integers(1, 9, count)
    last = int(draw.integers(count))
    ends_there = seed % 3 > 0
    if ends_there:
        lengths[last] = hi - starts[last]
    first, at_end = int(draw.integers(0, last + 1)), int(starts[draw.integers(count)])
    arrays = output(starts, lengths)
    arrays["pending"][: count - first] = np.arange(first, count)
    kept, kinds = matches(arrays, 0, count), arrays["out_kind"].tolist()
    used = int(lengths.sum())
    is_out = ends_there and at_end <= starts[last]
    result = HOLD_BACK(arrays, at_end, hi, ends_there, first, count, used, count - first)
    fewer = int(is_out)
    assert result == [is_out or not ends_there, count - fewer, used - is_out * lengths[last], count - first - fewer]
    if is_out:
        del kept[last], kinds[last]
    assert matches(arrays, 0, count - fewer) == kept
    assert arrays["out_kind"][: count - fewer].tolist() == kinds[: count - fewer]
    assert arrays["pending"][: count - first - fewer].tolist() == list(range(first, count - fewer))


@pytest.mark.parametrize("seed", range(20))
def test_the_place_of_a_label(seed: int) -> None:
    draw = np.random.default_rng(seed)
    label_of = np.array([0, 1, 2, 63, 5, 1], np.int64)
    path = draw.choice([1, 4, 5] if seed % 5 == 0 else [0, 1, 2, 3, 4, 5, 1, 4, 5], 30).astype(np.int32)
    begin, length = int(draw.integers(0, 10)), int(draw.integers(0, 20))
    places = [at for at in range(length) if LABELS >> int(label_of[path[begin + at]]) & 1]
    arrays = {"path": path, "label_of": label_of}
    assert PLACE[True](arrays, begin, length) == [places[0] if places else -1]
    assert PLACE[False](arrays, begin, length) == [places[-1] if places else -1]
