"""Conditions as tests of a tree of joins: of single events, of negating events, of the events of a group."""

from __future__ import annotations

from dataclasses import dataclass, field

from episode.errors import EpisodeUnsupportedError
from episode.plan.events.binding import BoundQuery
from episode.plan.events.conditions import Conjunct, JoinTest, is_per_event, split_tests
from episode.plan.events.tree import Absent, Node, absences, groups_of, variables_of


@dataclass(frozen=True)
class TreeTests:
    """related: between single events. absent, group: what makes an event a negating one (by name of the negation), or
    one of a group (by variable)."""

    related: tuple[JoinTest, ...] = ()
    absent: dict[str, tuple[JoinTest, ...]] = field(default_factory=dict)
    group: dict[str, tuple[JoinTest, ...]] = field(default_factory=dict)

    @property
    def all(self) -> list[JoinTest]:
        return [*self.related, *(test for parts in (*self.absent.values(), *self.group.values()) for test in parts)]


def tree_tests(bound: BoundQuery, tree: Node, related: list[Conjunct], kept: list[Conjunct]) -> TreeTests:
    """The tests of the conditions; those that Spark has to test on the matches are added to `kept`."""
    tests: list[JoinTest] = []
    by_absent: dict[str, list[JoinTest]] = {absent.name: [] for absent in absences(tree)}
    owner = {name: absent for absent in absences(tree) for name in variables_of(absent)}
    by_group: dict[str, list[JoinTest]] = {name: [] for group in groups_of(tree) for name in group.variables}
    for conjunct in related:
        negated = conjunct.variables & bound.negated
        if negated:
            _absent_test(bound, conjunct, {owner[name].name: owner[name] for name in negated}, by_absent)
        elif conjunct.iterated is not None and not conjunct.whole and is_per_event(conjunct):
            expression = bound.compiled(conjunct, None)
            if expression is None or conjunct.variables & bound.closures != {conjunct.iterated}:
                raise bound.scalars.not_evaluated(conjunct.scalar)
            by_group[conjunct.iterated] += split_tests(expression, conjunct.text)
        elif conjunct.variables & (bound.closures | bound.alone):
            kept.append(conjunct)
        else:
            expression = bound.compiled(conjunct, None)
            if expression is None:
                kept.append(conjunct)
            else:
                tests += split_tests(expression, conjunct.text)
    return TreeTests(
        tuple(tests),
        {name: tuple(parts) for name, parts in by_absent.items()},
        {name: tuple(parts) for name, parts in by_group.items()},
    )


def _absent_test(
    bound: BoundQuery, conjunct: Conjunct, owners: dict[str, Absent], by_absent: dict[str, list[JoinTest]]
) -> None:
    if len(owners) > 1:
        raise bound.query.source.error(
            EpisodeUnsupportedError,
            "A condition cannot relate the events of two negations.",
            conjunct.scalar.span,
            "Negate a sequence of both.",
        )
    if conjunct.whole:
        raise bound.query.source.error(
            EpisodeUnsupportedError,
            "A condition cannot relate a negated event to a group.",
            conjunct.scalar.span,
            "Compare it with single events.",
        )
    expression = bound.compiled(conjunct, None)
    if expression is None:
        raise bound.scalars.not_evaluated(conjunct.scalar)
    by_absent[next(iter(owners))] += split_tests(expression, conjunct.text)
