"""Programs that can be called: compiled, or compiled with checks.

A program is compiled quickly at first. It is compiled again, with care, as soon as it has read so much that this pays;
code that is on the disk in this form is used from the beginning. EPISODE_THOROUGH=1 compiles everything with care.

EPISODE_CHECKED=1 compiles every program with checks: an emitter that reads outside an array is then an error, and not
a crash. Tests interpret programs as well, step by step.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from episode.native import cache
from episode.native.assembly import CHECKS, INDEX, assembly_of
from episode.native.builder import Program
from episode.native.ir import BOOL, Type

CHECKED, THOROUGH = "EPISODE_CHECKED", "EPISODE_THOROUGH"
THOROUGH_FROM = 1 << 19
"""Elements read (of the longest array, call after call) from which on code is compiled with care: that takes the time
in which quick code reads about so many."""
MOST_KEPT = 256
"""Programs that stay loaded in a process after their last use."""
MOST_SHAPES = 2048
"""Shapes whose code is found without building it again."""

_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_ERROR_WORDS = 4


Scalar = Any
"""bool, int or float, by the type of the value."""


class CheckFailed(Exception):
    """A program did what it must not do. Emitters are wrong then, not queries."""


class NativeProgram:
    """A program that is called with arrays: in the order of their declaration, or by name."""

    def __init__(self, program: Program) -> None:
        self.source = program
        self.arrays = [(one.name, one.type.dtype, one.writable) for one in program.entry.arrays]
        self.scalars = [one.type for one in program.entry.scalars]

    def __call__(self, arrays: Sequence[np.ndarray], *scalars: Scalar) -> int:
        raise NotImplementedError  # compiled programs have their own, and those that tests interpret

    def run(self, arrays: Mapping[str, np.ndarray], *scalars: Scalar) -> int:
        """Call the program with those of the arrays that it takes."""
        return self([arrays[name] for name, _, _ in self.arrays], *scalars)

    def words(self, arrays: Sequence[np.ndarray], scalars: Sequence[Scalar]) -> list[int]:
        """The words that the entry is called with; arrays that are not as declared are an error."""
        if len(arrays) != len(self.arrays) or len(scalars) != len(self.scalars):
            raise TypeError(f"{len(self.arrays)} arrays and {len(self.scalars)} scalars are needed.")
        words: list[int] = []
        for array, (name, dtype, writable) in zip(arrays, self.arrays):
            flags = array.flags
            if array.dtype != dtype or array.ndim != 1 or not flags.c_contiguous or (writable and not flags.writeable):
                found = f"{array.dtype} ({array.ndim} dimensions)"
                raise TypeError(f"{name} must be a contiguous array of {dtype}, not {found}.")
            words += (array.__array_interface__["data"][0], len(array))
        return words + [_word(value, type_) for value, type_ in zip(scalars, self.scalars)]


class Compiled(NativeProgram):
    """A program in memory. Calling it releases Python's lock."""

    def __init__(self, program: Program, checked: bool, thorough: bool = False, kept: bool = True) -> None:
        """kept: is the code on the disk used and kept there?"""
        super().__init__(program)
        self.checked, self._kept, self._text = checked, kept, assembly_of(program, checked)
        self._read = 0
        known = not (checked or thorough) and cache.find_code(self._text, _identity(True)) is not None
        self._load(thorough or known)

    def _load(self, thorough: bool) -> None:
        from episode.native import llvm

        llvm.identity()  # loads LLVM's description of the processor, once
        begin = time.thread_time()
        compile_ = llvm.compile_thoroughly if thorough else llvm.compile_quickly
        code = cache.object_code(self._text, _identity(thorough), compile_) if self._kept else compile_(self._text)
        address, self._kept_by = llvm.load_object(code)
        self._call = _PROTOTYPE(address)
        self.size, self.thorough = len(code), thorough
        self.milliseconds = 1e3 * (time.thread_time() - begin)

    def __call__(self, arrays: Sequence[np.ndarray], *scalars: Scalar) -> int:
        if _recorders:
            _recorders[-1].append(self)
        given = self.words(arrays, scalars)
        words = struct.pack(f"{len(given)}Q", *given)
        if not self.checked:
            if not self.thorough:
                self._count(arrays)
            return self._call(words, None)
        error = np.zeros(_ERROR_WORDS, np.int64)
        result = self._call(words, error.ctypes.data)
        if error[0]:
            raise CheckFailed(self._failure(*error.tolist()))
        return result

    def _count(self, arrays: Sequence[np.ndarray]) -> None:
        read = (len(array) for array, (_, _, writable) in zip(arrays, self.arrays) if not writable)
        self._read += max(read, default=0)
        if self._read >= THOROUGH_FROM:
            with _lock:
                if not self.thorough:
                    self._load(thorough=True)

    def _failure(self, check: int, function: int, place: int, culprit: int) -> str:
        its = self.source.functions[function]
        where = f"{CHECKS[check]} check in {its.name}"
        if check == INDEX:
            return f"{where}: {its.arrays[place].name}[{culprit}]"
        return f"{where}, instruction {place}"


_recorders: list[list[Compiled]] = []


@contextmanager
def record_calls() -> Iterator[list[Compiled]]:
    """The programs that are called inside, in order."""
    _recorders.append([])
    try:
        yield _recorders[-1]
    finally:
        _recorders.pop()


_loaded: OrderedDict[str, Compiled] = OrderedDict()
_lock = Lock()


def compile_program(program: Program) -> Compiled:
    """A program as machine code; one that was compiled before is found again by its text."""
    checked = _is_set(CHECKED)
    text = assembly_of(program, checked)
    with _lock:
        found = _loaded.get(text)
        if found is None:
            found = _loaded[text] = Compiled(program, checked, _is_set(THOROUGH) and not checked)
        _loaded.move_to_end(text)
        while len(_loaded) > MOST_KEPT:
            _loaded.popitem(last=False)
    return found


def _is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def _identity(thorough: bool) -> str:
    from episode.native import llvm

    return f"{llvm.identity()} {'thorough' if thorough else 'quick'}"


@lru_cache(maxsize=MOST_SHAPES)
def compiled_for(build: Callable[..., Program], *shape: Hashable) -> Compiled:
    """The program that `build` makes for a shape (what is compiled in), as machine code; built once for each shape."""
    return compile_program(build(*shape))


@lru_cache(maxsize=MOST_SHAPES)
def compiled_with(build: Callable[..., tuple[Program, Any]], *shape: Hashable) -> tuple[Compiled, Any]:
    """The same if `build` makes a program and what belongs to it, such as the constants that it reads."""
    program, rest = build(*shape)
    return compile_program(program), rest


def _word(value: Any, type_: Type) -> int:
    if type_.is_float:
        return struct.unpack("<Q", struct.pack("<d" if type_.bits == 64 else "<f4x", value))[0]
    if type_ is BOOL:
        return int(bool(value))
    least, most = type_.bounds
    if not least <= value <= most:
        raise TypeError(f"{value} is not a value of type {type_}.")
    return int(value) & (2**64 - 1)
