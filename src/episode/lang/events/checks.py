"""Checks that make a tree of operators a pattern: the places of negations, closures and groups, and the variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from episode.errors import EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventClass,
    EventPattern,
    Negation,
    Sequence,
    children,
    classes_of,
    nodes_of,
)
from episode.lang.syntax import Source, Span

NO_EVENTS = "Between other events, write A; !B; C: no B between A and C."


@dataclass(frozen=True)
class EventVariable:
    """A variable that conditions may name.

    closure: is it a list of events? negation: number of the negation around it, from 0, if any; inner: of the
    negation inside that one. after: for a closure, the lower-case names of the variables after it.
    """

    name: str
    event_class: str
    closure: bool
    negation: int | None
    after: frozenset[str] = frozenset()
    inner: int | None = None


def check_pattern(source: Source, pattern: EventPattern) -> None:
    """The rules that hold under every strategy."""
    _check_negations(source, pattern)
    if not _is_positive(pattern):
        raise source.error(EpisodeSyntaxError, "A pattern needs an event that is not negated.", pattern.span, NO_EVENTS)
    within = {id(part) for node in nodes_of(pattern) if isinstance(node, Sequence) for part in node.parts}
    for node in nodes_of(pattern):
        if isinstance(node, (Sequence, Conjunction)) and not _is_positive(node):
            flat = all(isinstance(part, Negation) for part in node.parts)
            if isinstance(node, Conjunction) and id(node) in within and flat:
                continue  # A; (!B & !C); D
            hint = "Write them one by one: !B; !C."
            raise source.error(EpisodeSyntaxError, "This group has negated events only.", node.span, hint)


def _is_positive(pattern: EventPattern) -> bool:
    """Does a match of it always have an event?"""
    if isinstance(pattern, (Negation, EventClass)):
        return isinstance(pattern, EventClass)
    return any(_is_positive(part) for part in children(pattern))


def _check_negations(source: Source, pattern: EventPattern) -> None:
    for node in nodes_of(pattern):
        if isinstance(node, Negation):
            _check_negated(source, node)
        elif isinstance(node, Closure) and isinstance(node.part, Negation):
            hint = "Negate an event next to the closure: A; !B; C+."
            raise source.error(EpisodeSyntaxError, "A negated event cannot be repeated.", node.part.span, hint)
        elif isinstance(node, Disjunction):
            for part in node.parts:
                if isinstance(part, Negation):
                    hint = "Negate a part of a sequence, (A; !B; C) | D, or the whole: !(A | B)."
                    raise source.error(EpisodeSyntaxError, "A negated event cannot be an alternative.", part.span, hint)
    _check_repetitions(source, pattern, False, False)


def _check_negated(source: Source, negation: Negation) -> None:
    if isinstance(negation.part, Closure) and isinstance(negation.part.part, EventClass):
        hint = "!B already means that there is no B, so it need not be repeated."
        raise source.error(EpisodeSyntaxError, "A closure cannot be negated.", negation.span, hint)
    for node in nodes_of(negation.part):
        if isinstance(node, Negation) and not _is_of_classes(node.part):
            message = "A negation inside a negation is of single classes."
            hint = "Write for example !(A; !B; C) or !(A; !(B | D); C)."
            raise source.error(EpisodeUnsupportedError, message, node.span, hint)


def _is_of_classes(pattern: EventPattern) -> bool:
    if isinstance(pattern, Disjunction):
        return all(_is_of_classes(part) for part in pattern.parts)
    return isinstance(pattern, EventClass)


def _check_repetitions(source: Source, pattern: EventPattern, before: bool, after: bool) -> None:
    """Negations inside closures have events around them. before, after: is there an event in every match?"""
    if isinstance(pattern, Closure):
        _check_closed(source, pattern, before, after)
    for number, part in enumerate(children(pattern)):
        if isinstance(pattern, Sequence):
            left, right = pattern.parts[:number], pattern.parts[number + 1 :]
            certain = [around or any(map(_is_certain, side)) for around, side in ((before, left), (after, right))]
            _check_repetitions(source, part, *certain)
        else:
            inside = isinstance(pattern, (Closure, Negation))
            _check_repetitions(source, part, before and not inside, after and not inside)


def _check_closed(source: Source, closure: Closure, before: bool, after: bool) -> None:
    """Refuse a negation at the edge of a repetition if it is not clear which event is next to it: one of another
    repetition, or one next to the closure."""
    rounds = closure.part.parts if isinstance(closure.part, Disjunction) else (closure.part,)
    plain = all(_is_plain(one) for one in rounds)
    for node in _nodes_outside_negations(closure.part):
        if not isinstance(node, (Sequence, Conjunction)):
            continue
        at_edges = plain and any(node is one for one in rounds)
        for number, part in enumerate(node.parts):
            sides = (node.parts[:number], before), (node.parts[number + 1 :], after)
            if isinstance(part, Negation) and (
                isinstance(node, Conjunction)
                or not all(any(map(_is_certain, side)) or (at_edges and around) for side, around in sides)
            ):
                message = (
                    "A negation inside a closure is supported between two events of one repetition, and at the edge "
                    "of repetitions of single events with an event before and after the closure."
                )
                hint = "Put an event before and one after it: SEQ(A a, ~B b, C c)+."
                raise source.error(EpisodeUnsupportedError, message, part.span, hint)


def _is_plain(pattern: EventPattern) -> bool:
    """Single events and negations, one after the other."""
    parts = pattern.parts if isinstance(pattern, Sequence) else (pattern,)
    return all(isinstance(part, (EventClass, Negation)) for part in parts)


def _nodes_outside_negations(pattern: EventPattern) -> Iterator[EventPattern]:
    yield pattern
    if not isinstance(pattern, Negation):
        for part in children(pattern):
            yield from _nodes_outside_negations(part)


def _has_event(pattern: EventPattern, holds: Callable[[Closure], bool]) -> bool:
    """Does every match of it have an event? holds: does that hold for a closure?"""
    if isinstance(pattern, (EventClass, Negation)):
        return isinstance(pattern, EventClass)
    if isinstance(pattern, Closure):
        return holds(pattern)
    found = [_has_event(part, holds) for part in children(pattern)]
    return all(found) if isinstance(pattern, Disjunction) else any(found)


def _is_certain(pattern: EventPattern) -> bool:
    return _has_event(pattern, lambda closure: closure.minimum > 0 and _is_certain(closure.part))


def check_groups(source: Source, pattern: EventPattern) -> None:
    """Check that ZStream's closures have neighbours that mark their beginning and end. For skip-till-any-match only."""
    for node in nodes_of(pattern):
        if isinstance(node, Sequence):
            _check_neighbours(source, node)
    for alternative in pattern.parts if isinstance(pattern, Disjunction) else (pattern,):
        if isinstance(alternative, Closure) and alternative.groups:
            continue  # every event of it starts a group
        if not _has_event(alternative, lambda closure: not closure.groups):
            hint = "Put a single event next to it, A; B+, or write SEQ(B+ b[]) for every choice of events."
            message = "A pattern of nothing but closures has no bounds."
            raise source.error(EpisodeSyntaxError, message, alternative.span, hint)
        if (True, True) in _ends(alternative):
            hint = "Begin or end with a single event, or write SEQ(…) for every choice of events."
            message = "A pattern cannot both begin and end with a closure."
            raise source.error(EpisodeSyntaxError, message, alternative.span, hint)


