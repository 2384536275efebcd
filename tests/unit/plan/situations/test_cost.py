"""Orders of search that were not chosen."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from episode.lang.situations import allen
from episode.plan.situations.cost import MOST_RIVALS, SearchCosts, _orders, best_order, rival_orders


def network(symbols: int, chance: random.Random) -> tuple[tuple[tuple[int, ...], ...], SearchCosts]:
    """Constraints between all symbols, and statistics."""
    masks = [[allen.EVERY] * symbols for _ in range(symbols)]
    shares = [[1.0] * symbols for _ in range(symbols)]
    for left in range(symbols):
        for right in range(left):
            masks[left][right] = masks[right][left] = 1
            shares[left][right] = shares[right][left] = chance.random() * 0.9
    sizes = tuple(chance.choice([1.0, 4.0, 50.0]) for _ in range(symbols))
    return tuple(map(tuple, masks)), SearchCosts(sizes, tuple(map(tuple, shares)))


@pytest.mark.parametrize("seed", range(8))
def test_the_best_order_has_no_cheaper_rival(seed: int) -> None:
    masks, costs = network(5, random.Random(seed))
    order = (2, *best_order(masks, costs, 2))
    mine, *others = rival_orders(masks, costs, order)
    assert mine.chosen
    assert mine.order == order
    assert len(others) == MOST_RIVALS
    every = [costs.of(2, other)[0] for other in permutations((0, 1, 3, 4))]
    assert mine.cost == pytest.approx(min(every))
    assert others[-1].cost == pytest.approx(max(every))
    assert all(one.cost >= mine.cost - 1e-9 and one.order[0] == 2 for one in others)


def test_symbols_that_are_not_related_come_last() -> None:
    """0 is related to 1, and 1 to 2: from 0 on there is one order."""
    masks = ((allen.EVERY, 1, allen.EVERY), (1, allen.EVERY, 1), (allen.EVERY, 1, allen.EVERY))
    assert list(_orders(masks, [0], [1, 2])) == [(1, 2)]


def test_of_many_symbols_no_others_are_compared() -> None:
    masks, costs = network(8, random.Random(1))
    assert len(rival_orders(masks, costs, tuple(range(8)))) == 1
