"""Random programs of the IR that end by themselves: arrays, variables, loops, branches, switches, calls.

Indices, divisors, shifts and conversions are often guarded, and sometimes not: then the checked ways must agree on
whether a check fails.
"""

from __future__ import annotations

from random import Random

import numpy as np

from episode.native.builder import Function, Program
from episode.native.ir import (
    ARITHMETIC,
    BITWISE,
    BOOL,
    COMPARISONS,
    F32,
    F64,
    I32,
    I64,
    I128,
    OVERFLOWS,
    TRAILING_ZEROS,
    U8,
    U64,
    Array,
    Type,
    Value,
    Variable,
)

KINDS = (I64, I64, F64, F64, BOOL, BOOL, I32, U8, U64, F32, I128)
LENGTH = 8


class Draw:
    """Draws one function. budget: instructions that may still be drawn; depth: of nested loops and branches."""

    def __init__(self, rng: Random, f: Function, helpers: list[Function]) -> None:
        self.rng, self.f, self.helpers = rng, f, helpers
        self.budget = rng.randint(5, 40)
        self.variables: list[Variable] = []
        self.arrays = list(f.arrays)

    def value(self, type_: Type, depth: int = 0) -> Value:
        """An expression of a type."""
        rng = self.rng
        self.budget -= 1
        held = [one for one in (*self.variables, *self.f.scalars) if one.type is type_]
        choice = rng.random()
        if depth > 3 or choice < 0.15:
            return self.f.value(rng.choice(held)) if held and choice < 0.12 else self.constant(type_)
        if choice < 0.35 and held:
            return self.f.value(rng.choice(held))
        readable = [one for one in self.arrays if one.type is type_]
        if choice < 0.5 and readable:
            array = rng.choice(readable)
            return array[self.index(array, depth)]
        return self.operation(type_, depth)

    def constant(self, type_: Type) -> Value:
        if type_.is_float:
            return self.f.constant(self.rng.choice([0.0, -0.0, 1.5, -2.0, 1e9, float("inf"), float("nan")]), type_)
        least, most = type_.bounds
        return self.f.constant(self.rng.choice([0, 1, min(most, 3), most, least, min(most, 100)]), type_)

    def operation(self, type_: Type, depth: int) -> Value:
        rng, f = self.rng, self.f
        choice = rng.random()
        if choice < 0.15:
            return f.select(self.value(BOOL, depth + 1), self.value(type_, depth + 1), self.value(type_, depth + 1))
        if type_ is BOOL:
            if choice < 0.3:
                return ~self.value(BOOL, depth + 1)
            if choice < 0.5:
                return f.binary(rng.choice(BITWISE), self.value(BOOL, depth + 1), self.value(BOOL, depth + 1))
            of = rng.choice([one for one in KINDS if one is not BOOL])
            op = rng.choice(COMPARISONS if of.is_float else (*COMPARISONS, *OVERFLOWS))
            return f.binary(op, self.value(of, depth + 1), self.value(of, depth + 1))
        if choice < 0.3:
            return self.conversion(type_, depth)
        if choice < 0.4:
            return -self.value(type_, depth + 1)
        if choice < 0.43 and not type_.is_float:
            return f.unary(TRAILING_ZEROS, self.value(type_, depth + 1))
        if choice < 0.5 and not type_.is_float and type_ is not I128:
            width = f.constant(type_.bits - 1, type_)
            shift = self.value(type_, depth + 1)
            return f.binary(rng.choice(("shl", "shr")), self.value(type_, depth + 1), shift & width)
        op = rng.choice(ARITHMETIC if type_.is_float else (*ARITHMETIC, *BITWISE))
        left, right = self.value(type_, depth + 1), self.value(type_, depth + 1)
        if op in ("div", "rem") and not type_.is_float:
            if type_ is I128:
                return left - right
            right = right if rng.random() < 0.1 else f.select(right > 0, right, 3)
        return f.binary(op, left, right)

    def conversion(self, type_: Type, depth: int) -> Value:
        rng = self.rng
        source = rng.choice([one for one in KINDS if not (I128 in (one, type_) and (one.is_float or type_.is_float))])
        value = self.value(source, depth + 1)
        if source.is_float and not type_.is_float and rng.random() < 0.9:
            value = self.f.select((value > 0.0) & (value < 100.0), value, 7.0)
        return value.to(type_)

    def index(self, array: Array, depth: int) -> Value:
        value = self.value(I64, depth + 1)
        return value if self.rng.random() < 0.05 else value & (LENGTH - 1)

    # ---- statements ----------------------------------------------------------------------------------------

    def statements(self, depth: int) -> None:
        for _ in range(self.rng.randint(1, 4)):
            if self.budget <= 0 or self.f.has_ended:
                return
            self.statement(depth)

    def statement(self, depth: int) -> None:
        rng, f = self.rng, self.f
        choice = rng.random()
        if choice < 0.2 or not self.variables:
            if depth == 0:
                self.variables.append(f.variable(f"v{len(self.variables)}", self.value(rng.choice(KINDS))))
        elif choice < 0.4:
            variable = rng.choice(self.variables)
            variable.set(self.value(variable.type))
        elif choice < 0.6:
            array = rng.choice(self.arrays)
            array[self.index(array, 1)] = self.value(array.type, 1)
        elif depth > 2:
            return
        elif choice < 0.7:
            with f.when(self.value(BOOL)):
                self.statements(depth + 1)
                if rng.random() < 0.1 and not f.has_ended:
                    f.give(self.value(f.result, 2))
        elif choice < 0.8:
            with f.either(self.value(BOOL)) as otherwise:
                self.statements(depth + 1)
                otherwise()
                self.statements(depth + 1)
        elif choice < 0.9:
            with f.loop(0, rng.randint(0, 4)):
                self.statements(depth + 1)
        elif choice < 0.95 and self.helpers:
            self.variables_from_call()
        else:
            self.cases(depth)

    def variables_from_call(self) -> None:
        helper = self.rng.choice(self.helpers)
        arrays = [self.rng.choice([one for one in self.arrays if one.type is its.type]) for its in helper.arrays]
        if len(set(arrays)) == len(arrays):
            result = self.f.call(helper, arrays, *(self.value(its.type, 2) for its in helper.scalars))
            for variable in self.variables:
                if variable.type is result.type:
                    variable.set(result)

    def cases(self, depth: int) -> None:
        f = self.f
        blocks, after = [f.block("case") for _ in range(3)], f.block("after")
        default = after if self.rng.random() < 0.9 else None
        f.switch(self.value(I64, 2) & 3, dict(enumerate(blocks)), default)
        for block in blocks:
            f.at(block)
            self.statements(depth + 1)
            if not f.has_ended:
                f.jump(after)
        f.at(after)


