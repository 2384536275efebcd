"""The tree of a physical plan as data: what each node joins, tests and costs, for words and for pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from episode.plan.events.cost import TreeCosts, first_place
from episode.plan.events.tree import Absent, Gap, Group, InSequence, Leaf, Node, OneOf, Together, variables_of

if TYPE_CHECKING:
    from episode.plan.events.cost import Actual, PhysicalPlan, Shape, Statistics
    from episode.plan.events.plan import EventPlan

SEQ, AND, OR = "SEQ", "AND", "OR"


@dataclass(frozen=True)
class PlanNode:
    """One node. what: SEQ, AND or OR; of a leaf, its variable.

    edges: what stands before or after its events. between: what must, or must not, lie between its sides. on:
    conditions tested here. estimated, actual: (records per window, cost of all below); actual is None where nothing was
    counted. last: is it the last join of its sequence (the numbers of which are always shown)?
    """

    what: str
    children: tuple[PlanNode, ...] = ()
    edges: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    estimated: tuple[float, float] = (0.0, 0.0)
    actual: tuple[float, float] | None = None
    last: bool = True

    @property
    def is_leaf(self) -> bool:
        return not self.children


def plan_tree(
    plan: EventPlan, physical: PhysicalPlan, statistics: Statistics, actual: Actual | None = None
) -> PlanNode:
    """The tree of a plan, with estimates by some statistics, and what was counted, where it was."""
    assert plan.tree is not None
    costs = TreeCosts(plan, statistics, dict(physical.shapes))
    return _Nodes(plan, physical, costs, actual).of(plan.tree)


class _Nodes:
    def __init__(self, plan: EventPlan, physical: PhysicalPlan, costs: TreeCosts, actual: Actual | None) -> None:
        self.plan = plan
        self.physical = physical
        self.costs = costs
        self.actual = actual

    def of(self, node: Node) -> PlanNode:
        found = None if self.actual is None else self.actual.of(self.costs, node)
        if isinstance(node, Leaf):
            return PlanNode(node.variable, estimated=(self.costs.statistics.card(node.variable), 0.0), actual=found)
        estimate = self.costs.cheapest(node)
        numbers = (estimate.card, estimate.cost)
        if isinstance(node, OneOf):
            return PlanNode(OR, tuple(self.of(part) for part in node.parts), estimated=numbers, actual=found)
        gap = node.absent if isinstance(node, Together) else (*node.gaps[0], *node.gaps[-1])
        edges = tuple(map(item_words, gap))
        return self._join(self.physical.shape(node), node, edges, numbers, found, last=True)

    def _side(self, shape: Shape, node: InSequence | Together) -> PlanNode:
        """A join below a node's last one, or a place."""
        if isinstance(shape, int):
            return self.of((node.places if isinstance(node, InSequence) else node.parts)[shape])
        found = None if self.actual is None else self.actual.of_shape(self.costs, node, shape)
        return self._join(shape, node, (), self.costs.of_shape(node, shape), found, last=False)

    def _join(
        self,
        shape: Shape,
        node: InSequence | Together,
        edges: tuple[str, ...],
        estimated: tuple[float, float],
        actual: tuple[float, float] | None,
        last: bool,
    ) -> PlanNode:
        places, gaps = (node.places, node.gaps) if isinstance(node, InSequence) else (node.parts, None)
        if isinstance(shape, int):
            only = self.of(places[shape])
            return PlanNode(
                only.what, only.children, (*edges, *only.edges), only.between, only.on, only.estimated, only.actual
            )
        left, right = (_variables(side, places) for side in shape)
        on = tuple(
            test.text
            for test in self.plan.tests
            if test.variables <= left | right and not test.variables <= left and not test.variables <= right
        )
        gap: Gap = () if gaps is None else gaps[first_place(shape[1])]
        between = tuple(self._between(item, left, right) for item in gap)
        children = (self._side(shape[0], node), self._side(shape[1], node))
        return PlanNode(AND if gaps is None else SEQ, children, edges, between, on, estimated, actual, last)

    def _between(self, item: Absent | Group, left: frozenset[str], right: frozenset[str]) -> str:
        """A gap's item, and whether it is found here or only on finished matches."""
        tests = self.plan.absent_tests[item.name] if isinstance(item, Absent) else ()
        outside = frozenset(name for test in tests for name in test.variables) - frozenset(variables_of(item))
        if outside <= left or outside <= right:
            return item_words(item)
        return f"{item_words(item).replace(' (NSEQ)', '')} (looked at on finished matches)"


def _variables(shape: Shape, places: tuple[Node, ...]) -> frozenset[str]:
    if isinstance(shape, int):
        return frozenset(variables_of(places[shape]))
    return _variables(shape[0], places) | _variables(shape[1], places)


def item_words(item: Absent | Group) -> str:
    """What stands in a gap, in words."""
    if isinstance(item, Group) and item.follows:
        return f"{item_sign(item)} after the first event (KSEQ)"
    return f"{item_sign(item)} between ({'NSEQ' if isinstance(item, Absent) else 'KSEQ'})"


def item_sign(item: Absent | Group) -> str:
    """What stands in a gap, as it is written."""
    if isinstance(item, Absent):
        return item.name
    sign = f"^{item.count}" if item.count is not None else "+" if item.minimum else "*"
    return f"({' | '.join(item.variables)}){sign}" if item.others else f"{item.variable}{sign}"
