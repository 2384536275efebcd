"""Alternatives: one name per place, and closures of several classes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

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
    Strategy,
    children,
    classes_of,
    event_atoms,
    nodes_of,
)
from episode.lang.syntax import Scalar
from episode.plan.expressions import Apply, Constant, Expression

if TYPE_CHECKING:
    from episode.plan.events.classes import EventClasses


# One name per place: a variable of several alternatives becomes several variables, and its conditions apply to each of
# them (a condition on an absent event does not apply).

MARK = "@"


def are_copies(one: str, other: str) -> bool:
    """Are both copies of one variable of the query?"""
    return MARK in one and MARK in other and one.split(MARK)[0] == other.split(MARK)[0]


def with_groups_between_places(pattern: EventPattern) -> EventPattern:
    """Rewrite `A; (B | C*); D` → `(A; B; D) | (A; C*; D)`: a group alone is not a place."""
    if isinstance(pattern, (Negation, Closure)):
        return pattern
    pattern = with_parts(pattern, with_groups_between_places)
    if not isinstance(pattern, Sequence):
        return pattern
    choices: list[list[tuple[EventPattern, ...]]] = []
    for part in pattern.parts:
        if isinstance(part, Disjunction) and any(_has_no_place(one) for one in part.parts):
            choices.append([parts_if(Sequence, one) for one in part.parts])
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
    """Rewrite `A+` alone → `A; A*`, of one variable: a group's first event is a place, and the group follows it.
    `(A | B)+` → `(A | B); (A | B)*`.

    Alternatives of a union are rewritten likewise. Return the pattern and the variables of such groups."""
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
    """Return the variables of the first events of groups that are a whole alternative and have alternatives."""
    return [
        tuple(one.variable for one in classes_of(node.parts[0]))
        for node in nodes_of(pattern)
        if isinstance(node, Sequence) and isinstance(node.parts[0], Disjunction)
        if all(one.variable.split(MARK)[0] in alone for one in classes_of(node))
    ]


def parts_if(kind: type[Sequence | Disjunction], pattern: EventPattern) -> tuple[EventPattern, ...]:
    """The parts of a pattern of a kind; of another pattern itself."""
    return pattern.parts if isinstance(pattern, kind) else (pattern,)


def is_of_classes(pattern: EventPattern) -> bool:
    if isinstance(pattern, Disjunction):
        return all(is_of_classes(part) for part in pattern.parts)
    return isinstance(pattern, EventClass)


def negated_variables(pattern: EventPattern) -> list[str]:
    if isinstance(pattern, Negation):
        return [one.variable for one in classes_of(pattern)]
    return [name for part in children(pattern) for name in negated_variables(part)]


def with_parts(pattern: EventPattern, change: Callable[[EventPattern], EventPattern]) -> EventPattern:
    """The pattern with each of its direct parts changed."""
    if isinstance(pattern, EventClass):
        return pattern
    if isinstance(pattern, (Negation, Closure)):
        return replace(pattern, part=change(pattern.part))
    return replace(pattern, parts=tuple(change(part) for part in pattern.parts))


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
    names: dict[str, list[str]] = defaultdict(list)

    def rename(pattern: EventPattern) -> EventPattern:
        if isinstance(pattern, EventClass):
            if pattern.variable not in several:
                return pattern
            taken = names[pattern.variable]
            taken.append(f"{pattern.variable}{MARK}{len(taken) + 1}")
            return replace(pattern, variable=taken[-1])
        return with_parts(pattern, rename)

    pattern = rename(query.pattern)
    mapping = {name: tuple(new) for name, new in names.items()}
    conditions: list[Scalar] = []
    for scalar in query.conditions:  # for every choice of new names
        apart = {name for name in mapping if name not in lists or _is_of_each(scalar, name)}
        mentioned = sorted({atom.variable for atom in event_atoms(scalar)} & apart)
        for choice in product(*(mapping[name] for name in mentioned)):
            conditions.append(rename_variables(scalar, dict(zip(mentioned, choice, strict=True))))
    return replace(query, pattern=pattern, conditions=tuple(conditions)), mapping


def _is_of_each(scalar: Scalar, name: str) -> bool:
    """Is it about each event of a closure by itself?"""
    return all(
        isinstance(atom, EventColumn) and atom.index in (Index.PLAIN, Index.EACH)
        for atom in event_atoms(scalar)
        if atom.variable == name
    )


def rename_variables(scalar: Scalar, names: dict[str, str]) -> Scalar:
    if not names:
        return scalar

    def atom(one: EventAtom) -> EventAtom:
        if isinstance(one, EventAggregate):
            arguments = tuple(rename_variables(argument, names) for argument in one.arguments)
            one = replace(one, arguments=arguments)
        return replace(one, variable=names.get(one.variable, one.variable))

    return replace(scalar, atoms=tuple((name, atom(one)) for name, one in scalar.atoms))  # type: ignore[arg-type]


# Alternatives inside closures: one variable for several classes, and groups whose events are of one of several.


def with_united_classes(pattern: EventPattern, classes: EventClasses, strategy: Strategy) -> EventPattern:
    """`(B e | C e)+` → `e+` of B and C: inside a closure, alternatives with one variable are one class.

    Where an event can be of both, every choice of it would count twice: these are left as they are, but for groups,
    which take an event once. A closure of a closure is one, `(B+)*` → `B*`, unless rounds are counted.
    """

    def unite(part: EventPattern, inside: bool, once: bool) -> EventPattern:
        if isinstance(part, EventClass):
            return part
        if isinstance(part, Closure):
            once = part.groups and strategy is Strategy.ANY and is_of_classes(part.part)
            inner = unite(part.part, True, once)
            if isinstance(inner, Closure) and inner.groups == part.groups and inner.count is None is part.count:
                return replace(inner, minimum=part.minimum, span=part.span)
            return replace(part, part=inner)
        if isinstance(part, Negation):
            return replace(part, part=unite(part.part, False, False))
        parts = tuple(unite(one, inside, once) for one in part.parts)
        if inside and isinstance(part, Disjunction):
            parts = _merge_classes(parts, classes, once)
            if len(parts) == 1:
                return parts[0]
        return replace(part, parts=parts)

    return unite(pattern, False, False)


def _merge_classes(parts: tuple[EventPattern, ...], classes: EventClasses, once: bool) -> tuple[EventPattern, ...]:
    flat = [one for part in parts for one in parts_if(Disjunction, part)]
    out: dict[object, EventPattern] = {}
    for number, part in enumerate(flat):
        key: object = part.variable if isinstance(part, EventClass) else number
        before = out.get(key)
        if not isinstance(before, EventClass) or not isinstance(part, EventClass):
            out[key] = part
        elif once or (classes.exclude_each_other and not set(before.names) & set(part.names)):
            others = dict.fromkeys((*before.others, *part.names))
            out[key] = replace(before, others=tuple(name for name in others if name != before.name))
        else:
            out[number] = part
    return tuple(out.values())


def take_first_alternatives(
    places: list[tuple[str, ...]], local: dict[str, list[Expression]], classes: EventClasses
) -> None:
    """An event that qualifies for several of a place's alternatives is one of the first of them."""
    for names in places:
        earlier: list[Expression] = []
        for number, name in enumerate(names):
            mine = _all_hold(local[name])
            if any(not classes.exclusive(name, before) for before in names[:number]):
                local[name] = [*local[name], *earlier]
            earlier.append(Apply("not", (Apply("coalesce", (mine, Constant(0, "boolean")), "boolean"),), "boolean"))