def draw_program(seed: int) -> tuple[Program, list[np.ndarray], list]:
    """A program with arrays and scalars to call it with."""
    rng = Random(seed)
    program = Program("random")
    f = program.function("run")
    helper = program.function("helper", rng.choice((I64, F64, BOOL)))
    types = (I64, F64, U8, rng.choice((I32, U64, F32)))
    for one, arrays in ((f, types), (helper, types[:2])):
        for number, type_ in enumerate(arrays):
            one.array(f"a{number}", type_, writable=True)
        for number, type_ in enumerate((I64, F64, BOOL)):
            one.scalar(f"s{number}", type_)
    for one, helpers in ((helper, []), (f, [helper])):
        draw = Draw(rng, one, helpers)
        while draw.budget > 0 and not one.has_ended:
            draw.statement(0)
        if not one.has_ended:
            one.give(draw.value(one.result, 2))
    values = np.random.default_rng(seed)
    given = [_elements(values, type_) for type_ in types]
    return program, given, [int(values.integers(-5, 10)), float(values.normal(0, 10)), bool(values.integers(2))]


def _elements(rng: np.random.Generator, type_: Type) -> np.ndarray:
    if type_.is_float:
        return rng.choice([0.0, -1.0, 2.5, 1e6, np.nan, -np.inf, 3.0], LENGTH).astype(type_.dtype)
    least, most = type_.bounds
    return np.array([rng.choice([0, 1, 2, 5, min(most, 2**31 - 1), max(least, -3)]) for _ in range(LENGTH)]).astype(
        type_.dtype
    )
