"""What a matcher of an event pattern did, as data: counted by workers, carried as JSON, put into words on the
driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from episode.plan.events.actual import Actual, Done
from episode.plan.events.cost import PhysicalPlan, Shape, Statistics
from episode.plan.events.tree import InSequence, Leaf, Node, OneOf, Together


@dataclass(frozen=True)
class Moved:
    """A statistic that is no longer what a plan was made for. of: a variable (its events per window), or the number of
    a test (its selectivity)."""

    of: str | int
    before: float
    now: float


@dataclass(frozen=True)
class Change:
    """A plan taken because a statistic has moved, in place of another one (old_cost: by what is known now); or as the
    first one."""

    round: int
    moved: Moved | None
    old_cost: float | None
    new_cost: float
    plan: PhysicalPlan


@dataclass(frozen=True)
class EventReport:
    """What one matcher did.

    tree: what its plans are of, if they are of a tree. nodes: pairs tried and records put out, by the name of a node.
    plan, statistics: the last ones. actual: what that plan has done since it was taken, where it was counted.
    """

    tree: Node | None
    rounds: int
    matches: int
    nodes: dict[str, tuple[int, int]]
    statistics: Statistics | None
    plan: PhysicalPlan | None
    actual: Actual | None
    changes: tuple[Change, ...]

    def to_json(self) -> str:
        """Nodes of the tree are identified by their numbers."""
        numbers: dict[Node, int] = {node: number for number, node in reversed(list(enumerate(_inner(self.tree))))}

        def plan(physical: PhysicalPlan) -> list[Any]:
            shapes = [[numbers[node], shape] for node, shape in physical.shapes]
            return [physical.automaton, shapes, physical.cost, physical.on_top]

        known, actual = self.statistics, self.actual
        return json.dumps(
            {
                "rounds": self.rounds,
                "matches": self.matches,
                "nodes": self.nodes,
                "statistics": known and [known.cards, list(known.selectivity.items()), known.rows, known.between],
                "plan": self.plan and plan(self.plan),
                "actual": actual
                and [
                    [[names, [done.tried, done.records, done.hashed]] for names, done in actual.nodes.items()],
                    actual.windows,
                    actual.matches,
                ],
                "changes": [
                    [
                        change.round,
                        change.moved and [change.moved.of, change.moved.before, change.moved.now],
                        change.old_cost,
                        change.new_cost,
                        plan(change.plan),
                    ]
                    for change in self.changes
                ],
            }
        )

    @staticmethod
    def from_json(text: str, tree: Node | None) -> EventReport:
        """A report on plans of a tree, as it was written."""
        read = json.loads(text)
        inner = list(_inner(tree))

        def plan(automaton: bool, shapes: list[Any], cost: float, on_top: bool) -> PhysicalPlan:
            return PhysicalPlan(automaton, tuple((inner[at], _shape(shape)) for at, shape in shapes), cost, on_top)

        known, actual = read["statistics"], read["actual"]
        return EventReport(
            tree,
            read["rounds"],
            read["matches"],
            {name: (tried, records) for name, (tried, records) in read["nodes"].items()},
            known and Statistics(known[0], dict(known[1]), known[2], known[3]),
            read["plan"] and plan(*read["plan"]),
            actual and Actual({tuple(names): Done(*done) for names, done in actual[0]}, actual[1], actual[2]),
            tuple(
                Change(number, moved and Moved(*moved), old, new, plan(*taken))
                for number, moved, old, new, taken in read["changes"]
            ),
        )


def _inner(node: Node | None) -> Iterator[InSequence | Together]:
    """Sequences and conjunctions of a tree, in a fixed order: those that have a shape of their own."""
    if node is None or isinstance(node, Leaf):
        return
    if not isinstance(node, OneOf):
        yield node
    for part in node.places if isinstance(node, InSequence) else node.parts:
        yield from _inner(part)


def _shape(read: Any) -> Shape:
    return read if isinstance(read, int) else (_shape(read[0]), _shape(read[1]))
