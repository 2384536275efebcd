"""Machine expressions, operation by operation, against plain Python: nulls, NaN, overflow, division by zero.

Every operation runs as machine code over all rows, as conditions do before matching, and by the expression machine over
single rows, as conditions do while matching; both agree.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from episode.kernels.machine import run
from episode.matchers.lowering import BY_LANE, LIMITED, PLAIN

from episode.matchers import opcodes as oc
from episode.matchers.encoding import Lanes
from episode.matchers.row_code import compute
from episode.plan.expressions import Apply, Constant, Current, Exists, Expression, Load

LEAST, MOST = -(2**63), 2**63 - 1
INTS = [None, 0, 1, -1, 2, 7, -7, 2**31, -(2**31), 3_037_000_500, MOST, MOST - 1, LEAST, LEAST + 1]
FLOATS = [None, 0.0, -0.0, 1.0, 1.5, -2.5, 7.0, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]
BOOLEANS = [None, 0, 1]
Value = Any


# ---- running it -----------------------------------------------------------------------------------


class Rows:
    """Columns of the machine; `columns` are lists of ints or floats with None for null."""

    def __init__(self, *columns: list[Value], key: list[int] | None = None) -> None:
        count = len(columns[0])
        self.key = np.array(key or [0] * count, np.int64)
        self.ints, self.floats = np.zeros((len(columns), count), np.int64), np.zeros((len(columns), count))
        self.valid = np.ones((len(columns), count), np.uint8)
        for number, column in enumerate(columns):
            for row, value in enumerate(column):
                self.valid[number, row] = value is not None
                if isinstance(value, float):
                    self.floats[number, row] = value
                elif value is not None:
                    self.ints[number, row] = value

    def block(
        self, code: list[tuple[int, ...]], ints: Sequence[int] = (MOST,), floats: Sequence[float] = (0.0,)
    ) -> list[Value]:
        """The last register of the program for all rows at once, as machine code."""
        columns = {str(number): number for number in range(len(self.valid))}
        lanes = Lanes(self.ints, self.floats, self.valid, at=columns, valid_at=columns)
        values, _, valid = compute(lanes, self.key, expression_of(code, ints, floats))
        return [value(code, one, one, ok) for one, ok in zip(values, valid)]

    def single(
        self, code: list[tuple[int, ...]], row: int, ints: Sequence[int] = (MOST,), floats: Sequence[float] = (0.0,),
        *, nav_rows: Sequence[int] = (), nav_labels: Sequence[int] = (), running: Sequence[Value] = (), number: int = 0,
    ) -> Value:  # fmt: skip
        """The same for one row, with what a condition under trial may also read."""
        ri, rf, rn = np.zeros((8, 1), np.int64), np.zeros((8, 1)), np.zeros((8, 1), np.uint8)
        run_i = np.array([int(v) if isinstance(v, int) else 0 for v in running], np.int64)
        run_f = np.array([v if isinstance(v, float) else 0.0 for v in running])
        run_n = np.array([v is None for v in running], np.uint8)
        program = instructions(code)
        run(
            program, 0, len(program), ri, rf, rn, 1, row, self.key, self.ints, self.floats, self.valid,
            np.array(ints, np.int64), np.array(floats), np.array(nav_rows, np.int64), np.array(nav_labels, np.int64),
            run_i, run_f, run_n, number,
        )  # fmt: skip
        target = code[-1][1]
        return value(code, ri[target, 0], rf[target, 0], 1 - rn[target, 0])


def expression_of(code: list[tuple[int, ...]], ints: Sequence[int], floats: Sequence[float]) -> Expression:
    """What the last instruction of a program computes."""
    registers: dict[int, Expression] = {}
    for op, target, *operands in code:
        type_ = "double" if op in FLOAT_RESULTS else "bigint"
        if op in (oc.LOAD_I, oc.LOAD_F):
            column, _, offset, missing, _ = operands
            made: Expression = Load(str(column), Current(offset), type_, None if missing < 0 else str(missing))
        elif op in (oc.CONST_I, oc.CONST_F, oc.NULL):
            made = Constant(None if op == oc.NULL else (floats if op == oc.CONST_F else ints)[operands[0]], type_)
        elif op == oc.EXISTS:
            made = Exists(Current(operands[0]))
        else:
            name = OPERATIONS[op]
            limit = {2**31 - 1: "int", 127: "tinyint"}.get(ints[0], type_) if name in LIMITED else type_
            made = Apply(name, tuple(registers[one] for one in operands), limit if type_ == "bigint" else type_)
        registers[target] = made
    return made


OPERATIONS = {code: name for name, codes in BY_LANE.items() for code in codes} | {
    **{code: name for name, code in PLAIN.items()},
    oc.IF_I: "if",
    oc.IF_F: "if",
}


def instructions(code: list[tuple[int, ...]]) -> np.ndarray:
    return np.array([(*line, *(0,) * (oc.WIDTH - len(line))) for line in code], np.int64)


def value(code: list[tuple[int, ...]], i: np.int64, f: np.float64, valid: np.uint8) -> Value:
    if not valid:
        return None
    return float(f) if code[-1][0] in FLOAT_RESULTS else int(i)


FLOAT_RESULTS = {
    oc.LOAD_F, oc.LOAD_NAV_F, oc.CONST_F, oc.ADD_F, oc.SUB_F, oc.MUL_F, oc.DIVIDE_F, oc.MOD_F, oc.NEGATE_F, oc.ABS_F,
    oc.TO_FLOAT, oc.ROUND_SINGLE, oc.IF_F, oc.COALESCE_F, oc.LEAST_F, oc.GREATEST_F, oc.SQRT, oc.EXP, oc.LN, oc.POWER,
    oc.RUNNING_F, oc.COPY_F,
}  # fmt: skip


def same(one: Value, other: Value) -> bool:
    """Equal to the bit, but for the payload of NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other


