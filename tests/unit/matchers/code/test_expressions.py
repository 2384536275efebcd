"""Machine expressions, operation by operation, as machine code over all rows, against plain Python: nulls, NaN,
overflow, division by zero; decimals of two words against Python's integers."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from episode.matchers.code.rows import compute
from episode.matchers.encoding import Lanes
from episode.plan.expressions import Apply, Constant, Current, Exists, Expression, Load

LEAST, MOST = -(2**63), 2**63 - 1
INTS = [None, 0, 1, -1, 2, 7, -7, 2**31, -(2**31), 3_037_000_500, MOST, MOST - 1, LEAST, LEAST + 1]
FLOATS = [None, 0.0, -0.0, 1.0, 1.5, -2.5, 7.0, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]
BOOLEANS = [None, 0, 1]
INT, FLOAT = "bigint", "double"
Value = Any


# ---- running it -----------------------------------------------------------------------------------


def values_of(expression: Expression, *columns: list[Value], key: list[int] | None = None) -> list[Value]:
    """The expression of all rows. columns: lists of ints or floats with None for null; their names are numbers."""
    count = len(columns[0])
    ints, floats = np.zeros((len(columns), count), np.int64), np.zeros((len(columns), count))
    valid = np.ones((len(columns), count), np.uint8)
    for number, column in enumerate(columns):
        for row, value in enumerate(column):
            valid[number, row] = value is not None
            if value is not None:
                (floats if isinstance(value, float) else ints)[number, row] = value
    places = {str(number): number for number in range(len(columns))}
    lanes = Lanes(ints, floats, valid, at=places, valid_at=places)
    found, _, there = compute(lanes, np.array(key or [0] * count, np.int64), expression)
    return [value if ok else None for value, ok in zip(found.tolist(), there.tolist())]


def column(number: int, type_: str = INT, offset: int = 0, missing: str | None = None) -> Load:
    return Load(str(number), Current(offset), type_, missing)


def same(one: Value, other: Value) -> bool:
    """Equal to the bit, but for the payload of NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other


def check(
    operation: str, arguments: list[tuple[Value, ...]], expected: Callable[..., Value], type_: str | None = None
) -> None:
    """The operation on tuples of arguments, which are columns of one table. type_: of whole numbers that are narrow."""
    columns = [list(column) for column in zip(*arguments)]
    floating = [any(isinstance(v, float) for v in column) for column in columns]
    operands = tuple(column(number, FLOAT if is_float else type_ or INT) for number, is_float in enumerate(floating))
    wanted = [expected(*values) for values in arguments]
    is_float = any(isinstance(value, float) for value in wanted)
    found = values_of(Apply(operation, operands, FLOAT if is_float else type_ or INT), *columns)
    for values, one, other in zip(arguments, found, wanted, strict=True):
        assert same(one, other), f"{operation} of {values}: {one}, not {other}"


def strict(function: Callable[..., Value]) -> Callable[..., Value]:
    """Null where an argument is null."""
    return lambda *values: None if None in values else function(*values)


# ---- arithmetic -----------------------------------------------------------------------------------


def exact(function: Callable[[int, int], int | None], limit: int = MOST) -> Callable[..., Value]:
    def bounded(a: int, b: int) -> int | None:
        result = function(a, b)
        return result if result is not None and -limit - 1 <= result <= limit else None

    return strict(bounded)


def truncated(a: int, b: int) -> int | None:
    return None if b == 0 else math.trunc(Fraction(a, b))


def remainder(a: int, b: int) -> int | None:
    return None if b == 0 else a - b * math.trunc(Fraction(a, b))


INTEGER_OPERATIONS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "int_divide": truncated,
    "modulo": remainder,
    "floor_divide": lambda a, b: None if b == 0 else a // b,
}
AT_THE_LIMIT = [(2**62, -2), (-(2**31), 2**32), (MOST, -1), (LEAST, 1), (1, LEAST), (3_037_000_499, 3_037_000_499)]
JUST_OVER = [(3_037_000_500, 3_037_000_500), (2**62, 2), (LEAST, -1)]


