"""Packings as JSON, there and back: random ones of all parts that a packing can have."""

from __future__ import annotations

import random

import pytest

from episode.matchers.envelope import Packing, read_packing, write_packing
from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.screening import Screen
from episode.matchers.slices.keys import SlicedKey, SlicedKeys
from episode.matchers.slices.slicing import Overlap
from episode.plan.arrays import Listed
from episode.plan.expressions import Apply, Constant, Current, Expression, Load, Navigated

VALUES = (None, 0, -(2**63), 2**63 - 1, 0.1, -0.0, float("inf"), "", "it's 'ü' 😀", b"\0\xff", True)


def expression(draw: random.Random, depth: int = 3) -> Expression:
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(
            [
                Load("c", Current(draw.randint(-2, 2)), "string", draw.choice([None, "d"])),
                Load("c", Navigated(draw.choice([None, frozenset("BA")]), True, 1, 0), "int"),
                Constant(draw.choice(VALUES), "double"),
            ]
        )
    parts = tuple(expression(draw, depth - 1) for _ in range(draw.randint(0, 3)))
    return Listed(parts, "array<int>") if draw.random() < 0.2 else Apply(draw.choice(["and", "<"]), parts, "boolean")


@pytest.mark.parametrize("seed", range(50))
def test_there_and_back(seed: int) -> None:
    draw = random.Random(seed)
    keys = (OrderKey("t", draw.random() < 0.5, draw.random() < 0.5),)
    order = InputOrder(tuple("ab")[: draw.randint(0, 2)], keys, draw.random() < 0.5, draw.choice([None, "s"]))
    conditions = tuple(tuple(expression(draw) for _ in range(2)) for _ in range(draw.randint(1, 3)))
    cut = SlicedKeys((SlicedKey(2**64 - 1, (1, 5), "k", 0.25),), Overlap(1, 2, 3, 4), 7)
    screen = draw.choice([None, Screen(conditions, order, draw.choice([None, 3]))])
    packing = Packing(order, draw.randint(1, 99), 1 << 20, screen, draw.choice([None, cut]))
    assert read_packing(write_packing(packing)) == packing
