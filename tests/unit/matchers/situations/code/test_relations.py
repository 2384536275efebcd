"""The ranges of a buffer that have an allowed relation to a situation: against every slot tested by Allen's rules."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from episode.lang.situations import allen
from episode.matchers.situations.code.arrays import TYPES, ranges_of
from episode.matchers.situations.code.relations import ALL, Situation, find_allowed
from episode.native.builder import Program, Scope
from episode.native.ir import BOOL
from tests.unit.native.runs import run_all_ways

FOREVER = 10**6


def program_of(eager: bool) -> Program:
    """Writes how many ranges and slots fit into `place`."""
    program = Program("allowed")
    s = Scope(program.function("run"), TYPES)
    f = s.f
    mask, stop, start, end = (f.scalar(name) for name in ("mask", "stop", "start", "end"))
    lasts = f.scalar("lasts", BOOL)
    z = Situation(start, end, lasts if eager else None)
    count, kept = find_allowed(s, mask, f.value(0), stop, z, f.value(0))
    s.place[0], s.place[1] = count, kept
    f.give(0)
    return program


def buffer(random: Random) -> list[tuple[int, int]]:
    """Situations one after the other; some begin when the one before ends."""
    found, now = [], 0
    for _ in range(random.randint(1, 7)):
        start = now + random.randint(0, 2)
        now = start + random.randint(1, 4)
        found.append((start, now))
    return found


def relation(a: tuple[int, int], b: tuple[int, int]) -> int:
    """The bit of the relation of a to b."""
    signs = [(x > y) - (x < y) for x, y in ((a[0], b[0]), (a[1], b[1]), (a[1], b[0]), (a[0], b[1]))]
    names = {
        (-1, -1, -1, -1): "before", (-1, -1, 0, -1): "meets", (-1, -1, 1, -1): "overlaps", (0, -1, 1, -1): "starts",
        (1, -1, 1, -1): "during", (-1, 0, 1, -1): "finishes", (0, 0, 1, -1): "equals", (1, 1, 1, 1): "after",
        (1, 1, 1, 0): "met-by", (1, 1, 1, -1): "overlapped-by", (0, 1, 1, -1): "started-by",
        (-1, 1, 1, -1): "contains", (1, 0, 1, -1): "finished-by",
    }  # fmt: skip
    return allen.bit(allen.Relation(names[tuple(signs)]))


@pytest.mark.parametrize("eager", [True, False])
def test_ranges_are_those_of_single_slots(eager: bool) -> None:
    random = Random(11 + eager)
    several = 0
    program = program_of(eager)
    for _ in range(200):
        mask = random.choice([1 << random.randrange(13), random.randrange(1, ALL), random.randrange(1, ALL)])
        slots = buffer(random)
        start = random.randint(0, slots[-1][1] + 1)
        lasts = eager and random.random() < 0.4
        z = (start, FOREVER if lasts else start + random.randint(1, 9))
        fits = [bool(mask >> relation(slot, z) & 1) for slot in slots]
        given = {
            "starts": np.array([one for one, _ in slots]), "ends": np.array([one for _, one in slots]),
            "ranges": np.full(2 * ranges_of(2), -1), "bounds": np.full(8, -1), "place": np.zeros(2, np.int64),
        }  # fmt: skip
        names = [one.name for one in program.entry.arrays]
        end = -5 if lasts else z[1]  # means nothing if z lasts
        _, arrays = run_all_ways(program, [given[name] for name in names], mask, len(slots), z[0], end, lasts)
        made = dict(zip(names, arrays))
        count, kept = made["place"].tolist()
        ranges = made["ranges"][: 2 * count].reshape(-1, 2).tolist()
        assert [slot for low, high in ranges for slot in range(low, high)] == np.flatnonzero(fits).tolist()
        assert kept == sum(fits)
        assert all(one[1] < other[0] for one, other in pairwise(ranges))
        several += count > 1
    assert several > 3
