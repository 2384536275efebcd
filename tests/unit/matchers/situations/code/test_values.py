"""Aggregates over the rows of situations as code, in all ways: against plain Python over all rows of each situation."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from episode.matchers import codes as oc
from episode.matchers.code.aggregates import AggregateShape
from episode.matchers.situations.code.values import FIND, FOLD, SUM_WORDS, ValuesShape, accumulation_program
from tests.unit.native.runs import run_all_ways

ROWS, BEFORE = 20, 3
WHOLE = [0, 1, -1, 7, 2**62, 2**63 - 1, -(2**63)]
REAL = [0.5, -2.0, 3.25, 1e300, -1e300, math.inf, math.nan]


class Drawn:
    """Rows with values, and what is asked of the situations in them."""

    def __init__(self, random: Random, nulls: bool) -> None:
        self.ints = [random.choice(WHOLE) for _ in range(ROWS)]
        self.floats = [random.choice(REAL) for _ in range(ROWS)]
        self.wide = [random.choice([-1, 1]) * random.randrange(10**37, 10**38) for _ in range(ROWS)]
        self.valid = [not nulls or random.random() < 0.7 for _ in range(ROWS)]
        self.asked: list[tuple[int, int, int]] = []
        row = 0
        while row < ROWS - 5:
            first, opened = row, random.choice([-1, -1, *range(BEFORE)])
            last = first - 1 if opened >= 0 else first
            for _ in range(random.randint(1, 3)):
                last = min(ROWS - 1, last + random.randint(0, 3))
                self.asked.append((first, last, opened))
            row = last + 2

    def rows(self, first: int, last: int) -> list[int]:
        return [row for row in range(first, last + 1) if self.valid[row]]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        first, last, opened = (np.array(one, np.int64) for one in zip(*self.asked))
        return {
            "first": first, "last": last, "opened": opened, "valid": np.array(self.valid, np.uint8),
            "ints": np.array(self.ints, np.int64), "floats": np.array(self.floats),
            "low_words": np.array([one & 2**64 - 1 for one in self.wide], np.uint64),
            "high_words": np.array([one >> 64 for one in self.wide], np.int64),
        }  # fmt: skip


def made(shape: ValuesShape, given: dict[str, np.ndarray]) -> dict[str, list[Any]]:
    program = accumulation_program(shape)
    names = [one.name for one in program.entry.arrays]
    out = {f"out_{name}": np.zeros(len(given["last"]), type_.dtype) for name, type_ in shape.outputs.items()}
    with np.errstate(all="ignore"):
        _, arrays = run_all_ways(program, [(given | out)[name] for name in names])
    return {name: array.tolist() for name, array in zip(names, arrays) if name in out}


def alike(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize("nulls", [False, True])
def test_counts_and_sums(nulls: bool) -> None:
    random = Random(1 + nulls)
    for _ in range(3):
        drawn = Drawn(random, nulls)
        before = {"before_count": np.array([4, 0, 9]), "before_whole": np.array([5, 0, 2**63 - 1]),
                  "before_more": np.array([0.0, 0.0, 1.0]), "before_real": np.array([1.5, 0.0, -2.0])}  # fmt: skip
        given = drawn.arrays | before
        counted = made(ValuesShape(FOLD, AggregateShape(oc.COUNT), nulls), given)["out_count"]
        true = made(ValuesShape(FOLD, AggregateShape(oc.COUNT_IF), nulls), given)["out_count"]
        whole = made(ValuesShape(FOLD, AggregateShape(oc.SUM), nulls), given)
        real = made(ValuesShape(FOLD, AggregateShape(oc.SUM, floating=True), nulls), given)
        for at, (first, last, opened) in enumerate(drawn.asked):
            rows = drawn.rows(first, last)
            known = before["before_count"][opened] if opened >= 0 else 0
            assert counted[at] == whole["out_count"][at] == real["out_count"][at] == known + len(rows)
            assert true[at] == known + sum(drawn.ints[row] != 0 for row in rows)
            total = sum(drawn.ints[row] for row in rows)
            total += (
                int(before["before_whole"][opened]) + int(before["before_more"][opened]) * 2**64 if opened >= 0 else 0
            )
            assert whole["out_whole"][at] + int(whole["out_more"][at]) * 2**64 == total
            added = float(before["before_real"][opened]) if opened >= 0 else 0.0
            for row in rows:
                added += drawn.floats[row]
            assert alike(real["out_real"][at], added)


@pytest.mark.parametrize("nulls", [False, True])
def test_variances(nulls: bool) -> None:
    random = Random(5 + nulls)
    drawn = Drawn(random, nulls)
    drawn.floats = [random.uniform(-9, 9) for _ in range(ROWS)]
    earlier = [[1.0, 2.0, 4.0], [], [3.0]]
    means = [float(np.mean(one)) if one else 0.0 for one in earlier]
    squares = [float(np.var(one)) * len(one) if one else 0.0 for one in earlier]
    before = {"before_count": np.array([3, 0, 1]), "before_real": np.array(means), "before_more": np.array(squares)}
    found = made(ValuesShape(FOLD, AggregateShape(oc.VAR_POP, floating=True), nulls), drawn.arrays | before)
    for at, (first, last, opened) in enumerate(drawn.asked):
        values = [*(earlier[opened] if opened >= 0 else []), *(drawn.floats[row] for row in drawn.rows(first, last))]
        assert found["out_count"][at] == len(values)
        if values:
            assert found["out_real"][at] == pytest.approx(np.mean(values))
            assert found["out_more"][at] == pytest.approx(np.var(values) * len(values))


@pytest.mark.parametrize("nulls", [False, True])
def test_sums_of_decimals(nulls: bool) -> None:
    """From more than 38 digits on, a sum is nothing, whatever is added."""
    random = Random(8 + nulls)
    overflowed = 0
    for _ in range(3):
        drawn = Drawn(random, nulls)
        known = [10**37, -1, 0]
        before = {"before_count": np.array([2, 1, 0]), "before_high": np.array([one >> 64 for one in known]),
                  "before_low": np.array([one & 2**64 - 1 for one in known], np.uint64)}  # fmt: skip
        found = made(ValuesShape(SUM_WORDS, AggregateShape(oc.SUM_WIDE), nulls), drawn.arrays | before)
        for at, (first, last, opened) in enumerate(drawn.asked):
            rows = drawn.rows(first, last)
            total, too_large = known[opened] if opened >= 0 else 0, False
            for row in rows:
                total += drawn.wide[row]
                too_large |= abs(total) >= 10**38
            assert found["out_count"][at] == len(rows) + (int(before["before_count"][opened]) if opened >= 0 else 0)
            words = (found["out_high"][at] << 64) + found["out_low"][at]
            assert words == (-(2**127) if too_large else total)
            overflowed += too_large
    assert overflowed


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("function", [oc.MIN_BY, oc.MAX_BY])
def test_places_of_extremes(function: int, floating: bool, nulls: bool) -> None:
    """Values of earlier batches come first; of equal values the later is taken, and NaN is the greatest."""
    random = Random(function + 2 * floating + nulls)
    drawn = Drawn(random, nulls)
    values = [random.choice(REAL if floating else WHOLE) for _ in range(BEFORE)]
    values += drawn.floats if floating else drawn.ints
    valid = [random.random() < 0.5 or not nulls for _ in range(BEFORE)] + drawn.valid
    given = drawn.arrays | {"shift": np.array([BEFORE]), "valid": np.array(valid, np.uint8)}
    given |= {"floats": np.array(values, np.float64)} if floating else {"ints": np.array(values, np.int64)}
    found = made(ValuesShape(FIND, AggregateShape(function, floating), nulls), given)["out_place"]
    for at, (first, last, opened) in enumerate(drawn.asked):
        places = [*([opened] if opened >= 0 else []), *range(first + BEFORE, last + 1 + BEFORE)]
        best = -1
        for place in (one for one in places if valid[one]):
            order = 0 if best < 0 else _order(values[place], values[best])
            if order <= 0 if function == oc.MIN_BY else order >= 0:
                best = place
        assert found[at] == best


def _order(one: float, other: float) -> int:
    ranked = [
        (isinstance(value, float) and math.isnan(value), 0 if math.isnan(value) else value) for value in (one, other)
    ]
    return (ranked[0] > ranked[1]) - (ranked[0] < ranked[1])
