"""One name per place: a variable that stands in several alternatives becomes several, and what is said of it is said of
each of them (a condition on an event that is not there rests)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

from episode.lang.events.syntax import (
    Closure,
    Disjunction,
    EventAggregate,
    EventAtom,
    EventClass,
    EventColumn,
    EventPattern,
    EventQuery,
    Index,
    Negation,
    Sequence,
    classes_of,
    event_atoms,
    nodes_of,
)
from episode.lang.syntax import Scalar

MARK = "@"


def are_copies(one: str, other: str) -> bool:
    """Are both copies of one variable of the query?"""
    return MARK in one and MARK in other and one.split(MARK)[0] == other.split(MARK)[0]


def with_groups_between_places(pattern: EventPattern) -> EventPattern:
    """`A; (B | C*); D` → `(A; B; D) | (A; C*; D)`: a group alone is no place."""
    if isinstance(pattern, (EventClass, Negation, Closure)):
        return pattern
    pattern = replace(pattern, parts=tuple(with_groups_between_places(part) for part in pattern.parts))
    if not isinstance(pattern, Sequence):
        return pattern
    choices: list[list[tuple[EventPattern, ...]]] = []
    for part in pattern.parts:
        if isinstance(part, Disjunction) and any(_has_no_place(one) for one in part.parts):
            choices.append([one.parts if isinstance(one, Sequence) else (one,) for one in part.parts])
        else:
            choices.append([(part,)])
    if all(len(choice) == 1 for choice in choices):
        return pattern
    ways = [replace(pattern, parts=tuple(part for parts in way for part in parts)) for way in product(*choices)]
    return Disjunction(tuple(ways), pattern.span)


def _has_no_place(pattern: EventPattern) -> bool:
    if isinstance(pattern, Sequence):
        return all(_has_no_place(part) for part in pattern.parts)
    return isinstance(pattern, (Closure, Negation))


def with_first_events(pattern: EventPattern) -> tuple[EventPattern, frozenset[str]]:
    """`A+` alone → `A; A*`, of one variable: a group's first event is a place, and the group is what comes after it.
    `(A | B)+` → `(A | B); (A | B)*`.

    Also where it is an alternative of a union. Returns the variables of such groups, too."""
    if isinstance(pattern, Disjunction):
        parts = [with_first_events(part) for part in pattern.parts]
        names = frozenset[str]().union(*(found for _, found in parts))
        return replace(pattern, parts=tuple(part for part, _ in parts)), names
    if not (isinstance(pattern, Closure) and pattern.groups and is_of_classes(pattern.part)):
        return pattern, frozenset()
    count = None if pattern.count is None else pattern.count - 1
    rest = replace(pattern, minimum=count or 0, count=count)
    return Sequence((pattern.part, rest), pattern.span), frozenset(one.variable for one in classes_of(pattern.part))


def first_places(pattern: EventPattern, alone: frozenset[str]) -> list[tuple[str, ...]]:
    """The variables of the first events of groups that stand alone, of those of several alternatives."""
    return [
        tuple(one.variable for one in classes_of(node.parts[0]))
        for node in nodes_of(pattern)
        if isinstance(node, Sequence) and isinstance(node.parts[0], Disjunction)
        if all(one.variable.split(MARK)[0] in alone for one in classes_of(node))
    ]


def is_of_classes(pattern: EventPattern) -> bool:
    """A class, or a choice of classes."""
    if isinstance(pattern, Disjunction):
        return all(is_of_classes(part) for part in pattern.parts)
    return isinstance(pattern, EventClass)


def with_unique_variables(
    query: EventQuery, lists: frozenset[str] = frozenset()
) -> tuple[EventQuery, dict[str, tuple[str, ...]]]:
    """The query with every variable once, and the new names of those that were there several times.

    lists: variables whose places together hold the events of one closure; what is said of all of it keeps their name.
    """
    counts = Counter(one.variable for one in classes_of(query.pattern))
    several = {name for name, count in counts.items() if count > 1}
    if not several:
        return query, {}
    seen: Counter[str] = Counter()
    names: dict[str, list[str]] = {}

    def rename(pattern: EventPattern) -> EventPattern:
        if isinstance(pattern, EventClass):
            if pattern.variable not in several:
                return pattern
            seen[pattern.variable] += 1
            new = f"{pattern.variable}{MARK}{seen[pattern.variable]}"
            names.setdefault(pattern.variable, []).append(new)
            return replace(pattern, variable=new)
        if isinstance(pattern, (Negation, Closure)):
            return replace(pattern, part=rename(pattern.part))
        return replace(pattern, parts=tuple(rename(part) for part in pattern.parts))

    pattern = rename(query.pattern)
    mapping = {name: tuple(new) for name, new in names.items()}
    conditions = tuple(
        condition
        for scalar in query.conditions
        for condition in _each_way(
            scalar, {name: new for name, new in mapping.items() if name not in lists or _is_of_each(scalar, name)}
        )
    )
    return replace(query, pattern=pattern, conditions=conditions), mapping


def _is_of_each(scalar: Scalar, name: str) -> bool:
    """Is it about each event of a closure by itself?"""
    return all(
        isinstance(atom, EventColumn) and atom.index in (Index.PLAIN, Index.EACH)
        for atom in event_atoms(scalar)
        if atom.variable == name
    )


def _each_way(scalar: Scalar, mapping: dict[str, tuple[str, ...]]) -> list[Scalar]:
    """The condition for every choice of new names."""
    mentioned = sorted({atom.variable for atom in event_atoms(scalar)} & mapping.keys())
    return [
        renamed(scalar, dict(zip(mentioned, choice, strict=True)))
        for choice in product(*(mapping[name] for name in mentioned))
    ]


def renamed(scalar: Scalar, names: dict[str, str]) -> Scalar:
    """The scalar about other variables."""
    if not names:
        return scalar

    def atom(one: EventAtom) -> EventAtom:
        if isinstance(one, EventAggregate):
            arguments = tuple(renamed(argument, names) for argument in one.arguments)
            return replace(one, variable=names.get(one.variable, one.variable), arguments=arguments)
        return replace(one, variable=names.get(one.variable, one.variable))

    return replace(scalar, atoms=tuple((name, atom(one)) for name, one in scalar.atoms))  # type: ignore[arg-type]
