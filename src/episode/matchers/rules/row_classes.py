"""Rows of classes: ascending row numbers, put together with the bits that say of which classes each row is.

Shapes: rows int64[n], ascending; bits uint64[n], of the same rows; bounds int64[partitions + 1].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from episode.native.builder import Program
from episode.native.running import compiled_for
from episode.native.types import I64, U64

_PLACES = 6
"""Bits of the number of a class."""


def join_classes(found: Mapping[int, np.ndarray], others: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """The rows of several classes, by the numbers of these, and the bits of each row. others: the bits of a row of no
    class."""
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.uint64)
    if len(found) == 1:
        ((at, own),) = found.items()
        return own, np.full(len(own), others | np.uint64(1 << at))
    every = np.concatenate([own << _PLACES | at for at, own in found.items()])
    every.sort(kind="stable")  # which merges what is ascending
    rows = every >> _PLACES
    bits = np.uint64(1) << (every & (1 << _PLACES) - 1).view(np.uint64)
    bits |= others
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    if len(firsts) == len(rows):
        return rows, bits
    return rows[firsts], np.bitwise_or.reduceat(bits, firsts)


def with_next(
    rows: np.ndarray, bits: np.ndarray, bounds: np.ndarray, others: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    """Some rows and the row after each, in its partition. others: the bits of a row of no class."""
    out, out_bits = np.empty(2 * len(rows), np.int64), np.empty(2 * len(rows), np.uint64)
    n = compiled_for(next_program)([rows, bits, bounds, out, out_bits], int(others))
    return out[:n].copy(), out_bits[:n].copy()


def next_program() -> Program:
    program = Program("with_next")
    f = program.function("run")
    rows, bits, bounds = f.array("rows", I64), f.array("bits", U64), f.array("bounds", I64)
    out, out_bits = f.array("out", I64, writable=True), f.array("out_bits", U64, writable=True)
    others = f.scalar("others", U64)
    n, partition = f.variable("n", 0), f.variable("partition", 0)
    with f.loop(0, rows.length) as at:
        row = rows[at]
        after = row + 1
        out[n] = row
        out_bits[n] = bits[at]
        n.set(n + 1)
        with f.during(lambda: bounds[partition + 1] <= row):
            partition.set(partition + 1)
        is_last = at.equals(rows.length - 1)
        following = rows[f.select(is_last, at, at + 1)]
        with f.when((after < bounds[partition + 1]) & following.differs(after)):
            out[n] = after
            out_bits[n] = others
            n.set(n + 1)
    f.give(n)
    return program
