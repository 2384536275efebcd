"""Random functions: traced and compiled, with checks and interpreted, they give what they give in plain Python."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import numpy as np
import pytest

from episode.native import cache
from episode.native.builder import Program
from episode.native.ir import BOOL, F64, I64
from episode.native.traced_code import emit_trace
from episode.native.tracing import Recording, Trace
from tests.property.traced_functions import BOOLEAN, OPERATIONS, REAL, WHOLE, Draw, Oracle, Tree, draw_value
from tests.unit.native.runs import run_all_ways

FUNCTIONS = int(os.environ.get("EPISODE_TRACED_FUNCTIONS", "60"))
"""How many are tried."""
GROUPS = 10
KINDS = (REAL, REAL, WHOLE, WHOLE)
RESULTS = (REAL, REAL, WHOLE, WHOLE, BOOLEAN)
ROWS = 60


@pytest.fixture(autouse=True)
def nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.SETTING, "")


def draw(seed: int) -> list[Tree]:
    drawn = Draw(seed, KINDS)
    return [drawn.tree(4, kind) for kind in RESULTS]


def trace_of(trees: list[Tree]) -> Trace:
    recording = Recording()
    inputs = [recording.input(kind) for kind in KINDS]
    returned = recording.call(lambda *given: [tree.call(given) for tree in trees], *inputs)
    assert tuple(recording.kind_of(one) for one in returned) == RESULTS
    return recording.trace(returned, RESULTS)


def run(trace: Trace, rows: list[list[Any]]) -> list[list[Any]]:
    """The results of every row, of all ways to run the trace."""
    program = Program("traced")
    f = program.function("run")
    given = [f.array(f"given{at}", F64 if kind == REAL else I64) for at, kind in enumerate(KINDS)]
    out = [f.array(f"out{at}", F64 if kind == REAL else I64, writable=True) for at, kind in enumerate(RESULTS)]
    with f.loop(0, out[0].length) as row:
        for array, value in zip(out, emit_trace(f, trace, [one[row] for one in given]), strict=True):
            array[row] = value.to(I64) if value.type is BOOL else value
    f.give(0)
    columns = [np.array(column, one.type.dtype) for column, one in zip(zip(*rows, strict=True), given, strict=True)]
    arrays = [*columns, *(np.zeros(len(rows), one.type.dtype) for one in out)]
    _, after = run_all_ways(program, arrays)
    return [list(row) for row in zip(*(array.tolist() for array in after[len(KINDS) :]), strict=True)]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1.0, one) == math.copysign(1.0, other)
    return bool(one == other)


@pytest.mark.parametrize("group", range(GROUPS))
def test_functions(group: int) -> None:
    for seed in range(group, FUNCTIONS, GROUPS):
        trees, chance = draw(seed), random.Random(seed)
        rows = [[draw_value(kind, chance) for kind in KINDS] for _ in range(ROWS)]
        for row, found in zip(rows, run(trace_of(trees), rows), strict=True):
            for tree, value in zip(trees, found, strict=True):
                oracle = Oracle()
                expected = oracle.value(tree, row)
                assert same(value, expected), f"seed {seed}: {tree} of {row}: {value}, not {expected}"
                if oracle.like_python:
                    with np.errstate(all="ignore"):
                        plain = tree.call(row)
                    assert value == plain or (value != value and plain != plain), f"seed {seed}: {tree} of {row}"


def test_functions_are_of_all_kinds() -> None:
    """The draws are worth something: all operations occur, and half of the results are Python's own."""
    ops: set[str] = set()
    likes = []

    def visit(tree: Tree) -> None:
        ops.add(tree.op)
        for part in tree.parts:
            visit(part)

    chance = random.Random(1)
    for seed in range(100):
        for tree in draw(seed):
            visit(tree)
            oracle = Oracle()
            oracle.value(tree, [draw_value(kind, chance) for kind in KINDS])
            likes.append(oracle.like_python)
    assert ops == {*OPERATIONS, "input", "constant"}
    assert 0.3 < np.mean(likes) < 0.8
