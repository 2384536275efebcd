"""The events that every match of a pattern has, as sets of variables of which one is there."""

from __future__ import annotations

from episode.plan.events.plan import EventPlan
from episode.plan.events.tree import Group, InSequence, Leaf, Node, OneOf


def required_events(plan: EventPlan) -> tuple[frozenset[str], ...]:
    """Of each set, every match has an event of one of its variables."""
    if plan.tree is not None:
        return tuple(_of(plan.tree))
    return () if plan.automaton is None else tuple(one for one in plan.automaton.required if one)


def _of(node: Node) -> list[frozenset[str]]:
    if isinstance(node, Leaf):
        return [frozenset((node.variable,))]
    if isinstance(node, OneOf):
        chosen = [_of(part) for part in node.parts]
        return [frozenset().union(*(sets[0] for sets in chosen))] if all(chosen) else []
    if isinstance(node, InSequence):
        groups = [item for gap in node.gaps for item in gap if isinstance(item, Group)]
        present = [frozenset(one.variables) for one in groups if one.minimum > 0 and not one.follows]
        return [*(one for place in node.places for one in _of(place)), *present]
    return [one for part in node.parts for one in _of(part)]
