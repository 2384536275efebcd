"""Conditions of direct scans against a plain evaluation row by row, and against ranges of row groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from episode.spark.scan.conditions import (
    OPERATORS,
    AndFilter,
    ComparisonFilter,
    Condition,
    ConstantFilter,
    Membership,
    NotFilter,
    Nullness,
    OrFilter,
    Range,
    Truth,
    columns_in,
    evaluate,
    excludes_all,
    place,
    text_of,
)

N = 400
NAN = float("nan")
RNG = np.random.default_rng(14)


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values drawn at random, some of them null."""
    places = RNG.integers(0, len(values), N)
    return pa.array([None if RNG.random() < 0.2 else values[i] for i in places], kind)


COLUMNS = {
    "i": column([-5, 0, 1, 2, 7], pa.int32()),
    "x": column([NAN, math.inf, -math.inf, 0.0, -0.0, 1.5], pa.float64()),
    "f": column([NAN, 0.0, -0.0, 1.5], pa.float32()),
    "s": column(["", "a", "A", "é", "zz"], pa.string()),
    "d": column(["a", "b", "c"], pa.string()).dictionary_encode(),
    "b": column([True, False], pa.bool_()),
    "t": column([-1, 0, 86_400_000_000], pa.timestamp("us", "UTC")),
}
VALUES: dict[str, list[Any]] = {
    "i": [-5, 1, 3],
    "x": [NAN, math.inf, 0.0, -0.0, 1.0],
    "f": [NAN, 0.0, 1.5],
    "s": ["", "a", "b"],
    "d": ["a", "bb", "c"],
    "t": [0, 5],
}


def plain_type(name: str) -> pa.DataType:
    kind = COLUMNS[name].type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def scalar(name: str, value: Any) -> pa.Scalar:
    return pa.array([value], plain_type(name))[0]


# ---- the oracle: Spark's order and three values, one row at a time -------------------------------------------


def rank(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    return value.encode() if isinstance(value, str) else value


BY_OPERATOR: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<=>": lambda a, b: a == b,
}


def expected(condition: Condition, row: dict[str, Any]) -> bool | None:
    match condition:
        case AndFilter(parts):
            answers = [expected(part, row) for part in parts]
            return False if False in answers else None if None in answers else True
        case OrFilter(parts):
            answers = [expected(part, row) for part in parts]
            return True if True in answers else None if None in answers else False
        case NotFilter(part):
            answer = expected(part, row)
            return None if answer is None else not answer
        case ConstantFilter(value):
            return value
        case Truth(name):
            return row[name]
        case Nullness(name, null):
            return (row[name] is None) == null
        case Membership(name, values, has_null):
            if row[name] is None:
                return None
            return True if row[name] in values.to_pylist() else None if has_null else False
        case ComparisonFilter(name, operator, value):
            if row[name] is None:
                return False if operator == "<=>" else None
            return BY_OPERATOR[operator](rank(row[name]), rank(value.as_py()))


def rows() -> list[dict[str, Any]]:
    return pa.table(COLUMNS).to_pylist()


COMPARISONS = [
    ComparisonFilter(name, operator, scalar(name, value))
    for name, values in VALUES.items()
    for operator in OPERATORS
    for value in values
]
OTHERS = [
    Membership("i", pa.array([1, -5], pa.int32())),
    Membership("s", pa.array(["a", ""]), has_null=True),
    Membership("d", pa.array(["a", "zz"])),
    Nullness("x", null=True),
    Nullness("d", null=False),
    Truth("b"),
    ConstantFilter(None),
    ConstantFilter(True),
]


def test_comparisons_answer_as_spark_does() -> None:
    for condition in (*COMPARISONS, *OTHERS):
        found = evaluate(condition, COLUMNS, N).to_pylist()
        assert found == [expected(condition, row) for row in rows()], text_of(condition)


def random_condition(depth: int) -> Condition:
    parts = (*COMPARISONS, *OTHERS)
    if depth == 0:
        return parts[RNG.integers(len(parts))]
    inner = tuple(random_condition(depth - 1) for _ in range(RNG.integers(2, 4)))
    return [AndFilter(inner), OrFilter(inner), NotFilter(inner[0])][RNG.integers(3)]


