"""What the joins of a tree have really done, per window and in the units of the cost model: beside the estimates."""

from __future__ import annotations

from dataclasses import dataclass

from episode.plan.events.cost import ACCESS_WEIGHT, Shape, TreeCosts, first_place, weight_of
from episode.plan.events.tree import Gap, InSequence, Leaf, Node, OneOf, Together, variables_of


@dataclass(frozen=True)
class Done:
    """Of one node, over all rounds of a plan: pairs tried, records put out, and whether they were looked up."""

    tried: int
    records: int
    hashed: bool = False


@dataclass(frozen=True)
class Actual:
    """Records per window, and what they have cost: pairs were counted, and the cost model says what one costs.

    nodes: what was counted, by the variables of a node. windows: how many windows it is of. matches: of the whole tree.
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
            found = self.of_shape(costs, node, dict(costs.fixed)[node])
        if found is None:
            return None
        records, cost = found
        cost += records * ACCESS_WEIGHT * len(_edges(node))
        return (self.matches / self.windows if node == costs.plan.tree else records), cost

    def of_shape(self, costs: TreeCosts, node: InSequence | Together, shape: Shape) -> tuple[float, float] | None:
        """(records, cost) of a part of a node's tree."""
        places = node.places if isinstance(node, InSequence) else node.parts
        if isinstance(shape, int):
            return self.of(costs, places[shape])
        left, right = self.of_shape(costs, node, shape[0]), self.of_shape(costs, node, shape[1])
        first, second = _variables(places, shape[0]), _variables(places, shape[1])
        done = self.nodes.get((*first, *second))
        if left is None or right is None or done is None:
            return None
        tried, records = done.tried / self.windows, done.records / self.windows
        gap: Gap = node.gaps[first_place(shape[1])] if isinstance(node, InSequence) else ()
        tests = sum(
            weight_of(test)
            for test in costs.plan.tests
            if test.variables <= {*first, *second} and test.variables & {*first} and test.variables & {*second}
        )
        cost = costs.charge(left[0], right[0], len(second), len(gap), done.hashed, tests, tried, records)
        return records, left[1] + right[1] + cost


def _variables(places: tuple[Node, ...], shape: Shape) -> tuple[str, ...]:
    if isinstance(shape, int):
        return variables_of(places[shape])
    return (*_variables(places, shape[0]), *_variables(places, shape[1]))


def _edges(node: Node) -> Gap:
    if isinstance(node, InSequence):
        return node.gaps[0] + node.gaps[-1]
    return node.absent if isinstance(node, Together) else ()
