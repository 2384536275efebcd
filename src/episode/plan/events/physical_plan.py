"""A physical plan as data: its tree, the plan in one line, and the plans that were not chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.plan.events.closures import cost_text, without_early_tests
from episode.plan.events.cost import (
    Actual,
    PhysicalPlan,
    Shape,
    Statistics,
    TreeCosts,
    automaton_cost,
    cost_of,
    first_place,
    left_deep,
    search,
    shape_variables,
)
from episode.plan.events.postponed import ON_THE_FLY, POSTPONED, RUNS
from episode.plan.events.tree import Absent, Group, Leaf, Node, OneOf, Together, edges_of, gap_before, variables_of
from episode.plan.sections import indent

if TYPE_CHECKING:
    from episode.plan.events.plan import EventPlan

SEQ, AND, OR = "SEQ", "AND", "OR"


@dataclass(frozen=True)
class PlanNode:
    """One node. what: SEQ, AND or OR; of a leaf, its variable.

    edges: items before or after its events. between: what must, or must not, lie between its sides. on: conditions
    tested here. estimated, actual: (records per window, cost of all below); actual: if it was counted.
    last: whether it is the last join of its sequence; of the others, the text has no estimates, to remain readable.
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

    @property
    def about(self) -> str:
        records, cost = self.estimated
        return f"about {records:,.1f} per window" + ("" if self.is_leaf else f", cost {cost_text(cost)}")

    @property
    def in_fact(self) -> str:
        """Write the numbers that were counted, if any."""
        if self.actual is None:
            return ""
        records, cost = self.actual
        return f"in fact {records:,.1f}" + ("" if self.is_leaf else f", cost {cost:,.0f}")

    def lines(self) -> list[str]:
        between = "".join(f"; {item}" for item in self.between)
        on = f" on {' AND '.join(self.on)}" if self.on else ""
        numbers = f"  ({self.about}{'; ' if self.in_fact else ''}{self.in_fact})" if self.last or self.in_fact else ""
        below = indent([line for part in self.children for line in part.lines()])
        return [*(f"at the edge: {item}" for item in self.edges), f"{self.what}{between}{on}{numbers}", *below]


def plan_tree(
    plan: EventPlan, physical: PhysicalPlan, statistics: Statistics, actual: Actual | None = None
) -> PlanNode:
    """Return the tree of a plan, with estimates by some statistics, and with what was counted, if it was."""
    assert plan.tree is not None
    costs = TreeCosts(plan, statistics, dict(physical.shapes))
    return _Nodes(plan, physical, costs, actual).of(plan.tree)


@dataclass
class _Nodes:
    plan: EventPlan
    physical: PhysicalPlan
    costs: TreeCosts
    actual: Actual | None

    def of(self, node: Node) -> PlanNode:
        found = None if self.actual is None else self.actual.of(self.costs, node)
        if isinstance(node, Leaf):
            return PlanNode(node.variable, estimated=(self.costs.statistics.card(node.variable), 0.0), actual=found)
        estimate = self.costs.cheapest(node)
        numbers = (estimate.card, estimate.cost)
        if isinstance(node, OneOf):
            return PlanNode(OR, tuple(self.of(part) for part in node.parts), estimated=numbers, actual=found)
        edges = tuple(map(item_words, edges_of(node)))
        return self._join(self.physical.shape(node), node, edges, numbers, found, last=True)

    def _side(self, shape: Shape, node: Node) -> PlanNode:
        """A join below a node's last one, or a place."""
        if isinstance(shape, int):
            return self.of(node.parts[shape])
        found = None if self.actual is None else self.actual.of_shape(self.costs, node, shape)
        return self._join(shape, node, (), self.costs.of_shape(node, shape), found, last=False)

    def _join(
        self,
        shape: Shape,
        node: Node,
        edges: tuple[str, ...],
        estimated: tuple[float, float],
        actual: tuple[float, float] | None,
        last: bool,
    ) -> PlanNode:
        if isinstance(shape, int):
            only = self.of(node.parts[shape])
            return replace(only, edges=(*edges, *only.edges), last=True)
        left, right = (frozenset(shape_variables(node, side)) for side in shape)
        on = tuple(
            test.text
            for test in self.plan.tests
            if test.variables <= left | right and not test.variables <= left and not test.variables <= right
        )
        gap = gap_before(node, first_place(shape[1]))
        between = tuple(self._between(item, left, right) for item in gap or ())
        children = (self._side(shape[0], node), self._side(shape[1], node))
        return PlanNode(AND if gap is None else SEQ, children, edges, between, on, estimated, actual, last)

    def _between(self, item: Absent | Group, left: frozenset[str], right: frozenset[str]) -> str:
        """Name an item of a gap; add a note if it is only looked at on finished matches."""
        tests = self.plan.absent_tests[item.name] if isinstance(item, Absent) else ()
        outside = frozenset(name for test in tests for name in test.variables) - frozenset(variables_of(item))
        if outside <= left or outside <= right:
            return item_words(item)
        return f"{item_words(item).replace(' (NSEQ)', '')} (looked at on finished matches)"


def item_words(item: Absent | Group) -> str:
    if isinstance(item, Group) and item.follows:
        return f"{item_sign(item)} after the first event (KSEQ)"
    return f"{item_sign(item)} between ({'NSEQ' if isinstance(item, Absent) else 'KSEQ'})"


