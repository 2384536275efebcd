"""The cost of tree plans, after ZStream (SIGMOD 2009, section 5), and the search for the cheapest tree.

Cost of an operator: C_i + n k C_i + p C_o: pairs tried, tests evaluated on them, records put out; about a nanosecond
each. Cardinalities are per window of time and partition. The search is dynamic programming over ranges of places; bushy
trees are among the candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Union

from episode.plan.events.closures import OTHER_SELECTIVITY, construction_cost, runs_cost
from episode.plan.events.conditions import JoinTest
from episode.plan.events.tree import Absent, Group, Leaf, Node, OneOf, edges_of, gap_before, variables_of
from episode.plan.expressions import Apply, Load, is_comparison

if TYPE_CHECKING:
    from episode.plan.events.plan import EventPlan


PREDICATE_WEIGHT, OUTPUT_WEIGHT = 2.0, 7.0
"""k and p of the paper, which has 0.25 and 1. Fitted to the times of all trees of the paper's queries: here a pair is
tried in less than a nanosecond, in three with a test, and a record is written in seven."""
PROGRAM_WEIGHT = 90.0
"""k of a test that is not a plain comparison, and runs as a program of the expression machine."""
ACCESS_WEIGHT, SEARCH_WEIGHT, HASH_WEIGHT = 10.0, 25.0, 20.0
"""A record of the right side meets the left ones in its time: an event, a record of several; enters a hash table, or is
looked up in it."""
EQUALITY_SELECTIVITY = 0.1
"""Selectivity of an equality before anything is known of the data."""
Shape = Union[int, tuple["Shape", "Shape"]]
"""A binary tree over the places of a sequence (or the parts of a conjunction)."""


@dataclass(frozen=True)
class Statistics:
    """cards: events of a variable per window and partition. selectivity: share of pairs that a test lets through, by
    its place in the plan's tests. rows: events of any kind per window and partition. between: share of what a negation
    (by its name) or a group (by its variable) is about for which all its conditions hold."""

    cards: dict[str, float] = field(default_factory=dict)
    selectivity: dict[int, float] = field(default_factory=dict)
    rows: float = 0.0
    between: dict[str, float] = field(default_factory=dict)

    def card(self, variable: str) -> float:
        return self.cards.get(variable, 1.0)


@dataclass(frozen=True)
class Estimate:
    """Records per window and what they cost, and the shapes after them: for each inner node of the logical tree."""

    card: float
    cost: float
    shapes: tuple[tuple[Node, Shape], ...] = ()


@dataclass(frozen=True)
class PhysicalPlan:
    """automaton: run by the automaton instead of a tree. shapes: the tree of each sequence and conjunction.
    on_top: negations that are looked at on finished matches although they could be pushed down."""

    automaton: bool
    shapes: tuple[tuple[Node, Shape], ...]
    cost: float
    on_top: bool = False

    def shape(self, node: Node) -> Shape:
        return next(shape for other, shape in self.shapes if other == node)


def is_equality(test: JoinTest) -> bool:
    """`a.x = b.y`: what a hash table can look up."""
    expression = test.expression
    return (
        isinstance(expression, Apply)
        and expression.operation == "eq"
        and len(test.variables) == 2
        and all(isinstance(operand, Load) for operand in expression.operands)
    )


def weight_of(test: JoinTest) -> float:
    return PREDICATE_WEIGHT if is_comparison(test.expression) else PROGRAM_WEIGHT


def default_statistics(plan: EventPlan) -> Statistics:
    """Return the statistics that are assumed before any event has come."""
    return Statistics(
        dict.fromkeys(plan.variables, 10.0),
        {number: assumed_selectivity(test) for number, test in enumerate(plan.tests)},
        10.0 * len(plan.variables),
    )


def assumed_selectivity(test: JoinTest) -> float:
    """The share of pairs that a test lets through, as long as none has been seen."""
    return EQUALITY_SELECTIVITY if is_equality(test) else OTHER_SELECTIVITY


def tests_between(plan: EventPlan) -> dict[str, tuple[JoinTest, ...]]:
    """The conditions of negations by their names, and of groups by their variables."""
    return {**plan.absent_tests, **plan.group_tests}


def search(plan: EventPlan, statistics: Statistics, only_trees: bool = False) -> PhysicalPlan:
    assert plan.tree is not None
    best = TreeCosts(plan, statistics).cheapest(plan.tree)
    tree = PhysicalPlan(False, best.shapes, _with_construction(plan, statistics, best))
    if plan.automaton is not None and not only_trees:
        cost = automaton_cost(plan, statistics)
        if cost < tree.cost:
            return PhysicalPlan(True, best.shapes, cost)
    return tree


def cost_of(plan: EventPlan, statistics: Statistics, physical: PhysicalPlan) -> float:
    """Return the cost of a plan under other statistics than it was made for."""
    if physical.automaton:
        return automaton_cost(plan, statistics)
    assert plan.tree is not None
    return _with_construction(plan, statistics, TreeCosts(plan, statistics, dict(physical.shapes)).cheapest(plan.tree))


def _with_construction(plan: EventPlan, statistics: Statistics, tree: Estimate) -> float:
    """Return the cost of a tree and of constructing final matches from its records."""
    more = 0.0 if plan.construction is None else construction_cost(plan, statistics, tree.card)
    return tree.cost + more


@cache
def time_selectivity(left: int, right: int) -> tuple[float, float]:
    """Return Pt of Table 1: the shares of pairs tried and emitted if records of `left` and `right` events are joined.

    Of k events of a window, one in (k - 1)! orders of the others before the last is the right one, and the times of a
    record of r events leave 1 / r of the window before it, on average. Pairs whose window is too long are also tried.
    """
    put_out = math.factorial(left - 1) * math.factorial(right - 1) / math.factorial(left + right - 1)
    return 1.0 / right, put_out


def automaton_cost(plan: EventPlan, statistics: Statistics) -> float:
    """Every prefix of a match looks at the rest of its window."""
    if plan.construction is not None:
        return runs_cost(plan, statistics, plan.construction.places)
    assert plan.tree is not None
    return runs_cost(plan, statistics, [tuple((name, True) for name in variables_of(plan.tree))])


class TreePart(NamedTuple):
    """Some parts of a node joined: records per window, their cost, the tree of the join, a mask of the variables."""

    card: float
    cost: float
    shape: Shape
    mask: int


class TreeCosts:
    """Costs of the nodes of one plan's tree under some statistics; `fixed` shapes are taken as they are."""

    def __init__(self, plan: EventPlan, statistics: Statistics, fixed: dict[Node, Shape] | None = None) -> None:
        self.plan = plan
        self.statistics = statistics
        self.fixed = fixed or {}
        self.bit = {name: 1 << number for number, name in enumerate(plan.variables)}
        shares = [statistics.selectivity.get(number, OTHER_SELECTIVITY) for number in range(len(plan.tests))]
        self.tests = [
            (self._mask(test.variables), share, is_equality(test), weight_of(test))
            for test, share in zip(plan.tests, shares, strict=True)
        ]

    def _mask(self, names: frozenset[str] | tuple[str, ...]) -> int:
        return sum(self.bit[name] for name in set(names))

    def cheapest(self, node: Node) -> Estimate:
        if isinstance(node, Leaf):
            return Estimate(self.statistics.card(node.variable), 0.0)
        if isinstance(node, OneOf):
            parts = [self.cheapest(part) for part in node.parts]
            card = sum(part.card for part in parts)
            return Estimate(card, card + sum(part.cost for part in parts), _shapes(parts))
        leaves = [self.cheapest(part) for part in node.parts]
        found = self._of_shape(node, self.fixed[node], leaves) if node in self.fixed else self._search(node, leaves)
        card, cost = found.card, found.cost
        for item in edges_of(node):
            cost += card * ACCESS_WEIGHT
            card *= self._survives(item)
        return Estimate(card, cost, (*_shapes(leaves), (node, found.shape)))

    def of_shape(self, node: Node, shape: Shape) -> tuple[float, float]:
        """(records, cost) of a part of a node's tree."""
        found = self._of_shape(node, shape, [self.cheapest(part) for part in node.parts])
        return found.card, found.cost

    def _of_shape(self, node: Node, shape: Shape, leaves: list[Estimate]) -> TreePart:
        if isinstance(shape, int):
            mask = self._mask(variables_of(node.parts[shape]))
            return TreePart(leaves[shape].card, leaves[shape].cost, shape, mask)
        return self._join(node, *(self._of_shape(node, side, leaves) for side in shape))

    def _search(self, node: Node, leaves: list[Estimate]) -> TreePart:
        """Algorithm 5: the best tree of every range, from short ones to long ones."""
        n = len(leaves)
        best = {(i, i): self._of_shape(node, i, leaves) for i in range(n)}
        for size in range(2, n + 1):
            for i in range(n - size + 1):
                j = i + size - 1
                found = [self._join(node, best[i, split], best[split + 1, j]) for split in range(i, j)]
                best[i, j] = min(found, key=lambda part: part.cost)
        return best[0, n - 1]

    def _join(self, node: Node, left: TreePart, right: TreePart) -> TreePart:
        """Join parts that are next to each other in a sequence, or any parts of a conjunction."""
        gap = gap_before(node, first_place(right.shape))
        both, passing, tests, hashed = left.mask | right.mask, 1.0, 0.0, 1.0
        for mask, selectivity, equality, weight in self.tests:
            if mask & ~both == 0 and mask & left.mask and mask & right.mask:
                passing *= selectivity
                tests += weight
                if equality:
                    hashed *= selectivity
        size = right.mask.bit_count()
        # Either side of a conjunction may be the later one.
        in_time = (2.0, 2.0) if gap is None else time_selectivity(left.mask.bit_count(), size)
        pairs = left.card * right.card
        for item in gap or ():
            pairs *= self._survives(item)
        tried, out = pairs * in_time[0] * hashed, pairs * in_time[1] * passing
        cost = self.charge(left.card, right.card, size, len(gap or ()), hashed < 1.0, tests, tried, out)
        return TreePart(out, cost + (left.cost + right.cost), (left.shape, right.shape), both)

    @staticmethod
    def charge(
        left: float, right: float, size: int, gap: int, hashed: bool, tests: float, tried: float, out: float
    ) -> float:
        """Return the cost of a join by its sides, items of the gap, weight of its tests, pairs tried and records."""
        access = right * ((ACCESS_WEIGHT if size == 1 else SEARCH_WEIGHT) + gap * ACCESS_WEIGHT)
        if hashed:
            access += (left + right) * HASH_WEIGHT
        return access + tried * (1.0 + tests) + OUTPUT_WEIGHT * out

    def _survives(self, item: Absent | Group) -> float:
        """The share of neighbours with none (negation) or some (closure) of the events between them."""
        if isinstance(item, Absent):
            between = self.cheapest(item.node).card * self._share(item.name)
        else:
            between = sum(self.statistics.card(name) * self._share(name) for name in item.variables)
        none = (1.0 - math.exp(-between)) / between if between > 0 else 1.0
        if isinstance(item, Absent):
            return none
        return 1.0 if item.minimum == 0 and item.count is None else 1.0 - none

    def _share(self, name: str) -> float:
        """The share of what lies between two neighbours that the conditions of a negation or group let through."""
        assumed = math.prod(assumed_selectivity(test) for test in tests_between(self.plan).get(name, ()))
        return self.statistics.between.get(name, assumed)