def test_logic_has_three_values() -> None:
    for _ in range(100):
        condition = random_condition(2)
        found = evaluate(condition, COLUMNS, N).to_pylist()
        assert found == [expected(condition, row) for row in rows()], text_of(condition)
        assert set(columns_in(condition)) <= set(COLUMNS)


# ---- row groups ----------------------------------------------------------------------------------------------


def range_of(array: pa.Array) -> Range:
    values = [place(value) for value in array if value.is_valid]
    known = values and None not in values
    return Range(len(array), array.null_count, min(values) if known else None, max(values) if known else None)


def test_only_row_groups_without_a_row_that_passes_are_left_out() -> None:
    """Small groups of sorted rows, so that many are left out; none with a row that passes."""
    columns = {name: COLUMNS[name] for name in ("i", "s", "t", "b")}
    table = pa.table(columns).sort_by([("i", "ascending"), ("s", "ascending")])
    atoms = [part for part in (*COMPARISONS, *OTHERS) if set(columns_in(part)) <= set(columns)]
    left_out = 0
    for number in range(400):
        first, second, third = (atoms[i] for i in RNG.integers(0, len(atoms), 3))
        condition = (first, AndFilter((first, second)), OrFilter((AndFilter((first, second)), third)))[number % 3]
        group = table.slice(RNG.integers(0, N), RNG.integers(1, 8)).combine_chunks()
        arrays = {name: group.column(name).combine_chunks() for name in columns}
        passing = evaluate(condition, arrays, group.num_rows).true_count
        ranges = {name: range_of(array) for name, array in arrays.items() if name != "b"}
        if excludes_all(condition, ranges):
            assert passing == 0, text_of(condition)
            left_out += 1
    assert left_out > 50


@pytest.mark.parametrize(
    ("condition", "known", "answer"),
    [
        (ComparisonFilter("i", "<", pa.scalar(3)), Range(9, 0, 3, 5), True),
        (ComparisonFilter("i", "<=", pa.scalar(3)), Range(9, 0, 3, 5), False),
        (ComparisonFilter("i", ">", pa.scalar(5)), Range(9, 0, 3, 5), True),
        (ComparisonFilter("i", ">=", pa.scalar(6)), Range(9, 0, 3, 5), True),
        (ComparisonFilter("i", "<=>", pa.scalar(6)), Range(9, 0, 3, 5), True),
        (ComparisonFilter("i", "=", pa.scalar(4)), Range(9), False),
        (ComparisonFilter("i", "=", pa.scalar(4)), Range(9, 9), True),
        (Membership("i", pa.array([1, 9])), Range(9, 0, 3, 5), True),
        (Membership("i", pa.array([1, 4])), Range(9, 0, 3, 5), False),
        (Nullness("i", null=True), Range(9, 0), True),
        (Nullness("i", null=True), Range(9), False),
        (Nullness("i", null=False), Range(9, 9), True),
        (NotFilter(ComparisonFilter("i", "<", pa.scalar(3))), Range(9, 0, 3, 5), False),
        (ComparisonFilter("x", "=", pa.scalar(4.0)), Range(9, 0), False),
        (ConstantFilter(None), Range(9), True),
    ],
)
def test_ranges(condition: Condition, known: Range, answer: bool) -> None:
    assert excludes_all(condition, {"i": known}) == answer


def test_in_words() -> None:
    condition = AndFilter(
        (
            OrFilter((ComparisonFilter("x", ">", pa.scalar(1.5)), NotFilter(Nullness("s", null=True)))),
            Membership("s", pa.array(list("abcdef")), has_null=True),
            ComparisonFilter("t", ">=", scalar("t", 0)),
            Truth("b"),
        )
    )
    assert text_of(condition) == (
        "(x > 1.5 OR NOT s IS NULL) AND s IN ('a', 'b', 'c', 'd', 'e', …, NULL) "
        "AND t >= '1970-01-01 00:00:00+00:00' AND b"
    )
