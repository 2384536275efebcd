"""How far two situations are from a relation: the least change of an endpoint that would make it hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.lang.situations.allen import RELATIONS, Relation, mirror, relation_of, relations_of

Times = np.ndarray | int

REQUIRED: dict[Relation, tuple[tuple[str, str, str], ...]] = {
    Relation.BEFORE: (("a.end", "<", "b.start"),),
    Relation.MEETS: (("a.end", "=", "b.start"),),
    Relation.OVERLAPS: (("a.start", "<", "b.start"), ("b.start", "<", "a.end"), ("a.end", "<", "b.end")),
    Relation.STARTS: (("a.start", "=", "b.start"), ("a.end", "<", "b.end")),
    Relation.DURING: (("b.start", "<", "a.start"), ("a.end", "<", "b.end")),
    Relation.FINISHES: (("a.start", "<", "b.start"), ("b.start", "<", "a.end"), ("a.end", "=", "b.end")),
    Relation.EQUALS: (("a.start", "=", "b.start"), ("a.end", "=", "b.end")),
}
"""Table 1 of TPStream: what must be true of the endpoints."""
TURNED = {"a.start": "b.start", "a.end": "b.end", "b.start": "a.start", "b.end": "a.end"}


def required(relation: Relation) -> tuple[tuple[str, str, str], ...]:
    """What must be true of the endpoints of a and b."""
    if relation in REQUIRED:
        return REQUIRED[relation]
    return tuple((TURNED[one], how, TURNED[other]) for one, how, other in REQUIRED[mirror(relation)])


@dataclass(frozen=True)
class Miss:
    """A pair that has none of the allowed relations. actual: the one that it has. nearest: the allowed one that it is
    closest to. one, how, other: the comparison of endpoints that is farthest from holding for it, and by how much."""

    actual: Relation
    nearest: Relation
    one: str
    how: str
    other: str
    off: int


def distances(mask: int, a: tuple[Times, Times], b: tuple[Times, Times]) -> np.ndarray:
    """For pairs of (start, end), how far they are from the nearest relation of a mask; 0: one holds."""
    found = [
        np.max([_violation(comparison, a, b) for comparison in required(relation)], axis=0)
        for relation in relations_of(mask)
    ]
    least: np.ndarray = np.min(found, axis=0)
    return least


def _violation(comparison: tuple[str, str, str], a: tuple[Times, Times], b: tuple[Times, Times]) -> np.ndarray:
    one, how, other = comparison
    ends = {"a.start": a[0], "a.end": a[1], "b.start": b[0], "b.end": b[1]}
    difference = np.asarray(ends[one]) - np.asarray(ends[other])
    return np.abs(difference) if how == "=" else np.maximum(difference + 1, 0)


def miss_of(mask: int, a: tuple[int, int], b: tuple[int, int]) -> Miss:
    """What is off for one pair."""
    best: Miss | None = None
    actual = relation_of(*a, *b)
    for relation in relations_of(mask):
        worst = max(required(relation), key=lambda comparison: int(_violation(comparison, a, b)))
        miss = Miss(actual, relation, *worst, int(_violation(worst, a, b)))
        if best is None or miss.off < best.off:
            best = miss
    assert best is not None
    return best


__all__ = ["RELATIONS", "Miss", "distances", "miss_of", "required"]
