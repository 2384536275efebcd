"""Closures in special places: groups without neighbours, and closures in negated patterns; and costs of closures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import (
    Closure,
    Disjunction,
    EventClass,
    EventPattern,
    EventQuery,
    Negation,
    Sequence,
    children,
    classes_of,
    nodes_of,
)
from episode.plan.events.alternatives import is_of_classes, with_parts
from episode.plan.events.conditions import Conjunct, JoinTest, is_per_event

if TYPE_CHECKING:
    from episode.plan.events.cost import Statistics
    from episode.plan.events.plan import EventPlan


CHOICES = "Write SEQ(…) around the whole pattern for every choice of events."


def chooses(pattern: EventPattern) -> bool:
    """Is there a closure in SASE's meaning?"""
    return any(isinstance(node, Closure) and not node.groups for node in nodes_of(pattern))


def choosing_variables(pattern: EventPattern) -> frozenset[str]:
    """Variables of closures in SASE's meaning."""
    closures = [node for node in nodes_of(pattern) if isinstance(node, Closure) and not node.groups]
    return frozenset(one.variable for closure in closures for one in classes_of(closure))


def groups_in(pattern: EventPattern) -> list[Closure]:
    """Closures in ZStream's meaning, without negated ones."""
    if isinstance(pattern, Negation):
        return []
    found = [part for child in children(pattern) for part in groups_in(child)]
    return [pattern, *found] if isinstance(pattern, Closure) and pattern.groups else found


def check_repeated_variables(query: EventQuery) -> None:
    """Each variable inside a closure is one list."""
    for node in nodes_of(query.pattern):
        if isinstance(node, Closure):
            counts = Counter(one.variable for one in classes_of(node))
            for one in classes_of(node):
                if counts[one.variable] > 1:
                    message = f"{one.variable} appears several times inside a closure."
                    hint = "Give each alternative its own variable."
                    raise query.source.error(EpisodeUnsupportedError, message, one.variable_span, hint)


def with_nested_negations(pattern: EventPattern) -> list[Negation]:
    """Negations that have a negation inside them."""
    return [
        node
        for node in nodes_of(pattern)
        if isinstance(node, Negation) and any(isinstance(one, Negation) for one in nodes_of(node.part))
    ]


def check_groups_and_choices(query: EventQuery, pattern: EventPattern) -> None:
    """Under skip-till-any-match: groups are of classes, and the pattern has nothing but groups or choices."""
    groups = groups_in(pattern)
    for negation in with_nested_negations(query.pattern):  # which is evaluated event by event
        inside = [node for node in nodes_of(negation) if isinstance(node, Closure) and node.groups]
        for group in (*inside, *groups):
            message = (
                "A closure outside SEQ, which takes all its events, cannot be next to a negation inside a negation."
            )
            raise query.source.error(EpisodeUnsupportedError, message, group.span, CHOICES)
    for group in groups:
        if not is_of_classes(group.part):
            message = "A group is of one class or of alternatives of single classes."
            hint = "Inside SEQ, for every choice of events, closures may be of anything: SEQ((A a | B+ b[])+)."
            raise query.source.error(EpisodeUnsupportedError, message, group.span, hint)
    if groups and chooses(pattern):
        message = (
            "A closure outside SEQ, which takes all its events, cannot be next to one that chooses its events, "
            "or inside it."
        )
        raise query.source.error(EpisodeUnsupportedError, message, groups[0].span, CHOICES)


def with_negated_closures(query: EventQuery, pattern: EventPattern, conjuncts: list[Conjunct]) -> EventPattern:
    """Simplify the negations of a pattern. One event is enough of a closure whose conditions are about each event by
    itself: `!(B; C+)` → `!(B; C)`, and `C*` next to other parts is left out."""
    counted = {
        name
        for conjunct in conjuncts
        for name in (conjunct.whole if is_per_event(conjunct) else conjunct.whole | {conjunct.iterated})
    }

    def simplify(part: EventPattern) -> EventPattern | None:
        if isinstance(part, EventClass):
            return part
        if isinstance(part, Closure):
            if isinstance(part.part, EventClass) and part.part.variable not in counted and part.count is None:
                return part.part if part.minimum else None
            if part.groups and counted & {one.variable for one in classes_of(part)}:
                message = "A condition on all events of a group is not evaluated inside a negation."
                hint = "Write !SEQ(A a, B+ b[]) for every choice of events."
                raise query.source.error(EpisodeUnsupportedError, message, part.span, hint)
            return replace(part, groups=False)
        if isinstance(part, Negation):
            return replace(part, part=simplify(part.part) or part.part)
        found = [simplify(one) for one in part.parts]
        if isinstance(part, Sequence):
            needed = tuple(one for one in found if one is not None)
            if not any(_needs_an_event(one) for one in needed):
                chosen = [replace(one, groups=False) if isinstance(one, Closure) else one for one in part.parts]
                return replace(part, parts=tuple(chosen))
            return needed[0] if len(needed) == 1 else replace(part, parts=needed)
        # An alternative, or a part of a conjunction, that may be empty needs one event here.
        parts = tuple(_first_event(one) if new is None else new for one, new in zip(part.parts, found, strict=True))
        return replace(part, parts=parts)

    def rewrite(part: EventPattern) -> EventPattern:
        if not isinstance(part, Negation):
            return with_parts(part, rewrite)
        if with_nested_negations(part):  # which event of a closure is next to the inner one matters
            return part
        return replace(part, part=simplify(part.part) or _first_event(part.part))

    return rewrite(pattern)


