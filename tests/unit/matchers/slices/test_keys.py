"""Which keys are cut into slices, and where."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from episode.matchers.slices.keys import LEAST_OVERLAPS, LEAST_SAMPLED, Room, Sketch, choose, largest_slice
from episode.matchers.slices.slicing import Overlap
from episode.matchers.times import NEVER

NOTHING = Overlap()
LARGE = 2**40


def sketch(keys: np.ndarray, times: np.ndarray, weight: float = 100.0) -> Sketch:
    return Sketch(keys.astype(np.uint64), times, np.full(len(keys), weight), pa.table({"k": keys}), "seen")


def one_key(rows: int = 10_000) -> Sketch:
    return sketch(np.zeros(rows, np.int64), np.arange(rows))


def parts(cuts: tuple[int, ...], times: np.ndarray) -> np.ndarray:
    """How many of the rows are in each slice."""
    return np.bincount(np.searchsorted(cuts, times, side="right"), minlength=len(cuts) + 1)


def test_one_key_is_cut_into_two_slices_for_each_task() -> None:
    found = choose(one_key(), NOTHING, Room(4, LARGE))
    (key,) = found.keys
    assert key.slices == 8
    assert key.share == 1
    assert parts(key.cuts, np.arange(10_000)).max() <= 1_251


def test_cuts_are_quantiles_of_an_uneven_spread() -> None:
    times = np.sort((np.random.default_rng(1).pareto(2, 20_000) * 1_000).astype(np.int64))
    (key,) = choose(sketch(np.zeros(20_000, np.int64), times), NOTHING, Room(4, LARGE)).keys
    sizes = parts(key.cuts, times)
    assert len(sizes) == 8
    assert sizes.max() < 1.1 * 20_000 / 8


def test_even_keys_are_left_alone() -> None:
    found = choose(sketch(np.arange(10_000) % 100, np.arange(10_000)), NOTHING, Room(8, LARGE))
    assert found.keys == ()
    assert "no key is large" in found.reason
    assert "0.01" in found.reason


def test_the_large_key_of_many_is_cut_so_that_every_task_has_its_part() -> None:
    keys = np.where(np.arange(10_000) % 2 == 0, 7, np.arange(10_000) % 1_000)
    (key,) = choose(sketch(keys, np.arange(10_000)), NOTHING, Room(8, LARGE)).keys
    assert key.name == "k = 7"
    assert abs(key.share - 0.5) < 0.01
    assert key.slices == 8


def test_several_large_keys_by_hash() -> None:
    keys = np.array([9, 4, 9, 4, 9, 4, 9, 2] * 1_000)
    found = choose(sketch(keys, np.arange(8_000)), NOTHING, Room(4, LARGE)).keys
    assert [key.hash for key in found] == [4, 9]
    assert sum(key.slices for key in found) % 4 == 0


def test_slices_are_long_beside_their_overlap() -> None:
    for overlap in (Overlap(after_time=100), Overlap(before_time=100)):
        (key,) = choose(one_key(), overlap, Room(4, LARGE)).keys
        apart = LEAST_OVERLAPS * 100
        assert all(after - before >= apart for before, after in pairwise((0, *key.cuts, 9_999)))
        assert 5 < key.slices <= 8


def test_a_window_that_is_too_long() -> None:
    found = choose(one_key(), Overlap(after_time=2_000), Room(4, LARGE))
    assert found.keys == ()
    assert "too close together" in found.reason


def test_overlaps_that_count_rows() -> None:
    few = choose(one_key(1_000), Overlap(after_rows=1_000), Room(4, LARGE)).keys
    assert [key.slices for key in few] == [8]
    assert choose(one_key(1_000), Overlap(after_rows=10_000), Room(4, LARGE)).keys == ()


def test_small_slices_are_not_made() -> None:
    (key,) = choose(one_key(), NOTHING, Room(4, 3 * 4 * 2**20)).keys
    assert key.slices == 3


def test_slices_fit_the_memory_of_a_task() -> None:
    """Twice over, since a sample may be wrong, and overlaps come on top."""
    for budget, slices in ((LARGE, 8), (LARGE // 4, 8), (LARGE // 8, 16), (LARGE // 128, 256)):
        (key,) = choose(one_key(), NOTHING, Room(4, LARGE, budget=budget)).keys
        assert key.slices == slices
    (key,) = choose(one_key(), NOTHING, Room(4, 3 * 4 * 2**20, budget=2**20)).keys
    assert key.slices == 24, "also where slices are small"
    (key,) = choose(one_key(), Overlap(after_time=100), Room(4, LARGE, budget=LARGE // 128)).keys
    assert key.slices <= 10_000 / (LEAST_OVERLAPS * 100), "but not smaller than overlaps allow"


def test_the_rows_of_the_largest_slice() -> None:
    seen = sketch(np.array([9, 4, 9, 4, 9, 4, 9, 2] * 1_000), np.arange(8_000))
    found = choose(seen, NOTHING, Room(4, LARGE)).keys
    sizes = [parts(key.cuts, seen.times[seen.hashes == np.uint64(key.hash)]).max() * 100 for key in found]
    assert largest_slice(seen, found) == max(sizes)
    assert largest_slice(seen, ()) == 0


def test_few_sampled_rows_say_too_little() -> None:
    found = choose(one_key(LEAST_SAMPLED - 1), NOTHING, Room(4, LARGE))
    assert found.keys == ()
    assert "too few" in found.reason


def test_a_number_is_taken_at_its_word() -> None:
    (key,) = choose(one_key(20), Overlap(after_time=2), Room(4, 100, wanted=5)).keys
    assert key.slices == 5
    (key,) = choose(one_key(20), Overlap(after_time=8), Room(4, 100, wanted=5)).keys
    assert key.slices == 3, "cuts are as far apart as the overlap"


def test_equal_times_are_not_cut() -> None:
    found = choose(sketch(np.zeros(1_000, np.int64), np.zeros(1_000, np.int64)), NOTHING, Room(4, LARGE))
    assert found.keys == ()


def test_rows_without_a_time_do_not_move_the_cuts() -> None:
    times = np.where(np.arange(10_000) % 2 == 0, np.arange(10_000), NEVER)
    (key,) = choose(sketch(np.zeros(10_000, np.int64), times), NOTHING, Room(4, LARGE)).keys
    assert abs(key.cuts[3] - 5_000) < 100


def test_nothing_was_seen() -> None:
    nothing = sketch(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert choose(nothing, NOTHING, Room(4, LARGE)).reason == "no rows were seen"


def test_long_keys_are_shortened() -> None:
    seen = one_key(1_000)
    named = Sketch(seen.hashes, seen.times, seen.weights, pa.table({"name": ["x" * 100] * 1_000}), "")
    (key,) = choose(named, NOTHING, Room(4, LARGE)).keys
    assert len(key.name) < 50
    assert key.name.endswith("…")