def check(
    operation: int, arguments: list[tuple[Value, ...]], expected: Callable[..., Value], ints: Sequence[int] = (MOST,)
) -> None:
    """The operation on tuples of arguments, which are columns of one table."""
    columns = [list(column) for column in zip(*arguments)]
    rows = Rows(*columns)
    floating = [any(isinstance(v, float) for v in column) for column in columns]
    code: list[tuple[int, ...]] = [
        (oc.LOAD_F if is_float else oc.LOAD_I, n, n, n, 0, -1, -1) for n, is_float in enumerate(floating)
    ]
    code.append((operation, 7, *range(len(columns))))
    block = rows.block(code, ints)
    for row, values in enumerate(arguments):
        wanted = expected(*values)
        assert same(block[row], wanted), f"{values}: {block[row]}, not {wanted}"
        single = rows.single(code, row, ints)
        assert same(single, block[row]), f"{values}: {single} alone, {block[row]} in a block"


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
    oc.ADD_I: operator.add,
    oc.SUB_I: operator.sub,
    oc.MUL_I: operator.mul,
    oc.INT_DIVIDE_I: truncated,
    oc.MOD_I: remainder,
    oc.FLOOR_DIVIDE_I: lambda a, b: None if b == 0 else a // b,
}
AT_THE_LIMIT = [(2**62, -2), (-(2**31), 2**32), (MOST, -1), (LEAST, 1), (1, LEAST), (3_037_000_499, 3_037_000_499)]
JUST_OVER = [(3_037_000_500, 3_037_000_500), (2**62, 2), (LEAST, -1)]


@pytest.mark.parametrize("operation", INTEGER_OPERATIONS)
def test_integers(operation: int) -> None:
    pairs = [pair for pair in product(INTS, INTS) if pair not in JUST_OVER]
    check(operation, pairs, exact(INTEGER_OPERATIONS[operation]))


@pytest.mark.parametrize("operation", [oc.MUL_I, oc.INT_DIVIDE_I, oc.FLOOR_DIVIDE_I])
def test_results_around_the_limit(operation: int) -> None:
    check(operation, [*JUST_OVER, *AT_THE_LIMIT], exact(INTEGER_OPERATIONS[operation]))


@pytest.mark.parametrize("operation", [oc.NEGATE_I, oc.ABS_I])
def test_the_least_integer_has_no_opposite(operation: int) -> None:
    check(operation, [(LEAST,)], lambda _: None)


@pytest.mark.parametrize("limit", [2**31 - 1, 127])
@pytest.mark.parametrize("operation", [oc.ADD_I, oc.SUB_I, oc.MUL_I])
def test_narrow_integers_overflow_at_their_width(operation: int, limit: int) -> None:
    values = [None, 0, 1, -1, limit, limit - 1, -limit, -limit - 1, 11, -12]
    check(operation, list(product(values, values)), exact(INTEGER_OPERATIONS[operation], limit), [limit])


