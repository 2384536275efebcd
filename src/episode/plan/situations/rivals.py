"""The orders of search that were not chosen, and what each would cost by the same statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from episode.plan.situations.cost import MOST_BY_SETS, SearchCosts, next_symbols

MOST_RIVALS = 4


@dataclass(frozen=True)
class RivalOrder:
    """Symbols in the order of a search, the one that begins it first; what it costs, and whether it is in use."""

    order: tuple[int, ...]
    cost: float
    chosen: bool


def rival_orders(masks: tuple[tuple[int, ...], ...], costs: SearchCosts, order: tuple[int, ...]) -> list[RivalOrder]:
    """The order in use, then others that begin with the same symbol, the cheapest first; of many, the dearest besides.
    Of patterns with many symbols no others are compared."""
    first, rest = order[0], order[1:]
    mine = RivalOrder(order, costs.of(first, rest)[0], True)
    if len(masks) > MOST_BY_SETS:
        return [mine]
    others = [
        RivalOrder((first, *other), costs.of(first, other)[0], False)
        for other in _orders(masks, [first], sorted(rest))
        if other != rest
    ]
    others.sort(key=lambda rival: rival.cost)
    if len(others) > MOST_RIVALS:
        others = [*others[: MOST_RIVALS - 1], others[-1]]
    return [mine, *others]


def _orders(masks: tuple[tuple[int, ...], ...], bound: list[int], rest: list[int]) -> Iterator[tuple[int, ...]]:
    """All orders that search related symbols first."""
    if len(bound) > len(rest):
        yield tuple(bound[1:])
        return
    for following in next_symbols(masks, bound, rest):
        yield from _orders(masks, [*bound, following], rest)
