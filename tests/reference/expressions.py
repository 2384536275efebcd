"""Values of machine expressions on single rows, in plain Python: slow, and written from what the operations mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from episode.plan.expressions import Apply, Constant, Current, Exists, Expression, Load

LIMITS = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
LARGEST_DECIMAL = 10**38 - 1


def value_of(expression: Expression, columns: Mapping[str, Sequence[Any]], key: Sequence[int], row: int) -> Any:
    """The value on a row; None: null. columns: decimals as whole numbers, without their point."""

    def is_there(offset: int) -> bool:
        return 0 <= row + offset < len(key) and key[row + offset] == key[row]

    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Exists):
        assert isinstance(expression.at, Current)
        return is_there(expression.at.offset)
    if isinstance(expression, Load):
        assert isinstance(expression.at, Current)
        if is_there(expression.at.offset):
            return columns[expression.column][row + expression.at.offset]
        return None if expression.missing is None else columns[expression.missing][row]
    assert isinstance(expression, Apply)
    values = [value_of(operand, columns, key, row) for operand in expression.operands]
    return apply(expression.operation, values, expression.type)


def apply(operation: str, values: list[Any], type_: str) -> Any:
    """An operation on values; type_: of the result."""
    if operation in _OF_NULLS:
        return _OF_NULLS[operation](*values)
    if any(value is None for value in values):
        return None
    if type_ in LIMITS:
        result = _INTEGERS.get(operation, _PLAIN.get(operation))(*values)  # type: ignore[misc]
        return result if result is None or -LIMITS[type_] <= result < LIMITS[type_] else None
    if type_.startswith("decimal"):
        result = _DECIMALS[operation](*values)
        return result if result is None or abs(result) <= LARGEST_DECIMAL else None
    with np.errstate(all="ignore"):
        return (_FLOATS if type_ == "double" else _PLAIN)[operation](*values)


def rank(value: Any) -> Any:
    """What values are ordered by: NaN equals itself, and is greater than all else."""
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


def _best(choose: Callable[..., Any]) -> Callable[..., Any]:
    def of(*values: Any) -> Any:
        there = [value for value in values if value is not None]
        return choose(there, key=rank) if there else None

    return of


def _all(*values: Any) -> bool | None:
    return False if any(value is not None and not value for value in values) else None if None in values else True


def _any(*values: Any) -> bool | None:
    return True if any(values) else None if None in values else False


def _same(a: Any, b: Any) -> bool:
    return a is b if a is None or b is None else bool(rank(a) == rank(b))


_OF_NULLS: dict[str, Callable[..., Any]] = {
    "if": lambda test, yes, no: yes if test else no,
    "coalesce": lambda a, b: b if a is None else a,
    "least": _best(min),
    "greatest": _best(max),
    "and": _all,
    "or": _any,
    "same": _same,
    "is_null": lambda a: a is None,
    "is_nan": lambda a: a is not None and a != a,
}
_PLAIN: dict[str, Callable[..., Any]] = {
    "not": lambda a: not a,
    "eq": lambda a, b: rank(a) == rank(b),
    "ne": lambda a, b: rank(a) != rank(b),
    "lt": lambda a, b: rank(a) < rank(b),
    "le": lambda a, b: rank(a) <= rank(b),
    "gt": lambda a, b: rank(a) > rank(b),
    "ge": lambda a, b: rank(a) >= rank(b),
    "order": lambda a, b: (a > b) - (a < b),
}


def _truncated(a: int, b: int) -> int | None:
    return None if b == 0 else math.trunc(Fraction(a, b))


_INTEGERS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "int_divide": _truncated,
    "floor_divide": lambda a, b: None if b == 0 else a // b,
    "modulo": lambda a, b: None if b == 0 else a - b * math.trunc(Fraction(a, b)),
    "negate": lambda a: -a,
    "abs": abs,
}


def _exp(a: float) -> float:
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def _wide_to_float(a: int) -> float:
    """The nearest double but for rounding twice."""
    high, low = divmod(abs(a), 2**64)
    value = float(high) * 2.0**64 + float(low)
    return -value if a < 0 else value


_FLOATS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: None if b == 0 else a / b,
    "modulo": lambda a, b: None if b == 0 else float(np.fmod(a, b)),
    "power": lambda a, b: float(np.float64(a) ** np.float64(b)),
    "negate": lambda a: -a,
    "abs": abs,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "exp": _exp,
    "ln": lambda a: None if a <= 0 else math.log(a),
    "round_single": lambda a: float(np.float32(a)),
    "to_float": float,
    "wide_to_float": _wide_to_float,
}


def _half_up(value: Fraction) -> int:
    size = int(abs(value) + Fraction(1, 2))
    return -size if value < 0 else size


def _divided(a: int, b: int, digits: int, further: int) -> int | None:
    """With further digits first, then without them: rounded twice."""
    if b == 0:
        return None
    return _half_up(Fraction(_half_up(Fraction(a, b) * 10 ** (digits + further)), 10**further))


_DECIMALS: dict[str, Callable[..., Any]] = {
    "words": lambda a: a,
    "widen": lambda a: a,
    "add": lambda a, b: a + b,
    "negate": lambda a: -a,
    "multiply": lambda a, b: a * b,
    "scale": lambda a, digits: _half_up(Fraction(a) * Fraction(10) ** digits),
    "divide": _divided,
}
