"""Numbers of choices, against making them all."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from episode.matchers.codes import AT_LEAST, AT_MOST, EQUAL, GREATER, LESS
from episode.matchers.events.code import choice_counts as choices
from episode.matchers.events.counting import Numbers
from tests.unit.native.runs import run_all_ways

Events = list[dict[str, int]]
Closure = tuple[int, int, int, int, int, int]
HOLDS = {
    EQUAL: lambda event, before: event == before,
    LESS: lambda event, before: event < before,
    AT_MOST: lambda event, before: event <= before,
    GREATER: lambda event, before: event > before,
    AT_LEAST: lambda event, before: event >= before,
}


def counted(groups: list[Events], closures: list[Closure], all_ways: bool = False) -> tuple[int, float]:
    """By the emitted code, for one intermediate match."""
    events = [event for group in groups for event in group]
    from_ = np.concatenate([[0], np.cumsum([len(group) for group in groups])])

    def column(name: str, kind: Any = np.int64) -> Any:
        return np.array([event[name] for event in events], kind)

    start, pairs, pair_from = column("start"), [], np.zeros((len(groups), 1), np.int64)
    for number, (group, closure) in enumerate(zip(groups, closures, strict=True)):
        pair_from[number, 0] = len(pairs)
        pairs += [_related(event, before, closure) for before in group for event in group]
    order = [low + np.argsort(start[low:high], kind="stable") for low, high in pairwise(from_)]
    given = choices.ClosureChoices(
        np.stack([from_[:-1], from_[1:]], axis=1), start, column("end"), np.concatenate(order).astype(np.int64),
        column("first", np.uint8), column("last", np.uint8), column("flags"), column("value"), column("value"),
        np.array(closures, np.int64), pair_from, np.array(pairs, np.uint8),
    )  # fmt: skip
    high, low, near = given.count()
    if all_ways:
        arrays, program = given.arrays(), choices.choices_program(given.shapes)
        names = [one.name for one in program.entry.arrays]
        after = dict(zip(names, run_all_ways(program, [arrays[name] for name in names])[1], strict=True))
        assert (after["high"][0], after["low"][0], after["near"][0]) == (high[0], low[0], near[0])
    return (int(high[0]) << 64) + int(low[0]), float(near[0])


def _related(event: dict[str, int], before: dict[str, int], closure: Closure) -> bool:
    if closure[choices.RELATION] == choices.ALL:
        return True
    known = event["value"] >= 0 and before["value"] >= 0
    return known and HOLDS[closure[choices.COMPARE]](event["value"], before["value"])


def made(groups: list[Events], closures: list[Closure], number: int = 0, after: int = -100) -> int:
    """By making every choice."""
    if number == len(groups):
        return 1
    needed, least, most, may_be_empty, _, _ = closures[number]
    total = made(groups, closures, number + 1, after) if may_be_empty else 0
    for size in range(max(1, least), len(groups[number]) + 1):
        for choice in combinations(groups[number], size):
            pairs = list(pairwise(choice))
            flags = np.bitwise_or.reduce([event["flags"] for event in choice])
            if (
                (most < 0 or size <= most)
                and choice[0]["start"] > after
                and choice[0]["first"]
                and choice[-1]["last"]
                and flags == needed
                and all(one["end"] < other["start"] and _related(other, one, closures[number]) for one, other in pairs)
            ):
                total += made(groups, closures, number + 1, choice[-1]["end"])
    return total


def plain(count: int) -> Events:
    return [{"start": i, "end": i, "first": 1, "last": 1, "flags": 0, "value": i} for i in range(count)]


@pytest.mark.parametrize("count", [1, 10, 63, 64, 65, 126])
def test_all_subsets(count: int) -> None:
    assert counted([plain(count)], [(0, 0, -1, 0, choices.ALL, 0)])[0] == 2**count - 1
    assert counted([plain(count)], [(0, 0, -1, 1, choices.ALL, 0)])[0] == 2**count
    assert counted([plain(count)], [(0, 0, -1, 0, choices.TREE, GREATER)])[0] == 2**count - 1
    assert counted([plain(count)], [(0, 0, -1, 0, choices.TREE, LESS)])[0] == count


def test_what_is_too_large_is_known_to_be() -> None:
    assert counted([plain(1000)], [(0, 0, -1, 0, choices.ALL, 0)])[1] == pytest.approx(2.0**1000)


def test_products() -> None:
    rng = random.Random(1)
    ones, others = [rng.randrange(2**128) for _ in range(50)], [rng.randrange(2**64) for _ in range(50)]

    def numbers(values: list[int]) -> Numbers:
        words = [np.array([value >> by & 2**64 - 1 for value in values], np.uint64) for by in (64, 0)]
        return Numbers(*words, np.array(values, np.float64))

    product = numbers(ones)
    product.multiply(numbers(others))
    expected = [one * other for one, other in zip(ones, others, strict=True)]
    assert [(int(high) << 64) + int(low) for high, low in zip(product.high, product.low)] == [
        value % 2**128 for value in expected
    ]
    assert product.near == pytest.approx([float(value) for value in expected])


def test_random_closures() -> None:
    rng = random.Random(7)
    for number in range(150):
        groups: list[Events] = []
        closures: list[Closure] = []
        lasting = rng.random() < 0.3
        for _ in range(rng.choice([1, 1, 2, 3])):
            needed = rng.choice([0, 0, 1, 3])
            group: Events = []
            for _ in range(rng.randint(0, 5)):
                end = rng.randint(1, 8)
                group.append({
                    "start": end - (rng.randint(0, 2) if lasting else 0), "end": end, "value": rng.randint(-1, 3),
                    "first": rng.choice([1, 1, 0]), "last": rng.choice([1, 1, 0]), "flags": rng.randint(0, needed),
                })  # fmt: skip
            group.sort(key=lambda event: event["end"])
            ranks = sorted({event["value"] for event in group} - {-1})
            for event in group:
                event["value"] = ranks.index(event["value"]) if event["value"] >= 0 else -1
            groups.append(group)
            relation = rng.choice([choices.ALL, choices.TREE, choices.PAIRS])
            bounds = rng.choice([0, 0, 1, 2, 3]), rng.choice([-1, -1, 0, 1, 2, 3])
            closures.append((needed, *bounds, rng.randint(0, 1), relation, rng.choice(list(HOLDS))))
        assert counted(groups, closures, all_ways=number % 5 == 0)[0] == made(groups, closures)
