"""What a matcher may take: rows held for open matches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class StateLimit:
    """How many rows a key may hold. Beyond: an error, or its open match is given up and its rows are forgotten."""

    rows: int
    give_up: bool

    @staticmethod
    def of(rows: int | None, give_up: bool) -> StateLimit | None:
        """The limit that options set; None: there is none."""
        return StateLimit(rows, give_up) if rows else None

    def keys_beyond(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keys that hold too many of the rows with these keys, and how many each of them holds."""
        keys, counts = np.unique(key, return_counts=True)
        over = counts > self.rows
        return keys[over], counts[over]
