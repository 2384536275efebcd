"""Closures of alternatives: which events say that a closure is part of a match, though it may have none itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from episode.lang.events.syntax import (
    Closure,
    Disjunction,
    EventClass,
    EventPattern,
    Negation,
    children,
    classes_of,
)
from episode.plan.events.names import MARK


@dataclass(frozen=True)
class Presence:
    """A closure is part of a match that has an event of one of the variables; others: of one that has none of them."""

    variables: frozenset[str]
    others: bool = False


def presences(pattern: EventPattern) -> dict[str, Presence]:
    """Of closures that not every match has, by their variables, as they are and as the user calls them.

    What stands in an alternative that was not taken is null, and conditions on it rest.
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
