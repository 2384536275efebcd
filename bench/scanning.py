"""The engine with buffers that are scanned: what range searches are measured against.

Deriving, order of search, purging and all else are the engine's own compiled code; only the search of a buffer tests
every situation in it against the constraint.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from numba import njit

from episode.kernels.situations.matching import detect as searching_detect
from episode.kernels.situations.search import relation, search


@njit(nogil=True)
def _allowed(mask, starts, ends, lo, hi, z_start, z_end, out):
    """As the engine's, by testing one slot after the other."""
    count = 0
    for at in range(lo, hi):
        if mask >> relation(starts[at], ends[at], z_start, z_end) & 1:
            if count and out[count - 1, 1] == at:
                out[count - 1, 1] = at + 1
            else:
                out[count, 0], out[count, 1] = at, at + 1
                count += 1
    return count


def _with(function: Any, **replaced: Any) -> Any:
    """A compiled function anew, with other functions in it."""
    plain = function.py_func
    return njit(nogil=True)(FunctionType(plain.__code__, {**plain.__globals__, **replaced}, plain.__name__))


detect = _with(searching_detect, search=_with(search, _allowed=_allowed))
