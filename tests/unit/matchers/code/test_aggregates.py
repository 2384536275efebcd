"""Aggregates as code against plain Python: every function, values that overflow, NaN, decimals of two words."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from episode.matchers import codes as oc
from episode.matchers.code.aggregates import FIELDS, AggregateShape, AggregateState, choose_state
from episode.native.builder import Function, Program
from episode.native.ir import F64, I64, I128, U8, U64, Value
from tests.unit.native.runs import run_all_ways

MOST = 10**38 - 1
WHOLE = [AggregateShape(one) for one in (oc.COUNT, oc.COUNT_IF, oc.SUM, oc.MIN, oc.MAX, oc.MIN_BY, oc.MAX_BY)]
REAL = [
    AggregateShape(one, floating=True)
    for one in (
        oc.COUNT, oc.SUM, oc.AVG, oc.MIN, oc.MAX, oc.MIN_BY, oc.MAX_BY,
        oc.VAR_SAMP, oc.VAR_POP, oc.STDDEV_SAMP, oc.STDDEV_POP,
    )
]  # fmt: skip
TO_WORDS = [AggregateShape(oc.SUM, wide=True), AggregateShape(oc.AVG_WHOLE, wide=True)]
WORDS = [
    AggregateShape(one, wide=True)
    for one in (oc.SUM_WIDE, oc.MIN_WIDE, oc.MAX_WIDE, *range(oc.AVG_WIDE, oc.AVG_WIDE + 5))
]
ALL = [*WHOLE, *REAL, *TO_WORDS, *WORDS]


def program(aggregate: AggregateShape) -> Program:
    """Folds the values that are present one after the other, and writes what each state amounts to."""
    made = Program("aggregate")
    f = made.function("run")
    low, high, reals, present = f.array("low", I64), f.array("high", I64), f.array("reals", F64), f.array("present", U8)
    out_i, out_h, out_f, out_null = (
        f.array(name, type_, writable=True)
        for name, type_ in (("out_i", I64), ("out_h", I64), ("out_f", F64), ("out_null", I64))
    )
    kept = {name: f.variable(name, f.constant(0, FIELDS[name])) for name in aggregate.fields}
    with f.loop(0, low.length) as row:
        before = AggregateState(**{name: one.value for name, one in kept.items()})
        value = reals[row] if aggregate.floating else low[row]
        if aggregate.takes_words:
            value = two_words(f, high[row], low[row])
        state = choose_state(f, present[row].differs(0), aggregate.fold(f, before, value, row), before)
        for name, one in kept.items():
            one.set(getattr(state, name))
        result, null = aggregate.finish(f, state)
        out_null[row] = 0 if null is None else null.to(I64)
        if aggregate.keeps_row:
            assert state.more is not None
            out_h[row] = state.more.to(I64)
        if aggregate.wide:
            out_i[row], out_h[row] = result.to(I64), (result >> f.constant(64, I128)).to(I64)
        elif result.type is F64:
            out_f[row] = result
        else:
            out_i[row] = result
    f.give(0)
    return made


def two_words(f: Function, high: Value, low: Value) -> Value:
    return high.to(I128) << f.constant(64, I128) | low.bits_as(U64).to(I128)


def wholes(random: Random, count: int) -> list[int]:
    extremes = [2**63 - 1, -(2**63), 2**62, -(2**62)]
    return [
        random.choice([random.randint(-3, 3), random.randint(-(2**63), 2**63 - 1), *extremes]) for _ in range(count)
    ]


def floats(random: Random, count: int) -> list[float]:
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308]
    often = random.choice([0.0, 0.1])
    return [random.choice(odd) if random.random() < often else random.gauss(1e3, 5.0) for _ in range(count)]


def decimals(random: Random, count: int) -> list[int]:
    most = random.choice([100, 10**19, MOST // 5, MOST])
    return [random.randint(-most, most) for _ in range(count)]


def order(value: float) -> tuple[bool, float]:
    """A key for which NaN is the greatest."""
    return (True, 0.0) if value != value else (False, value)


def half_away(numerator: int, denominator: int) -> int:
    size = (2 * abs(numerator) + denominator) // (2 * denominator)
    return size if numerator >= 0 else -size


def summed(values: list[int]) -> int | None:
    """A sum of decimals, null from the value on that makes it too large."""
    total = values[0]
    for value in values[1:]:
        total += value
        if abs(total) > MOST:
            return None
    return total


def welford(values: list[float]) -> float:
    mean = squares = 0.0
    for count, value in enumerate(values, 1):
        delta = value - mean
        mean += delta / count
        squares += delta * (value - mean)
    return squares


def plain_sum(values: list[float]) -> float:
    total = 0.0
    for value in values:  # `sum` of later Pythons corrects its rounding errors
        total += value
    return total


def naive(aggregate: AggregateShape, pairs: list[tuple[int, float]]) -> tuple[object, int | None]:
    """(value, row) of the values so far, each with its row; None is null."""
    values = [value for _, value in pairs]
    function = aggregate.function
    if function == oc.COUNT:
        return len(values), None
    if function == oc.COUNT_IF:
        return sum(value != 0 for value in values), None
    if not values:
        return None, None
    if function == oc.SUM and not aggregate.floating and not aggregate.wide:
        total = sum(values)
        return total if -(2**63) <= total < 2**63 else None, None
    if function == oc.SUM:
        return sum(values) if aggregate.wide else plain_sum(values), None
    if function == oc.AVG:
        return plain_sum(values) / len(values), None
    if function in (oc.MIN, oc.MIN_BY, oc.MIN_WIDE):
        row, value = min(pairs[::-1], key=lambda pair: order(pair[1]))
        return value, row
    if function in (oc.MAX, oc.MAX_BY, oc.MAX_WIDE):
        row, value = max(pairs[::-1], key=lambda pair: order(pair[1]))
        return value, row
    if function in (oc.VAR_SAMP, oc.STDDEV_SAMP, oc.VAR_POP, oc.STDDEV_POP):
        by = len(values) - (function in (oc.VAR_SAMP, oc.STDDEV_SAMP))
        if by == 0:
            return None, None
        variance = welford(values) / by
        return math.sqrt(variance) if function >= oc.STDDEV_SAMP else variance, None
    total = sum(values) if function == oc.AVG_WHOLE else summed(values)
    digits = 4 if function == oc.AVG_WHOLE else function - oc.AVG_WIDE
    if total is None or function == oc.SUM_WIDE:
        return total, None
    average = half_away(total * 10**digits, len(values))
    return average if abs(average) <= MOST else None, None


def signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


@pytest.mark.parametrize("aggregate", ALL, ids=str)
def test_every_state_amounts_to_what_python_computes(aggregate: AggregateShape) -> None:
    random = Random(str(aggregate))
    for count in (1, 2, 7, 40):
        make = floats if aggregate.floating else decimals if aggregate.takes_words else wholes
        values = make(random, count)
        whole = [0] * count if aggregate.floating else [int(value) for value in values]
        low = np.array([signed(value & (2**64 - 1)) for value in whole], np.int64)
        high = np.array([value >> 64 for value in whole], np.int64)
        reals = np.array(values if aggregate.floating else [0.0] * count, np.float64)
        present = np.array([random.random() < 0.8 for _ in range(count)], np.uint8)
        outs = [np.zeros(count, type_) for type_ in (np.int64, np.int64, np.float64, np.int64)]
        _, arrays = run_all_ways(program(aggregate), [low, high, reals, present, *outs])
        out_i, out_h, out_f, out_null = arrays[4:]
        pairs = []
        for at in range(count):
            if present[at]:
                pairs.append((at, values[at]))
            expected, row = naive(aggregate, pairs)
            assert (out_null[at] == 1) == (expected is None), (at, expected)
            if expected is None:
                continue
            given: object = out_f[at] if aggregate.fields[1:2] == ("real",) and not aggregate.wide else int(out_i[at])
            if aggregate.wide:
                given = (int(out_h[at]) << 64) + (int(out_i[at]) & (2**64 - 1))
            if isinstance(expected, float):
                assert np.array([given]).tobytes() == np.array([expected]).tobytes() or (
                    np.isnan(given) and math.isnan(expected)
                ), at
            else:
                assert given == expected, at
            if aggregate.keeps_row:
                assert out_h[at] == row
