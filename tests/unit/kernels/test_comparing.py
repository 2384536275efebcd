"""Orders of two values, compiled and with the compiler off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from episode.kernels.comparing import compare_floats, compare_ints


def interpreted(function: Any) -> Callable[..., int]:
    """The function as Python runs it."""
    return getattr(function, "py_func", function)


@pytest.mark.parametrize(("left", "right", "order"), [(1, 2, -1), (2, 2, 0), (3, 2, 1), (-(2**63), 2**63 - 1, -1)])
def test_integers(left: int, right: int, order: int) -> None:
    for compare in (compare_ints, interpreted(compare_ints)):
        assert compare(np.int64(left), np.int64(right)) == order


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [(1.0, 2.0, -1), (-0.0, 0.0, 0), (np.nan, np.nan, 0), (np.nan, np.inf, 1), (np.inf, np.nan, -1)],
)
def test_doubles(left: float, right: float, order: int) -> None:
    for compare in (compare_floats, interpreted(compare_floats)):
        assert compare(np.float64(left), np.float64(right)) == order