FLOAT_OPERATIONS: dict[int, Callable[[float, float], float | None]] = {
    oc.ADD_F: operator.add,
    oc.SUB_F: operator.sub,
    oc.MUL_F: operator.mul,
    oc.DIVIDE_F: lambda a, b: None if b == 0 else a / b,
    oc.MOD_F: lambda a, b: None if b == 0 else (math.nan if math.isinf(a) or a != a or b != b else math.fmod(a, b)),
}


@pytest.mark.parametrize("operation", FLOAT_OPERATIONS)
def test_floats(operation: int) -> None:
    check(operation, list(product(FLOATS, FLOATS)), strict(FLOAT_OPERATIONS[operation]))


FUNCTIONS: dict[int, tuple[list[Value], Callable[[Any], Value]]] = {
    oc.NEGATE_I: ([v for v in INTS if v != LEAST], operator.neg),
    oc.ABS_I: ([v for v in INTS if v != LEAST], abs),
    oc.NEGATE_F: (FLOATS, operator.neg),
    oc.ABS_F: (FLOATS, abs),
    oc.COPY_I: (INTS, lambda v: v),
    oc.COPY_F: (FLOATS, lambda v: v),
    oc.TO_FLOAT: (INTS, float),
    oc.ROUND_SINGLE: (
        [v for v in FLOATS if v is None or abs(v) != 1e308] + [0.1, 16_777_217.0],
        lambda v: float(np.float32(v)),
    ),
    oc.SQRT: (FLOATS, lambda v: math.sqrt(v) if v >= 0 else math.nan),
    oc.LN: ([None, 0.0, -1.0, 1.0, math.e, math.inf, math.nan], lambda v: None if v <= 0 else math.log(v)),
    oc.EXP: ([None, 0.0, -math.inf, math.inf, math.nan], lambda v: math.exp(v)),
    oc.NOT: (BOOLEANS, lambda v: 1 - v),
}


@pytest.mark.parametrize("operation", FUNCTIONS)
def test_functions(operation: int) -> None:
    values, function = FUNCTIONS[operation]
    check(operation, [(v,) for v in values], strict(function))


def test_power() -> None:
    pairs = [(2.0, 10.0), (2.0, -1.0), (-8.0, 3.0), (-8.0, 0.5), (0.0, 0.0), (None, 1.0), (1.0, None), (2.0, math.nan)]
    check(oc.POWER, pairs, strict(lambda a, b: math.nan if a < 0 and b != int(b) else math.pow(a, b)))


# ---- comparison -----------------------------------------------------------------------------------


def rank(v: float) -> tuple[bool, float]:
    """Spark's order: NaN is equal to itself and greater than everything else."""
    return (True, 0.0) if math.isnan(v) else (False, v)


COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize(("number", "compare"), list(enumerate(COMPARISONS)))
def test_comparisons(number: int, compare: Callable[..., bool]) -> None:
    check(oc.EQ_I + number, list(product(INTS, INTS)), strict(lambda a, b: int(compare(a, b))))
    check(oc.EQ_F + number, list(product(FLOATS, FLOATS)), strict(lambda a, b: int(compare(rank(a), rank(b)))))


def test_null_safe_equality() -> None:
    check(oc.SAME_I, list(product(INTS, INTS)), lambda a, b: int(a == b))
    both = list(product(FLOATS, FLOATS))
    check(oc.SAME_F, both, lambda a, b: int(a is b if None in (a, b) else rank(a) == rank(b)))


@pytest.mark.parametrize(
    ("least", "greatest", "values"), [(oc.LEAST_I, oc.GREATEST_I, INTS), (oc.LEAST_F, oc.GREATEST_F, FLOATS)]
)
def test_extremes_skip_nulls(least: int, greatest: int, values: list[Value]) -> None:
    def extreme(pick: Callable[..., Value]) -> Callable[..., Value]:
        def of(a: Value, b: Value) -> Value:
            there = [v for v in (a, b) if v is not None]
            return pick(there, key=lambda v: rank(v) if isinstance(v, float) else v) if there else None

        return of

    check(least, list(product(values, values)), extreme(min))
    check(greatest, list(product(values, values)), extreme(max))


# ---- logic ----------------------------------------------------------------------------------------


