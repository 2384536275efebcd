"""Names of the files of late events: one for each step of a shard, whoever else writes into the directory."""

from __future__ import annotations

from episode.spark.stream.shards import late_file


def test_a_step_that_is_run_again_has_the_same_file() -> None:
    assert late_file("q", "episode", "f", 3, 17) == late_file("q", "episode", "f", 3, 17)


def test_all_else_has_a_file_of_its_own() -> None:
    names = {
        late_file("q", "episode", "f", 3, 17),
        late_file("another checkpoint", "episode", "f", 3, 17),
        late_file("q", "episode_2", "f", 3, 17),
        late_file("q", "episode", "another pattern", 3, 17),
        late_file("q", "episode", "f", 4, 17),
        late_file("q", "episode", "f", 3, 18),
    }
    assert len(names) == 6


def test_counters_of_any_name_make_a_plain_file_name() -> None:
    assert "/" not in late_file("q", "my/counters", "f", 0, 0)
