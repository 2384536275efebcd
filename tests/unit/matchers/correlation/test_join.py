"""Joins and regions of correlation as code, in all ways: against every pair, and every demand by itself."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from episode.matchers.correlation import regions
from episode.matchers.correlation.join import BY_ARCHIVE, BY_LIVE, RecencyJoin, beginning
from episode.matchers.correlation.regions import RegionDemands
from episode.matchers.times import EVER, NEVER
from tests.unit.native.runs import AllWays, in_all_ways

SPANS = [(0, 3), (1, 4), (2, 2), (2, 6), (4, 5), (5, 9), (7, 8)]


def matches(random: Random, by_end: bool) -> dict[str, np.ndarray]:
    """Spans of a few keys, in order of key and start, or end."""
    drawn = [(random.randint(0, 3), *random.choice(SPANS)) for _ in range(random.randint(1, 12))]
    if random.random() < 0.2:
        drawn.append((random.randint(0, 3), NEVER, EVER))
    drawn.sort(key=lambda one: (one[0], one[2] if by_end else one[1]))
    return dict(zip(("key", "start", "end"), np.array(drawn, np.int64).T.copy()))


def joined(join: RecencyJoin, given: dict[str, np.ndarray], room: int) -> list[tuple[int, int]]:
    """All pairs, `room` at a time."""
    code, pairs = AllWays(join.program()), []
    given = given | {"place": beginning()}
    while True:
        given |= {"out_live": np.zeros(room, np.int64), "out_archive": np.zeros(room, np.int64)}
        count = code.run(given)
        pairs += zip(given["out_live"][:count].tolist(), given["out_archive"][:count].tolist())
        if count < room:
            return pairs


@pytest.mark.parametrize("recency", [0, 3, 100, EVER])
def test_pairs_are_those_of_the_definition(recency: int) -> None:
    random = Random(recency % 97)
    for _ in range(4):
        live, archive = matches(random, by_end=True), matches(random, by_end=False)
        pairs = [
            (l, a)
            for l in range(len(live["key"]))
            for a in range(len(archive["key"]))
            if live["key"][l] == archive["key"][a]
            and archive["start"][a] < live["start"][l]
            and archive["end"][a] < live["end"][l]
            and (recency == EVER or int(live["end"][l]) - int(archive["start"][a]) <= recency)
        ]
        given = {f"live_{name}": array for name, array in live.items()} | archive
        given["recency"] = np.array([recency])
        assert joined(BY_LIVE, given, random.randint(1, 5)) == pairs
        low = np.array([min(int(one), EVER - 1) + 1 for one in archive["end"]])
        high = np.array([min(int(one) + recency, EVER) for one in archive["start"]], np.int64)
        by_archive = joined(BY_ARCHIVE, given | {"low": low, "high": high}, random.randint(1, 5))
        wanted = [pair for pair in pairs if archive["end"][pair[1]] < EVER]
        assert sorted(by_archive) == sorted(wanted)
        assert [a for _, a in by_archive] == sorted(a for _, a in wanted)


def demanded(random: Random) -> tuple[np.ndarray, RegionDemands, np.ndarray, np.ndarray, np.ndarray]:
    """Demands in order of key number and lo, and rows of keys with gaps between them."""
    row_from, row_to, time = [], [], []
    for _ in range(3):
        time += [99] * random.randint(0, 2)
        row_from.append(len(time))
        time += sorted(random.randint(0, 20) for _ in range(random.randint(0, 10)))
        row_to.append(len(time))
    drawn = sorted((random.randrange(3), low, low + random.randint(-1, 8)) for low in random.choices(range(20), k=9))
    number, lo, hi = np.array(drawn, np.int64).T.copy()
    rows = (np.array(one, np.int64) for one in (row_from, row_to, time))
    return number, RegionDemands(number, lo, hi), *rows  # type: ignore[return-value]


@pytest.mark.parametrize("merged", [True, False])
def test_segments(merged: bool) -> None:
    random = Random(4 + merged)
    for _ in range(8):
        number, demands, row_from, row_to, time = demanded(random)
        covered = np.array([random.choice([NEVER, 3, 9]) for _ in range(3)], np.int64)
        slack, until = random.choice([0, 2]), random.choice([5, 15, 30])
        with in_all_ways("merge"):
            out = regions.merge(number, demands, row_from, row_to, time, covered, slack, until, merged)
        assert out.tolist() == _segments(number, demands, row_from, row_to, time, covered, slack, until, merged)


def _segments(number, demands, row_from, row_to, time, covered, slack, until, merged) -> list[list[int]]:  # type: ignore[no-untyped-def]
    found: list[list[int]] = []
    for key, lo, hi in zip(number.tolist(), demands.lo.tolist(), demands.hi.tolist()):
        low = max(lo, int(covered[key]))
        rows = range(int(row_from[key]), int(row_to[key]))
        first = next((row for row in rows if time[row] >= low), rows.stop)
        end = next((row for row in range(first, rows.stop) if time[row] >= hi), rows.stop)
        segment = [key, low, hi, first, end]
        if merged and (hi <= low or (first == end and hi - 1 <= until)):
            continue
        last = found[-1] if found else None
        if merged and last and last[0] == key and (low <= last[2] or first <= last[4] + slack):
            if hi > last[2]:
                last[2], last[4] = hi, end
            continue
        found.append(segment)
    return found


def test_extent() -> None:
    random = Random(6)
    for _ in range(20):
        number, demands, row_from, row_to, time = demanded(random)
        regions_of = [
            {row for row in range(int(row_from[key]), int(row_to[key])) if lo <= time[row] < hi}
            for key, lo, hi in zip(number.tolist(), demands.lo.tolist(), demands.hi.tolist())
        ]
        expected = sum(map(len, regions_of)), len(set().union(*regions_of))
        assert regions.extent(number, demands, row_from, row_to, time) == expected
    nothing = np.zeros(0, np.int64)
    assert regions.extent(nothing, RegionDemands(), nothing, nothing, nothing) == (0, 0)
