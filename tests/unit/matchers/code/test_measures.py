"""Navigation and aggregates over finished matches, against plain Python, and in all ways."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers import codes as oc
from episode.matchers.code import measures as measure_code
from episode.matchers.code.aggregates import AggregateShape
from episode.matchers.code.measures import ChosenRows, OutputRows
from episode.matchers.codes import EMPTY, MATCHED, UNMATCHED
from tests.unit.native.runs import AllWays, programs_made_by

LABEL_OF = [2, 0, 1, 0]
EXCLUDED = [False, False, True, False]
LABELS = 3
MOST = 10**38 - 1


@dataclass(frozen=True)
class Case:
    """kinds and paths of matches, one after the other, each with a row after it; then the values of all rows."""

    kinds: list[int]
    paths: list[list[int]]
    one_row: bool
    final: bool
    members: list[int] | None
    valid: list[int] | None

    @property
    def starts(self) -> list[int]:
        return [sum(len(path) + 1 for path in self.paths[:at]) for at in range(len(self.paths))]

    @property
    def rows(self) -> int:
        return sum(len(path) + 1 for path in self.paths)

    @property
    def output(self) -> list[tuple[int, int]]:
        shown = []
        for match, (kind, path) in enumerate(zip(self.kinds, self.paths, strict=True)):
            if kind != MATCHED:
                shown.append((match, -1))
            elif self.one_row:
                shown.append((match, len(path) - 1))
            else:
                shown += [(match, place) for place, taken in enumerate(path) if not EXCLUDED[taken]]
        return shown

    def counting(self, match: int, position: int) -> list[tuple[int, int]]:
        """(place, row) of what counts."""
        path = self.paths[match]
        upto = len(path) if self.final else position + 1
        return [
            (place, self.starts[match] + place)
            for place in range(upto if position >= 0 else 0)
            if (self.members is None or self.members[LABEL_OF[path[place]]])
            and (self.valid is None or self.valid[self.starts[match] + place])
        ]

    @property
    def every(self) -> list[list[tuple[int, int]]]:
        return [self.counting(*one) for one in self.output]

    @property
    def arrays(self) -> OutputRows:
        out = np.array(self.output, np.int64).reshape(-1, 2)
        lengths = [len(path) for path in self.paths]
        starts, ends = np.array(self.starts, np.int64), np.array(self.starts, np.int64) + lengths + 1
        path = np.array([taken for path in self.paths for taken in path], np.int32)
        path_from = np.array([sum(lengths[:at]) for at in range(len(lengths))], np.int64)
        match, position = np.ascontiguousarray(out[:, 0]), np.ascontiguousarray(out[:, 1])
        length, label_of = np.array(lengths, np.int64), np.array(LABEL_OF, np.int64)
        return OutputRows(match, position, starts, length, path_from, path, label_of, starts, ends)

    @property
    def is_alike(self) -> bool:
        return self.one_row and set(self.kinds) == {MATCHED} and all(path == self.paths[0] for path in self.paths)

    @property
    def scattered(self) -> OutputRows:
        """The same matches, of which row r is now row 2 r + 1."""
        starts = [start + place for start, path in zip(self.starts, self.paths) for place in range(len(path))]
        return dataclasses.replace(self.arrays, member=2 * np.array(starts, np.int32) + 1)

    @property
    def chosen(self) -> ChosenRows:
        members, valid = (None if one is None else np.array(one, np.uint8) for one in (self.members, self.valid))
        return ChosenRows(self.final, members, valid)


@st.composite
def cases(draw: Any) -> Case:
    kinds = draw(st.lists(st.sampled_from([MATCHED, MATCHED, EMPTY, UNMATCHED]), min_size=1, max_size=4))
    steps = st.lists(st.integers(0, 3), min_size=1, max_size=5)
    paths = [draw(steps) if kind == MATCHED else [] if kind == EMPTY else [0] for kind in kinds]
    flag = st.integers(0, 1)
    members = draw(st.none() | st.lists(flag, min_size=LABELS, max_size=LABELS))
    rows = sum(len(path) + 1 for path in paths)
    valid = draw(st.none() | st.lists(flag, min_size=rows, max_size=rows))
    return Case(kinds, paths, draw(st.booleans()), draw(st.booleans()), members, valid)


SETTINGS = settings(max_examples=25, deadline=None)


@pytest.fixture(autouse=True)
def all_ways() -> Iterator[None]:
    with programs_made_by(AllWays):
        yield


@SETTINGS
@given(cases(), st.booleans())
def test_output_rows(case: Case, show_empty: bool) -> None:
    kind, arrays = np.array(case.kinds, np.uint8), case.arrays
    given_ = (kind, arrays.length, arrays.path_from, arrays.path, np.array(EXCLUDED))
    found = measure_code.output_rows(*given_, show_empty, case.one_row)
    expected = [one for one in case.output if show_empty or case.kinds[one[0]] != EMPTY]
    assert list(zip(*(one.tolist() for one in found), strict=True)) == expected


@SETTINGS
@given(cases(), st.booleans(), st.integers(0, 2), st.integers(-2, 2))
def test_navigation(case: Case, first: bool, offset: int, shift: int) -> None:
    case = dataclasses.replace(case, valid=None)
    rows, labels = [], []
    for (match, _), counting in zip(case.output, case.every, strict=True):
        inside = [place for place, _ in (counting if first else counting[::-1])]
        place = inside[offset] + shift if offset < len(inside) else None
        path, start = case.paths[match], case.starts[match]
        here = None if place is None or not 0 <= place <= len(path) else place  # a partition has one row more
        rows.append(-1 if here is None else start + here)
        labels.append(LABEL_OF[path[here]] if here is not None and here < len(path) else -1)
    found = measure_code.navigate(case.arrays, first, offset, shift, case.chosen)
    assert found.tolist() == rows
    if case.is_alike:
        alike = dataclasses.replace(case.arrays, alike=True)
        assert measure_code.navigate(alike, first, offset, shift, case.chosen).tolist() == rows
    if shift == 0:
        moved = measure_code.navigate(case.scattered, first, offset, 0, case.chosen)
        assert moved.tolist() == [row if row < 0 else 2 * row + 1 for row in rows]
    assert measure_code.labels_at(case.arrays, found).tolist() == labels


@SETTINGS
@given(cases(), st.data())
def test_aggregates(case: Case, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(-5, 5), min_size=case.rows, max_size=case.rows))
    whole, real = np.array(numbers, np.int64), np.array(numbers, np.float64) / 4
    groups = [[numbers[row] for _, row in counting] for counting in case.every]
    rows = [[row for _, row in counting] for counting in case.every]
    has_match = [position >= 0 for _, position in case.output]

    def check(function: int, values: np.ndarray, is_real: bool, expected: list[Any]) -> None:
        aggregate = AggregateShape(function, values.dtype == np.float64)
        found, null = measure_code.aggregate(case.arrays, aggregate, values, is_real, case.chosen)
        assert [None if gone else value for value, gone in zip(found.tolist(), null, strict=True)] == expected
        if function not in (oc.MIN_BY, oc.MAX_BY):
            valid = case.chosen.valid
            chosen = dataclasses.replace(case.chosen, valid=None if valid is None else np.repeat(valid, 2))
            again = measure_code.aggregate(case.scattered, aggregate, np.repeat(values, 2), is_real, chosen)
            assert repr(again) == repr((found, null))

    check(oc.COUNT, whole, False, [len(one) if ok else None for one, ok in zip(groups, has_match, strict=True)])
    check(oc.SUM, whole, False, [sum(one) if one else None for one in groups])
    check(oc.SUM, real, True, [sum(one) / 4 if one else None for one in groups])
    check(oc.AVG, real, True, [sum(one) / 4 / len(one) if one else None for one in groups])
    least = [min(zip(one, [-row for row in of], strict=True))[1] if one else None for one, of in zip(groups, rows)]
    check(oc.MIN_BY, real, False, [None if row is None else -row for row in least])
    greatest = [max(zip(one, of, strict=True))[1] if one else None for one, of in zip(groups, rows)]
    check(oc.MAX_BY, whole, False, greatest)


@SETTINGS
@given(cases(), st.data(), st.integers(0, 4))
def test_sums_and_averages_of_decimals(case: Case, data: st.DataObject, digits: int) -> None:
    number = st.integers(-MOST, MOST) | st.integers(-1000, 1000)
    numbers = data.draw(st.lists(number, min_size=case.rows, max_size=case.rows))
    words = np.array([[one % 2**64, one >> 64] for one in numbers], dtype=object)
    flat = np.array([word - 2**64 if word >= 2**63 else word for pair in words for word in pair], np.int64)
    sums = [total_of([numbers[row] for _, row in counting]) for counting in case.every]
    low, high, counts = measure_code.sum_decimals(case.arrays, flat, case.chosen)
    assert counts.tolist() == [len(counting) for counting in case.every]
    assert numbers_of(low, high) == sums
    averages = [average(total, len(counting), digits) for total, counting in zip(sums, case.every, strict=True)]
    assert numbers_of(*measure_code.divide_decimals(low, high, counts, digits)) == averages


def total_of(values: list[int]) -> int | None:
    """None as soon as it has more than 38 digits."""
    total: int | None = 0
    for value in values:
        total = None if total is None or abs(total + value) > MOST else total + value
    return total


def average(total: int | None, count: int, digits: int) -> int | None:
    if count == 0 or total is None:
        return total
    rounded = (2 * abs(total) * 10**digits + count) // (2 * count)
    return None if rounded > MOST else rounded if total >= 0 else -rounded


def numbers_of(low: np.ndarray, high: np.ndarray) -> list[int | None]:
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return [None if upper == -(2**63) else (upper << 64) + lower for lower, upper in pairs]


@SETTINGS
@given(cases())
def test_gathered_rows(case: Case) -> None:
    offsets, rows, labels = measure_code.collect(case.arrays, case.chosen)
    assert [rows[a:b].tolist() for a, b in itertools.pairwise(offsets)] == [
        [row for _, row in counting] for counting in case.every
    ]
    found = [LABEL_OF[case.paths[match][place]] for (match, _), one in zip(case.output, case.every) for place, _ in one]
    assert labels.tolist() == found
