"""An event pattern built up again step by step, from its first event to the whole query.

Each step is a query that asks for more than the one before it, and that every match of the whole query satisfies in
part. So the first step without a candidate is the reason that nothing matches. The order:

1. the components one after the other, each with the conditions on it alone, then the conditions that relate it to those
   before it; under the contiguities and skip-till-next-match by that strategy from the beginning;
2. what lies between two of them as soon as both are there: groups, then negations;
3. at the end what depends on all events of a match: groups and negations at the edges, and those inside components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
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
from episode.plan.events.alternatives import is_of_classes

COMPONENT, CONDITION, GROUP, NEGATION = "component", "condition", "group", "negation"


@dataclass(frozen=True)
class EventStep:
    """A query, and what it adds to the one before. kind: COMPONENT, CONDITION, GROUP or NEGATION. part: the part of the
    pattern that is added; condition: the condition that is."""

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
    """Return the patterns between `|` at the outside; otherwise the pattern itself."""
    if not isinstance(pattern, Disjunction):
        return (pattern,)
    return tuple(one for part in pattern.parts for one in alternatives_of(part))


def steps_of(query: EventQuery, strategy: Strategy) -> list[EventStep]:
    """Return the steps to a query whose pattern has no alternatives at the outside; the last one is the query."""
    return list(_StepBuilder(query, strategy).steps())


def names_in(pattern: EventPattern) -> frozenset[str]:
    """Return the variables of a pattern, lower-cased."""
    return frozenset(one.variable.lower() for one in classes_of(pattern))


def variables_in(condition: Scalar) -> frozenset[str]:
    """Return the variables that a condition is about, lower-cased."""
    return frozenset(atom.variable.lower() for atom in event_atoms(condition))


def own_conditions(query: EventQuery, name: str) -> list[Scalar]:
    """Return the conditions that one event of a variable decides by itself."""
    own = {name.lower()}
    return [one for one in query.conditions if variables_in(one) == own and _is_of_each(one, own)]


def on_single_event(condition: Scalar) -> Scalar:
    """Turn `b[i].x > 3` into a condition on one event b."""
    atoms = tuple(
        (name, replace(atom, index=Index.PLAIN) if isinstance(atom, EventColumn) and atom.index is Index.EACH else atom)
        for name, atom in condition.atoms
    )
    return replace(condition, atoms=atoms)


def on_single_round(query: EventQuery, closure: Closure) -> EventQuery:
    """Keep the conditions that can be asked of a single round of a closure."""
    names = names_in(closure)
    kept = [one for one in query.conditions if _is_of_each(one, names)]
    return replace(query, conditions=tuple(map(on_single_event, kept)))


def _is_of_each(condition: Scalar, names: Set[str]) -> bool:
    """Is the condition about each event of these variables by itself?"""
    return all(
        isinstance(atom, EventColumn) and atom.index in (Index.PLAIN, Index.EACH)
        for atom in event_atoms(condition)
        if atom.variable.lower() in names
    )


def parts_of(pattern: EventPattern) -> tuple[EventPattern, ...]:
    """Return the parts of a sequence, without brackets around some of them, or of a conjunction; otherwise the pattern
    itself."""
    if isinstance(pattern, Sequence):
        return tuple(
            one for part in pattern.parts for one in (parts_of(part) if isinstance(part, Sequence) else (part,))
        )
    return pattern.parts if isinstance(pattern, Conjunction) else (pattern,)


def is_group(part: EventPattern, strategy: Strategy) -> bool:
    """Does the part take all events between its neighbours? Other closures choose theirs."""
    return isinstance(part, Closure) and part.groups and strategy is Strategy.ANY


def is_single(part: EventPattern) -> bool:
    """Is the part one event, or a closure over one?"""
    return is_of_classes(part.part if isinstance(part, Closure) else part)


def change_parts(pattern: EventPattern, change: Callable[[EventPattern], EventPattern]) -> EventPattern:
    if isinstance(pattern, EventClass):
        return pattern
    if isinstance(pattern, (Negation, Closure)):
        return replace(pattern, part=change(pattern.part))
    return replace(pattern, parts=tuple(map(change, pattern.parts)))


def with_choice(pattern: EventPattern) -> EventPattern:
    """Let closures choose their events, as in SEQ."""
    if isinstance(pattern, Negation):
        return pattern
    changed = change_parts(pattern, with_choice)
    return replace(changed, groups=False) if isinstance(changed, Closure) else changed


def without_negations(pattern: EventPattern) -> EventPattern | None:
    """Remove the parts that are forbidden."""
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
class _StepBuilder:
    """The part of a query that is in the steps so far. taken: numbers of its parts; held: numbers of its conditions.
    whole: are negations inside components in it?"""

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
        self.late = self._variables_inside(Closure) if self.strategy is Strategy.ANY else frozenset()
        self.forbidden = self._variables_inside(Negation)

    def steps(self) -> Iterator[EventStep]:
        for number in self.components:
            yield self._component(number)
            yield from self._conditions()
            if isinstance(self.query.pattern, Sequence) and number != self.components[0]:
                yield from self._steps_between(number)
        yield from self._last_steps()

    def _component(self, number: int) -> EventStep:
        self.taken.add(number)
        own = names_in(self.parts[number]) - self.forbidden
        for index, condition in enumerate(self.query.conditions):
            about = variables_in(condition)
            if about and about <= own - self.late and _is_of_each(condition, about):
                self.held.add(index)
        return self._step(COMPONENT, self.parts[number])

    def _conditions(self, late: bool = False) -> Iterator[EventStep]:
        """Add conditions on the variables that are present, one by one. late: also on groups inside components."""
        present = self._present if late else self._present - self.late
        for index, condition in enumerate(self.query.conditions):
            if index not in self.held and variables_in(condition) <= present:
                self.held.add(index)
                yield self._step(CONDITION, condition=condition)

    def _steps_between(self, number: int) -> Iterator[EventStep]:
        """Add groups and negations between two components, the second of which is `number`."""
        inner = range(self.components[0] + 1, number)
        for group in (one for one in self.groups if one in inner and one not in self.taken):
            yield from self._group(group)
        for negation in (one for one in self.negations if one in inner and one not in self.taken):
            present = (self._present - self.late) | names_in(self.parts[negation])
            if all(variables_in(self.query.conditions[one]) <= present for one in self._conditions_about(negation)):
                yield self._negation(negation)

    def _group(self, number: int) -> Iterator[EventStep]:
        self.taken.add(number)
        yield self._step(GROUP, self.parts[number])
        yield from self._conditions()

    def _negation(self, number: int) -> EventStep:
        self.taken.add(number)
        self.held.update(self._conditions_about(number))
        return self._step(NEGATION, self.parts[number])

    def _last_steps(self) -> Iterator[EventStep]:
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

    def _conditions_about(self, negation: int) -> list[int]:
        """Return the conditions on what a part forbids."""
        names = names_in(self.parts[negation])
        return [index for index, one in enumerate(self.query.conditions) if variables_in(one) & names]

    @property
    def _present(self) -> frozenset[str]:
        """Variables that conditions can be about now."""
        parts = [self.parts[number] for number in self.taken if number not in self.negations]
        names = frozenset[str]().union(*(names_in(part) for part in parts))
        return names - self.forbidden

    def _variables_inside(self, kind: type) -> frozenset[str]:
        """Return the variables of negations, or of groups, inside components."""
        found = frozenset[str]()
        for node in (node for number in self.components for node in nodes_of(self.parts[number])):
            is_kind = isinstance(node, kind) and (kind is Negation or is_group(node, self.strategy))
            if is_kind and node is not self.query.pattern:
                found |= names_in(node)
        return found

    def _step(self, kind: str, part: EventPattern | None = None, condition: Scalar | None = None) -> EventStep:
        parts = [self.parts[number] for number in sorted(self.taken)]
        if not self.whole:
            stripped = [part if isinstance(part, Negation) else without_negations(part) for part in parts]
            parts = [part for part in stripped if part is not None]
        pattern, outer = parts[0], self.query.pattern
        if len(parts) > 1:
            assert isinstance(outer, (Sequence, Conjunction))
            pattern = replace(outer, parts=tuple(parts))
        conditions = tuple(one for index, one in enumerate(self.query.conditions) if index in self.held)
        return EventStep(kind, replace(self.query, pattern=pattern, conditions=conditions), part, condition)
