"""What computing confidence costs: the kernel of imprecise time with a clock around the functions that compute it.

The kernel is built once more from its own code, with these two functions replaced by ones that read the processor's
counter before and after. So the share is measured where it arises, and nothing of it is in the kernel that users run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np
from episode.kernels.events import imprecise as kernel
from llvmlite import ir
from numba import njit, types
from numba.core.typing import signature
from numba.extending import intrinsic

COMPUTING = ("_windowed", "_place")
"""The functions of the kernel that compute confidence."""
INTERRUPTED = 1 << 19
"""A call takes some hundred cycles: one of so many has waited for the core, and is not counted."""
WORD = ir.IntType(64)


@intrinsic
def cycles(context):  # type: ignore[no-untyped-def]
    """The processor's counter."""

    def generate(context, builder, of, arguments):  # type: ignore[no-untyped-def]
        read = builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(WORD, ()))
        return builder.call(read, ())

    return signature(types.int64), generate


@intrinsic
def add_at(context, address, value):  # type: ignore[no-untyped-def]
    """Adds to the int64 at an address."""

    def generate(context, builder, of, arguments):  # type: ignore[no-untyped-def]
        place = builder.inttoptr(arguments[0], WORD.as_pointer())
        builder.store(builder.add(builder.load(place), arguments[1]), place)
        return context.get_dummy_value()

    return signature(types.void, types.int64, types.int64), generate


@njit
def now():  # type: ignore[no-untyped-def]
    return cycles()


@dataclass
class ConfidenceClock:
    """cycles_in int64[1]: inside COMPUTING. Built once, as the kernel is compiled for it."""

    cycles_in: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    per_second: float = field(default_factory=lambda: _cycles_per_second())
    _kernel: Any = None

    @property
    def seconds(self) -> float:
        """What computing confidence took since `reset`."""
        return int(self.cycles_in[0]) / self.per_second

    def reset(self) -> None:
        self.cycles_in[0] = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The kernel runs with the clock in it."""
        plain = kernel.matches
        if self._kernel is None:
            self._kernel = self._built()
        kernel.matches = self._kernel
        try:
            yield
        finally:
            kernel.matches = plain

    def _built(self) -> Any:
        names = dict(vars(kernel))
        for name in COMPUTING:
            names[name] = _timed(names[name], self.cycles_in.ctypes.data)
        return njit(nogil=True)(FunctionType(kernel.matches.py_func.__code__, names))


def _timed(function: Any, address: int) -> Any:
    @njit(nogil=True)
    def run(*arguments):  # type: ignore[no-untyped-def]
        begin = cycles()
        found = function(*arguments)
        taken = cycles() - begin
        if taken < INTERRUPTED:
            add_at(address, taken)
        return found

    return run


def _cycles_per_second() -> float:
    now()
    begin, first = time.perf_counter(), now()
    time.sleep(0.2)
    return float((now() - first) / (time.perf_counter() - begin))
