"""Chains of matches, followed place by place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from episode.matchers.codes import EMPTY, MATCHED, TIMED_OUT, UNMATCHED
from episode.matchers.rows.arrays import FoundPaths
from episode.matchers.rows.slices import chains
from episode.matchers.rows.slices.chains import Links, adopt, join, links_of, links_program, visit
from tests.unit.native.runs import run_all_ways


def random_links(draw: np.random.Generator, places: int) -> Links:
    """Some places have matches; where these lead may be before or after their ends, and beyond the stretch."""
    has_match, at = draw.random(places) < 0.4, np.arange(places)
    following = np.where(has_match, at + draw.integers(1, 6, places), at + 1)
    counts = np.where(has_match, draw.integers(1, 4, places), 0)
    ends = np.where(has_match, at + draw.integers(0, 9, places), 0)
    return Links(following, counts, ends)


def chain_from(following: np.ndarray, at: int) -> list[int]:
    """The places that a chain comes to."""
    places = []
    while at < len(following):
        places.append(at)
        at = int(following[at])
    return places


def run_alike(build: Callable, expected: dict[str, list], *scalars: int, **arrays: np.ndarray) -> None:
    """The program gives the same in all ways."""
    program = chains.chain_program(build)
    names = [one.name for one in program.entry.arrays]
    _, after = run_all_ways(program, [np.ascontiguousarray(arrays[name]) for name in names], *scalars)
    for name, values in expected.items():
        assert after[names.index(name)].tolist() == values


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_the_chain_from_the_first_place(seed: int, clean: bool) -> None:
    draw = np.random.default_rng(seed)
    following, counts, ends = links = random_links(draw, int(draw.integers(0, 40)))
    visited = chain_from(following, 0)
    is_met = [at in visited and (not clean or all(ends[i] <= at for i in visited if i < at)) for at in range(len(ends))]
    before = [sum(int(counts[i]) for i in visited if i < at) for at in range(len(ends))]
    met, matches_before = visit(links, clean)
    assert met.tolist() == is_met
    assert matches_before.tolist() == before
    nothing = np.zeros(len(ends), np.int64)
    run_alike(
        chains._visit, {"is_met": [int(one) for one in is_met], "before": before}, int(clean), following=following,
        counts=counts, ends=ends, is_met=nothing.astype(np.uint8), before=nothing,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_where_chains_join(seed: int) -> None:
    draw = np.random.default_rng(seed)
    places = int(draw.integers(0, 40))
    following, counts, ends = links = random_links(draw, places)
    tried, is_met = draw.random(places) < 0.8, draw.random(places + 5) < 0.2
    expected = []
    for begin in range(places):
        at, matches, cover = begin, 0, 0
        while at < places and tried[at] and not is_met[at]:
            at, matches, cover = int(following[at]), matches + int(counts[at]), max(cover, int(ends[at]))
        expected.append((at, matches, cover))
    joined = [array.tolist() for array in join(links, tried, is_met)]
    assert joined == [[one[part] for one in expected] for part in range(3)]
    room = {name: np.zeros(places, np.int64) for name in ("joins", "matches", "cover")}
    run_alike(
        chains._join, dict(zip(room, joined, strict=True)), following=following, counts=counts, ends=ends,
        tried=tried.view(np.uint8), is_met=is_met.view(np.uint8), **room,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_a_chain_is_put_among_others(seed: int) -> None:
    draw = np.random.default_rng(seed)
    places = int(draw.integers(1, 40))
    links, others = random_links(draw, places), random_links(draw, places)
    tried, begin = draw.random(places) < 0.1, int(draw.integers(places))
    chain = chain_from(links[0], begin)
    chain = chain[: next((i for i, at in enumerate(chain) if tried[at]), len(chain))]
    expected = [other.copy() for other in others]
    for mine, its in zip(expected, links, strict=True):
        mine[chain] = its[chain]
    names = ("all_following", "all_counts", "all_ends")
    run_alike(
        chains._adopt, {name: array.tolist() for name, array in zip(names, expected, strict=True)}, begin,
        **dict(zip(("following", "counts", "ends"), links, strict=True)), **dict(zip(names, others, strict=True)),
        tried=tried.view(np.uint8),
    )  # fmt: skip
    tried_after = tried.copy()
    tried_after[chain] = True
    adopt(links, begin, others, tried)
    assert [array.tolist() for array in others] == [array.tolist() for array in expected]
    assert tried.tolist() == tried_after.tolist()


@pytest.mark.parametrize("to", ["next", "first", "last"])
@pytest.mark.parametrize("emit_timed_out", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_where_the_search_resumes_after_matches(seed: int, emit_timed_out: bool, to: str) -> None:
    draw = np.random.default_rng(seed)
    matches = int(draw.integers(0, 30))
    start = np.sort(draw.integers(0, 25, matches))
    kind = draw.choice(np.array([MATCHED, MATCHED, MATCHED, EMPTY, UNMATCHED], np.uint8), matches)
    length = np.where(kind == EMPTY, 0, draw.integers(1, 7, matches))
    number = np.where(draw.random(matches) < 0.2, TIMED_OUT, np.arange(matches) + 1)
    path_from = np.cumsum(length) - length
    label_of, labels = np.array([0, 1, 63, 1, 0]), None if to == "next" else 1 << 63
    path = draw.choice(5, int(length.sum()), p=[0.25, 0.25, 0.1, 0.2, 0.2]).astype(np.int32)
    first, places = 4, 15
    expected = []
    for row in range(first, first + places):
        own = [
            i for i in range(matches)
            if start[i] == row and kind[i] != UNMATCHED and not (emit_timed_out and number[i] == TIMED_OUT)
        ]  # fmt: skip
        if not own:
            continue
        longest = max(own, key=lambda i: length[i])
        ahead = int(length[longest])
        if labels is not None:
            its = path[path_from[longest] : path_from[longest] + ahead]
            at_label = [at for at, taken_by in enumerate(its) if labels >> int(label_of[taken_by]) & 1]
            ahead = (at_label[0] if to == "first" else at_label[-1]) if at_label else 0
        place, end = row - first, int(length[longest])
        expected.append((place, place + max(1, ahead), len(own), place + end if end else 0))
    found = FoundPaths(kind, start, length, number, path_from, path)
    program = links_program(emit_timed_out, labels, to == "first")
    room = {name: np.zeros(matches, np.int64) for name in ("place", "following", "counts", "ends")}
    arrays = {**found._asdict(), "label_of": label_of, **room}
    assert run_all_ways(program, [arrays[one.name] for one in program.entry.arrays], first, places)[0] == len(expected)
    place, links = links_of(found, emit_timed_out, first, places, label_of, labels, to == "first")
    assert list(zip(*(array.tolist() for array in (place, *links)), strict=True)) == expected