def item_sign(item: Absent | Group) -> str:
    """Write an item of a gap as queries do."""
    if isinstance(item, Absent):
        return item.name
    sign = f"^{item.count}" if item.count is not None else "+" if item.minimum else "*"
    return f"({' | '.join(item.variables)}){sign}" if item.others else f"{item.variable}{sign}"


def plan_words(plan: EventPlan, physical: PhysicalPlan) -> str:
    """Write a plan in one line: what is joined first is in brackets."""
    if physical.automaton:
        return "the automaton"
    assert plan.tree is not None
    words = _words(plan.tree, physical)
    return words if isinstance(plan.tree, Leaf) else words[1:-1]


def _words(node: Node, physical: PhysicalPlan) -> str:
    if isinstance(node, Leaf):
        return node.variable
    if isinstance(node, OneOf):
        return f"({' | '.join(_words(part, physical) for part in node.parts)})"
    inner = _shape_words(node, physical.shape(node), physical)
    if isinstance(node, Together):
        return _in_brackets(" & ", [inner, *map(item_sign, node.absent)])
    return _in_brackets("; ", [*map(item_sign, node.gaps[0]), inner, *map(item_sign, node.gaps[-1])])


def _shape_words(node: Node, shape: Shape, physical: PhysicalPlan) -> str:
    if isinstance(shape, int):
        return _words(node.parts[shape], physical)
    left, right = (_shape_words(node, side, physical) for side in shape)
    gap = gap_before(node, first_place(shape[1]))
    return _in_brackets(" & " if gap is None else "; ", [left, *map(item_sign, gap or ()), right])


def _in_brackets(sign: str, parts: list[str]) -> str:
    return f"({sign.join(parts)})" if len(parts) > 1 else parts[0]


# The plans that were not chosen, with their costs by the same statistics: other trees of the same pattern, the
# automaton, other engines of closures.

MOST_PLACES = 6
"""All trees of sequences up to this length (42 trees) are compared; of longer ones, those that lean to a side."""
MOST_RIVALS = 6


@dataclass(frozen=True)
class Rival:
    """A plan in words, its cost, and whether it is the one in use."""

    words: str
    cost: float
    chosen: bool


def rivals(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> list[Rival]:
    """Return the plan in use, then others, the cheapest first; of many, also the dearest."""
    if plan.construction is not None:
        costs = _engine_costs(plan, physical, statistics)
        return [Rival(engine, cost, number == 0) for number, (engine, cost) in enumerate(costs.items())]
    tree = replace(physical, automaton=False)
    mine = Rival(plan_words(plan, physical), cost_of(plan, statistics, physical), True)
    others = [
        Rival(plan_words(plan, other), cost_of(plan, statistics, other), False)
        for other in _other_trees(tree)
        if physical.automaton or other.shapes != physical.shapes
    ]
    if plan.automaton is not None and not physical.automaton:
        others.append(Rival("the automaton", automaton_cost(plan, statistics), False))
    others.sort(key=lambda rival: rival.cost)
    if len(others) > MOST_RIVALS:
        others = [*others[: MOST_RIVALS - 1], others[-1]]
    return [mine, *others]


def _other_trees(physical: PhysicalPlan) -> Iterator[PhysicalPlan]:
    """Yield plans whose largest sequence or conjunction has another shape, and all others the same; and this one."""
    joined = [(node, shape) for node, shape in physical.shapes if not isinstance(shape, int)]
    if not joined:
        return
    node, _ = max(joined, key=lambda pair: len(pair[0].parts))
    count = len(node.parts)
    shapes = list(_shapes(0, count)) if count <= MOST_PLACES else [left_deep(count), _right_deep(0, count)]
    for shape in shapes:
        yield replace(physical, shapes=tuple((one, shape if one == node else own) for one, own in physical.shapes))


def _shapes(begin: int, end: int) -> Iterator[Shape]:
    """Yield all binary trees over a range of places."""
    if end - begin == 1:
        yield begin
        return
    for split in range(begin + 1, end):
        for left in _shapes(begin, split):
            for right in _shapes(split, end):
                yield left, right


def _right_deep(begin: int, end: int) -> Shape:
    return begin if end - begin == 1 else (begin, _right_deep(begin + 1, end))


def _engine_costs(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> dict[str, float]:
    """Return the cost of each engine, the one in use first, then the cheapest."""
    made = plan.construction
    assert made is not None
    tree = physical.shapes and cost_of(plan, statistics, replace(physical, automaton=False))
    costs = {made.engine: tree or 0.0, RUNS: automaton_cost(plan, statistics)}
    if made.engine == ON_THE_FLY:
        costs[POSTPONED] = search(_alone(without_early_tests(plan)), statistics).cost
    elif made.tests or any(made.group_tests.values()):
        early = replace(plan, tests=made.tests, group_tests=made.group_tests)
        costs[ON_THE_FLY] = search(_alone(early), statistics).cost
    used = RUNS if physical.automaton else made.engine
    return {engine: costs[engine] for engine in sorted(costs, key=lambda one: (one != used, costs[one]))}


def _alone(plan: EventPlan) -> EventPlan:
    """Return the plan without runs as an alternative."""
    return replace(plan, automaton=None)
