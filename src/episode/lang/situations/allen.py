"""Allen's interval algebra: the thirteen relations of two intervals, what follows from them, and contradictions.

An interval is half open with start < end. Sets of relations are masks: bit k for the k-th relation of the enum.
`finishes` is TPStream's (Table 1 of the paper), the mirror of Allen's: A finishes B if A begins first and both end
together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache

from episode.words import join_words


class Relation(str, Enum):
    """Relation of an interval A to an interval B. The order is that of the bits."""

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


def relations_of(relations: int) -> tuple[Relation, ...]:
    """The relations of a mask, in the order of the enum."""
    return tuple(relation for relation in RELATIONS if relations >> BITS[relation] & 1)


@cache
def mirror_mask(relations: int) -> int:
    """Return the relations of B to A, for relations of A to B."""
    return mask(mirror(relation) for relation in relations_of(relations))


def relation_of(a_start: int, a_end: int, b_start: int, b_end: int) -> Relation:
    """Return the relation of [a_start, a_end) to [b_start, b_end)."""
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


# ---- what follows from relations ----------------------------------------------------------------------


def _composition_table() -> tuple[tuple[int, ...], ...]:
    """[r][s]: the relations that A can have to C where A r B and B s C, from all intervals over six points."""
    points = range(6)
    intervals = [(start, end) for start in points for end in points if start < end]
    table = [[0] * len(RELATIONS) for _ in RELATIONS]
    numbers = {(a, b): BITS[relation_of(*a, *b)] for a in intervals for b in intervals}
    for a in intervals:
        for b in intervals:
            row = table[numbers[a, b]]
            for c in intervals:
                row[numbers[b, c]] |= 1 << numbers[a, c]
    return tuple(tuple(row) for row in table)


COMPOSITION = _composition_table()


@lru_cache(maxsize=65536)
def compose(first: int, second: int) -> int:
    """The relations of A to C that the masks of A to B and of B to C allow."""
    found = 0
    for one, row in enumerate(COMPOSITION):
        if first >> one & 1:
            for other, cell in enumerate(row):
                if second >> other & 1:
                    found |= cell
    return found


# ---- contradictions -----------------------------------------------------------------------------------

Network = list[list[int]]
"""[i][j]: what the i-th interval may be to the j-th; a mask, mirrored in [j][i]."""
RelationOfPair = tuple[str, str, Collection[Relation]]
"""left, right, and what left may be to right."""

SEARCHED_SYMBOLS = 6
SEARCHED_STEPS = 2_000
"""Bounds of the complete search, which takes exponential time."""
MANY = 4
"""More relations than this are not listed in a reason."""


@dataclass(frozen=True)
class Contradiction:
    """Constraints, by number and in order, that cannot hold together, while all but one of them can; and why."""

    constraints: tuple[int, ...]
    reason: str


def contradiction(constraints: Sequence[RelationOfPair]) -> Contradiction | None:
    """Constraints that no intervals fulfil, or None.

    1. Path consistency: what A is to B and B to C limits what A is to C, until nothing changes. This finds every
       contradiction of constraints without alternatives, but not all others.
    2. Where few symbols are connected, all choices of alternatives are tried, with path consistency after each.
    """
    for component in _components(constraints):
        network = _path_consistent_network([constraints[number] for number in component])
        if network is None:
            return _minimal_contradiction(constraints, component, lambda some: _path_consistent_network(some) is None)
        if len(network) <= SEARCHED_SYMBOLS and not _is_satisfiable(network):
            return _minimal_contradiction(constraints, component, _is_contradictory)
    return None


def _components(constraints: Sequence[RelationOfPair]) -> list[list[int]]:
    """The numbers of constraints whose symbols are connected."""
    components: list[tuple[set[str], list[int]]] = []
    for number, (left, right, _) in enumerate(constraints):
        touched = [each for each in components if left in each[0] or right in each[0]]
        symbols = {left, right}.union(*(each[0] for each in touched))
        numbers = [*(other for each in touched for other in each[1]), number]
        components = [*(each for each in components if each not in touched), (symbols, sorted(numbers))]
    return [numbers for _, numbers in components]


def _places(constraints: Sequence[RelationOfPair]) -> dict[str, int]:
    symbols = dict.fromkeys(symbol for left, right, _ in constraints for symbol in (left, right))
    return {symbol: number for number, symbol in enumerate(symbols)}


def _path_consistent_network(constraints: Sequence[RelationOfPair]) -> Network | None:
    """The network of the constraints, path consistent; None if that is impossible."""
    places = _places(constraints)
    equal = mask([Relation.EQUALS])
    network = [[equal if i == j else EVERY for j in range(len(places))] for i in range(len(places))]
    for left, right, relations in constraints:
        i, j = places[left], places[right]
        network[i][j] &= mask(relations)
        network[j][i] &= mirror_mask(mask(relations))
    return network if _propagate(network) else None


def _propagate(network: Network, changed: Iterable[tuple[int, int]] | None = None) -> bool:
    """Narrow the network until it is path consistent. changed: the pairs to begin with, else all. False: impossible."""
    size = len(network)
    pending = set(changed) if changed is not None else {(i, j) for i in range(size) for j in range(i)}
    if any(network[i][j] == 0 for i in range(size) for j in range(size)):
        return False
    while pending:
        i, j = pending.pop()
        for k in range(size):
            if k in (i, j):
                continue
            for a, b, c in ((i, j, k), (j, i, k)):
                narrowed = network[a][c] & compose(network[a][b], network[b][c])
                if narrowed == network[a][c]:
                    continue
                if narrowed == 0:
                    return False
                network[a][c], network[c][a] = narrowed, mirror_mask(narrowed)
                pending.add((max(a, c), min(a, c)))
    return True


def _is_satisfiable(network: Network) -> bool:
    """Is there a choice of one relation for each pair? Path consistency decides that where all pairs have one.

    A search that takes too long counts as found: a contradiction then shows as a query without matches.
    """
    steps = 0
    pending = [network]
    while pending and steps < SEARCHED_STEPS:
        steps += 1
        current = pending.pop()
        pairs = ((current[i][j].bit_count(), i, j) for i in range(len(current)) for j in range(i))
        open_pairs = [pair for pair in pairs if pair[0] > 1]
        if not open_pairs:
            return True
        _, i, j = min(open_pairs)
        for relation in relations_of(current[i][j]):
            choice = [list(row) for row in current]
            choice[i][j], choice[j][i] = mask([relation]), mask([mirror(relation)])
            if _propagate(choice, [(i, j)]):
                pending.append(choice)
    return bool(pending)


def _is_contradictory(constraints: Sequence[RelationOfPair]) -> bool:
    network = _path_consistent_network(constraints)
    return network is None or not _is_satisfiable(network)


def _minimal_contradiction(
    constraints: Sequence[RelationOfPair], component: list[int], contradicts: Callable[[Sequence[RelationOfPair]], bool]
) -> Contradiction:
    """Constraints are taken out as long as the others still contradict each other, first many at a time, then few."""
    left, size = list(component), len(component)
    while size > 1:
        size = (size + 1) // 2
        for chunk in [left[at : at + size] for at in range(0, len(left), size)]:
            others = [number for number in left if number not in chunk]
            if others and contradicts([constraints[number] for number in others]):
                left = others
    return Contradiction(tuple(left), _reason([constraints[number] for number in left]))


def _reason(constraints: Sequence[RelationOfPair]) -> str:
    *others, last = constraints
    listed = join_words([constraint_text(*other) for other in others])
    if len(others) == 0:
        return f"{constraint_text(*last)} is impossible"
    places, network = _places(others), _path_consistent_network(others)
    if len(others) > 1 and network is not None and last[0] in places and last[1] in places:
        follows = network[places[last[0]]][places[last[1]]]
        if follows & mask(last[2]) == 0:
            if follows.bit_count() > MANY:
                return f"from {listed} follows that {constraint_text(*last)} cannot hold"
            known = constraint_text(last[0], last[1], relations_of(follows))
            return f"from {listed} follows {known}, not {constraint_text(*last)}"
    every = join_words([constraint_text(*each) for each in constraints])
    return f"{every} cannot {'both' if len(others) == 1 else 'all'} hold"


def constraint_text(left: str, right: str, relations: Collection[Relation]) -> str:
    ordered = relations_of(mask(relations))
    return f"{left} {' or '.join(relation.value for relation in ordered)} {right}"