@pytest.mark.parametrize("operation", INTEGER_OPERATIONS)
def test_integers(operation: str) -> None:
    pairs = [pair for pair in product(INTS, INTS) if pair not in JUST_OVER]
    check(operation, pairs, exact(INTEGER_OPERATIONS[operation]))


@pytest.mark.parametrize("operation", ["multiply", "int_divide", "floor_divide"])
def test_results_around_the_limit(operation: str) -> None:
    check(operation, [*JUST_OVER, *AT_THE_LIMIT], exact(INTEGER_OPERATIONS[operation]))


@pytest.mark.parametrize("operation", ["negate", "abs"])
def test_the_least_integer_has_no_opposite(operation: str) -> None:
    check(operation, [(LEAST,)], lambda _: None)


@pytest.mark.parametrize(("type_", "limit"), [("int", 2**31 - 1), ("tinyint", 127)])
@pytest.mark.parametrize("operation", ["add", "subtract", "multiply"])
def test_narrow_integers_overflow_at_their_width(operation: str, type_: str, limit: int) -> None:
    values = [None, 0, 1, -1, limit, limit - 1, -limit, -limit - 1, 11, -12]
    check(operation, list(product(values, values)), exact(INTEGER_OPERATIONS[operation], limit), type_)


FLOAT_OPERATIONS: dict[str, Callable[[float, float], float | None]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": lambda a, b: None if b == 0 else a / b,
    "modulo": lambda a, b: None if b == 0 else (math.nan if math.isinf(a) or a != a or b != b else math.fmod(a, b)),
}


@pytest.mark.parametrize("operation", FLOAT_OPERATIONS)
def test_floats(operation: str) -> None:
    check(operation, list(product(FLOATS, FLOATS)), strict(FLOAT_OPERATIONS[operation]))


FUNCTIONS: list[tuple[str, list[Value], Callable[[Any], Value]]] = [
    ("negate", [v for v in INTS if v != LEAST], operator.neg),
    ("abs", [v for v in INTS if v != LEAST], abs),
    ("negate", FLOATS, operator.neg),
    ("abs", FLOATS, abs),
    ("copy", INTS, lambda v: v),
    ("copy", FLOATS, lambda v: v),
    ("to_float", INTS, float),
    (
        "round_single",
        [v for v in FLOATS if v is None or abs(v) != 1e308] + [0.1, 16_777_217.0],
        lambda v: float(np.float32(v)),
    ),
    ("sqrt", FLOATS, lambda v: math.sqrt(v) if v >= 0 else math.nan),
    ("ln", [None, 0.0, -1.0, 1.0, math.e, math.inf, math.nan], lambda v: None if v <= 0 else math.log(v)),
    ("exp", [None, 0.0, -math.inf, math.inf, math.nan], lambda v: math.exp(v)),
    ("not", BOOLEANS, lambda v: 1 - v),
]


@pytest.mark.parametrize(("operation", "values", "function"), FUNCTIONS)
def test_functions(operation: str, values: list[Value], function: Callable[[Any], Value]) -> None:
    check(operation, [(v,) for v in values], strict(function))


def test_power() -> None:
    pairs = [(2.0, 10.0), (2.0, -1.0), (-8.0, 3.0), (-8.0, 0.5), (0.0, 0.0), (None, 1.0), (1.0, None), (2.0, math.nan)]
    check("power", pairs, strict(lambda a, b: math.nan if a < 0 and b != int(b) else math.pow(a, b)))


# ---- comparison -----------------------------------------------------------------------------------


def rank(v: float) -> tuple[bool, float]:
    """Spark's order: NaN is equal to itself and greater than everything else."""
    return (True, 0.0) if math.isnan(v) else (False, v)