def _check_neighbours(source: Source, sequence: Sequence) -> None:
    """Refuse neighbouring groups if one is part of an alternative; groups of one sequence may be neighbours."""
    places = [part for part in _flat(sequence) if not isinstance(part, Negation)]
    for left, right in pairwise(places):
        if isinstance(left, Closure) and isinstance(right, Closure):
            continue
        ends, begins = any(last for _, last in _ends(left)), any(first for first, _ in _ends(right))
        if ends and begins:
            message = "Closures side by side are supported as parts of one sequence: A; B*; C+; D."
            hint = (
                "Put an event between them, write the alternatives out, or write SEQ(A a, B+ b[], C+ c[], D d) for "
                "every choice of events."
            )
            raise source.error(EpisodeUnsupportedError, message, Span(left.span.start, right.span.end), hint)


def _flat(sequence: Sequence) -> Iterator[EventPattern]:
    """Its parts, and those of sequences in it."""
    for part in sequence.parts:
        if isinstance(part, Sequence):
            yield from _flat(part)
        else:
            yield part


def _ends(pattern: EventPattern) -> set[tuple[bool, bool]]:
    """Is a group first, is a group last? Every combination that the alternatives allow."""
    if isinstance(pattern, EventClass):
        return {(False, False)}
    if isinstance(pattern, Closure):
        return {(pattern.groups, pattern.groups)}
    ends = [_ends(part) for part in children(pattern) if not isinstance(part, Negation)]
    if isinstance(pattern, Disjunction):
        return set().union(*ends)
    if isinstance(pattern, Conjunction):
        every = set().union(*ends)
        return {(any(first for first, _ in every), any(last for _, last in every))}
    if len(ends) <= 1:
        return ends[0] if ends else {(False, False)}
    return {(first, last) for first, _ in ends[0] for _, last in ends[-1]}


