"""What a matcher may take: rows held for open matches, steps of one search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STEP_BUDGET = 10_000_000
"""Steps of matching from one start row or event, unless Options(step_budget=…) says otherwise."""


@dataclass(frozen=True)
class StateLimit:
    """How many rows a key may hold. Beyond: an error, or its open match is given up and its rows are forgotten."""

    rows: int
    give_up: bool

    def keys_beyond(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keys that hold too many of the rows with these keys, and how many each of them holds."""
        keys, counts = np.unique(key, return_counts=True)
        over = counts > self.rows
        return keys[over], counts[over]