@pytest.mark.parametrize("operation", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(operation: str) -> None:
    compare = getattr(operator, operation)
    check(operation, list(product(INTS, INTS)), strict(lambda a, b: int(compare(a, b))))
    check(operation, list(product(FLOATS, FLOATS)), strict(lambda a, b: int(compare(rank(a), rank(b)))))


def test_null_safe_equality() -> None:
    check("same", list(product(INTS, INTS)), lambda a, b: int(a == b))
    both = list(product(FLOATS, FLOATS))
    check("same", both, lambda a, b: int(a is b if None in (a, b) else rank(a) == rank(b)))


@pytest.mark.parametrize("values", [INTS, FLOATS])
def test_extremes_skip_nulls(values: list[Value]) -> None:
    def extreme(pick: Callable[..., Value]) -> Callable[..., Value]:
        def of(a: Value, b: Value) -> Value:
            there = [v for v in (a, b) if v is not None]
            return pick(there, key=lambda v: rank(v) if isinstance(v, float) else v) if there else None

        return of

    check("least", list(product(values, values)), extreme(min))
    check("greatest", list(product(values, values)), extreme(max))


# ---- logic ----------------------------------------------------------------------------------------


def test_three_valued_logic() -> None:
    pairs = list(product(BOOLEANS, BOOLEANS))
    check("and", pairs, lambda a, b: 0 if 0 in (a, b) else None if None in (a, b) else 1)
    check("or", pairs, lambda a, b: 1 if 1 in (a, b) else None if None in (a, b) else 0)


@pytest.mark.parametrize(
    ("operation", "values"), [("if", INTS), ("if", FLOATS), ("coalesce", INTS), ("coalesce", FLOATS)]
)
def test_choices(operation: str, values: list[Value]) -> None:
    if operation == "if":
        check(operation, list(product(BOOLEANS, values, values)), lambda test, a, b: a if test else b)
    else:
        check(operation, list(product(values, values)), lambda a, b: b if a is None else a)


def test_tests_of_null_and_nan() -> None:
    check("is_null", [(v,) for v in INTS], lambda v: int(v is None))
    check("is_null", [(v,) for v in FLOATS], lambda v: int(v is None))
    check("is_nan", [(v,) for v in FLOATS], lambda v: int(v is not None and math.isnan(v)))


# ---- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, -1, 2, -3, 100, -(2**31)])
@pytest.mark.parametrize("missing", [False, True])
def test_loads_stay_in_the_partition(offset: int, missing: bool) -> None:
    values = [10, None, 12, 13, 14, None, 16]
    stand_in = [1, 2, None, 4, 5, 6, 7]
    key = [0, 0, 0, 5, 5, 9, 9]

    def expected(row: int) -> Value:
        at = row + offset
        if 0 <= at < len(key) and key[at] == key[row]:
            return values[at]
        return stand_in[row] if missing else None

    load = column(0, offset=offset, missing="1" if missing else None)
    assert values_of(load, values, stand_in, key=key) == [expected(row) for row in range(len(key))]
    inside = [int(0 <= row + offset < len(key) and key[row + offset] == key[row]) for row in range(len(key))]
    assert values_of(Exists(Current(offset)), values, key=key) == inside


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 2000])
def test_loads_around_the_edges(count: int) -> None:
    both = Apply("add", (column(0, offset=-3), column(0, offset=2)), INT)
    assert values_of(both, list(range(count))) == [i - 3 + i + 2 if 3 <= i < count - 2 else None for i in range(count)]


@pytest.mark.parametrize(("value", "type_"), [(5, INT), (math.inf, FLOAT), (None, INT)])
def test_constants(value: Value, type_: str) -> None:
    assert values_of(Constant(value, type_), [1, 2]) == [value, value]


# ---- decimals of two words -------------------------------------------------------------------------

LIMIT = 10**38
WIDE = "decimal(38,4)"


