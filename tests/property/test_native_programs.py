"""Random programs: compiled, compiled with checks and interpreted, with equal results and equal arrays."""

from __future__ import annotations

import os

import numpy as np
import pytest

from episode.native import cache
from episode.native.running import CheckFailed, Compiled
from tests.property.native_programs import draw_program
from tests.support.interpreter import Interpreted
from tests.unit.native.runs import bits

PROGRAMS = int(os.environ.get("EPISODE_NATIVE_PROGRAMS", "100"))
"""How many are tried; `make fuzz-native` tries 100,000."""
FIRST = int(os.environ.get("EPISODE_NATIVE_FIRST", "0"))
"""The seed of the first one."""
GROUPS = 20


@pytest.fixture(autouse=True)
def nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.SETTING, "")


def outcome(way, arrays, scalars):
    """What a run gives: result and arrays, or that a check failed."""
    own = [array.copy() for array in arrays]
    try:
        return way(own, *scalars), [bits(array).tolist() for array in own]
    except CheckFailed:
        return "a check failed"


@pytest.mark.parametrize("group", range(GROUPS))
def test_programs(group: int) -> None:
    for seed in range(FIRST + group, FIRST + PROGRAMS, GROUPS):
        program, arrays, scalars = draw_program(seed)
        expected = outcome(Interpreted(program), arrays, scalars)
        assert outcome(Compiled(program, checked=True), arrays, scalars) == expected, f"seed {seed}, checked"
        if expected != "a check failed":
            assert outcome(Compiled(program, checked=False, thorough=True), arrays, scalars) == expected, f"seed {seed}"


def test_programs_are_of_all_kinds() -> None:
    """The draws are worth something: most programs run to the end, some fail a check, all operations occur."""
    ends, ops = [], set()
    for seed in range(150):
        program, arrays, scalars = draw_program(seed)
        ends.append(outcome(Interpreted(program), arrays, scalars))
        ops |= {value.op for function in program.functions for block in function.blocks for value in block.body}
    failed = ends.count("a check failed")
    assert 5 <= failed <= 75
    assert {"add", "div", "rem", "shl", "shr", "load", "store", "read", "write", "select", "cast", "call"} <= ops
    assert {"lt", "eq", "and", "xor", "not", "neg", "add_overflows", "mul_overflows"} <= ops
    assert np.mean([len(str(one)) for one in ends]) > 50
