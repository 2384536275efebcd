"""Which kernels a piece of work calls, and with which types: found by running it without the compiler.

While calls are recorded, a kernel that is not loaded yet runs as the Python function it is written as. That takes
milliseconds over a few rows, where compiling takes seconds; and afterwards it is known what is to be compiled, before
the first of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher, OmittedArg

_ON_A_NEW_TYPE = "_compile_for_args"
"""What numba asks a kernel for when it is called with types that it is not loaded for: something to call."""


@dataclass(frozen=True)
class Call:
    """A kernel, and the numba types of its arguments in a call from Python."""

    kernel: Any
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        function = self.kernel.py_func
        return f"{function.__module__}.{function.__qualname__}"


@contextmanager
def recorded_calls() -> Iterator[list[Call]]:
    """The calls of kernels that the body makes, each once, in the order in which they are made. Kernels that kernels
    call are not among them: they are compiled with their callers."""
    calls: dict[Call, None] = {}
    found: list[Call] = []
    inside = [False]

    def function_of(kernel: Any, *arguments: Any) -> Callable[..., Any]:
        if not inside[0]:
            types_of = (_type_of(kernel, argument) for argument in arguments)
            calls[Call(kernel, tuple(types_of))] = None
        return _interpreted(kernel, inside)

    setattr(Dispatcher, _ON_A_NEW_TYPE, function_of)  # hides what it inherits
    try:
        yield found
    finally:
        delattr(Dispatcher, _ON_A_NEW_TYPE)
        found += calls


def _type_of(kernel: Any, argument: Any) -> Any:
    return types.Omitted(argument.value) if isinstance(argument, OmittedArg) else kernel.typeof_pyval(argument)


def _interpreted(kernel: Any, inside: list[bool]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        values = [one.value if isinstance(one, OmittedArg) else one for one in arguments]
        if inside[0]:
            return kernel.py_func(*values)
        inside[0] = True
        try:
            return as_returned(kernel.py_func(*values))
        except (ArithmeticError, TypeError, ValueError):
            # A few kernels count on the compiler's wider integers. It takes them now, and they are loaded from then on.
            return kernel.compile(tuple(_type_of(kernel, argument) for argument in arguments))(*values)
        finally:
            inside[0] = False

    return call


def as_returned(result: Any) -> Any:
    """A result as a compiled kernel gives it: numbers are Python's, so that the next kernel gets the same types."""
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        parts = [as_returned(part) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return result
