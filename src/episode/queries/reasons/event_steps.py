"""An event pattern built up again step by step, from its first event to the whole query.

Each step is a query that asks for more than the one before it, and that every match of the whole query satisfies in
part. So the first step without a candidate is what keeps matches from being. The order:

1. the components one after the other, each with the conditions on it alone, then the conditions that relate it to those
   before it; under the contiguities and skip-till-next-match by that strategy from the beginning;
2. what lies between two of them as soon as both are there: groups, then negations;
3. at the end what depends on all events of a match: groups and negations at the edges, and those inside components.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace

from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventClass,
    EventColumn,
    EventPattern,
    EventQuery,
    Index,
    Negation,
    Sequence,
    Strategy,
    classes_of,
    event_atoms,
    nodes_of,
)
from episode.lang.syntax import Scalar, Span
from episode.plan.events.names import is_of_classes

COMPONENT, CONDITION, GROUP, NEGATION = "component", "condition", "group", "negation"


@dataclass(frozen=True)
class Step:
    """kind: what is added: COMPONENT, CONDITION, GROUP or NEGATION. query: all that is asked with it. part: the part of
    the pattern that is added; condition: the one that is."""

    kind: str
    query: EventQuery
    part: EventPattern | None = None
    condition: Scalar | None = None

    @property
    def span(self) -> Span:
        if self.condition is not None:
            return self.condition.span
        assert self.part is not None
        return self.part.span


def alternatives_of(pattern: EventPattern) -> tuple[EventPattern, ...]:
    """What stands between `|` at the outside; else the pattern itself."""
    if not isinstance(pattern, Disjunction):
        return (pattern,)
    return tuple(one for part in pattern.parts for one in alternatives_of(part))


def steps_of(query: EventQuery, strategy: Strategy) -> list[Step]:
    """The steps to a query whose pattern has no alternatives at the outside; the last one is the query itself."""
    return list(_Building(query, strategy).steps())


def names_in(pattern: EventPattern) -> frozenset[str]:
    """Variables of a pattern, in lower case."""
    return frozenset(one.variable.lower() for one in classes_of(pattern))


def variables_in(condition: Scalar) -> frozenset[str]:
    """Variables that a condition is about, in lower case."""
    return frozenset(atom.variable.lower() for atom in event_atoms(condition))


def own_conditions(query: EventQuery, name: str) -> list[Scalar]:
    """Conditions that one event of a variable decides by itself."""
    own = {name.lower()}
    return [one for one in query.conditions if variables_in(one) == own and _is_of_each(one, own)]


def of_one_event(condition: Scalar) -> Scalar:
    """`b[i].x > 3` as a condition on one event b."""
    atoms = tuple(
        (name, replace(atom, index=Index.PLAIN) if isinstance(atom, EventColumn) and atom.index is Index.EACH else atom)
        for name, atom in condition.atoms
    )
    return replace(condition, atoms=atoms)


def of_one_round(query: EventQuery, closure: Closure) -> EventQuery:
    """The query with the conditions that can be asked of a single round of a closure."""
    names = names_in(closure)
    kept = [one for one in query.conditions if _is_of_each(one, names)]
    return replace(query, conditions=tuple(map(of_one_event, kept)))


def _is_of_each(condition: Scalar, names: Set[str]) -> bool:
    """Is it about each event of these variables by itself?"""
    return all(
        isinstance(atom, EventColumn) and atom.index in (Index.PLAIN, Index.EACH)
        for atom in event_atoms(condition)
        if atom.variable.lower() in names
    )


def parts_of(pattern: EventPattern) -> tuple[EventPattern, ...]:
    """The parts of a sequence, brackets around some of them removed; those of a conjunction; or the pattern itself."""
    if isinstance(pattern, Sequence):
        return tuple(
            one for part in pattern.parts for one in (parts_of(part) if isinstance(part, Sequence) else (part,))
        )
    return pattern.parts if isinstance(pattern, Conjunction) else (pattern,)


def is_group(part: EventPattern, strategy: Strategy) -> bool:
    """Does it take all events between its neighbours? Elsewhere closures choose theirs."""
    return isinstance(part, Closure) and part.groups and strategy is Strategy.ANY


def is_single(part: EventPattern) -> bool:
    """Is it of one event, or of events of one closure?"""
    return is_of_classes(part.part if isinstance(part, Closure) else part)


def choosing(pattern: EventPattern) -> EventPattern:
    """The pattern with closures that choose their events, as those of SEQ."""
    if isinstance(pattern, EventClass):
        return pattern
    if isinstance(pattern, Closure):
        return replace(pattern, part=choosing(pattern.part), groups=False)
    if isinstance(pattern, Negation):
        return pattern
    return replace(pattern, parts=tuple(choosing(part) for part in pattern.parts))


def without_negations(pattern: EventPattern) -> EventPattern | None:
    """The pattern without what it forbids."""
    if isinstance(pattern, EventClass):
        return pattern
    if isinstance(pattern, Negation):
        return None
    if isinstance(pattern, Closure):
        inner = without_negations(pattern.part)
        return None if inner is None else replace(pattern, part=inner)
    parts = tuple(part for part in map(without_negations, pattern.parts) if part is not None)
    if len(parts) < 2:
        return parts[0] if parts else None
    return replace(pattern, parts=parts)


@dataclass
class _Building:
    """taken: numbers of parts that are in. whole: are negations inside components in? held: numbers of conditions."""

    query: EventQuery
    strategy: Strategy
    taken: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    whole: bool = False

    def __post_init__(self) -> None:
        self.parts = parts_of(self.query.pattern)
        alone = len(self.parts) == 1
        self.negations = [number for number, part in enumerate(self.parts) if isinstance(part, Negation)]
        self.groups = [n for n, part in enumerate(self.parts) if is_group(part, self.strategy) and not alone]
        self.components = [n for n in range(len(self.parts)) if n not in (*self.negations, *self.groups)]
        self.late = self._inside(Closure) if self.strategy is Strategy.ANY else frozenset()
        self.forbidden = self._inside(Negation)

    def steps(self) -> Iterator[Step]:
        for number in self.components:
            yield self._component(number)
            yield from self._conditions()
            if self._is_sequence and number != self.components[0]:
                yield from self._between(number)
        yield from self._ending()

    @property
    def _is_sequence(self) -> bool:
        return isinstance(self.query.pattern, Sequence)

    def _component(self, number: int) -> Step:
        self.taken.add(number)
        own = names_in(self.parts[number]) - self.forbidden
        for index, condition in enumerate(self.query.conditions):
            about = variables_in(condition)
            if about and about <= own - self.late and _is_of_each(condition, about):
                self.held.add(index)
        return self._step(COMPONENT, self.parts[number])

    def _conditions(self, late: bool = False) -> Iterator[Step]:
        """Conditions that are about what is there now, one by one. late: also those about groups inside components."""
        there = self._there if late else self._there - self.late
        for index, condition in enumerate(self.query.conditions):
            if index not in self.held and variables_in(condition) <= there:
                self.held.add(index)
                yield self._step(CONDITION, condition=condition)

    def _between(self, number: int) -> Iterator[Step]:
        """What stands before a component and has another component before it."""
        inner = range(self.components[0] + 1, number)
        for group in (one for one in self.groups if one in inner and one not in self.taken):
            yield from self._group(group)
        for negation in (one for one in self.negations if one in inner and one not in self.taken):
            if all(self._can_hold(index, negation) for index in self._about(negation)):
                yield self._negation(negation)

    def _group(self, number: int) -> Iterator[Step]:
        self.taken.add(number)
        yield self._step(GROUP, self.parts[number])
        yield from self._conditions()

    def _negation(self, number: int) -> Step:
        self.taken.add(number)
        self.held.update(self._about(number))
        return self._step(NEGATION, self.parts[number])

    def _ending(self) -> Iterator[Step]:
        for group in (one for one in self.groups if one not in self.taken):
            yield from self._group(group)
        yield from self._conditions(late=True)
        if self.forbidden:
            self.whole = True
            self.held.update(i for i, one in enumerate(self.query.conditions) if variables_in(one) & self.forbidden)
            inner = next(one for n in self.components for one in nodes_of(self.parts[n]) if isinstance(one, Negation))
            yield self._step(NEGATION, inner)
        for negation in (one for one in self.negations if one not in self.taken):
            yield self._negation(negation)

    def _about(self, negation: int) -> list[int]:
        """The conditions on what a part forbids."""
        names = names_in(self.parts[negation])
        return [index for index, one in enumerate(self.query.conditions) if variables_in(one) & names]

    def _can_hold(self, index: int, negation: int) -> bool:
        others = variables_in(self.query.conditions[index]) - names_in(self.parts[negation])
        return others <= self._there - self.late

    @property
    def _there(self) -> frozenset[str]:
        """Variables that conditions can be about now."""
        present = [self.parts[number] for number in self.taken if number not in self.negations]
        names = frozenset[str]().union(*(names_in(part) for part in present))
        return names - self.forbidden

    def _inside(self, kind: type) -> frozenset[str]:
        """Variables of negations, or of groups, that stand inside components."""
        found = frozenset[str]()
        for node in (node for number in self.components for node in nodes_of(self.parts[number])):
            is_kind = isinstance(node, kind) and (kind is Negation or is_group(node, self.strategy))
            if is_kind and node is not self.query.pattern:
                found |= names_in(node)
        return found

    def _step(self, kind: str, part: EventPattern | None = None, condition: Scalar | None = None) -> Step:
        parts = [self.parts[number] for number in sorted(self.taken)]
        if not self.whole:
            stripped = [part if isinstance(part, Negation) else without_negations(part) for part in parts]
            parts = [part for part in stripped if part is not None]
        pattern, outer = parts[0], self.query.pattern
        if len(parts) > 1:
            assert isinstance(outer, (Sequence, Conjunction))
            pattern = replace(outer, parts=tuple(parts))
        conditions = tuple(one for index, one in enumerate(self.query.conditions) if index in self.held)
        return Step(kind, replace(self.query, pattern=pattern, conditions=conditions), part, condition)
