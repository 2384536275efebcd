"""Allen's algebra: relations, mirrors, composition and contradictions, against intervals of small integers."""

from __future__ import annotations

import random
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from episode.lang.situations.allen import (
    COMPOSITION,
    EVERY,
    RELATIONS,
    Relation,
    _path_consistent_network,
    bit,
    compose,
    contradiction,
    mask,
    mirror,
    mirror_mask,
    relation_of,
    relations_of,
)


def intervals(points: int) -> list[tuple[int, int]]:
    return [(start, end) for start in range(points) for end in range(start + 1, points)]


def constraints(text: str) -> list[tuple[str, str, list[Relation]]]:
    """`A before|meets B, B after C`."""
    found = []
    for part in text.split(","):
        left, relations, right = part.split()
        found.append((left, right, [Relation(name) for name in relations.split("|")]))
    return found


# ---- relations -----------------------------------------------------------------------------------------

DEFINITIONS = {
    "before": lambda a, b, c, d: b < c,
    "meets": lambda a, b, c, d: b == c,
    "overlaps": lambda a, b, c, d: a < c < b < d,
    "starts": lambda a, b, c, d: a == c and b < d,
    "during": lambda a, b, c, d: c < a and b < d,
    "finishes": lambda a, b, c, d: a < c < b == d,
    "equals": lambda a, b, c, d: a == c and b == d,
}


def test_relations_are_those_of_the_papers_table():
    for a, b in product(intervals(6), repeat=2):
        direct = [name for name, holds in DEFINITIONS.items() if holds(*a, *b)]
        turned = [name for name, holds in DEFINITIONS.items() if holds(*b, *a) and name != "equals"]
        found = relation_of(*a, *b)
        assert len(direct + turned) == 1
        assert (found if direct else mirror(found)).value == (direct + turned)[0]
        assert (bit(found) <= 6) == bool(direct)


def test_bits_are_in_order():
    assert [relation.value for relation in RELATIONS] == [
        "before", "meets", "overlaps", "starts", "during", "finishes", "equals",
        "after", "met-by", "overlapped-by", "started-by", "contains", "finished-by",
    ]  # fmt: skip
    assert [bit(relation) for relation in RELATIONS] == list(range(13))


def test_mirrors():
    for relation in RELATIONS:
        assert mirror(mirror(relation)) is relation
        assert (mirror(relation) is relation) == (relation is Relation.EQUALS)
    for a, b in product(intervals(5), repeat=2):
        assert mirror(relation_of(*a, *b)) is relation_of(*b, *a)


def test_masks():
    some = [Relation.AFTER, Relation.MEETS, Relation.AFTER]
    assert mask(some) == 0b10000010
    assert relations_of(mask(some)) == (Relation.MEETS, Relation.AFTER)
    assert mirror_mask(mask(some)) == mask([Relation.BEFORE, Relation.MET_BY])
    assert mirror_mask(EVERY) == EVERY


# ---- composition ---------------------------------------------------------------------------------------


def test_composition_with_more_points_than_it_was_made_from():
    spread = [(start * 7 - 20, end * 7 - 20) for start, end in intervals(8)]
    table = [[0] * 13 for _ in range(13)]
    for a, b, c in product(spread, repeat=3):
        table[bit(relation_of(*a, *b))][bit(relation_of(*b, *c))] |= 1 << bit(relation_of(*a, *c))
    assert [list(row) for row in COMPOSITION] == table


def test_composition_laws():
    equal = mask([Relation.EQUALS])
    for first, second in product(RELATIONS, repeat=2):
        one, two = mask([first]), mask([second])
        assert compose(one, equal) == compose(equal, one) == one
        assert mirror_mask(compose(one, two)) == compose(mirror_mask(two), mirror_mask(one))
    assert compose(mask([Relation.BEFORE]), mask([Relation.AFTER])) == EVERY
    assert compose(mask([Relation.BEFORE]), mask([Relation.BEFORE])) == mask([Relation.BEFORE])
    assert compose(0, EVERY) == 0


# ---- contradictions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "blamed", "reason"),
    [
        ("A before B, A after B", (0, 1), "A before B and A after B cannot both hold"),
        ("A before B, B before A", (0, 1), "A before B and B before A cannot both hold"),
        ("A meets|before B, X starts Y, B before A", (0, 2), "A before or meets B and B before A cannot both hold"),
        (
            "A before B, B before C, C before A",
            (0, 1, 2),
            "from A before B and B before C follows C after A, not C before A",
        ),
        (
            "A during B, B during C, C before D, D meets A",
            (0, 1, 2, 3),
            "from A during B, B during C and C before D follows D after A, not D meets A",
        ),
        (
            "A equals B, B equals C, A meets C",
            (0, 1, 2),
            "from A equals B and B equals C follows A equals C, not A meets C",
        ),
        (
            "A before|meets|overlaps|starts|during B, A after|met-by|contains|finished-by B",
            (0, 1),
            "A before or meets or overlaps or starts or during B and A after or met-by or contains or finished-by B "
            "cannot both hold",
        ),
    ],
)
def test_contradictions(text: str, blamed: tuple[int, ...], reason: str):
    found = contradiction(constraints(text))
    assert found is not None
    assert (found.constraints, found.reason) == (blamed, reason)


