"""Orders of two values, and the comparisons that accept them."""

from __future__ import annotations

import numpy as np
import pytest

from episode.matchers.codes import accepts, compare_floats, compare_ints, orders_of, swap_sides


@pytest.mark.parametrize(("left", "right", "order"), [(1, 2, -1), (2, 2, 0), (3, 2, 1), (-(2**63), 2**63 - 1, -1)])
def test_integers(left: int, right: int, order: int) -> None:
    assert compare_ints(np.int64(left), np.int64(right)) == order


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [(1.0, 2.0, -1), (-0.0, 0.0, 0), (np.nan, np.nan, 0), (np.nan, np.inf, 1), (np.inf, np.nan, -1)],
)
def test_doubles(left: float, right: float, order: int) -> None:
    assert compare_floats(np.float64(left), np.float64(right)) == order


@pytest.mark.parametrize("order", [-1, 0, 1])
def test_comparisons_accept_orders_and_can_be_turned(order: int) -> None:
    compare = (order == 0, order != 0, order < 0, order <= 0, order > 0, order >= 0)
    for comparison, holds in enumerate(compare):
        assert accepts(comparison, order) == holds
        assert orders_of(comparison) >> (order + 1) & 1 == holds
        assert accepts(swap_sides(comparison), -order) == holds
