"""Random row-local expressions as machine code, in all ways, against plain Python row by row."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from episode.matchers.code.expressions import LanePlaces
from episode.matchers.code.rows import program_of
from episode.matchers.encoding import Lanes, encode
from episode.matchers.prepare import loads_in
from episode.plan.expressions import Apply, Constant, Current, Exists, Expression, Load
from episode.plan.types import is_ranked_constant, is_wide, lane_of
from tests.reference.expressions import value_of
from tests.unit.native.runs import run_all_ways

LEAST, MOST = -(2**63), 2**63 - 1
COLUMNS = {
    "n": "bigint", "m": "bigint", "i": "int", "x": "double", "y": "double", "b": "boolean", "c": "boolean",
    "s": "string", "t": "string", "d": "decimal(12,2)", "w": "decimal(30,4)", "v": "decimal(38,4)",
}  # fmt: skip
VALUES = {
    "bigint": [0, 1, -1, 7, MOST, LEAST, 3_037_000_500],
    "int": [0, 1, -1, 2**31 - 1, -(2**31), 46_341],
    "double": [0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), float("-inf"), 1e308],
    "boolean": [False, True],
    "string": ["", "a", "b", "ä"],
    "decimal(12,2)": ["0.00", "1.25", "-9999999999.99", "9999999999.99"],
    "decimal(30,4)": ["0.0000", "-1.0001", "99999999999999999999999999.9999"],
    "decimal(38,4)": ["0.0001", "-12345.6789", "9999999999999999999999999999999999.9999"],
}
ARROW = {
    "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(),
    "decimal(12,2)": pa.decimal128(12, 2), "decimal(30,4)": pa.decimal128(30, 4), "decimal(38,4)": pa.decimal128(38, 4),
}  # fmt: skip
WIDE = "decimal(38,4)"


def draw_table(rng: Random) -> tuple[pa.Table, np.ndarray]:
    rows = rng.choice([1, 2, 5, 30])
    columns = {}
    for name, type_ in COLUMNS.items():
        nulls = rng.choice([0, 0, 0.3])
        drawn = [None if rng.random() < nulls else rng.choice(VALUES[type_]) for _ in range(rows)]
        if type_.startswith("decimal"):
            drawn = [None if one is None else Decimal(one) for one in drawn]
        columns[name] = pa.array(drawn, ARROW[type_])
    return pa.table(columns), np.sort(np.array([rng.randrange(3) for _ in range(rows)], np.int64))


def draw(rng: Random, type_: str, depth: int) -> Expression:
    """An expression of a type; WIDE: a decimal in words."""
    if depth == 0 or rng.random() < 0.15:
        return leaf(rng, type_, [name for name, own in COLUMNS.items() if own == type_])

    def some(*types: str) -> tuple[Expression, ...]:
        return tuple(draw(rng, one, depth - 1) for one in types)

    def number(*numbers: int) -> Constant:
        return Constant(rng.choice(numbers), "int")

    compared = rng.choice(["bigint", "int", "double", "string", "boolean"])
    two = (type_, type_)
    forms: list[tuple[list[str], Callable[[], tuple[Expression, ...]]]] = [
        (["if"], lambda: some("boolean", *two)),
        (["coalesce"], lambda: some(*two)),
    ]
    if type_ not in ("string", WIDE, "boolean"):
        forms.append((["least", "greatest"], lambda: some(*two)))
    if type_ in ("bigint", "int"):
        arithmetic = ["add", "subtract", "multiply", "modulo", "int_divide", "floor_divide"]
        forms += [(arithmetic, lambda: some(*two)), (["negate", "abs"], lambda: some(type_))]
    if type_ == "double":
        functions = ["negate", "abs", "sqrt", "exp", "ln", "round_single"]
        forms += [
            (["add", "subtract", "multiply", "divide", "modulo", "power"], lambda: some(*two)),
            (functions, lambda: some(type_)),
            (["to_float"], lambda: some("bigint")),
            (["wide_to_float"], lambda: some(WIDE)),
        ]
    if type_ == "boolean":
        forms += [
            (["eq", "ne", "lt", "le", "gt", "ge", "same"], lambda: some(compared, compared)),
            (["and", "or"], lambda: some(*["boolean"] * rng.randint(2, 4))),
            (["not"], lambda: some("boolean")),
            (["is_null"], lambda: some(compared)),
            (["is_nan"], lambda: some("double")),
            (["lt", "ge"], lambda: (Apply("order", some(WIDE, WIDE), "int"), number(0))),
        ]
    if type_ == WIDE:
        forms += [
            (["add"], lambda: some(*two)),
            (["negate"], lambda: some(type_)),
            (["scale"], lambda: (*some(type_), number(-9, -3, -1, 1, 4, 20))),
            (["divide"], lambda: (*some(*two), number(0, 2, 6), number(0, 1, 4))),
            (["multiply"], lambda: tuple(Apply("widen", some("bigint"), WIDE) for _ in range(2))),
        ]
    operations, operands = rng.choice(forms)
    return Apply(rng.choice(operations), operands(), type_)


def leaf(rng: Random, type_: str, names: list[str]) -> Expression:
    if rng.random() < 0.2:
        value = None if rng.random() < 0.2 and type_ != WIDE else rng.choice(VALUES[type_])
        if type_.startswith("decimal") and value is not None:
            value = int(value.replace(".", ""))
        return Constant(int(value) if isinstance(value, bool) else value, type_)
    if type_ == "boolean" and rng.random() < 0.1:
        return Exists(Current(rng.randint(-2, 2)))
    name = rng.choice(names)
    load = Load(name, Current(rng.choice([0, 0, 0, -1, 1, -3, 2])), type_, rng.choice([None, None, rng.choice(names)]))
    return Apply("words", (load,), WIDE) if type_ == WIDE else load


def lanes_of(table: pa.Table, expression: Expression) -> Lanes:
    columns: dict[str, str] = {}
    words: dict[str, None] = {}
    constants = dict.fromkeys(
        (node.type, node.value)
        for node in loads_in(expression, columns, words)
        if isinstance(node, Constant) and is_ranked_constant(node)
    )
    missing = [node.missing for node in loads_in(expression, {}, {}) if isinstance(node, Load) and node.missing]
    columns.update({name: COLUMNS[name] for name in missing if COLUMNS[name] != WIDE})
    words.update(dict.fromkeys(name for name in missing if COLUMNS[name] == WIDE))
    return encode(table, columns, (), constants, (0, 0), words)


def by_python(table: pa.Table, key: np.ndarray, expression: Expression) -> list[object]:
    """The expression of each row by the reference."""
    columns = {}
    for name, type_ in COLUMNS.items():
        values = table[name].to_pylist()
        if type_.startswith("decimal"):
            values = [None if value is None else int(str(value).replace(".", "")) for value in values]
        columns[name] = values
    found = [value_of(expression, columns, key.tolist(), row) for row in range(len(key))]
    return [int(value) if isinstance(value, bool) else value for value in found]


@pytest.mark.parametrize("seed", range(60))
def test_values(seed: int) -> None:
    rng = Random(seed)
    table, key = draw_table(rng)
    type_ = rng.choice(
        [*sorted({own for own in COLUMNS.values() if own not in ("string", "decimal(30,4)")}), "boolean"]
    )
    expression = draw(rng, type_, rng.randint(1, 4))
    lanes = lanes_of(table, expression)
    program, constants = program_of(LanePlaces.of(lanes), (), expression)
    rows = len(key)
    is_float = lane_of(expression.type) == "float"
    given = [
        key, lanes.ints.reshape(-1), lanes.floats.reshape(-1), lanes.valid.reshape(-1),
        *constants.arrays(lanes).values(),
        np.zeros(rows, np.float64 if is_float else np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.uint8),
    ]  # fmt: skip
    _, (*_, values, high, valid) = run_all_ways(program, given, rows)
    made = [
        None if not ok else (upper << 64) + value % 2**64 if is_wide(expression) else value
        for value, upper, ok in zip(values.tolist(), high.tolist(), valid.tolist())
    ]
    expected = by_python(table, key, expression)
    assert [str(one) for one in made] == [str(one) for one in expected]
