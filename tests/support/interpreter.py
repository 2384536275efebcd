"""Programs run step by step in Python, with every index, divisor, shift and conversion checked.

Slow on purpose: it defines what programs mean, and tests compare compiled ones with it.
"""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from episode.native.builder import Function
from episode.native.ir import BOOL, COMPARISONS, F32, TRAILING_ZEROS, Array, Branch, Jump, Return, Type, Value
from episode.native.running import CheckFailed, NativeProgram, Scalar


def interpret(function: Function, arrays: Sequence[np.ndarray], scalars: Sequence[Scalar]) -> Scalar:
    """Run a function over its arrays, which it may change."""
    return _Run(function, arrays, scalars).result()


class Interpreted(NativeProgram):
    """A program that is interpreted."""

    def __call__(self, arrays: Sequence[np.ndarray], *scalars: Scalar) -> int:
        self.words(arrays, scalars)
        return int(interpret(self.source.entry, arrays, scalars))


class _Run:
    def __init__(self, function: Function, arrays: Sequence[np.ndarray], scalars: Sequence[Scalar]) -> None:
        self.f = function
        self.arrays = dict(zip(function.arrays, arrays, strict=True))
        self.known: dict[Value, Scalar] = dict(zip(function.scalars, scalars, strict=True))
        self.variables: dict[Value, Scalar] = {}

    def result(self) -> Scalar:
        block = self.f.blocks[0]
        while True:
            for value in block.body:
                self.known[value] = self._step(value)
            end = block.end
            if isinstance(end, Jump):
                block = end.to
            elif isinstance(end, Branch):
                block = end.yes if self._use(end.condition) else end.no
            elif isinstance(end, Return):
                return self._use(end.value)
            elif end is None:
                raise CheckFailed(f"the block {block.name} has no end")
            else:
                to = end.cases.get(self._use(end.on), end.default)
                if to is None:
                    raise CheckFailed(f"case {self._use(end.on)} of {block.name} in {self.f.name}")
                block = to

    def _use(self, value: Value) -> Scalar:
        if value.op == "constant":
            return round_float(value.args[0], value.type) if value.type.is_float else value.args[0]
        if value not in self.known:
            raise CheckFailed(f"{value} of {self.f.name} is used before it is computed")
        return self.known[value]

    def _step(self, value: Value) -> Scalar:
        op, args = value.op, value.args
        if op == "read":
            if args[0] not in self.variables:
                raise CheckFailed(f"the variable {args[0].name} of {self.f.name} is read before it is set")
            return self.variables[args[0]]
        if op == "write":
            self.variables[args[0]] = self._use(args[1])
            return None
        if op == "length":
            return len(self.arrays[args[0]])
        if op == "load":
            return self.arrays[args[0]][self._index(args[0], args[1])].item()
        if op == "store":
            self.arrays[args[0]][self._index(args[0], args[1])] = self._use(args[2])
            return None
        if op == "call":
            function, arrays, scalars = args
            return interpret(function, [self.arrays[one] for one in arrays], [self._use(one) for one in scalars])
        if op == "select":
            return self._use(args[1] if self._use(args[0]) else args[2])
        operands = [self._use(one) for one in args]
        return evaluate(op, args[0].type, value.type, operands)

    def _index(self, array: Array, index: Value) -> int:
        at = self._use(index)
        if not 0 <= at < len(self.arrays[array]):
            raise CheckFailed(f"index {at} of {array.name} ({len(self.arrays[array])} elements) in {self.f.name}")
        return int(at)


