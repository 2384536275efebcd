"""Tests of pairs before they are built: comparisons of columns of the two matches, and numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from episode.matchers.columns import one_chunk, take_array
from episode.matchers.correlation.matches import SideMatches
from episode.plan.correlation.pairs import PairTest, Value
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX

FAILS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "<": np.greater_equal,
    "<=": np.greater,
    ">": np.less_equal,
    ">=": np.less,
    "=": np.not_equal,
}
"""For each sign, what holds of two numbers where it does not."""


class RecencyTests:
    """All of them at work."""

    def __init__(self, tests: tuple[PairTest, ...]) -> None:
        self.tests = tests

    def passing(
        self, live: SideMatches, archive: SideMatches, of_live: np.ndarray, of_archive: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Select those of the pairs (of_live[i], of_archive[i]) that may be in the result."""
        for test in self.tests:
            values = []
            failed = np.zeros(len(of_live), np.bool_)
            for one in (test.left, test.right):
                value, null = _values(one, live, archive, of_live, of_archive)
                values.append(value)
                if null is not None:
                    failed |= null
            wrong = FAILS[test.sign](*values)
            if test.sign == "=":  # NaN is equal to itself for Spark
                wrong &= ~(_is_nan(values[0]) & _is_nan(values[1]))
            passed = np.flatnonzero(~(failed | wrong))
            if len(passed) < len(of_live):
                of_live, of_archive = of_live[passed], of_archive[passed]
        return of_live, of_archive


def _values(
    value: Value, live: SideMatches, archive: SideMatches, of_live: np.ndarray, of_archive: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Values of pairs, and a mask of the nulls, if there are any."""
    if not isinstance(value, str):
        return np.full(len(of_live), value), None
    if value.startswith(LIVE_PREFIX):
        array = take_array(one_chunk(live.table.column(value.removeprefix(LIVE_PREFIX))), of_live)
    else:
        array = take_array(one_chunk(archive.table.column(value.removeprefix(ARCHIVE_PREFIX))), of_archive)
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return array.fill_null(0).to_numpy(), null


def _is_nan(values: np.ndarray) -> np.ndarray:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)
