"""Turns of paths against the paths themselves."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from episode.matchers.codes import MATCHED
from episode.matchers.rows.arrays import CURSOR, TURNS_END
from episode.matchers.rows.code.paths import (
    NO_ROOM,
    NO_TURN,
    follow_turns,
    give_matches,
    keep_turns,
    keeping_program,
    matches_before,
    with_match,
    with_turns,
)
from tests.unit.matchers.rows.code.leaves import Leaf
from tests.unit.native.runs import run_all_ways

EXTEND = Leaf(with_turns, 5)
ADD_MATCH = Leaf(with_match, 4)
COUNT = Leaf(matches_before, 1)
GIVE = Leaf(lambda s, *given: (outs := give_matches(s, *given), s.out_path_from[outs]), 3)
FOLLOW = {
    name: Leaf(lambda s, last, begin, name=name: follow_turns(s, last, name, begin), 2) for name in ("path", "out_path")
}


def arrays_of(turns: int, rows: int = 40) -> dict[str, np.ndarray]:
    return {
        "turns": np.zeros(3 * turns, np.int64),
        "cursor": np.zeros(CURSOR, np.int64),
        "path": np.zeros(rows, np.int32),
        "out_path": np.zeros(8 * rows, np.int32),
        "out_kind": np.zeros(rows, np.uint8),
        "out_start": np.zeros(rows, np.int64),
        "out_length": np.zeros(rows, np.int64),
        "out_path_from": np.zeros(rows + 1, np.int64),
    }


def random_path(draw: np.random.Generator, rows: int) -> np.ndarray:
    return np.repeat(draw.integers(0, 3, rows), draw.integers(1, 4, rows))[:rows].astype(np.int32)


@pytest.mark.parametrize("seed", range(20))
def test_paths_that_begin_alike_share_turns(seed: int) -> None:
    """Each path takes over a part of an earlier one, and is kept in pieces, as a way is that waits several times."""
    draw = np.random.default_rng(seed)
    arrays, start, origin, rows = arrays_of(300), 7, 5, 38
    known: list[tuple[list[int], int]] = [([], NO_TURN)]
    for _ in range(8):
        path, last = known[draw.integers(len(known))]
        begin = start + len(path)
        end = int(draw.integers(begin, origin + rows + 1))
        path = [*path, *random_path(draw, end - begin).tolist()]
        arrays["path"][start - origin : end - origin] = path
        before = arrays["cursor"][TURNS_END]
        (last,) = EXTEND(arrays, last, start, begin, end, origin)
        assert arrays["cursor"][TURNS_END] - before == len(list(groupby(path[begin - start :])))
        known.append((path, last))
    for name, follow in FOLLOW.items():
        for path, last in known:
            arrays[name][:] = -1
            follow(arrays, last, 3)
            expected = np.full(len(arrays[name]), -1)
            expected[3 : 3 + len(path)] = path
            assert arrays[name].tolist() == expected.tolist()


def test_a_turn_that_continues_replaces_the_one_before() -> None:
    """One instruction over several waits is one turn of the path, however often it was kept."""
    arrays = arrays_of(10)
    last = NO_TURN
    for end in range(1, 6):
        (last,) = EXTEND(arrays, last, 0, end - 1, end, 0)
    assert arrays["turns"].reshape(-1, 3)[last].tolist() == [0, 5, NO_TURN]


@pytest.mark.parametrize("room", range(4))
def test_no_room_for_turns(room: int) -> None:
    arrays = arrays_of(room)
    arrays["path"][:4] = [0, 1, 1, 0]
    assert EXTEND(arrays, NO_TURN, 0, 0, 4, 0) == [NO_ROOM if room < 3 else 2]
    arrays["cursor"][TURNS_END] = 0
    assert ADD_MATCH(arrays, NO_TURN, 0, 4, 0) == [NO_ROOM]


@pytest.mark.parametrize("seed", range(20))
def test_matches_are_given_the_latest_first(seed: int) -> None:
    draw = np.random.default_rng(seed)
    arrays, start, origin = arrays_of(300), 12, 10
    arrays["out_path_from"][:3] = 0, 2, 5
    latest, paths = NO_TURN, []
    for _ in range(draw.integers(0, 6)):
        path = random_path(draw, int(draw.integers(1, 30)))
        arrays["path"][start - origin : start - origin + len(path)] = path
        (latest,) = ADD_MATCH(arrays, latest, start, start + len(path), origin)
        paths.insert(0, path.tolist())
    rows = sum(len(path) for path in paths)
    assert COUNT(arrays, latest) == [len(paths), rows]
    assert GIVE(arrays, latest, start, 2) == [2 + len(paths), 5 + rows]
    new = slice(2, 2 + len(paths))
    assert arrays["out_kind"][new].tolist() == [MATCHED] * len(paths)
    assert arrays["out_start"][new].tolist() == [start] * len(paths)
    assert arrays["out_length"][new].tolist() == [len(path) for path in paths]
    ends = arrays["out_path_from"]
    assert [arrays["out_path"][ends[out] : ends[out + 1]].tolist() for out in range(2, 2 + len(paths))] == paths


@pytest.mark.parametrize("seed", range(20))
def test_turns_of_paths_that_are_gone_are_forgotten(seed: int) -> None:
    """Paths and lists of matches that are kept are the same afterwards; nothing else is left."""
    draw = np.random.default_rng(seed)
    end = int(draw.integers(0, 60))
    turns = np.full((end + 5, 3), 77, np.int64)
    for at in range(end):
        is_match = at > 0 and draw.random() < 0.3
        turns[at] = -9 if is_match else 4, draw.integers(at) if is_match else 6, draw.integers(-1, at)
    roots = draw.integers(-1, end, draw.integers(0, 5)) if end else np.array([-1])

    def tree(turns: np.ndarray, at: int) -> list:
        """A turn, with all that it refers to."""
        if at < 0:
            return []
        taken_by, until, before = turns[at].tolist()
        return [taken_by, tree(turns, until) if taken_by < 0 else until, tree(turns, before)]

    def reached(at: int) -> set[int]:
        if at < 0:
            return set()
        taken_by, until, before = turns[at].tolist()
        return {at} | reached(before) | (reached(until) if taken_by < 0 else set())

    places = roots.copy()
    kept, count = keep_turns(turns.copy(), end, places)
    assert count == len(set().union(*(reached(root) for root in roots)))
    assert kept.shape == (2 * count + 64, 3)
    assert not kept[count:].any()
    assert [tree(kept, at) for at in places] == [tree(turns, at) for at in roots]
    result, after = run_all_ways(
        keeping_program(), [turns[:end].reshape(-1).copy(), np.full(end, -1, np.int64), roots.astype(np.int64)]
    )
    assert result == count
    assert after[0][: 3 * count].tolist() == kept[:count].reshape(-1).tolist()
