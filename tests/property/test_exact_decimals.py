"""Decimals of up to 38 digits in process: values and comparisons are exact, with the types that Spark gives them.

Python's fractions have the values; the types follow Spark's rules for decimal arithmetic, written down here once more.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import episode

MOST_DIGITS = 38
Row = dict[str, Any]
Value = Fraction | None
ROWS: list[Row] = [
    {"i": at, "x": x, "n": n, "m": m, "w": w}
    for at, (x, n, m, w) in enumerate([
        (2**63 - 1, 2**31 - 1, Decimal("9999999999.99"), Decimal("9" * 24 + ".9999")),
        (-(2**63), -(2**31), Decimal("-9999999999.99"), Decimal("-" + "9" * 24 + ".9999")),
        (0, 0, Decimal("0.00"), Decimal("0.0000")),
        (None, 5, None, Decimal("1.5000")),
        (1, -1, Decimal("0.01"), None),
        (2**62 + 1, 7, Decimal("-0.01"), Decimal("12345678901234567890.0001")),
        (-7, None, Decimal("33.33"), Decimal("-0.0001")),
        (10**18, 3, Decimal("2.50"), Decimal("5.0000")),
        (6148914691236517204, 1, Decimal("100.00"), Decimal("9223372036854775807.5000")),
    ])
]  # fmt: skip
TABLE = pa.Table.from_pylist(
    ROWS,
    schema=pa.schema(
        {"i": pa.int64(), "x": pa.int64(), "n": pa.int32(), "m": pa.decimal128(12, 2), "w": pa.decimal128(28, 4)}
    ),
)
COLUMNS = {"x": (20, 0), "n": (10, 0), "m": (12, 2), "w": (28, 4)}
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Number:
    """An expression, its decimal type, and its value at a row. whole: is it of an integer type?"""

    sql: str
    precision: int
    scale: int
    value: Callable[[Row], Value]
    whole: bool = False


def exact(value: Any) -> Value:
    return None if value is None else Fraction(value)


def column(name: str) -> Number:
    return Number(f"{{at}}{name}", *COLUMNS[name], lambda row: exact(row[name]), whole=name in "xn")


def literal(text: str) -> Number:
    digits = text.lstrip("-").replace(".", "").lstrip("0") or "0"
    scale = len(text.partition(".")[2])
    return Number(text, max(len(digits), scale), scale, lambda _: Fraction(text), whole="." not in text)


def half_up(value: Fraction, digits: int) -> Fraction:
    size = int(abs(value) * 10**digits + Fraction(1, 2))
    return Fraction(size if value >= 0 else -size, 10**digits)


def combined(sign: str, left: Number, right: Number) -> Number | None:
    """The two as Spark combines them; None where it would keep fewer digits than the exact result has."""
    if sign in "+-":
        scale = max(left.scale, right.scale)
        precision = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    elif sign == "*":
        scale, precision = left.scale + right.scale, left.precision + right.precision + 1
    else:
        scale = max(6, left.scale + right.precision + 1)
        whole = left.precision - left.scale + right.scale
        scale = scale if whole + scale <= MOST_DIGITS else max(MOST_DIGITS - whole, 6)
        precision = min(whole + scale, MOST_DIGITS)
    if precision > MOST_DIGITS or (left.whole and right.whole) or scale - left.scale + right.scale < 0:
        return None

    def value(row: Row) -> Value:
        one, other = left.value(row), right.value(row)
        if one is None or other is None or (sign == "/" and other == 0):
            return None
        if sign != "/":
            return {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign](one, other)
        found = half_up(half_up(one / other, MOST_DIGITS), scale)
        return found if abs(found) * 10**scale < 10**MOST_DIGITS else None

    return Number(f"({left.sql} {sign} {right.sql})", precision, scale, value)


LITERALS = [
    "1.5",
    "0.05",
    "-2.25",
    "1.0",
    "3",
    "-1",
    "99999999.99",
    "0.000001",
    "9223372036854775807",
    "0.333",
    "100.0",
]


@st.composite
def numbers(draw: st.DrawFn, signs: str = "+-*/") -> Number:
    leaves = [column(name) for name in COLUMNS] + [literal(text) for text in LITERALS]
    found = draw(st.sampled_from(leaves))
    for _ in range(draw(st.integers(1, 3))):
        other = draw(st.sampled_from(leaves))
        pair = (found, other) if draw(st.booleans()) else (other, found)
        found = combined(draw(st.sampled_from(signs)), *pair) or found
    return found


def comparable(left: Number, right: Number) -> bool:
    """Do both fit into one decimal type with all their digits?"""
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return whole + max(left.scale, right.scale) <= MOST_DIGITS


def run(clause: str) -> pa.Table:
    return episode.sql_local(f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i {clause})", t=TABLE)


@settings(max_examples=60)
@given(numbers())
def test_values_and_types(number: Number) -> None:
    found = run(f"MEASURES {number.sql.format(at='')} AS r PATTERN (A)").column("r")
    assert [exact(value) for value in found.to_pylist()] == [number.value(row) for row in ROWS]
    if not number.whole and "(" in number.sql:
        assert found.type == pa.decimal128(number.precision, number.scale)


@settings(max_examples=40)
@given(numbers(), numbers("+-*"), st.sampled_from(sorted(COMPARISONS)))
def test_conditions_on_one_row(left: Number, right: Number, sign: str) -> None:
    if not comparable(left, right):
        return
    text = f"{left.sql} {sign} {right.sql}".format(at="")
    found = run(f"MEASURES i AS i PATTERN (A) DEFINE A AS {text}").column("i").to_pylist()
    assert found == [row["i"] for row in ROWS if _holds(sign, left.value(row), right.value(row))]


@settings(max_examples=40)
@given(numbers("+-*"), numbers(), st.sampled_from(sorted(COMPARISONS)))
def test_conditions_across_rows(left: Number, right: Number, sign: str) -> None:
    if not comparable(left, right):
        return
    text = f"{left.sql.format(at='B.')} {sign} {right.sql.format(at='A.')}"
    clause = f"MEASURES A.i AS i AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE B AS {text}"
    pairs = itertools.pairwise(ROWS)
    expected = [one["i"] for one, other in pairs if _holds(sign, left.value(other), right.value(one))]
    assert run(clause).column("i").to_pylist() == expected


def _holds(sign: str, left: Value, right: Value) -> bool:
    return left is not None and right is not None and COMPARISONS[sign](left, right)


def test_a_rise_by_half() -> None:
    """As foreign queries write it, over integers as pandas has them."""
    table = pa.table({"i": [1, 2, 3, 4], "price": [10, 15, 23, 35]})
    clause = "ORDER BY i MEASURES price AS p PATTERN (B) DEFINE B AS price > 1.5 * PREV(price)"
    assert episode.sql_local(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", t=table).column("p").to_pylist() == [23, 35]


def test_a_mean_of_integers() -> None:
    table = pa.table({"i": [1, 2, 3], "x": pa.array([1, None, 4], pa.int64())})
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES sum(x) * 1.0 / count(*) AS m PATTERN (A+))"
    assert episode.sql_local(text, t=table).column("m").to_pylist() == [Decimal("1.6666666666666667")]