def test_three_valued_logic() -> None:
    pairs = list(product(BOOLEANS, BOOLEANS))
    check(oc.AND, pairs, lambda a, b: 0 if 0 in (a, b) else None if None in (a, b) else 1)
    check(oc.OR, pairs, lambda a, b: 1 if 1 in (a, b) else None if None in (a, b) else 0)


@pytest.mark.parametrize(
    ("operation", "values"), [(oc.IF_I, INTS), (oc.IF_F, FLOATS), (oc.COALESCE_I, INTS), (oc.COALESCE_F, FLOATS)]
)
def test_choices(operation: int, values: list[Value]) -> None:
    if operation in (oc.IF_I, oc.IF_F):
        check(operation, list(product(BOOLEANS, values, values)), lambda test, a, b: a if test else b)
    else:
        check(operation, list(product(values, values)), lambda a, b: b if a is None else a)


def test_tests_of_null_and_nan() -> None:
    check(oc.IS_NULL_I, [(v,) for v in INTS], lambda v: int(v is None))
    check(oc.IS_NULL_F, [(v,) for v in FLOATS], lambda v: int(v is None))
    check(oc.IS_NAN, [(v,) for v in FLOATS], lambda v: int(v is not None and math.isnan(v)))


# ---- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, -1, 2, -3, 100, -(2**31)])
@pytest.mark.parametrize("missing", [False, True])
def test_loads_stay_in_the_partition(offset: int, missing: bool) -> None:
    values = [10, None, 12, 13, 14, None, 16]
    stand_in = [1, 2, None, 4, 5, 6, 7]
    key = [0, 0, 0, 5, 5, 9, 9]
    rows = Rows(values, stand_in, key=key)
    code = [(oc.LOAD_I, 7, 0, 0, offset, *((1, 1) if missing else (-1, -1)))]

    def expected(row: int) -> Value:
        at = row + offset
        if 0 <= at < len(key) and key[at] == key[row]:
            return values[at]
        return stand_in[row] if missing else None

    wanted = [expected(row) for row in range(len(key))]
    assert rows.block(code) == wanted
    assert [rows.single(code, row) for row in range(len(key))] == wanted
    exists = [(oc.EXISTS, 7, offset)]
    inside = [int(0 <= row + offset < len(key) and key[row + offset] == key[row]) for row in range(len(key))]
    assert rows.block(exists) == inside


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 2000])
def test_loads_around_the_edges(count: int) -> None:
    rows = Rows(list(range(count)))
    shifted = rows.block([(oc.LOAD_I, 0, 0, -1, -3, -1, -1), (oc.LOAD_I, 1, 0, -1, 2, -1, -1), (oc.ADD_I, 7, 0, 1)])
    assert shifted == [i - 3 + i + 2 if 3 <= i < count - 2 else None for i in range(count)]


def test_constants() -> None:
    rows = Rows([1, 2])
    assert rows.block([(oc.CONST_I, 7, 1)], [MOST, 5]) == [5, 5]
    assert rows.block([(oc.CONST_F, 7, 1)], floats=[0.0, math.inf]) == [math.inf, math.inf]
    assert rows.block([(oc.NULL, 7)]) == [None, None]


def test_what_a_condition_under_trial_reads() -> None:
    rows = Rows([10, None, 12], [7, None, 9])
    load = [(oc.LOAD_NAV_I, 7, 0, 0, 0, -1, -1)]
    assert [rows.single(load, 2, nav_rows=[row]) for row in (0, 1, 2, -1)] == [10, None, 12, None]
    instead = [(oc.LOAD_NAV_I, 7, 0, 0, 0, 1, 1)]
    assert [rows.single(instead, row, nav_rows=[-1]) for row in (0, 1, 2)] == [7, None, 9]
    assert [rows.single([(oc.EXISTS_NAV, 7, 0)], 0, nav_rows=[row]) for row in (2, -1)] == [1, 0]
    assert [rows.single([(oc.LABEL_AT, 7, 0)], 0, nav_labels=[code]) for code in (3, -1)] == [3, None]
    assert rows.single([(oc.MATCH_NUMBER, 7)], 0, number=4) == 4
    assert [rows.single([(oc.RUNNING_I, 7, 0)], 0, running=[v]) for v in (5, None)] == [5, None]
    assert [rows.single([(oc.RUNNING_F, 7, 0)], 0, running=[v]) for v in (0.5, None)] == [0.5, None]
