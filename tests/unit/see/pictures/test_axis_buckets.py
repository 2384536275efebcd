"""As many points as a screen shows, and none that matters is lost."""

from __future__ import annotations

import numpy as np
import pytest

from episode.see.pictures.axis import lanes_of, line_rows, thin_rows


@pytest.mark.parametrize("seed", range(20))
def test_every_column_keeps_its_extremes_and_its_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, buckets = int(rng.integers(1, 3_000)), int(rng.integers(1, 60))
    x = np.sort(rng.integers(0, 500, count)).astype(np.float64)
    y = rng.integers(0, 50, count).astype(np.float64)
    y[rng.random(count) < 0.1] = np.nan
    view = tuple(np.sort(rng.choice(501, 2, replace=False)).astype(float))
    kept = line_rows(x, y, view, buckets)
    inside = np.flatnonzero((x >= view[0]) & (x <= view[1]) & ~np.isnan(y))
    assert len(kept) <= max(4 * buckets + 8, 0) or set(inside) <= set(kept)
    assert np.all(np.diff(x[kept]) >= 0)
    column = np.clip((x - view[0]) / (view[1] - view[0]) * buckets, 0, buckets - 1).astype(np.int64)
    for one in np.unique(column[inside]):
        own = inside[column[inside] == one]
        there = np.intersect1d(own, kept)
        assert y[there].min() == y[own].min()
        assert y[there].max() == y[own].max()
        assert x[there].min() == x[own].min()
        assert x[there].max() == x[own].max()


def test_rows_against_time_are_turned_round() -> None:
    x, y = np.array([3.0, 2.0, np.nan, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])
    assert line_rows(x, y, (0, 5), 10).tolist() == [3, 1, 0]


def test_the_line_goes_on_to_the_edges_of_the_view() -> None:
    x = np.arange(10.0)
    assert line_rows(x, x, (3.5, 5.5), 100).tolist() == [3, 4, 5, 6]


def test_of_many_events_the_first_of_each_group_in_each_column() -> None:
    x = np.arange(1_000.0)
    group = np.arange(1_000) % 3
    assert len(thin_rows(x, group, (0, 1_000), 10, 2_000)) == 1_000
    kept = thin_rows(x, group, (0, 1_000), 10, 100)
    assert len(kept) == 30
    assert set(group[kept]) == {0, 1, 2}
    assert kept[:3].tolist() == [0, 1, 2]


def test_brackets_share_a_lane_where_they_do_not_meet() -> None:
    first, last = np.array([0.0, 1.0, 5.0, 6.0]), np.array([4.0, 8.0, 5.5, 7.0])
    assert lanes_of(first, last, 0.1).tolist() == [0, 1, 0, 0]