def first_place(shape: Shape) -> int:
    while not isinstance(shape, int):
        shape = shape[0]
    return shape


def last_place(shape: Shape) -> int:
    while not isinstance(shape, int):
        shape = shape[1]
    return shape


def _shapes(estimates: list[Estimate]) -> tuple[tuple[Node, Shape], ...]:
    return tuple(pair for estimate in estimates for pair in estimate.shapes)


def left_deep(places: int) -> Shape:
    shape: Shape = 0
    for place in range(1, places):
        shape = (shape, place)
    return shape


# The actual work of the joins of a tree, per window and in the units of the cost model, to compare with estimates.


@dataclass(frozen=True)
class Done:
    """The work of one node over all rounds of a plan: pairs tried, records emitted, and whether they were looked up."""

    tried: int
    records: int
    hashed: bool = False


@dataclass(frozen=True)
class Actual:
    """Records per window, and their cost: counted pairs, at the cost of the model.

    nodes: counts by the variables of a node. windows: the number of windows. matches: of the whole tree.
    """

    nodes: dict[tuple[str, ...], Done]
    windows: float
    matches: int

    def of(self, costs: TreeCosts, node: Node) -> tuple[float, float] | None:
        """(records, cost) of a node and all below; None where a join has not run."""
        if isinstance(node, Leaf):
            done = self.nodes.get((node.variable,))
            return None if done is None else (done.records / self.windows, 0.0)
        if isinstance(node, OneOf):
            parts = [self.of(costs, part) for part in node.parts]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            records = sum(part[0] for part in known)
            found: tuple[float, float] | None = (records, records + sum(part[1] for part in known))
        else:
            found = self.of_shape(costs, node, costs.fixed[node])
        if found is None:
            return None
        records, cost = found
        cost += records * ACCESS_WEIGHT * len(edges_of(node))
        return (self.matches / self.windows if node == costs.plan.tree else records), cost

    def of_shape(self, costs: TreeCosts, node: Node, shape: Shape) -> tuple[float, float] | None:
        """(records, cost) of a part of a node's tree."""
        if isinstance(shape, int):
            return self.of(costs, node.parts[shape])
        left, right = self.of_shape(costs, node, shape[0]), self.of_shape(costs, node, shape[1])
        first, second = shape_variables(node, shape[0]), shape_variables(node, shape[1])
        done = self.nodes.get((*first, *second))
        if left is None or right is None or done is None:
            return None
        tried, records = done.tried / self.windows, done.records / self.windows
        gap = gap_before(node, first_place(shape[1])) or ()
        tests = sum(
            weight_of(test)
            for test in costs.plan.tests
            if test.variables <= {*first, *second} and test.variables & {*first} and test.variables & {*second}
        )
        cost = costs.charge(left[0], right[0], len(second), len(gap), done.hashed, tests, tried, records)
        return records, left[1] + right[1] + cost


def shape_variables(node: Node, shape: Shape) -> tuple[str, ...]:
    """Variables of the parts of a node that a shape joins."""
    if isinstance(shape, int):
        return variables_of(node.parts[shape])
    return (*shape_variables(node, shape[0]), *shape_variables(node, shape[1]))
