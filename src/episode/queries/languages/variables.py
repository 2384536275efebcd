"""Event patterns over events that have their variables already: for `expand`."""

from __future__ import annotations

from dataclasses import replace

from episode.lang.events.syntax import (
    Closure,
    EventClass,
    EventPattern,
    EventQuery,
    Negation,
    children,
    classes_of,
    event_atoms,
)


def of_variables(query: EventQuery) -> EventQuery:
    """Return the plain query over events that have their variables already: each is a class. Negations were tested
    when the matches were collapsed."""
    negated = variables_under(query.pattern, Negation)
    conditions = tuple(
        condition
        for condition in query.conditions
        if not any(atom.variable in negated for atom in event_atoms(condition))
    )
    given = replace(query.input, table=None, type_column=None, partition_by=())
    pattern = _of_variables(query.pattern)
    return replace(query, pattern=pattern, conditions=conditions, collapsed=None, input=given)


def _of_variables(pattern: EventPattern) -> EventPattern:
    if isinstance(pattern, EventClass):
        return replace(pattern, name=pattern.variable)
    if isinstance(pattern, (Negation, Closure)):
        return replace(pattern, part=_of_variables(pattern.part))
    parts = tuple(_of_variables(part) for part in pattern.parts if not isinstance(part, Negation))
    return replace(pattern, parts=parts)


def variables_under(pattern: EventPattern, kind: type) -> set[str]:
    if isinstance(pattern, kind):
        return {one.variable for one in classes_of(pattern)}
    return {name for part in children(pattern) for name in variables_under(part, kind)}
