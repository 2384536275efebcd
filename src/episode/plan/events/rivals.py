"""The plans that were not chosen: other trees of the same pattern, the automaton, other engines of closures; and what
each would cost by the same statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from episode.plan.events.cost import (
    PhysicalPlan,
    Shape,
    Statistics,
    automaton_cost,
    cost_of,
    left_deep,
)
from episode.plan.events.explain import plan_words
from episode.plan.events.explain_closures import engine_costs
from episode.plan.events.plan import EventPlan
from episode.plan.events.tree import InSequence, Leaf, Node, Together

MOST_PLACES = 6
"""Of a sequence of so many places (42 trees), all trees are compared; of longer ones, those that lean to a side."""
MOST_RIVALS = 6


@dataclass(frozen=True)
class Rival:
    """A plan in words, its cost, and whether it is the one in use."""

    words: str
    cost: float
    chosen: bool


def rivals(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> list[Rival]:
    """The plan in use, then others, the cheapest first; of many, the dearest besides."""
    if plan.construction is not None:
        costs = engine_costs(plan, physical, statistics)
        return [Rival(engine, cost, number == 0) for number, (engine, cost) in enumerate(costs.items())]
    tree = replace(physical, automaton=False)
    mine = Rival(plan_words(plan, physical), cost_of(plan, statistics, physical), True)
    others = [
        Rival(plan_words(plan, other), cost_of(plan, statistics, other), False)
        for other in _other_trees(plan, tree)
        if physical.automaton or other.shapes != physical.shapes
    ]
    if plan.automaton is not None and not physical.automaton:
        others.append(Rival("the automaton", automaton_cost(plan, statistics), False))
    others.sort(key=lambda rival: rival.cost)
    if len(others) > MOST_RIVALS:
        others = [*others[: MOST_RIVALS - 1], others[-1]]
    return [mine, *others]


def _other_trees(plan: EventPlan, physical: PhysicalPlan) -> Iterator[PhysicalPlan]:
    """Plans whose largest sequence or conjunction has another shape, and all others the same; and this one."""
    joined = [(node, shape) for node, shape in physical.shapes if not isinstance(shape, int)]
    if not joined:
        return
    node, _ = max(joined, key=lambda pair: len(_places(pair[0])))
    count = len(_places(node))
    shapes = list(_shapes(0, count)) if count <= MOST_PLACES else [left_deep(count), _right_deep(0, count)]
    for shape in shapes:
        yield replace(physical, shapes=tuple((one, shape if one == node else own) for one, own in physical.shapes))


def _places(node: Node) -> tuple[Node, ...]:
    if isinstance(node, InSequence):
        return node.places
    return node.parts if isinstance(node, Together) else (() if isinstance(node, Leaf) else node.parts)


def _shapes(begin: int, end: int) -> Iterator[Shape]:
    """All binary trees over the places from one on up to another."""
    if end - begin == 1:
        yield begin
        return
    for split in range(begin + 1, end):
        for left in _shapes(begin, split):
            for right in _shapes(split, end):
                yield left, right


def _right_deep(begin: int, end: int) -> Shape:
    return begin if end - begin == 1 else (begin, _right_deep(begin + 1, end))
