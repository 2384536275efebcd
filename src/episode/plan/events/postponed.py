"""Postponed closures: pattern matching that all choices of a closure's events share, and what is left for later.

After SASE++ (SIGMOD 2014, section 5). The first stage, pattern matching, finds intermediate matches: a choice of single
events with all events that each closure may choose from. It is the tree of joins that evaluates groups. The second
stage, result construction, makes the final matches of them: an automaton over the events of one intermediate match,
which tests what the first stage could not decide. This module parts a query between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from episode.lang.events.syntax import Closure, Disjunction, EventClass, EventPattern, Negation, Sequence, classes_of
from episode.plan.events.alternatives import is_of_classes, negated_variables, parts_if
from episode.plan.events.automaton import AutomatonPlan, Loop, Step, Take
from episode.plan.events.bounds import ClosureBounds
from episode.plan.events.conditions import Conjunct, JoinTest, is_per_event
from episode.plan.expressions import Expression

AUTO, RUNS, POSTPONED, ON_THE_FLY = "auto", "runs", "postponed", "on the fly"
ENGINES = (AUTO, RUNS, POSTPONED, ON_THE_FLY)
"""Values of `closure=`: how the closures of SEQ are evaluated."""


@dataclass(frozen=True)
class Construction:
    """Result construction: final matches out of intermediate ones.

    engine: POSTPONED, or ON_THE_FLY where conditions are tested in pattern matching already. automaton: what remains
    to be tested, where its events are chosen. places: per alternative, each variable in order, and whether a match
    needs an event of it. tests, group_tests: conditions on single events and on each event of a closure that pattern
    matching has left to the intermediate matches (of POSTPONED). postponed: the automaton's conditions, as written.
    bounds: what of them bounds decide before or while the events of a closure are chosen.
    """

    engine: str
    automaton: AutomatonPlan
    places: tuple[tuple[tuple[str, bool], ...], ...]
    tests: tuple[JoinTest, ...] = ()
    group_tests: dict[str, tuple[JoinTest, ...]] = field(default_factory=dict)
    postponed: tuple[str, ...] = ()
    bounds: ClosureBounds = field(default_factory=ClosureBounds)

    @property
    def expressions(self) -> list[Expression]:
        found = [test.expression for test in self.every_test]
        found += [check.expression for check in self.automaton.checks]
        return found + [part.expression for part in self.bounds.fixed]

    @property
    def every_test(self) -> list[JoinTest]:
        return [*self.tests, *(test for tests in self.group_tests.values() for test in tests)]


@dataclass(frozen=True)
class PatternSplit:
    """A pattern and its conditions, split into those of the tree and those of the automaton of the construction."""

    matching: EventPattern
    constructing: EventPattern
    early: tuple[Conjunct, ...]
    late: tuple[Conjunct, ...]


def reason_for_runs(pattern: EventPattern, whole: bool = False) -> str | None:
    """Why a simplified pattern with closures that choose cannot be postponed; None if it can.

    whole: are intermediate matches reported, when all their events are known?"""
    alternatives = [parts_if(Sequence, one) for one in parts_if(Disjunction, pattern)]
    for parts in alternatives:
        reason = _reason(parts, whole)
        if reason is not None:
            return reason
    # With matches that wait for their window, all do, and when it begins is known of each by its first event.
    if any(_edges(parts)[0] for parts in alternatives) and any(_edges(parts)[1] for parts in alternatives):
        return "one alternative begins with a closure, and another is decided only when its window has passed"
    return None


def _edges(parts: tuple[EventPattern, ...]) -> tuple[bool, bool]:
    """Does a closure precede the single events, and does a closure or negation follow them?"""
    places = [number for number, part in enumerate(parts) if not isinstance(part, (Closure, Negation))]
    return any(isinstance(part, Closure) for part in parts[: places[0]]), places[-1] + 1 < len(parts)


def _reason(parts: tuple[EventPattern, ...], whole: bool) -> str | None:
    for part in parts:
        if isinstance(part, Closure) and part.groups:
            return "a group of all events is next to closures that choose"
        if isinstance(part, Closure) and not isinstance(part.part, EventClass):
            return "a closure repeats more than one class"
        if isinstance(part, Negation) and not is_of_classes(part.part):
            return "the negation of a sequence is next to a closure"
        if not isinstance(part, (Closure, Negation)) and not is_of_classes(part):
            return "the sequence has alternatives or conjunctions of several events"
    places = [number for number, part in enumerate(parts) if not isinstance(part, (Closure, Negation))]
    if not places:
        return "no single event is next to the closure"
    leading = any(isinstance(part, Closure) for part in parts[: places[0]])
    trailing = any(isinstance(part, Closure) for part in parts[places[-1] + 1 :])
    if trailing and not whole:
        return "a match ends with an event of a closure, and is reported with it"
    if trailing and leading:
        return "closures are first and last, so that the window relates their events"
    if leading and any(isinstance(part, Negation) for part in parts[places[-1] + 1 :]):
        return "a negation comes last, and the window that it looks at begins with a closure"
    return None


def part_query(pattern: EventPattern, conjuncts: list[Conjunct], closures: frozenset[str]) -> PatternSplit:
    """Split a pattern that can be postponed into the parts of pattern matching and of the construction.

    Early are conditions on single events and on each event of a closure by itself: they hold for an event whatever else
    is chosen. A negation is early if its neighbours are single events and no closure is in its conditions.
    """
    late_negations = {
        name for conjunct in conjuncts if conjunct.variables & closures for name in conjunct.variables - closures
    }
    matching, constructing = [], []
    for alternative in parts_if(Disjunction, pattern):
        parts = parts_if(Sequence, alternative)
        late = _late_negations(parts, late_negations)
        kept = [part for number, part in enumerate(parts) if number not in late]
        matching.append(_sequence(kept, alternative))
        rest = [part for number, part in enumerate(parts) if number in late or not isinstance(part, Negation)]
        constructing.append(_sequence(rest, alternative))
    early_negated = {name for one in matching for name in negated_variables(one)}
    negated = early_negated | {name for one in constructing for name in negated_variables(one)}
    early: list[Conjunct] = []
    late_conjuncts: list[Conjunct] = []
    for conjunct in conjuncts:
        about = conjunct.variables & negated
        if about:
            is_early = len(about) == 1 and about <= early_negated
        else:
            closed = conjunct.variables & closures
            is_early = not closed or (not conjunct.whole and is_per_event(conjunct) and closed == {conjunct.iterated})
        (early if is_early else late_conjuncts).append(conjunct)
    return PatternSplit(_union(matching, pattern), _union(constructing, pattern), tuple(early), tuple(late_conjuncts))


def places_of(steps: tuple[Step, ...]) -> tuple[tuple[str, bool], ...]:
    """The variables of an alternative in order, and whether a match needs an event of each."""
    places: list[tuple[str, bool]] = []
    for step in steps:
        if isinstance(step, Take):
            places.append((step.variable, True))
        elif isinstance(step, Loop):
            body = step.only
            assert body is not None
            places.append((body.variable, step.minimum > 0))
    return tuple(places)


def _late_negations(parts: tuple[EventPattern, ...], with_closures: set[str]) -> set[int]:
    """Numbers of the negations that depend on which events of closures are chosen."""
    found: set[int] = set()
    gap: list[int] = []
    for number, part in enumerate((*parts, None)):
        if isinstance(part, (Negation, Closure)):
            gap.append(number)
            continue
        chosen = any(isinstance(parts[at], Closure) for at in gap)
        for at in gap:
            names = {one.variable for one in classes_of(parts[at])}
            if isinstance(parts[at], Negation) and (chosen or names & with_closures):
                found.add(at)
        gap = []
    return found


def _sequence(parts: list[EventPattern], whole: EventPattern) -> EventPattern:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts), whole.span)


def _union(alternatives: list[EventPattern], whole: EventPattern) -> EventPattern:
    return replace(whole, parts=tuple(alternatives)) if isinstance(whole, Disjunction) else alternatives[0]
