"""Counts the situations of a batch, so that there is room for all of them."""

from __future__ import annotations

import numpy as np

from episode.matchers.situations.code.arrays import each_bit
from episode.native.builder import Program
from episode.native.running import compiled_for
from episode.native.types import I64, U64


def count_starts(bits: np.ndarray, from_: np.ndarray, symbols: int) -> np.ndarray:
    """How many runs of each symbol begin in a batch, at the most. bits: of the symbols, and no others."""
    counts = np.zeros(symbols, np.int64)
    compiled_for(counting_program)([bits, from_, counts])
    return counts


def counting_program() -> Program:
    program = Program("count_starts")
    f = program.function("run")
    bits, from_ = f.array("bits", U64), f.array("from_", I64)
    counts = f.array("counts", I64, writable=True)
    with f.loop(0, from_.length - 1) as group:
        before = f.variable("before", 0)
        with f.loop(from_[group], from_[group + 1]) as row:
            holds = bits[row].to(I64)
            with each_bit(f, holds & ~before) as (symbol, _):
                counts[symbol] = counts[symbol] + 1
            before.set(holds)
    f.give(0)
    return program