def evaluate(op: str, type_: Type, result: Type, operands: Sequence[Scalar]) -> Scalar:
    """One operation on operands of a type."""
    if op == "cast":
        return _cast(operands[0], type_, result)
    if op == "bitcast":
        return _from_bytes(_to_bytes(operands[0], type_), result)
    if type_.is_float:
        value = _FLOAT[op](*operands)
        return round_float(value, result) if result.is_float else value
    if op.endswith("_overflows"):
        exact = _WHOLE[op.removesuffix("_overflows")](*operands)
        return wrap(exact, type_) != exact
    if op in ("shl", "shr") and not 0 <= operands[1] < type_.bits:
        raise CheckFailed(f"shift by {operands[1]}")
    if op in ("div", "rem"):
        dividend, divisor = operands
        quotient, remainder = _divide(dividend, divisor, type_)
        return quotient if op == "div" else remainder
    if op == TRAILING_ZEROS:
        lowest = operands[0] & -operands[0]
        return lowest.bit_length() - 1 if lowest else type_.bits
    value = _WHOLE[op](*operands)
    return value if op in _COMPARE else wrap(value, result)


def wrap(value: int, type_: Type) -> Scalar:
    """A whole number modulo the size of its type."""
    if type_ is BOOL:
        return bool(value & 1)
    value &= (1 << type_.bits) - 1
    return value - (1 << type_.bits) if type_.is_signed and value >> type_.bits - 1 else value


def round_float(value: float, type_: Type) -> float:
    """A float in its precision."""
    if type_ is not F32:
        return float(value)
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _divide(dividend: int, divisor: int, type_: Type) -> tuple[int, int]:
    if divisor == 0:
        raise CheckFailed(f"{dividend} is divided by zero")
    quotient = abs(dividend) // abs(divisor)
    quotient = quotient if (dividend < 0) == (divisor < 0) else -quotient
    if wrap(quotient, type_) != quotient:
        raise CheckFailed(f"{dividend} is divided by {divisor}")
    return quotient, dividend - quotient * divisor


def _cast(value: Scalar, source: Type, result: Type) -> Scalar:
    if result.is_float:
        return round_float(_nearest(value, result), result)
    if not source.is_float:
        return wrap(int(value), result)
    least, most = result.bounds
    if not math.isfinite(value) or not least <= math.trunc(value) <= most:
        raise CheckFailed(f"{value} as {result}")
    return math.trunc(value)


def _nearest(value: Scalar, result: Type) -> float:
    """A whole number as the nearest float: in one step, also of single precision."""
    if isinstance(value, int) and result is F32:
        return float(np.asarray(value, np.int64 if value < 1 << 63 else np.uint64).astype(np.float32))
    return float(value)


def _to_bytes(value: Scalar, type_: Type) -> bytes:
    if type_.is_float:
        return struct.pack("<f" if type_ is F32 else "<d", value)
    return int(value).to_bytes(max(1, type_.bits // 8), "little", signed=type_.is_signed)


def _from_bytes(data: bytes, type_: Type) -> Scalar:
    if type_.is_float:
        return struct.unpack("<f" if type_ is F32 else "<d", data)[0]
    return int.from_bytes(data, "little", signed=type_.is_signed)


def _quotient(left: float, right: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(left) / np.float64(right))


def _of_c(name: str, operands: int) -> Callable[..., float]:
    """A function of C's library, which compiled programs call."""
    function = getattr(ctypes.CDLL(None), name)
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * operands
    return function


def _whole_float(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: math.copysign(float(function(value)), value) if math.isfinite(value) else value


_COMPARE: dict[str, Callable[..., bool]] = {name: getattr(operator, name) for name in COMPARISONS}
_BOTH: dict[str, Callable[..., Any]] = {name: getattr(operator, name) for name in ("add", "sub", "mul", "neg")}
_WHOLE: dict[str, Callable[..., int]] = {
    **_COMPARE,
    **_BOTH,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "not": operator.invert,
}
_FLOAT: dict[str, Callable[..., float]] = {
    **_COMPARE,
    **_BOTH,
    **{name: _of_c(name, 1) for name in ("sqrt", "exp", "log")},
    "div": _quotient,
    "rem": _of_c("fmod", 2),
    "abs": abs,
    "floor": _whole_float(math.floor),
    "ceil": _whole_float(math.ceil),
    "pow": _of_c("pow", 2),
}