@pytest.mark.parametrize(
    "text",
    [
        "A before B",
        "A before B, A before|meets B, B after A",
        "A meets|overlaps|starts|during B, C during|met-by|overlapped-by|finished-by B, A before C",
        "A before B, A before C, A before D, D during|met-by|finished-by C",
        "A overlaps B, A overlaps C, B starts C",
        "A before B, C before D",
    ],
)
def test_patterns_that_can_be_fulfilled(text: str):
    assert contradiction(constraints(text)) is None


PATH_CONSISTENT_ONLY = (
    "A starts|after|finished-by B, A overlaps|met-by|contains C, A before|overlapped-by D, "
    "B during|contains C, B overlaps|after|finished-by D, C starts|finishes|finished-by D"
)


def test_what_path_consistency_does_not_see():
    some = constraints(PATH_CONSISTENT_ONLY)
    assert _path_consistent_network(some) is not None
    found = contradiction(some)
    assert found is not None
    assert found.reason.endswith("cannot all hold")
    assert not possible(4, some)


def test_large_patterns_take_little_effort():
    symbols = [f"S{number}" for number in range(32)]
    chain = [(one, other, list(RELATIONS[:6])) for one, other in pairwise(symbols)]
    assert contradiction(chain) is None
    found = contradiction([*chain, (symbols[-1], symbols[0], [Relation.BEFORE])])
    assert found is None or found.constraints == tuple(range(32))
    circle = [(one, other, [Relation.BEFORE]) for one, other in zip(symbols, [*symbols[1:], symbols[0]])]
    found = contradiction(circle)
    assert found is not None
    assert len(found.constraints) == 32
    everyone = [(one, other, [Relation.BEFORE, Relation.MEETS]) for one, other in combinations(symbols, 2)]
    found = contradiction([*everyone, (symbols[3], symbols[2], [Relation.STARTS])])
    assert found is not None
    assert found.reason == "S2 before or meets S3 and S3 starts S2 cannot both hold"


# ---- random patterns -----------------------------------------------------------------------------------


@cache
def configurations(size: int) -> np.ndarray:
    """What `size` intervals can be to each other: the bits of all pairs, from all intervals over enough points."""
    every = np.array(intervals(2 * size))
    table = np.array([[1 << bit(relation_of(*a, *b)) for b in every] for a in every], dtype=np.int16)
    chosen = np.indices([len(every)] * size).reshape(size, -1)
    return np.unique(np.stack([table[chosen[i], chosen[j]] for i, j in combinations(range(size), 2)], axis=1), axis=0)


def possible(size: int, some: list[tuple[str, str, list[Relation]]]) -> bool:
    """Brute force."""
    places = {symbol: place for place, symbol in enumerate("ABCD"[:size])}
    masks = dict.fromkeys(combinations(range(size), 2), EVERY)
    for left, right, relations in some:
        i, j = places[left], places[right]
        masks[min(i, j), max(i, j)] &= mask(relations) if i < j else mirror_mask(mask(relations))
    return bool((configurations(size) & np.array(list(masks.values())) != 0).all(axis=1).any())


def random_constraints(rng: random.Random, size: int) -> list[tuple[str, str, list[Relation]]]:
    pairs = list(combinations("ABCD"[:size], 2))
    some = []
    for one, other in rng.choices(pairs, k=rng.randint(size - 1, len(pairs) + 1)):
        left, right = (one, other) if rng.random() < 0.5 else (other, one)
        some.append((left, right, rng.sample(RELATIONS, rng.choice([1, 1, 2, 2, 3, 4, 6]))))
    return some


@pytest.mark.parametrize(("size", "number"), [(2, 100), (3, 400), (4, 400)])
def test_contradictions_agree_with_brute_force(size: int, number: int):
    rng = random.Random(size)
    contradictory = 0
    for _ in range(number):
        some = random_constraints(rng, size)
        found = contradiction(some)
        assert (found is None) == possible(size, some), some
        if found is not None:
            contradictory += 1
            blamed = [some[place] for place in found.constraints]
            assert not possible(size, blamed)
            assert all(possible(size, [each for each in blamed if each is not one]) for one in blamed)
    assert 0 < contradictory < number
