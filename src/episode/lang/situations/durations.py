"""Limits of durations that no match can keep: against WITHIN, and against the relations of a pair."""

from __future__ import annotations

from episode.lang.cursor import Cursor
from episode.lang.situations.allen import EVERY, Relation, mask, mirror_mask, relations_of, shown
from episode.lang.situations.relations import place_of
from episode.lang.situations.syntax import Constraint, SituationDefinition
from episode.lang.syntax import Duration

SHORTER = (Relation.STARTS, Relation.DURING, Relation.FINISHED_BY)
"""Relations of A to B in which A is the shorter one: it lies in B, and one of its ends is not B's."""
LONGER = (Relation.STARTED_BY, Relation.CONTAINS, Relation.FINISHES)


def check_window(cursor: Cursor, definitions: tuple[SituationDefinition, ...], within: Duration | None) -> None:
    """A situation that must last longer than the window is an error at the window.

    A match is certain only when each of its situations has lasted for its least duration, whether it has ended then or
    not: so this holds for both ways of detection.
    """
    for definition in definitions:
        least = definition.at_least
        if within is None or least is None or not _is_longer(least, within):
            continue
        lasts, window = _text(cursor, least), _text(cursor, within)
        message = f"No match fits WITHIN {window}: {definition.symbol} lasts at least {lasts}."
        hint = (
            f"A match is certain when {definition.symbol} has lasted so long, not before. Write WITHIN {lasts} or more."
        )
        cursor.fail(message, place_of(within.span), hint)


def check_pairs(
    cursor: Cursor, definitions: tuple[SituationDefinition, ...], constraints: tuple[Constraint, ...]
) -> None:
    """A pair of which no alternative is left by the limits of the two durations is an error at its last constraint."""
    named = {definition.symbol: definition for definition in definitions}
    allowed: dict[tuple[str, str], int] = {}
    for constraint in constraints:
        pair, relations = (constraint.left, constraint.right), mask(constraint.relations)
        if pair[::-1] in allowed:
            pair, relations = pair[::-1], mirror_mask(relations)
        allowed[pair] = allowed.get(pair, EVERY) & relations
        left, right = named[pair[0]], named[pair[1]]
        reasons = [_too_long(cursor, left, right, relation) for relation in relations_of(allowed[pair])]
        if all(reasons):
            why = "; ".join(dict.fromkeys(reason for reason in reasons if reason))
            message = f"{shown(*pair, relations_of(allowed[pair]))} cannot hold: {why}."
            hint = "What lies in another situation is not longer. Change one of the limits, or add another alternative."
            cursor.fail(message, place_of(constraint.span), hint)


def _too_long(cursor: Cursor, left: SituationDefinition, right: SituationDefinition, relation: Relation) -> str | None:
    """Why the durations rule a relation out, if they do."""
    if relation in LONGER:
        left, right = right, left
    if relation in (*SHORTER, *LONGER):
        return _no_room(cursor, left, right, strictly=True)
    if relation is Relation.EQUALS:
        return _no_room(cursor, left, right) or _no_room(cursor, right, left)
    return None


def _no_room(
    cursor: Cursor, inner: SituationDefinition, outer: SituationDefinition, strictly: bool = False
) -> str | None:
    least, most = inner.at_least, outer.at_most
    if least is None or most is None:
        return None
    alike = least.parameter is None and most.parameter is None and least.unit == most.unit
    if not _is_longer(least, most) and not (strictly and alike and least.amount == most.amount):
        return None
    return f"{inner.symbol} lasts at least {_text(cursor, least)}, {outer.symbol} at most {_text(cursor, most)}"


def _is_longer(one: Duration, other: Duration) -> bool:
    """Durations of which only one has a unit are not compared; one of them does not fit the event time. Parameters are
    compared when they are bound."""
    if one.parameter is not None or other.parameter is not None:
        return False
    return one.unit == other.unit and one.amount > other.amount


def _text(cursor: Cursor, duration: Duration) -> str:
    return " ".join(cursor.source[duration.span.start : duration.span.end].split())
