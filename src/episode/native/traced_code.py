"""Traces as code: numbers as Python computes them, in 64 bits.

Where Python raises, the code has a result: whole numbers wrap around, and a quotient or remainder by zero is 0; of real
numbers, it is infinity or NaN as in IEEE 754 and in NumPy. A real number that is rounded to a whole one which has more
than 64 bits is the least or the greatest one, and NaN is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from episode.native.builder import Function
from episode.native.ir import BOOL, F64, I64, Value
from episode.native.traced import BOOLEAN, REAL, WHOLE
from episode.native.tracing import COMPARISONS, LEAST, MOST, Trace, TraceStep

TYPES = {BOOLEAN: BOOL, WHOLE: I64, REAL: F64}


def emit_trace(f: Function, trace: Trace, inputs: Sequence[Value]) -> list[Value]:
    """Emit the steps of a trace, and return its results. inputs: of the types of its inputs."""
    values: list[Value] = []
    for step in trace.steps:
        if step.op == "input":
            values.append(f.value(inputs[len(values)], TYPES[step.kind]))
        elif step.op == "constant":
            values.append(emit_constant(f, step))
        else:
            values.append(_emit(f, step.op, [values[at] for at in step.operands], step.kind))
    return [values[at] for at in trace.results]


def emit_constant(f: Function, step: TraceStep) -> Value:
    if step.kind == REAL:
        return f.constant(float.fromhex(step.constant), F64)
    return f.constant(bool(int(step.constant)) if step.kind == BOOLEAN else int(step.constant), TYPES[step.kind])


def _emit(f: Function, op: str, operands: list[Value], kind: str) -> Value:
    if op in ("to_real", "to_whole"):
        return _convert(operands[0], kind)
    if op in COMPARISONS:
        is_mixed = operands[0].type is not operands[1].type
        return _compare_mixed(f, op, *operands) if is_mixed else f.binary(op, *operands)
    if op in _SPECIAL:
        return _SPECIAL[op](f, *operands)
    if op in _BY_TYPE:
        return _BY_TYPE[op][kind == REAL](f, *operands)
    return f.unary(op, *operands) if len(operands) == 1 else f.binary(op, *operands)


def _convert(value: Value, kind: str) -> Value:
    whole = value.to(I64) if value.type is BOOL else value
    return whole.to(F64) if kind == REAL else whole


def _compare_mixed(f: Function, op: str, whole: Value, real: Value) -> Value:
    """Exactly: numbers that are equal as doubles are compared as whole ones."""
    near = whole.to(F64)
    fits = near < 2.0**63
    rest = f.select(near.equals(real) & fits, real, 0.0).to(I64)
    is_less = (near < real) | (near.equals(real) & (~fits | (whole < rest)))
    is_greater = (near > real) | (near.equals(real) & fits & (whole > rest))
    if op in ("lt", "gt"):
        return is_less if op == "lt" else is_greater
    if op in ("eq", "ne"):
        is_equal = near.equals(real) & ~is_less & ~is_greater
        return is_equal if op == "eq" else ~is_equal
    return real.equals(real) & ~(is_greater if op == "le" else is_less)


# ---- whole numbers -----------------------------------------------------------------------------------------


def _divide_whole(f: Function, dividend: Value, divisor: Value) -> tuple[Value, Value]:
    """Quotient, downwards, and remainder, with the sign of the divisor."""
    cannot = divisor.equals(0) | (divisor.equals(-1) & dividend.equals(LEAST))
    safe = f.select(cannot, 1, divisor)
    rest = dividend.remainder(safe)
    is_below = rest.differs(0) & ((rest < 0) ^ (divisor < 0))
    return dividend.divide(safe) - is_below.to(I64), f.select(is_below, rest + divisor, rest)


# ---- real numbers ------------------------------------------------------------------------------------------


def _signed_zero(f: Function, value: Value) -> Value:
    return f.select(value.bits_as(I64) < 0, -0.0, f.constant(0.0, F64))


def _remainder_real(f: Function, dividend: Value, divisor: Value) -> Value:
    """The remainder with the sign of the divisor."""
    rest = dividend.remainder(divisor)
    turned = f.select((divisor < 0.0) ^ (rest < 0.0), rest + divisor, rest)
    return f.select(rest.equals(0.0), _signed_zero(f, divisor), turned)


def _quotient_real(f: Function, dividend: Value, divisor: Value) -> Value:
    """Downwards, with the steps of CPython, which decide how it is rounded."""
    rest = dividend.remainder(divisor)
    quotient = (dividend - rest).divide(divisor)
    is_below = rest.differs(0.0) & ((divisor < 0.0) ^ (rest < 0.0))
    quotient = f.select(is_below, quotient - 1.0, quotient)
    floor = f.unary("floor", quotient)
    floor = f.select(quotient - floor > 0.5, floor + 1.0, floor)
    exact = dividend.divide(divisor)
    rounded = f.select(quotient.equals(0.0), _signed_zero(f, exact), floor)
    return f.select(divisor.equals(0.0), exact, rounded)


def _round_to_even(f: Function, value: Value) -> Value:
    floor = f.unary("floor", value)
    rest = value - floor
    is_odd = (floor - f.unary("floor", floor * 0.5) * 2.0).differs(0.0)
    is_up = (rest > 0.5) | (rest.equals(0.5) & is_odd)
    return f.select(is_up, floor + 1.0, floor)


def _cut(f: Function, value: Value) -> Value:
    """The whole number, towards zero; the nearest one if it does not fit."""
    is_above, is_below = value >= 2.0**63, value < -(2.0**63)
    cannot = is_above | is_below | value.differs(value)
    whole = f.select(cannot, 0.0, value).to(I64)
    return f.select(is_above, MOST, f.select(is_below, LEAST, whole))


_SPECIAL: dict[str, Callable[..., Value]] = {
    "select": lambda f, condition, yes, no: f.select(condition, yes, no),
    "round": _round_to_even,
    "cut": _cut,
}
_BY_TYPE: dict[str, tuple[Callable[..., Value], Callable[..., Value]]] = {
    "floordiv": (
        lambda f, dividend, divisor: f.select(divisor.equals(0), 0, _divide_whole(f, dividend, divisor)[0]),
        _quotient_real,
    ),
    "mod": (lambda f, dividend, divisor: _divide_whole(f, dividend, divisor)[1], _remainder_real),
    "abs": (lambda f, value: f.select(value < 0, -value, value), lambda f, value: f.unary("abs", value)),
}
"""By whether numbers are whole or real."""
