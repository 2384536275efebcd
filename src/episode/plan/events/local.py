"""What an event must satisfy by itself, by variable: its class, and conditions on it alone."""

from __future__ import annotations

from episode.plan.events.binding import BoundQuery
from episode.plan.events.conditions import Conjunct
from episode.plan.expressions import Expression, Load, Navigated, Running, conjuncts, walk


def members(bound: BoundQuery) -> dict[str, list[Expression]]:
    """What makes an event one of the class of each variable."""
    found = {name: bound.classes.member(name) for name in bound.variables}
    return {name: [] if member is None else [member] for name, member in found.items()}


def pull_local(bound: BoundQuery, conditions: list[Conjunct], local: dict[str, list[Expression]]) -> list[Conjunct]:
    """Conditions on one event go to its row, conditions on none to every row; the others are returned."""
    related = []
    for conjunct in conditions:
        if len(conjunct.variables) == 1 and not conjunct.whole and conjunct.back == 0:
            (name,) = conjunct.variables
            expression = bound.compiled(conjunct, name)
            if expression is not None and not any(_relates_events(node) for node in walk(expression)):
                local[name] += conjuncts(expression)
                continue
        if not conjunct.variables:
            expression = bound.compiled(conjunct, None)
            if expression is not None:
                for name in bound.positives:
                    local[name].append(expression)
                continue
        related.append(conjunct)
    return related


def _relates_events(node: Expression) -> bool:
    return isinstance(node, Running) or (isinstance(node, Load) and isinstance(node.at, Navigated))