def wide_numbers(count: int) -> list[int]:
    """Of all sizes, the largest among them."""
    rng = random.Random(7)
    sizes = [1, 5, 18, 19, 20, 37, 38]
    found = [rng.choice([1, -1]) * rng.randrange(10 ** rng.choice(sizes)) for _ in range(count)]
    return [*found, 0, 1, -1, 2**64, -(2**64), LIMIT - 1, 1 - LIMIT]


def compute_wide(expression: Expression, *columns: list[int]) -> tuple[list[Value], list[Value]]:
    """The expression of all rows: (as numbers of two words, as numbers of one). columns: of two words."""
    count = len(columns[0])
    words = [word for column in columns for word in ([v & (2**64 - 1) for v in column], [v >> 64 for v in column])]
    ints = np.array([[w - 2**64 if w >= 2**63 else w for w in row] for row in words], np.int64)
    places = {str(number): 2 * number for number in range(len(columns))}
    valid = {str(number): number for number in range(len(columns))}
    there = np.ones((len(columns), count), np.uint8)
    lanes = Lanes(ints, np.zeros((1, count)), there, words_at=places, valid_at=valid)
    low, high, ok = (array.tolist() for array in compute(lanes, np.zeros(count, np.int64), expression))
    narrow = [one if yes else None for one, yes in zip(low, ok)]
    wide = [(h << 64) + int(one) % 2**64 if yes else None for one, h, yes in zip(low, high, ok)]
    return wide, narrow


def words(number: int) -> Apply:
    return Apply("words", (Load(str(number), Current(0), WIDE),), WIDE)


def bounded(value: int) -> int | None:
    return value if abs(value) < LIMIT else None


def test_sums_and_order_of_decimals() -> None:
    left = wide_numbers(500)
    right = left[::-1]
    sums, _ = compute_wide(Apply("add", (words(0), words(1)), WIDE), left, right)
    assert sums == [bounded(a + b) for a, b in zip(left, right)]
    _, orders = compute_wide(Apply("order", (words(0), words(1)), "int"), left, right)
    assert orders == [(a > b) - (a < b) for a, b in zip(left, right)]


def test_products_of_decimals() -> None:
    rng = random.Random(9)
    left = wide_numbers(500)
    right = [rng.choice([1, -1]) * rng.randrange(10 ** (38 - len(str(abs(a))))) for a in left]
    products, _ = compute_wide(Apply("multiply", (words(0), words(1)), WIDE), left, right)
    assert products == [a * b for a, b in zip(left, right)]


@pytest.mark.parametrize(("digits", "further"), [(0, 0), (3, 1), (6, 5), (12, 18), (19, 32)])
def test_quotients_of_decimals_are_rounded_twice_as_in_spark(digits: int, further: int) -> None:
    rng = random.Random(10)
    left = [*wide_numbers(200), *(5 * 10**18 - 1 for _ in range(20)), 1, -1, LIMIT - 1]
    right = [*wide_numbers(200)[::-1], *(10**19 + rng.randrange(-3, 3) for _ in range(20)), 2, 2, 1]
    numbers = (Constant(digits, "int"), Constant(further, "int"))
    found, _ = compute_wide(Apply("divide", (words(0), words(1), *numbers), WIDE), left, right)
    assert found == [quotient(a, b, digits, further) for a, b in zip(left, right)]


def quotient(a: int, b: int, digits: int, further: int) -> int | None:
    if b == 0:
        return None
    size = half_up(Fraction(half_up(Fraction(abs(a), abs(b)) * 10 ** (digits + further)), 10**further))
    return bounded(size if (a < 0) == (b < 0) else -size)


def half_up(value: Fraction) -> int:
    return int(value + Fraction(1, 2))


def test_decimals_as_doubles() -> None:
    given = wide_numbers(500)
    _, found = compute_wide(Apply("wide_to_float", (words(0),), FLOAT), given)
    assert all(abs(one - float(a)) <= abs(a) * 2.0**-51 for one, a in zip(found, given))
