"""Numbers in fewer bytes, against Python's numbers. Small blocks, so that few values fill several."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers import compact as narrowing
from tests.unit.native.runs import run_all_ways

NO_MASK = np.empty(0, np.bool_)
STARTS = st.lists(st.integers(0, 30), max_size=4)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrowing, "_BLOCK", 7)
    monkeypatch.setattr(narrowing, "_FIRST_BLOCK", 3)


def slices(cuts: list[int], n: int) -> np.ndarray:
    return np.array(sorted({0, n, *(min(cut, n) for cut in cuts)}), np.int64)


def masks(n: int) -> st.SearchStrategy[list[bool]]:
    return st.lists(st.booleans(), min_size=n, max_size=n)


@settings(deadline=None)
@given(st.data(), st.lists(st.integers(-500, 500).map(lambda n: n / 100) | st.floats(width=64), max_size=30))
def test_decimals_that_come_back_with_the_same_bits(data: st.DataObject, values: list[float]) -> None:
    valid = data.draw(masks(len(values)) | st.just([]))
    mask = valid or [True] * len(values)
    found = narrowing.whole_numbers(np.array(values, np.float64), np.array(valid, np.bool_), 100.0)
    kept = [value for value, ok in zip(values, mask, strict=True) if ok]
    whole = [round(value * 100.0) if abs(value * 100.0) < 2**52 else None for value in kept]
    fits = all(
        number is not None and number / 100.0 == value and math.copysign(1, value) == math.copysign(1, number / 100.0)
        for number, value in zip(whole, kept, strict=True)
    )
    assert (found is not None) == fits
    if found is not None:
        assert found[mask].tolist() == whole


@settings(deadline=None)
@given(st.data(), st.lists(st.integers(-50, 50), max_size=30), st.sampled_from([1, 10, 1_000, 1_000_000]))
def test_distances_in_the_largest_unit(data: st.DataObject, numbers: list[int], step: int) -> None:
    values = np.array(numbers, np.int64) * step
    valid = np.array(data.draw(masks(len(values)) | st.just([])), np.bool_)
    kept = values[valid] if len(valid) else values
    base = int(kept.min()) if len(kept) else 0
    unit = narrowing.common_unit(values, valid, base)
    assert unit == next(u for u in (1_000_000, 1_000, 1) if not ((kept - base) % u).any())
    distances = narrowing.narrow(values, base, unit, "uint64")
    back = narrowing.widen(distances, base, unit)
    assert (back[valid] if len(valid) else back).tolist() == kept.tolist()


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_distances_of_any_numbers(numbers: list[int]) -> None:
    values, base = np.array(numbers, np.int64), min(numbers)
    distances = narrowing.narrow(values, base, 1, "uint64")
    assert distances.tolist() == [number - base for number in numbers]
    assert narrowing.widen(distances, base, 1).tolist() == numbers


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), max_size=30), STARTS, st.booleans(), st.sampled_from([1, 2**24]))
def test_steps_within_slices(numbers: list[int], cuts: list[int], grow: bool, factor: int) -> None:
    starts = slices(cuts, len(numbers))
    parts = [numbers[a:b] for a, b in itertools.pairwise(starts)]
    distances = np.array([n for part in parts for n in (sorted(part) if grow else part)], np.uint64) * np.uint64(factor)
    steps = [
        b - a
        for at in range(len(parts))
        for a, b in itertools.pairwise(distances[starts[at] : starts[at + 1]].tolist())
    ]
    largest = max(steps, default=0)
    expected = largest if all(one >= 0 for one in steps) and largest < 2**32 else -1
    assert narrowing.largest_step(distances, starts) == expected
    if expected < 0 or not len(distances):
        return
    found = narrowing.steps_of(distances, starts, "uint32" if largest >= 256 else "uint8")
    assert [found[starts[at] + 1 : starts[at + 1]].sum() for at in range(len(parts))] == [
        (part[-1] - part[0]) if len(part) else 0 for part in np.split(distances.astype(np.int64), starts[1:-1])
    ]
    for begin, end in itertools.pairwise(starts):
        widened = narrowing.widen_steps(found[begin:end], 1_000 * int(distances[begin]) - 5, 1_000)
        assert widened.tolist() == [1_000 * one - 5 for one in distances[begin:end].tolist()]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=10), st.integers(-(2**62), 2**62), st.sampled_from([1, 1_000_000]))
def test_running_sums_in_all_ways(steps: list[int], base: int, unit: int) -> None:
    _, (found,) = run_all_ways(narrowing.running_sum_program(), [np.array(steps, np.int64)], base, unit)
    assert found.tolist() == [base + unit * sum(steps[: at + 1]) for at in range(len(steps))]