def _needs_an_event(pattern: EventPattern) -> bool:
    if isinstance(pattern, Closure):
        return pattern.minimum > 0 and _needs_an_event(pattern.part)
    if isinstance(pattern, Disjunction):
        return all(_needs_an_event(part) for part in pattern.parts)
    return isinstance(pattern, EventClass) or any(
        _needs_an_event(part) for part in children(pattern) if not isinstance(pattern, Negation)
    )


def _first_event(pattern: EventPattern) -> EventPattern:
    """`B*` as what has an event."""
    return pattern.part if isinstance(pattern, Closure) else pattern


# What closures cost, by runs or postponed: in the units of the cost model, per window and partition.
#
# A run is a choice of events: with n closure events in its window there are 2 ** n of them for one start, whether they
# end in a match or not. Pattern matching has one record for all of them, and reads each closure event once for it; the
# result construction then makes the choices of those few that are between its single events.

OTHER_SELECTIVITY = 0.5
"""Selectivity of a test, not an equality, before anything is known of the data."""
SCAN_WEIGHT, RUN_WEIGHT = 2.0, 100.0
"""The automaton passes over an event; takes one."""
MEMBER_WEIGHT = 4.0
"""An event is read into a group, and summed up."""
MOST_DOUBLINGS = 60.0
"""Most closure events for which choices are counted: costs of more are too large anyway, but must stay finite."""


def choices(events: float) -> float:
    """Return the number of choices of N events, the empty choice included."""
    return 2.0 ** min(events, MOST_DOUBLINGS)


def runs_cost(plan: EventPlan, statistics: Statistics, alternatives: Iterable[tuple[tuple[str, bool], ...]]) -> float:
    """One run for each choice of events: every prefix of a match looks at the rest of its window."""
    total = statistics.rows * SCAN_WEIGHT
    for places in alternatives:
        prefixes = 1.0
        for count, (name, needed) in enumerate(places, start=1):
            events = statistics.card(name) / max(1, count - 1)
            if name in plan.closures:
                prefixes *= max(choices(events) - (1.0 if needed else 0.0), min(events, 1.0))
            else:
                prefixes *= events
            total += prefixes * RUN_WEIGHT
            known = frozenset(one for one, _ in places[:count])
            for number, test in enumerate(plan.tests):
                if name in test.variables and test.variables <= known:
                    prefixes *= statistics.selectivity.get(number, OTHER_SELECTIVITY)
            if count < len(places):
                total += prefixes * statistics.rows / count * SCAN_WEIGHT
    return total


def construction_cost(plan: EventPlan, statistics: Statistics, records: float) -> float:
    """Return the cost of constructing final matches from `records` intermediate matches."""
    assert plan.construction is not None
    total = 0.0
    alternatives = len(plan.construction.places)
    for places in plan.construction.places:
        singles = sum(name not in plan.closures for name, _ in places)
        members, made = 0.0, 1.0
        for name, _ in places:
            if name in plan.closures:
                events = statistics.card(name) / (singles + 1)
                members += events
                made *= choices(events * statistics.between.get(name, 1.0))
        total += records / alternatives * (members * MEMBER_WEIGHT + made * RUN_WEIGHT)
    return total


def without_early_tests(plan: EventPlan) -> EventPlan:
    """The plan whose pattern matching relates no values: what postponing everything would cost."""
    nothing: dict[str, tuple[JoinTest, ...]] = dict.fromkeys(plan.group_tests, ())
    return replace(plan, tests=(), group_tests=nothing)


def cost_text(cost: float) -> str:
    return f"{cost:,.0f}" if cost < 1e15 else f"about 10^{math.log10(cost):.0f}"
