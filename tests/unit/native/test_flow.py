"""Blocks, loops, calls, checks: compiled, checked and interpreted alike."""

from __future__ import annotations

import math

import numpy as np
import pytest

from episode.native.assembly import assembly_of
from episode.native.builder import Function, Program
from episode.native.ir import BOOL, F32, F64, I32, I64, U8, U64
from episode.native.llvm import lines_together
from episode.native.running import CheckFailed, Compiled, compiled_for
from tests.support.interpreter import Interpreted
from tests.unit.native.runs import run_all_ways


def program_of(build, **arrays) -> Program:
    program = Program("test")
    f = program.function("run")
    declared = [f.array(name, type_, writable=True) for name, type_ in arrays.items()]
    build(f, *declared)
    return program


def test_a_loop_with_a_condition() -> None:
    def build(f: Function, price, out) -> None:
        rows = f.scalar("rows")
        count = f.variable("count", 0)
        with f.loop(0, rows) as row:
            with f.when(price[row] > 10.0):
                out[count] = row
                count.set(count + 1)
        f.give(count)

    price = np.array([5.0, 11.0, np.nan, 12.0])
    result, (_, out) = run_all_ways(program_of(build, price=F64, out=I64), [price, np.zeros(4, np.int64)], 4)
    assert result == 2
    assert out.tolist() == [1, 3, 0, 0]


def test_either_and_during() -> None:
    """Steps of the Collatz sequence."""

    def build(f: Function) -> None:
        number = f.variable("number", f.scalar("start"))
        steps = f.variable("steps", 0)
        with f.during(lambda: number > 1):
            with f.either((number & 1).equals(0)) as otherwise:
                number.set(number.divide(2))
                otherwise()
                number.set(number * 3 + 1)
            steps.set(steps + 1)
        f.give(steps)

    assert run_all_ways(program_of(build), [], 27)[0] == 111


def test_leaving_a_loop() -> None:
    def build(f: Function, values) -> None:
        with f.loop(0, values.length) as row:
            with f.when(values[row].equals(f.scalar("sought"))):
                f.give(row)
        f.give(-1)

    program = program_of(build, values=I64)
    values = np.array([4, 8, 15, 16], np.int64)
    assert run_all_ways(program, [values], 15)[0] == 2
    assert run_all_ways(program, [values], 23)[0] == -1


def test_jumps_and_switch() -> None:
    """A machine of three states over letters: which state the word ends in."""

    def build(f: Function, word) -> None:
        at = f.variable("at", 0)
        states = [f.block(f"state{number}") for number in range(3)]
        done = f.block("done")
        state = f.variable("state", 0)
        f.jump(states[0])
        for number, block in enumerate(states):
            f.at(block)
            state.set(number)
            more = f.block("more")
            f.branch(at < word.length, more, done)
            f.at(more)
            letter = word[at]
            at.set(at + 1)
            f.switch(letter, {0: states[number], 1: states[(number + 1) % 3]}, states[0])
        f.at(done)
        f.give(state)

    program = program_of(build, word=I64)
    for word, end in [([], 0), ([1], 1), ([1, 0, 1], 2), ([1, 1, 1], 0), ([1, 7, 1, 1], 2)]:
        assert run_all_ways(program, [np.array(word, np.int64)])[0] == end


def test_calls_with_arrays_and_scalars_of_every_type() -> None:
    program = Program("calls")
    f = program.function("run")
    values, rows = f.array("values", F64, writable=True), f.scalar("rows")
    half, single, flag, word = (
        f.scalar("half", F64),
        f.scalar("single", F32),
        f.scalar("flag", BOOL),
        f.scalar("w", U64),
    )
    g = program.function("scaled", F64)
    its, by, at = g.array("its", F64, writable=True), g.scalar("by", F64), g.scalar("at")
    its[at] = its[at] * by
    g.give(its[at])
    total = f.variable("total", 0.0)
    with f.loop(0, rows) as row:
        total.set(total + f.call(g, [values], half, row))
    total.set(total + single.to(F64))
    with f.when(flag):
        total.set(total + (word >> 60).to(F64))
    f.give(total.to(I64))
    result, (scaled,) = run_all_ways(program, [np.array([2.0, 4.0])], 2, 0.5, 0.25, True, 2**63)
    assert scaled.tolist() == [1.0, 2.0]
    assert result == 11


def test_functions_that_call_themselves() -> None:
    program = Program("factorial")
    f = program.function("run")
    n = f.scalar("n")
    with f.when(n <= 1):
        f.give(1)
    f.give(n * f.call(f, [], n - 1))
    assert run_all_ways(program, [], 10)[0] == 3628800


# ---- what must not happen --------------------------------------------------------------------------------------


def checked_ways(program: Program):
    return [Compiled(program, checked=True), Interpreted(program)]


@pytest.mark.parametrize("index", [-1, 3, 2**40])
@pytest.mark.parametrize("stores", [False, True])
def test_indices_outside_an_array(index: int, stores: bool) -> None:
    def build(f: Function, values) -> None:
        at = f.scalar("at")
        if stores:
            values[at] = 1
        f.give(values[at])

    for way in checked_ways(program_of(build, values=I64)):
        assert way([np.arange(3)], 2) == (1 if stores else 2)
        with pytest.raises(CheckFailed, match=r"values"):
            way([np.arange(3)], index)