def _all_hold(conditions: list[Expression]) -> Expression:
    if not conditions:
        return Constant(1, "boolean")
    return conditions[0] if len(conditions) == 1 else Apply("and", tuple(conditions), "boolean")


# Closures of alternatives: the events that show that a closure is part of a match, though it may have none itself.


@dataclass(frozen=True)
class Presence:
    """A closure is part of a match that has an event of one of the variables; others: of one that has none of them."""

    variables: frozenset[str]
    others: bool = False


def presences(pattern: EventPattern) -> dict[str, Presence]:
    """Return the presences of closures that not every match has, by their variables, renamed and as written.

    Values of an alternative that was not taken are null, and conditions on them do not apply.
    """
    found = dict(_presences(pattern, None))
    sure = {name for name, presence in found.items() if presence is None}
    by_user: dict[str, list[Presence]] = {}
    for name, presence in found.items():
        if presence is not None:
            by_user.setdefault(name.split(MARK)[0], []).append(presence)
    result = {name: presence for name, presence in found.items() if presence is not None}
    for name, several in by_user.items():
        if name in sure or any(copy.split(MARK)[0] == name for copy in sure) or any(one.others for one in several[1:]):
            continue
        if len(several) == 1:
            result[name] = several[0]
        elif not several[0].others:
            result[name] = Presence(frozenset[str]().union(*(one.variables for one in several)))
    return result


def _presences(pattern: EventPattern, around: Presence | None) -> Iterator[tuple[str, Presence | None]]:
    if isinstance(pattern, Closure):
        yield from ((one.variable, around) for one in classes_of(pattern))
    elif isinstance(pattern, Disjunction):
        certain = [frozenset(always(part)) for part in pattern.parts]
        for number, part in enumerate(pattern.parts):
            others = [names for at, names in enumerate(certain) if at != number]
            if certain[number]:
                yield from _presences(part, Presence(certain[number]))
            elif all(others) and around is None:
                yield from _presences(part, Presence(frozenset[str]().union(*others), others=True))
            else:
                yield from _presences(part, around)
    elif not isinstance(pattern, Negation):
        for part in children(pattern):
            yield from _presences(part, around)


def always(pattern: EventPattern) -> list[str]:
    """Variables that have an event in every match."""
    if isinstance(pattern, EventClass):
        return [pattern.variable]
    if isinstance(pattern, (Negation, Disjunction)) or (isinstance(pattern, Closure) and pattern.minimum == 0):
        return []
    return [name for part in children(pattern) for name in always(part)]
