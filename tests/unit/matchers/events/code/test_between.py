"""Emitted splits of groups side by side, in all ways, against every choice of ranges of their events."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from episode.matchers.events import compiled_loops as splitting
from tests.unit.native.runs import in_all_ways


def expected(lists: list[list[int]], least: list[int], counts: list[int]) -> set[tuple[tuple[int, ...], ...]]:
    """The times of the events of each group, by the description; lists: the times of all that each may have."""
    found = set()
    ranges = [[(a, b) for a in range(len(one) + 1) for b in range(a, len(one) + 1)] for one in lists]
    for choice in product(*ranges):
        parts = [one[a:b] for one, (a, b) in zip(lists, choice)]
        if all(_is_right(lists, parts, least, counts, at) for at in range(len(lists))):
            found.add(tuple(tuple(part) for part in parts))
    return found


def _is_right(lists: list[list[int]], parts: list[list[int]], least: list[int], counts: list[int], at: int) -> bool:
    after = max((time for part in parts[:at] for time in part), default=-1)
    before = min((time for part in parts[at + 1 :] for time in part), default=10**9)
    mine = parts[at]
    if any(not after < time < before for time in mine):
        return False
    if counts[at]:
        return len(mine) == counts[at]
    return len(mine) >= least[at] and mine == [time for time in lists[at] if after < time < before]


@pytest.fixture(autouse=True)
def all_ways() -> Iterator[None]:
    with in_all_ways():
        yield


@pytest.mark.parametrize("seed", range(6))
def test_splits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "LEAST_ROOM", 1)
    random = np.random.default_rng(seed)
    for _ in range(8):
        groups, matches = int(random.integers(2, 4)), 2
        end = np.arange(12)
        lists = [
            [sorted(random.choice(12, random.integers(0, 4), replace=False).tolist()) for _ in range(matches)]
            for _ in range(groups)
        ]
        from_ = np.zeros((groups, matches + 1), np.int64)
        rows: list[int] = []
        for group in range(groups):
            for match in range(matches):
                from_[group, match] = len(rows)
                rows += lists[group][match]
            from_[group, matches] = len(rows)
        counts = np.where(random.random(groups) < 0.3, random.integers(1, 3, groups), 0)
        least = random.integers(0, 2, groups)
        which, begins, stops = splitting.split_groups(
            from_, np.array(rows, np.int32), least, counts, end, 10**6
        )  # fmt: skip
        for match in range(matches):
            found = [
                tuple(tuple(rows[a:b]) for a, b in zip(begins[way_], stops[way_]))
                for way_ in np.flatnonzero(which == match)
            ]
            mine = [lists[group][match] for group in range(groups)]
            assert len(found) == len(set(found))
            assert set(found) == expected(mine, least.tolist(), counts.tolist())
        if len(which) > 1:
            assert len(splitting.split_groups(from_, np.array(rows, np.int32), least, counts, end, 0)[0]) == 1