@pytest.mark.parametrize(
    ("build", "bad"),
    [
        (lambda f, a, b: a.divide(b), [(5, 0), (-(2**63), -1)]),
        (lambda f, a, b: a.remainder(b), [(5, 0), (-(2**63), -1)]),
        (lambda f, a, b: a << b, [(5, 64), (5, -1)]),
        (lambda f, a, b: a >> b, [(5, 64), (5, -1)]),
        (lambda f, a, b: (a.to(F64) * b.to(F64)).to(I64), [(2**62, 2), (-(2**62), 3)]),
        (lambda f, a, b: (a.to(F64) * b.to(F64)).to(I32).to(I64), [(2**30, 2)]),
        (lambda f, a, b: (a.to(F64).divide(b.to(F64))).to(U8).to(I64), [(0, 0), (1, 0), (256, 1), (-1, 1)]),
    ],
)
def test_operands_outside_the_range(build, bad) -> None:
    program = Program("test")
    f = program.function("run")
    f.give(build(f, f.scalar("a"), f.scalar("b")))
    for way in checked_ways(program):
        way([], 7, 2)
        for a, b in bad:
            with pytest.raises(CheckFailed):
                way([], a, b)


def test_a_case_that_is_missing() -> None:
    def build(f: Function) -> None:
        only = f.block("only")
        f.switch(f.scalar("on"), {1: only})
        f.at(only)
        f.give(5)

    for way in checked_ways(program_of(build)):
        assert way([], 1) == 5
        with pytest.raises(CheckFailed, match="case"):
            way([], 2)


def test_checks_inside_a_function_that_is_called() -> None:
    program = Program("outer")
    f, g = program.function("run"), program.function("inner")
    values = f.array("values", I64)
    its, at = g.array("its", I64), g.scalar("at")
    g.give(its[at])
    f.give(f.call(g, [values], f.scalar("at")) + 1)
    for way in checked_ways(program):
        assert way([np.arange(3)], 2) == 3
        with pytest.raises(CheckFailed, match=r"its.*inner|inner.*its"):
            way([np.arange(3)], 3)


def test_variables_and_values_are_set_before_use() -> None:
    def build(f: Function) -> None:
        on = f.scalar("on")
        with f.when(on > 0):
            unset = f.variable("unset", 1)
        f.give(unset)

    program = program_of(build)
    assert Interpreted(program)([], 1) == 1
    with pytest.raises(CheckFailed, match="unset"):
        Interpreted(program)([], 0)


def test_a_block_that_has_ended() -> None:
    f = Program("test").function("run")
    f.give(1)
    with pytest.raises(ValueError, match="ended"):
        f.give(2)
    with pytest.raises(ValueError, match="follow"):
        f.scalar("n") + 1


def test_arrays_that_are_not_writable() -> None:
    program = Program("test")
    f, g = program.function("run"), program.function("writes")
    values = f.array("values", I64)
    with pytest.raises(TypeError, match="writable"):
        values[0] = 1
    g.array("its", I64, writable=True)
    with pytest.raises(TypeError, match="writes"):
        f.call(g, [values])


@pytest.mark.parametrize(
    "array", [np.zeros(3, np.int32), np.zeros((3, 3), np.int64), np.zeros(6, np.int64)[::2], np.zeros(3)]
)
def test_arrays_of_another_kind_are_refused(array: np.ndarray) -> None:
    def build(f: Function, values) -> None:
        f.give(values[0])

    program = program_of(build, values=I64)
    for way in (Compiled(program, checked=False, thorough=True), Interpreted(program)):
        with pytest.raises(TypeError):
            way([array])
    read_only = np.zeros(3, np.int64)
    read_only.flags.writeable = False
    with pytest.raises(TypeError):
        Interpreted(program)([read_only])


def test_a_program_is_built_once_for_each_shape() -> None:
    built = []

    def build(step: int) -> Program:
        built.append(step)
        program = Program("steps")
        f = program.function("run")
        values = f.array("values", I64, writable=True)
        values[0] = values[0] + step
        f.give(values[0])
        return program

    values = np.zeros(1, np.int64)
    assert [compiled_for(build, step)([values]) for step in (1, 2, 1)] == [1, 3, 4]
    assert built == [1, 2]


def test_large_functions_stay_functions() -> None:
    """They are not inlined, and how long compiling takes depends on the largest of them."""

    def program(most_inlined: float) -> Program:
        made = Program("large", most_inlined)
        f = made.function("run")
        out = f.array("out", I64, writable=True)
        other = made.function("other")
        value = other.scalar("value")
        for number in range(60):
            value = value * 3 + number
        other.give(value)
        with f.loop(0, out.length) as row:
            out[row] = f.call(other, (), row)
        f.give(0)
        return made

    texts = [assembly_of(program(most)) for most in (math.inf, 40)]
    assert [text.count("noinline") for text in texts] == [0, 1]
    whole, parts = (lines_together(text) for text in texts)
    assert whole == texts[0].count("\n") > parts > 120
    one, other = (run_all_ways(program(most), [np.zeros(5, np.int64)])[1][0] for most in (math.inf, 40))
    assert one.tolist() == other.tolist()
