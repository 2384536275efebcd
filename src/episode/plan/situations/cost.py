"""The order in which buffers are searched: TPStream's cost model (its section 5.4).

A search begins with one new situation and takes the others one buffer after the other. The cost of a step is a search
for each partial match so far, plus the partial matches that it finds:

    cost = sum over steps i of |R(i-1)| * find(|B(i)|) + |R(i)|,    |R(i)| = |R(i-1)| * |B(i)| * s(i)

s(i) is the product of the selectivities of the constraints between the step's buffer and those before it; the
selectivity of a constraint with several relations is the sum of theirs. |R| of a set of buffers does not depend on
their order, so dynamic programming over sets finds the best order. See decisions 81 and 82.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2

from episode.lang.situations import allen
from episode.lang.situations.allen import Relation

INITIAL = {
    Relation.BEFORE: 0.445, Relation.DURING: 0.03, Relation.OVERLAPS: 0.01, Relation.STARTS: 0.0049,
    Relation.FINISHES: 0.0049, Relation.MEETS: 0.0049, Relation.EQUALS: 0.0006,
}  # fmt: skip
"""Selectivities before anything is known (the paper's Table 3); a mirror has that of its relation."""

INITIAL_SIZE = 16.0
MOST_BY_SETS = 7
"""Patterns of more symbols are ordered greedily: the cheapest next step each time."""


@dataclass(frozen=True)
class SearchCosts:
    """sizes: situations in each symbol's buffer. selectivities: share of a buffer's situations that fits one of another
    symbol; 1 where no constraint is."""

    sizes: tuple[float, ...]
    selectivities: tuple[tuple[float, ...], ...]

    def step(self, bound: list[int], records: float, following: int) -> tuple[float, float]:
        """(cost of the step, records after it)."""
        size = max(self.sizes[following], 1.0)
        share = 1.0
        for other in bound:
            share *= self.selectivities[following][other]
        constraints = sum(self.selectivities[following][other] < 1.0 for other in bound)
        after = records * size * share
        return records * max(1, constraints) * (1.0 + log2(size)) + after, after

    def of(self, first: int, order: tuple[int, ...]) -> tuple[float, list[float]]:
        """(cost of a search from a new situation of `first`, records after each step)."""
        cost, records, bound, sizes = 0.0, 1.0, [first], []
        for following in order:
            added, records = self.step(bound, records, following)
            cost += added
            bound.append(following)
            sizes.append(records)
        return cost, sizes


def initial_selectivity(mask: int) -> float:
    """Return the selectivity of a constraint before anything is measured."""
    if mask == allen.EVERY:
        return 1.0
    names = (relation if relation in INITIAL else allen.mirror(relation) for relation in allen.relations_of(mask))
    return min(1.0, sum(INITIAL[name] for name in names))


def initial_costs(masks: tuple[tuple[int, ...], ...]) -> SearchCosts:
    return SearchCosts(
        (INITIAL_SIZE,) * len(masks), tuple(tuple(initial_selectivity(mask) for mask in row) for row in masks)
    )


def best_order(masks: tuple[tuple[int, ...], ...], costs: SearchCosts, first: int) -> tuple[int, ...]:
    """The cheapest order for a new situation of `first`; cross products only where nothing is related."""
    rest = [symbol for symbol in range(len(masks)) if symbol != first]
    if len(masks) > MOST_BY_SETS:
        return _greedy(masks, costs, first, rest)
    best: dict[int, tuple[float, float, tuple[int, ...]]] = {1 << first: (0.0, 1.0, ())}
    for _ in rest:
        grown: dict[int, tuple[float, float, tuple[int, ...]]] = {}
        for members, (cost, records, order) in best.items():
            bound = [first, *order]
            for following in next_symbols(masks, bound, rest):
                added, after = costs.step(bound, records, following)
                key = members | 1 << following
                if key not in grown or cost + added < grown[key][0]:
                    grown[key] = (cost + added, after, (*order, following))
        best = grown
    ((_, _, order),) = best.values()
    return order


def next_symbols(masks: tuple[tuple[int, ...], ...], bound: list[int], rest: list[int]) -> list[int]:
    """Symbols that may come next: related ones, if there are any."""
    free = [symbol for symbol in rest if symbol not in bound]
    related = [symbol for symbol in free if any(masks[symbol][other] != allen.EVERY for other in bound)]
    return related or free


def _greedy(masks: tuple[tuple[int, ...], ...], costs: SearchCosts, first: int, rest: list[int]) -> tuple[int, ...]:
    bound, records = [first], 1.0
    while len(bound) <= len(rest):
        steps = [(*costs.step(bound, records, symbol), symbol) for symbol in next_symbols(masks, bound, rest)]
        _, records, following = min(steps)
        bound.append(following)
    return tuple(bound[1:])


def triggers(
    masks: tuple[tuple[int, ...], ...], at_least: tuple[int | None, ...], at_most: tuple[int | None, ...], eager: bool
) -> list[tuple[bool, bool]]:
    """For each symbol: can the start of its situation make a match certain, and can its end?

    At its start, the others have ended, or continue and the constraint allows all relations that they may come to have.
    At its end, the others have begun; and if it was known from its start, another must continue or end with it.
    """
    ended_before = (Relation.AFTER, Relation.MET_BY)
    ended_since = (Relation.OVERLAPPED_BY, Relation.STARTED_BY, Relation.CONTAINS)
    together_or_later = (
        (Relation.STARTS, Relation.EQUALS, Relation.STARTED_BY),
        (Relation.DURING, Relation.FINISHED_BY, Relation.OVERLAPPED_BY),
    )
    earlier = (Relation.OVERLAPS, Relation.FINISHES, Relation.CONTAINS)
    begun_later = allen.mask((Relation.BEFORE, Relation.MEETS))
    outlasted = (Relation.OVERLAPS, Relation.STARTS, Relation.DURING)
    decided_at_end = allen.mask((*outlasted, Relation.FINISHES, Relation.EQUALS, Relation.FINISHED_BY))
    found = []
    for symbol, row in enumerate(masks):
        others = [mask for other, mask in enumerate(row) if other != symbol]
        early = eager and at_most[symbol] is None
        known = early and at_least[symbol] is None
        # A start that counts only once the situation has lasted for a while leaves others time to begin and end.
        ended = allen.mask(ended_before if known else (*ended_before, *ended_since))
        groups = [allen.mask(names) for names in (together_or_later if known else (*together_or_later, earlier))]
        possible = (mask & ended or any(mask & group == group for group in groups) for mask in others)
        on_start = early and all(possible)
        related = [mask for mask in others if mask != allen.EVERY]
        on_end = all(mask & ~begun_later for mask in others)
        on_end = on_end and (not known or any(mask & decided_at_end for mask in related))
        found.append((on_start, on_end))
    return found


# The orders of search that were not chosen, and what each would cost by the same statistics.

MOST_RIVALS = 4


@dataclass(frozen=True)
class RivalOrder:
    """Symbols in the order of a search, the one that begins it first; what it costs, and whether it is in use."""

    order: tuple[int, ...]
    cost: float
    chosen: bool


def rival_orders(masks: tuple[tuple[int, ...], ...], costs: SearchCosts, order: tuple[int, ...]) -> list[RivalOrder]:
    """Return the order in use, then others that begin with the same symbol, the cheapest first; of many also the most
    expensive. For patterns with many symbols no others are compared."""
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
