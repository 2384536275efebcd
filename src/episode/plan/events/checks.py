"""What a pattern as a whole may not be."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.plan.events.binding import BoundQuery
from episode.plan.events.closures import chooses
from episode.plan.events.conditions import Conjunct
from episode.plan.events.postponed import AUTO
from episode.plan.events.tree import Group, InSequence, Leaf, Node, Together, groups_of

MOST_VARIABLES = 63


def check_size(bound: BoundQuery) -> None:
    """A row's qualifications are the bits of one integer."""
    if len(bound.variables) > MOST_VARIABLES:
        message = f"The pattern has {len(bound.variables)} variables; at most {MOST_VARIABLES} are supported."
        raise bound.query.source.error(
            EpisodeUnsupportedError, message, bound.query.source.pattern, "Split it into several patterns."
        )


def check_closure(bound: BoundQuery) -> None:
    """How closures are evaluated can be said where SEQ has one."""
    if bound.closure != AUTO and not chooses(bound.query.pattern):
        raise bound.query.source.error(
            EpisodeAnalysisError,
            f"Options(closure={bound.closure!r}): there is no closure inside SEQ in this pattern.",
            bound.query.source.pattern,
            "Leave closure= out. It is for SEQ(A a, B+ b[], C c), where every choice of events is a match.",
        )


def check_conjuncts(bound: BoundQuery, conjuncts: list[Conjunct]) -> None:
    """A negated event is related to single events, or to a closure as a whole."""
    for conjunct in conjuncts:
        negated = conjunct.variables & bound.negated
        if negated and conjunct.iterated is not None and conjunct.iterated not in bound.negated:
            raise bound.query.source.error(
                EpisodeUnsupportedError,
                "A condition cannot relate a negated event to each event of a closure.",
                conjunct.scalar.span,
                "Compare it with the closure's first or last event, b[1] or b[last], or an aggregate.",
            )


def check_tree(bound: BoundQuery, tree: Node) -> None:
    """Groups stand apart where events last, and beside a conjunction only if classes exclude each other."""
    if bound.times.start is not None and _has_neighbours(tree):
        raise bound.query.source.error(
            EpisodeUnsupportedError,
            "Two closures side by side are not evaluated for events that last.",
            bound.query.source.pattern,
            "Put an event between them, or write SEQ(A a, B+ b[], C+ c[], D d) for every choice of events.",
        )
    if bound.classes.tables or bound.classes.type_column is not None:
        return
    if any(True for _ in groups_of(tree)) and _has_conjunction(tree):
        raise bound.query.source.error(
            EpisodeUnsupportedError,
            "A closure beside a conjunction needs classes that exclude each other.",
            bound.query.source.pattern,
            "Give a type_column, or one table per class.",
        )


def _has_conjunction(node: Node) -> bool:
    if isinstance(node, Leaf):
        return False
    if isinstance(node, Together):
        return True
    return any(_has_conjunction(part) for part in (node.places if isinstance(node, InSequence) else node.parts))


def _has_neighbours(node: Node) -> bool:
    """Do two groups stand side by side?"""
    if isinstance(node, Leaf):
        return False
    if isinstance(node, InSequence) and any(sum(isinstance(one, Group) for one in gap) > 1 for gap in node.gaps):
        return True
    return any(_has_neighbours(part) for part in (node.places if isinstance(node, InSequence) else node.parts))
