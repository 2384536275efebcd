"""Allen's interval algebra: the thirteen relations of two intervals, what follows from them, and contradictions.

An interval is half open with start < end. Sets of relations are masks: bit k for the k-th relation of the enum.
`finishes` is TPStream's (Table 1 of the paper), the mirror of Allen's: A finishes B if A begins first and both end
together.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Relation(str, Enum):
    """How an interval A lies to an interval B. The order is that of the bits."""

    BEFORE = "before"
    MEETS = "meets"
    OVERLAPS = "overlaps"
    STARTS = "starts"
    DURING = "during"
    FINISHES = "finishes"
    EQUALS = "equals"
    AFTER = "after"
    MET_BY = "met-by"
    OVERLAPPED_BY = "overlapped-by"
    STARTED_BY = "started-by"
    CONTAINS = "contains"
    FINISHED_BY = "finished-by"


RELATIONS = tuple(Relation)
BITS = {relation: number for number, relation in enumerate(RELATIONS)}
EVERY = (1 << len(RELATIONS)) - 1


def bit(relation: Relation) -> int:
    """The position of a relation, 0 to 12."""
    return BITS[relation]


def mirror(relation: Relation) -> Relation:
    """The relation of B to A where this is the one of A to B."""
    number, half = BITS[relation], BITS[Relation.EQUALS]
    if number == half:
        return relation
    return RELATIONS[number + half + 1 if number < half else number - half - 1]


def mask(relations: Iterable[Relation]) -> int:
    return sum({1 << BITS[relation] for relation in relations})


def relations_of(mask: int) -> tuple[Relation, ...]:
    """The relations of a mask, in the order of the enum."""
    return tuple(relation for relation in RELATIONS if mask >> BITS[relation] & 1)


def mirror_mask(mask_: int) -> int:
    return mask(mirror(relation) for relation in relations_of(mask_))


def relation_of(a_start: int, a_end: int, b_start: int, b_end: int) -> Relation:
    """The one relation of [a_start, a_end) to [b_start, b_end)."""
    if a_end < b_start:
        return Relation.BEFORE
    if a_end == b_start:
        return Relation.MEETS
    if b_end < a_start:
        return Relation.AFTER
    if b_end == a_start:
        return Relation.MET_BY
    if a_start == b_start:
        if a_end == b_end:
            return Relation.EQUALS
        return Relation.STARTS if a_end < b_end else Relation.STARTED_BY
    if a_end == b_end:
        return Relation.FINISHES if a_start < b_start else Relation.FINISHED_BY
    if a_start < b_start:
        return Relation.OVERLAPS if a_end < b_end else Relation.CONTAINS
    return Relation.DURING if a_end < b_end else Relation.OVERLAPPED_BY
