"""Emits machine expressions: values with Spark's nulls, NaN order, overflow and decimals.

An expression becomes a value and whether it is null (None: it never is). Both are computed without branches; the value
beneath a null is arbitrary, but must do no harm: divisors are never zero.

See decisions 13 and 179.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import numpy as np

from episode.matchers.encoding import Lanes
from episode.native.builder import Function
from episode.native.ir import F32, F64, I64, I128, U64, U128, Array, Value
from episode.plan.expressions import Apply, Constant, Current, Exists, Expression, Load, RowRef
from episode.plan.types import INTEGER_LIMITS, is_wide, lane_of

Emitted = tuple[Value, "Value | None"]

TERMS_OF_BLOCK = 64
"""Operands of AND and OR in one block: LLVM takes 20 times as long for 5,000 of them if all are in one."""
LEAST = -(2**63)
MOST_WIDE = 10**38 - 1
"""The greatest decimal of 38 digits."""


@dataclass(frozen=True)
class LanePlaces:
    """The places of columns in lanes: rows of the matrices, as in `Lanes`."""

    at: tuple[tuple[str, int], ...]
    valid_at: tuple[tuple[str, int], ...]
    words_at: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, lanes: Lanes) -> LanePlaces:
        return cls(tuple(lanes.at.items()), tuple(lanes.valid_at.items()), tuple(lanes.words_at.items()))


@dataclass(frozen=True)
class LaneArrays:
    """The matrices of lanes row after row, and the constants."""

    key: Array
    ints: Array
    floats: Array
    valid: Array
    const_i: Array
    const_f: Array


@dataclass
class CodeConstants:
    """The constants of a program, in the order of the places that its code reads them from.

    Those that are not numbers are values whose rank depends on the rows.
    """

    ints: list[int | tuple[str, object]] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)

    def arrays(self, lanes: Lanes) -> dict[str, np.ndarray]:
        """Return const_i and const_f for these rows."""
        numbers = [one if isinstance(one, int) else lanes.ranks[one] for one in self.ints]
        return {"const_i": np.array(numbers, np.int64), "const_f": np.array(self.floats, np.float64)}


@dataclass
class Emitter:
    """Emits expressions of one row at a time; equal parts of a row's expressions are computed once."""

    f: Function
    places: LanePlaces
    arrays: LaneArrays
    rows: Value
    constants: CodeConstants = field(default_factory=CodeConstants)

    def __post_init__(self) -> None:
        self.at, self.valid_at = dict(self.places.at), dict(self.places.valid_at)
        self.words_at = dict(self.places.words_at)

    def begin_row(self, row: Value, guarded: bool) -> None:
        """Begin the expressions of a row. guarded: whether neighbouring rows may be outside the table."""
        self.row, self.guarded = row, guarded
        self._known: dict[Expression, Emitted] = {}
        self._rows: dict[RowRef, tuple[Value, Value | None]] = {Current(0): (row, None)}

    def holds(self, condition: Expression) -> Value:
        """Whether the condition is true (and not null)."""
        value, null = self.emit(condition)
        true = value.differs(0)
        return true if null is None else true & ~null

    def emit(self, expression: Expression) -> Emitted:
        if expression not in self._known:
            self._known[expression] = self._emit_new(expression)
        return self._known[expression]

    def _emit_new(self, expression: Expression) -> Emitted:
        if isinstance(expression, Load):
            return self._load(expression)
        if isinstance(expression, Constant):
            return self._constant(expression)
        if isinstance(expression, Exists):
            _, present = self._row_at(expression.at)
            return (self.f.constant(1, I64) if present is None else present.to(I64)), None
        if isinstance(expression, Apply):
            return self._apply(expression)
        value, null = self.emit_value(expression)
        if value.type is I128 and not is_wide(expression):  # an average of decimals that fit into one word
            value = value.to(I64)
        return value, null

    # ---- parts that depend on a match; languages have their own ----------------------------------------------

    def find_row(self, at: RowRef) -> tuple[Value, Value | None]:
        """Return a row that can be read, and whether it exists (None: it does). Called once for each row tried."""
        raise NotImplementedError(at)  # called only of emitters of matches

    def emit_value(self, expression: Expression) -> Emitted:
        """Emit labels, running aggregates, arrays and the like."""
        raise NotImplementedError(expression)  # called only of emitters of matches

    # ---- rows and constants ----------------------------------------------------------------------------------

    def _row_at(self, at: RowRef) -> tuple[Value, Value | None]:
        if at not in self._rows:
            self._rows[at] = self._neighbour(at.offset) if isinstance(at, Current) else self.find_row(at)
        return self._rows[at]

    def _neighbour(self, offset: int) -> tuple[Value, Value | None]:
        """Return the row at an offset from this one (this one, if it does not exist), and whether it exists."""
        f, key = self.f, self.arrays.key
        other = self.row + offset
        if not self.guarded:
            return other, key[other].equals(key[self.row])
        inside = (other >= 0) & (other < self.rows)
        other = f.select(inside, other, self.row)
        return other, inside & key[other].equals(key[self.row])

    def _cell(self, array: Array, lane: int, row: Value) -> Value:
        return array[self.rows * lane + row]

    def _load(self, load: Load) -> Emitted:
        lanes = self.arrays.floats if lane_of(load.type) == "float" else self.arrays.ints
        return self._read(load, lambda column, row: self._cell(lanes, self.at[column], row))

    def _words(self, load: Load) -> Emitted:
        """Emit a decimal of two words."""

        def read(column: str, row: Value) -> Value:
            place = self.words_at[column]
            low, high = (self._cell(self.arrays.ints, place + part, row) for part in (0, 1))
            return high.to(I128) << 64 | low.bits_as(U64).to(I128)

        return self._read(load, read)

    def _read(self, load: Load, read: Callable[[str, Value], Value]) -> Emitted:
        row, present = self._row_at(load.at)
        value, null = read(load.column, row), self._null(load.column, row)
        if present is None:
            return value, null
        if load.missing is None:
            return value, _either(null, ~present)
        instead, its_null = read(load.missing, self.row), self._null(load.missing, self.row)
        return self.f.select(present, value, instead), self._choose_null(present, null, its_null)

    def _null(self, column: str, row: Value) -> Value | None:
        place = self.valid_at[column]
        return None if place < 0 else self._cell(self.arrays.valid, place, row).equals(0)

    def _choose_null(self, condition: Value, one: Value | None, other: Value | None) -> Value | None:
        if one is None and other is None:
            return None
        never = self.f.constant(False, condition.type)
        return self.f.select(condition, never if one is None else one, never if other is None else other)

    def _constant(self, constant: Constant) -> Emitted:
        f, wide = self.f, is_wide(constant)
        if constant.value is None:
            zero = f.constant(0.0, F64) if lane_of(constant.type) == "float" else f.constant(0, I64)
            return zero, f.constant(True, zero.equals(zero).type)
        if lane_of(constant.type) == "float":
            self.constants.floats.append(float(constant.value))
            return self.arrays.const_f[len(self.constants.floats) - 1], None
        if lane_of(constant.type) == "code" and not wide:
            return self._whole((constant.type, constant.value)), None
        number = int(constant.value)
        if not wide:
            return self._whole(number), None
        word = number & 2**64 - 1
        low = self._whole(word - 2**64 if word >= 2**63 else word).bits_as(U64).to(I128)
        return self._whole(number >> 64).to(I128) << 64 | low, None

    def _whole(self, number: int | tuple[str, object]) -> Value:
        self.constants.ints.append(number)
        return self.arrays.const_i[len(self.constants.ints) - 1]

    # ---- operations ------------------------------------------------------------------------------------------

    def _apply(self, apply: Apply) -> Emitted:
        operation, wide = apply.operation, is_wide(apply)
        if operation == "words":
            (load,) = apply.operands
            assert isinstance(load, Load)
            return self._words(load)
        if operation in ("and", "or"):
            return self._logic(operation, (self.emit(one) for one in apply.operands))
        if operation == "scale":
            number, digits = apply.operands
            return self._scale(self.emit(number), _literal(digits))
        if operation == "divide" and wide:
            one, other, digits, further = apply.operands
            return self._wide_quotient(self.emit(one), self.emit(other), _literal(digits), _literal(further))
        operands = [self.emit(one) for one in apply.operands]
        if operation in _CHOICES:
            if wide:  # NULL among the choices is of one word
                operands[-2:] = [
                    (value if value.type is I128 else self.f.constant(0, I128), null) for value, null in operands[-2:]
                ]
            return self._choice(operation, operands)
        nulls = _either(*(null for _, null in operands))
        values = [value for value, _ in operands]
        if wide:
            value, excess = _WIDE[operation](self.f, *values)
            return value, _either(nulls, excess)
        is_float = values[0].type is F64
        if operation in _LIMITED and not is_float:
            limit = INTEGER_LIMITS.get(apply.type, 2**63) - 1
            value, excess = self._whole_result(operation, values, limit)
            return value, _either(nulls, excess)
        return self._plain(operation, values, operands, nulls)

    def _logic(self, operation: str, operands: Iterable[Emitted]) -> Emitted:
        """Emit three-valued AND and OR of any number of conditions, each emitted when used."""
        decides = 0 if operation == "and" else 1
        decided, unknown = None, None
        for number, (value, null) in enumerate(operands, 1):
            if number % TERMS_OF_BLOCK == 0:
                further = self.f.block("further")
                self.f.join(further)
            is_decisive = value.equals(0) if decides == 0 else value.differs(0)
            is_decisive = is_decisive if null is None else is_decisive & ~null
            decided = is_decisive if decided is None else decided | is_decisive
            unknown = _either(unknown, null)
        assert decided is not None
        result = decided if decides else ~decided
        return result.to(I64), None if unknown is None else unknown & ~decided

    def _choice(self, operation: str, operands: list[Emitted]) -> Emitted:
        f = self.f
        if operation == "if":
            (condition, unknown), one, other = operands
            first = condition.differs(0) if unknown is None else condition.differs(0) & ~unknown
            return f.select(first, one[0], other[0]), self._choose_null(first, one[1], other[1])
        (one_value, one_null), (other_value, other_null) = operands
        if operation == "coalesce":
            if one_null is None:
                return one_value, None
            return f.select(one_null, other_value, one_value), _both(one_null, other_null)
        order = COMPARE["le" if operation == "least" else "ge"]
        first = order(one_value, other_value)
        first = first if one_null is None else first & ~one_null
        first = first if other_null is None else first | other_null
        return f.select(first, one_value, other_value), _both(one_null, other_null)

    def _plain(self, operation: str, values: list[Value], operands: list[Emitted], nulls: Value | None) -> Emitted:
        f = self.f
        if operation in COMPARE:
            return COMPARE[operation](*values).to(I64), nulls
        if operation == "same":
            return self._same(values, operands)
        if operation == "is_null":
            return (f.constant(0, I64) if nulls is None else nulls.to(I64)), None
        if operation == "is_nan":
            nan = _nan(values[0])
            return (nan if nulls is None else nan & ~nulls).to(I64), None
        if operation in _PLAIN:
            return _PLAIN[operation](f, *values), nulls
        value, excess = _FLOATS[operation](f, *values)
        return value, _either(nulls, excess)

    def _same(self, values: list[Value], operands: list[Emitted]) -> Emitted:
        f = self.f
        equal = _equal(*values)
        (_, one), (_, other) = operands
        if one is None and other is None:
            return equal.to(I64), None
        never = f.constant(False, equal.type)
        one, other = (never if null is None else null for null in (one, other))
        return (f.select(one | other, one & other, equal)).to(I64), None

    def _whole_result(self, operation: str, values: list[Value], limit: int) -> Emitted:
        """Emit an operation of whole numbers: null beyond the limits of the type, and for a divisor of zero."""
        f = self.f
        excess: Value | None = None
        if operation in ("negate", "abs"):
            (value,) = values
            result = -value if operation == "negate" else f.select(value < 0, -value, value)
            excess = result.equals(LEAST)
        elif operation in ("add", "subtract", "multiply"):
            name = {"add": "add", "subtract": "sub", "multiply": "mul"}[operation]
            result = f.binary(name, *values)
            excess = f.binary(f"{name}_overflows", *values)
        else:
            dividend, divisor = values
            is_zero = divisor.equals(0)
            overflows = divisor.equals(-1) & dividend.equals(LEAST)
            safe = f.select(is_zero | overflows, 1, divisor)
            quotient, rest = dividend.divide(safe), dividend.remainder(safe)
            if operation == "modulo":
                return f.select(overflows, 0, rest), is_zero
            if operation == "floor_divide":
                below = rest.differs(0) & ((rest < 0) ^ (divisor < 0))
                quotient = quotient - below.to(I64)
            result, excess = quotient, is_zero | overflows
        if limit < 2**63 - 1:
            excess = _either(excess, (result > limit) | (result < -limit - 1))
        return result, excess

    # ---- decimals of two words -------------------------------------------------------------------------------

    def _scale(self, emitted: Emitted, digits: int) -> Emitted:
        """Multiply by 10 to the power of `digits`; if that is negative, round half away from zero."""
        f = self.f
        value, null = emitted
        if digits >= 0:
            factor = f.constant(10**digits, I128)
            result, overflows = value * factor, f.binary("mul_overflows", value, factor)
            return result, _either(null, overflows | too_large(f, result))
        quotient, rest = divide_magnitudes(f, magnitude(f, value), f.constant(10**-digits, U128))
        rounded = quotient + (rest + rest >= f.constant(10**-digits, U128)).to(U128)
        return with_sign(f, rounded, value < 0), null

    def _wide_quotient(self, one: Emitted, other: Emitted, digits: int, further: int) -> Emitted:
        """Divide to `digits` digits after the point, rounded half up after rounding to `further` digits more."""
        f = self.f
        (dividend, null), (divisor, its_null) = one, other
        is_zero = divisor.equals(0)
        by = f.select(is_zero, f.constant(1, U128), magnitude(f, divisor))
        quotient, rest = divide_magnitudes(f, magnitude(f, dividend), by)
        value, left = f.variable("value", quotient), f.variable("left", rest)
        digit = f.variable("digit", 0)
        excess = f.variable("excess", is_zero)
        ten = f.constant(10, U128)

        def next_digit() -> None:
            found, remains = self._next_digit(left.value, by)
            digit.set(found)
            left.set(remains)

        with f.loop(0, digits):
            next_digit()
            excess.set(excess | (value > f.constant(MOST_WIDE // 10, U128)))
            value.set(value * ten + digit.to(U128))
        next_digit()
        if further > 0:  # 4999…9, and then 5 or more, is 5 if it is rounded first
            nines = f.variable("nines", further - 1)
            with f.when(digit.equals(4)):
                next_digit()
                with f.during(lambda: (nines > 0) & digit.equals(9)):
                    nines.set(nines - 1)
                    next_digit()
                digit.set(f.select(nines.equals(0), digit, 0))
        rounded = value + (digit >= 5).to(U128)
        too_large = excess | (rounded > f.constant(MOST_WIDE, U128))
        return with_sign(f, rounded, (dividend < 0) ^ (divisor < 0)), _either(null, its_null, too_large)

    def _next_digit(self, rest: Value, divisor: Value) -> tuple[Value, Value]:
        """Return (digit, remainder) of ten times a remainder by its divisor, which is below 10**38."""
        f = self.f
        left, digit = rest, f.value(0)
        for adds in (False, True, False):  # 10 is 0b1010
            left, digit = left + left, digit * 2
            if adds:
                left = left + rest
            for _ in range(2):
                fits = left >= divisor
                left, digit = f.select(fits, left - divisor, left), digit + fits.to(I64)
        return digit, left


def _literal(operand: Expression) -> int:
    """Return a number that is a part of an operation."""
    assert isinstance(operand, Constant)
    assert isinstance(operand.value, int)
    return operand.value


def _either(*nulls: Value | None) -> Value | None:
    present = [null for null in nulls if null is not None]
    return reduce(or_, present) if present else None


def _both(one: Value | None, other: Value | None) -> Value | None:
    return None if one is None or other is None else one & other


# ---- comparisons: NaN equals itself, and is greater than everything else -------------------------------------------


def _nan(value: Value) -> Value:
    return value.differs(value)


def _equal(one: Value, other: Value) -> Value:
    return one.equals(other) if one.type is not F64 else one.equals(other) | (_nan(one) & _nan(other))


def _less(one: Value, other: Value) -> Value:
    return one < other if one.type is not F64 else (one < other) | (_nan(other) & ~_nan(one))


def _at_most(one: Value, other: Value) -> Value:
    return one <= other if one.type is not F64 else (one <= other) | _nan(other)


COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "eq": _equal,
    "ne": lambda one, other: ~_equal(one, other),
    "lt": _less,
    "le": _at_most,
    "gt": lambda one, other: _less(other, one),
    "ge": lambda one, other: _at_most(other, one),
}
_PLAIN: dict[str, Callable[..., Value]] = {
    "not": lambda f, value: value.equals(0).to(I64),
    "order": lambda f, one, other: (one > other).to(I64) - (one < other).to(I64),
    "copy": lambda f, value: value,
    "narrow": lambda f, value: value.to(I64),
    "to_float": lambda f, value: value.to(F64),
    "round_single": lambda f, value: value.to(F32).to(F64),
    "wide_to_float": lambda f, value: _wide_to_float(f, value),
}
"""Operations that are null if an operand is."""
_CHOICES = ("least", "greatest", "if", "coalesce")
_LIMITED = ("add", "subtract", "multiply", "modulo", "int_divide", "floor_divide", "negate", "abs")


# ---- floats: (value, whether it is null although no operand is) -----------------------------------------------------


def _power(f: Function, base: Value, exponent: Value) -> Emitted:
    """Compute powers as Java does: NaN for an exponent that is NaN, and for 1 (or -1) with an infinite one, for which C
    has 1."""
    infinite = f.unary("abs", exponent).equals(float("inf"))
    odd = _nan(exponent) | (f.unary("abs", base).equals(1.0) & infinite)
    return f.select(odd, float("nan"), f.binary("pow", base, exponent)), None


_FLOATS: dict[str, Callable[..., Emitted]] = {
    "add": lambda f, one, other: (one + other, None),
    "subtract": lambda f, one, other: (one - other, None),
    "multiply": lambda f, one, other: (one * other, None),
    "divide": lambda f, one, other: (one.divide(other), other.equals(0.0)),
    "modulo": lambda f, one, other: (one.remainder(other), other.equals(0.0)),
    "negate": lambda f, value: (-value, None),
    "abs": lambda f, value: (f.unary("abs", value), None),
    "sqrt": lambda f, value: (f.unary("sqrt", value), None),
    "exp": lambda f, value: (f.unary("exp", value), None),
    "ln": lambda f, value: (f.unary("log", value), value <= 0.0),
    "power": _power,
}


# ---- decimals of two words: (value, whether it has more than 38 digits) ---------------------------------------------


def too_large(f: Function, value: Value) -> Value:
    return (value > f.constant(MOST_WIDE, I128)) | (value < f.constant(-MOST_WIDE, I128))


def magnitude(f: Function, value: Value) -> Value:
    return f.select(value < 0, -value, value).to(U128)


def with_sign(f: Function, magnitude: Value, is_negative: Value) -> Value:
    value = magnitude.to(I128)
    return f.select(is_negative, -value, value)


def divide_magnitudes(f: Function, dividend: Value, divisor: Value) -> tuple[Value, Value]:
    """Return quotient and remainder of magnitudes, bit by bit. The divisor is not zero, and below 2**127."""
    one, last = f.constant(1, U128), f.constant(127, U128)
    quotient, rest = f.variable("quotient", dividend), f.variable("rest", f.constant(0, U128))
    with f.loop(0, 128):
        now, rising = quotient.value, rest.value << one
        raised = rising | now >> last
        fits = raised >= divisor
        rest.set(f.select(fits, raised - divisor, raised))
        quotient.set(now << one | fits.to(U128))
    return quotient.value, rest.value


def wide_sum(f: Function, one: Value, other: Value) -> Emitted:
    total = one + other
    return total, f.binary("add_overflows", one, other) | too_large(f, total)


def _wide_to_float(f: Function, value: Value) -> Value:
    size = magnitude(f, value)
    high = (size >> 64).to(U64).to(F64)
    number = high * 18446744073709551616.0 + size.to(U64).to(F64)
    return f.select(value < 0, -number, number)


_WIDE: dict[str, Callable[..., Emitted]] = {
    "widen": lambda f, value: (value.to(I128), None),
    "negate": lambda f, value: (-value, None),
    "add": wide_sum,
    "multiply": lambda f, one, other: (one * other, None),
}