def variables_of(source: Source, pattern: EventPattern) -> dict[str, EventVariable]:
    """The variables by their lower-case names."""
    negations = [node for node in nodes_of(pattern) if isinstance(node, Negation)]
    found = _variables(source, pattern, False, None, {id(node): number for number, node in enumerate(negations)})
    for name, after in _after(pattern):
        if found[name].closure:
            found[name] = replace(found[name], after=found[name].after | after)
    return found


def _after(pattern: EventPattern) -> Iterator[tuple[str, frozenset[str]]]:
    """Variables with those of later parts of a sequence; a closure is one part."""
    if isinstance(pattern, Closure):
        return
    if isinstance(pattern, Sequence):
        for number, part in enumerate(pattern.parts):
            later = frozenset(
                one.variable.lower() for after in pattern.parts[number + 1 :] for one in classes_of(after)
            )
            yield from ((one.variable.lower(), later) for one in classes_of(part))
    for part in children(pattern):
        yield from _after(part)


def _variables(
    source: Source, pattern: EventPattern, closure: bool, negation: int | None, numbers: dict[int, int]
) -> dict[str, EventVariable]:
    if isinstance(pattern, EventClass):
        return {pattern.variable.lower(): EventVariable(pattern.variable, pattern.name, closure, negation)}
    if isinstance(pattern, Closure):
        return _variables(source, pattern.part, True, negation, numbers)
    if isinstance(pattern, Negation):
        number = numbers[id(pattern)]
        # In each repetition it is one event, not a list, that is negated.
        found = _variables(source, pattern.part, False, number if negation is None else negation, numbers)
        return found if negation is None else {name: replace(one, inner=number) for name, one in found.items()}
    found = {}
    for part in pattern.parts:
        more = _variables(source, part, closure, negation, numbers)
        for name in [name for name in more if name in found]:
            place = next(node.variable_span for node in classes_of(part) if node.variable.lower() == name)
            _check_twice(source, found[name], more[name], place, isinstance(pattern, Disjunction))
        found |= {name: variable for name, variable in more.items() if name not in found}
    return found


def _check_twice(source: Source, one: EventVariable, other: EventVariable, span: Span, alternatives: bool) -> None:
    if not alternatives:
        message = f"The variable {other.name} stands for two events."
        another = f"{one.name.lower()}{'' if one.name[-1:].isalpha() else '_'}2"
        hint = f"Give each its own name: {one.event_class} {another}."
        raise source.error(EpisodeSyntaxError, message, span, hint)
    if one.closure != other.closure or (one.negation is None) != (other.negation is None):
        message = f"The variable {other.name} is not of the same kind in all alternatives."
        hint = "Give the single event, the closure or the negated event another name."
        raise source.error(EpisodeSyntaxError, message, span, hint)
