"""Which kernels a kernel calls, and how much code that is: read off the functions, without compiling them."""

from __future__ import annotations

from functools import cache
from types import CodeType, ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher


@cache
def called_by(kernel: Any) -> frozenset[Any]:
    """The kernels that a kernel calls, also through others; itself not among them."""
    found: set[Any] = set()
    waiting = [kernel]
    while waiting:
        for callee in _named_in(waiting.pop().py_func):
            if callee is not kernel and callee not in found:
                found.add(callee)
                waiting.append(callee)
    return frozenset(found)


@cache
def size_of(kernel: Any) -> int:
    """About how long a kernel takes to compile: the bytes of its code, and of what it calls."""
    return sum(len(one.py_func.__code__.co_code) for one in (kernel, *called_by(kernel)))


def _named_in(function: Any) -> set[Any]:
    """Kernels that a function names: by themselves, or as those of a module."""
    names = _names(function.__code__)
    values = [function.__globals__.get(name) for name in names]
    for module in [value for value in values if isinstance(value, ModuleType)]:
        values += [vars(module).get(name) for name in names]
    return {value for value in values if isinstance(value, Dispatcher)}


def _names(code: CodeType) -> set[str]:
    nested = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*nested)
