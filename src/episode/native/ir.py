"""The IR: functions of basic blocks, whose instructions are typed values that are computed once.

A value is an instruction, a parameter or a constant. Python's operators on values add instructions at the place where
the function is being built, so that an emitter reads like the loop it emits (see `builder`). What changes is held by
variables and arrays. A value has no truth while code is being built: `f.when(value)` decides at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

import numpy as np

if TYPE_CHECKING:
    from episode.native.builder import Function


# Types of values and of the elements of arrays.


@dataclass(frozen=True)
class Type:
    """kind: "bool", "int" (signed), "uint" or "float". Comparisons, divisions and shifts follow it."""

    name: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest whole number of the type."""
        if self.is_signed:
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, (1 << self.bits) - 1

    @property
    def dtype(self) -> np.dtype:
        """NumPy's type of an array of such elements."""
        return np.dtype(f"{self.kind[0]}{self.bits // 8}")

    def __repr__(self) -> str:
        return self.name


BOOL = Type("bool", "bool", 1)
U8 = Type("u8", "uint", 8)
I32 = Type("i32", "int", 32)
U32 = Type("u32", "uint", 32)
I64 = Type("i64", "int", 64)
U64 = Type("u64", "uint", 64)
I128 = Type("i128", "int", 128)
U128 = Type("u128", "uint", 128)
F32 = Type("f32", "float", 32)
F64 = Type("f64", "float", 64)

ELEMENTS = (U8, I32, U32, I64, U64, F32, F64)
"""Types that arrays can have."""

Number = Union[bool, int, float]
Operand = Union["Value", "Variable", Number]

ARITHMETIC = ("add", "sub", "mul", "div", "rem")
"""Whole numbers wrap around; they are divided towards zero, and never by zero. Floats follow IEEE 754."""
BITWISE = ("and", "or", "xor")
SHIFTS = ("shl", "shr")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
"""NaN is unequal to everything, and neither less nor greater."""
OVERFLOWS = ("add_overflows", "sub_overflows", "mul_overflows")
FLOAT_FUNCTIONS = ("sqrt", "exp", "log", "abs", "floor", "ceil")
TRAILING_ZEROS = "trailing_zeros"
"""The place of the lowest bit of a whole number that is 1; its width if all bits are 0."""
_OF_WHOLE = (*ARITHMETIC, *BITWISE, *SHIFTS, *COMPARISONS, *OVERFLOWS, "neg", "not", TRAILING_ZEROS)
OPERATIONS = {
    "bool": (*BITWISE, "eq", "ne", "not"),
    "int": _OF_WHOLE,
    "uint": _OF_WHOLE,
    "float": (*ARITHMETIC, *COMPARISONS, *FLOAT_FUNCTIONS, "neg", "pow"),
}
"""Operations of one or two operands, by the kind of their type."""


def _operator(op: str) -> Callable[[Value, Operand], Value]:
    return lambda self, other: self.function.binary(op, self, other)


def _mirrored_operator(op: str) -> Callable[[Value, Operand], Value]:
    return lambda self, other: self.function.binary(op, other, self)


class Value:
    """The result of an instruction. number: its place among the values of the function."""

    __slots__ = ("args", "function", "number", "op", "type")

    def __init__(self, function: Function, type_: Type, op: str, args: tuple = ()) -> None:
        self.function, self.type, self.op, self.args = function, type_, op, args
        self.number = -1

    def __repr__(self) -> str:
        return f"<{self.op} {self.type}>"

    def __bool__(self) -> bool:
        raise TypeError("A value has no truth while code is being built. Use f.when(value), &, | or ~.")

    __add__, __radd__ = _operator("add"), _mirrored_operator("add")
    __sub__, __rsub__ = _operator("sub"), _mirrored_operator("sub")
    __mul__, __rmul__ = _operator("mul"), _mirrored_operator("mul")
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("shr")
    """Shifts to the right keep the sign of signed numbers."""
    __lt__, __le__, __gt__, __ge__ = _operator("lt"), _operator("le"), _operator("gt"), _operator("ge")
    equals, differs = _operator("eq"), _operator("ne")
    divide, remainder = _operator("div"), _operator("rem")
    """The quotient, towards zero, and the rest, with the sign of the dividend. The divisor of whole numbers is neither
    zero nor, for the least number, -1."""

    def __floordiv__(self, other: Operand) -> Value:
        raise TypeError("Use a.divide(b): whole numbers are divided towards zero here, not downwards as in Python.")

    def __neg__(self) -> Value:
        return self.function.unary("neg", self)

    def __invert__(self) -> Value:
        """All bits turned; of a condition, its opposite."""
        return self.function.unary("not", self)

    def to(self, type_: Type) -> Value:
        """The number in another type: whole numbers wrap around, floats are cut towards zero and must fit."""
        return self.function.cast(self, type_)

    def bits_as(self, type_: Type) -> Value:
        """The same bits as a type of the same size."""
        return self.function.bitcast(self, type_)


class Variable(Value):
    """A value that changes at run time. As an operand it is read at that point of the code."""

    __slots__ = ("name",)

    def __init__(self, function: Function, type_: Type, name: str) -> None:
        super().__init__(function, type_, "variable")
        self.name = name

    @property
    def value(self) -> Value:
        return self.function.read(self)

    def set(self, value: Operand) -> None:
        self.function.write(self, value)


class Array:
    """A parameter: elements of one type in memory. Arrays that are written to do not overlap any other."""

    __slots__ = ("function", "name", "type", "writable")

    def __init__(self, function: Function, type_: Type, name: str, writable: bool) -> None:
        self.function, self.type, self.name, self.writable = function, type_, name, writable

    def __getitem__(self, index: Operand) -> Value:
        return self.function.load(self, index)

    def __setitem__(self, index: Operand, value: Operand) -> None:
        self.function.store(self, index, value)

    @property
    def length(self) -> Value:
        return self.function.emit(I64, "length", (self,))


@dataclass(eq=False)
class Block:
    """Instructions that run one after the other, and where the function continues."""

    name: str
    body: list[Value] = field(default_factory=list)
    end: End | None = None


@dataclass(frozen=True)
class Jump:
    to: Block


@dataclass(frozen=True)
class Branch:
    condition: Value
    yes: Block
    no: Block


@dataclass(frozen=True)
class Switch:
    """default: None if the value is always one of the cases."""

    on: Value
    cases: Mapping[int, Block]
    default: Block | None


@dataclass(frozen=True)
class Return:
    value: Value


End = Union[Jump, Branch, Switch, Return]


def type_of_number(number: Number) -> Type:
    """The type of a number of Python's if nothing else decides it."""
    if isinstance(number, bool):
        return BOOL
    return F64 if isinstance(number, float) else I64
