"""Orders of two values, and the comparisons that accept them."""

from __future__ import annotations

import pytest

from episode.matchers.codes import orders_of, swap_sides


@pytest.mark.parametrize("order", [-1, 0, 1])
def test_comparisons_accept_orders_and_can_be_turned(order: int) -> None:
    compare = (order == 0, order != 0, order < 0, order <= 0, order > 0, order >= 0)
    for comparison, holds in enumerate(compare):
        assert orders_of(comparison) >> (order + 1) & 1 == holds
        assert orders_of(swap_sides(comparison)) >> (1 - order) & 1 == holds
