"""Aggregates of users for the kernels of numba, which call functions by address (`kernels.user_aggregates`).

In place of an operation code, an aggregate of a user has the address of a table: the addresses of its step and its
finish. Both work on three words of memory: the numbers `whole`, `real` and `more` of a state. This module is not needed
once no kernel folds values.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from episode.matchers.aggregate_code import FIELDS, State
from episode.matchers.user_aggregates import WORDS, TracedAggregate
from episode.native import cache as code_cache
from episode.native.assembly import ENTRY, assembly_of
from episode.native.builder import Program
from episode.native.ir import Array, Value
from episode.native.traced import REAL
from episode.native.types import F64, I64

STEP = f"""
define void @{ENTRY}(ptr %memory, i64 %count, i64 %whole, double %real) {{
  %done = call i64 @f.run(ptr %memory, i64 3, i64 %count, i64 %whole, double %real)
  ret void
}}
"""
FINISH = f"""
define void @{ENTRY}(ptr %memory) {{
  %done = call i64 @f.run(ptr %memory, i64 3)
  ret void
}}
"""


def code_of(functions: Any) -> int:
    """The address of the table of an aggregate; it is compiled once in a process."""
    return int(_table(functions)[0].ctypes.data)


@cache
def _table(functions: TracedAggregate) -> tuple[np.ndarray, Any]:
    """The addresses, and what keeps the code in memory."""
    step, kept = _load(step_program(functions), STEP)
    finish, also_kept = _load(finish_program(functions), FINISH)
    return np.array([step, finish], np.int64), (kept, also_kept)


def _load(program: Program, entry: str) -> tuple[int, Any]:
    from episode.native import llvm

    text = assembly_of(program).replace(f"@{ENTRY}(", "@unused(") + entry
    return llvm.load_object(code_cache.object_code(text, llvm.identity(), llvm.compile_assembly))


def step_program(functions: TracedAggregate) -> Program:
    program = Program("step")
    f = program.function("run")
    words = f.array("words", I64, writable=True)
    count, whole, real = f.scalar("count"), f.scalar("whole"), f.scalar("real", F64)
    value = real if functions.takes == REAL else whole
    for at, word in enumerate(functions.step(f, _state(functions, count, words), value)):
        if word is not None:
            words[at] = word.bits_as(I64)
    f.give(0)
    return program


def finish_program(functions: TracedAggregate) -> Program:
    """The result in the word `whole` or `real`, and in the last word whether it is null."""
    program = Program("finish")
    f = program.function("run")
    words = f.array("words", I64, writable=True)
    value, null = functions.finish(f, _state(functions, f.value(1), words))
    words[int(value.type is F64)] = value.bits_as(I64)
    words[2] = f.value(0) if null is None else null.to(I64)
    f.give(0)
    return program


def _state(functions: TracedAggregate, count: Value, words: Array) -> State:
    held = {word: words[at].bits_as(FIELDS[word]) for at, word in enumerate(WORDS) if word in functions.words}
    return State(count, **held)
