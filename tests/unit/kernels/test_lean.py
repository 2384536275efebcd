"""Lean kernels give what others give, take indices as unsigned, and allocate nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numba import config, njit
from numba.core.errors import NumbaError

from episode.kernels.lean import NoNegativeIndices, lean

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="there is no compiler")


def _shifted(values, table, rows, by):
    total = 0
    for i in range(len(rows)):
        values[rows[i]] += table[rows[i] + by, 1]
        total += values[rows[i]]
    return total


def _arguments():
    return np.arange(5), np.arange(12).reshape(6, 2), np.array([4, 0, 2], np.int32), np.int64(1)


def test_a_lean_kernel_does_what_its_function_does() -> None:
    plain, compiled = _arguments(), _arguments()
    assert lean(_shifted)(*compiled) == _shifted(*plain)
    assert np.array_equal(compiled[0], plain[0])


def test_indices_are_not_asked_for_their_sign() -> None:
    """What counts from the end adds the length of the array where the index is negative."""

    def at(values, i):
        return values[i]

    usual, unsigned = njit(at), njit(pipeline_class=NoNegativeIndices)(at)
    assert usual(np.arange(3), 1) == unsigned(np.arange(3), 1) == 1
    signs = [next(iter(kernel.inspect_llvm().values())).count("icmp slt i64") for kernel in (usual, unsigned)]
    assert signs[1] < signs[0]


def test_constant_indices_count_from_the_end() -> None:
    assert njit(pipeline_class=NoNegativeIndices)(lambda values: values[-1])(np.arange(3)) == 2


def test_a_lean_kernel_allocates_nothing() -> None:
    with pytest.raises(NumbaError, match="NRT required"):
        lean(lambda n: np.zeros(n).sum())(3)
