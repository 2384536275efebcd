"""Conditions over pairs that the join tests itself, so that pairs that fail are never built."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from episode.lang.correlation.syntax import ColumnComparison, Correlation, Equality, Operand
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import MATCH_END, MATCH_START

Value = Union[str, int, float]
"""A column of a pair, with the prefix of its side, or a number."""

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
DOUBLE = "double"
TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})
_MOST_EXACT = 1 << 53


@dataclass(frozen=True)
class PairTest:
    """`left sign right`, of numbers or times. A pair is left out if this certainly does not hold: if it is false, or a
    value is null. (Most conditions on NaN are left to the query around the pair.) text: as written."""

    left: Value
    sign: str
    right: Value
    text: str


@dataclass(frozen=True)
class PairColumns:
    """The output of one pattern. names: of its columns. values: of those that are values of an input column, by name in
    lower case: the column of the matcher, and the type."""

    names: tuple[str, ...]
    values: Mapping[str, tuple[str, str]]


def pair_tests(
    query: Correlation, sides: tuple[PairColumns, PairColumns], keys: Collection[Equality]
) -> list[PairTest | str]:
    """The conjuncts of the condition: those that the join tests, and the text of those that are tested after it. Those
    that make keys equal are left out."""
    found: list[PairTest | str] = []
    equal = [(one.left, one.right) for one in keys]
    for one in query.comparisons:
        if one.sign == "=" and (one.left, one.right) in equal:
            continue
        test = _test(one, query, sides)
        found.append(one.text if test is None else test)
    return found


def _test(comparison: ColumnComparison, query: Correlation, sides: tuple[PairColumns, PairColumns]) -> PairTest | None:
    if comparison.sign is None:
        return None
    known = [_value(one, query, sides) for one in (comparison.left, comparison.right)]
    if known[0] is None or known[1] is None or not _comparable(known[0], known[1]):
        return None
    return PairTest(known[0][0], comparison.sign, known[1][0], comparison.text)


def _comparable(left: tuple[Value, str], right: tuple[Value, str]) -> bool:
    """Is this comparison the same for Spark and for the join?"""
    columns = [kind for value, kind in (left, right) if isinstance(value, str)]
    numbers = [value for value, _ in (left, right) if not isinstance(value, str)]
    if not columns or (numbers and columns[0] in TIMES):
        return False
    if numbers and isinstance(numbers[0], float):
        return columns[0] == DOUBLE
    kinds = {*columns}
    return kinds <= INTEGERS | {DOUBLE} or (len(kinds) == 1 and kinds <= TIMES)


def _value(operand: Operand, query: Correlation, sides: tuple[PairColumns, PairColumns]) -> tuple[Value, str] | None:
    """Return the value of an operand and its type; None if it may be something else than a column or number."""
    if not isinstance(operand, tuple):
        return (operand, "") if abs(operand) < _MOST_EXACT else None
    meant: list[tuple[Value, str] | None] = []
    for number, (prefix, side) in enumerate(zip((LIVE_PREFIX, ARCHIVE_PREFIX), sides, strict=True)):
        name = pattern_column(operand, query, number, side.names)
        if name is not None:
            value = side.values.get(name)
            meant.append(None if value is None else (prefix + value[0], value[1]))
    return meant[0] if len(meant) == 1 else None


def pattern_column(path: tuple[str, ...], query: Correlation, number: int, names: Sequence[str]) -> str | None:
    """The column of a pattern (0: live, 1: archive) that a path may mean, in lower case; names: of its columns."""
    alias = query.names[number]
    if len(path) > 2 or (len(path) == 2 and (alias is None or path[0].lower() != alias.lower())):
        return None
    if path[-1].lower() in (MATCH_START, MATCH_END) and len(path) == 1:  # may be those of the pair
        return None
    known = {new.lower(): old.lower() for new, old in zip(query.columns[number] or tuple(names), names, strict=False)}
    return known.get(path[-1].lower())
