"""Aggregates of users as code against folds in plain Python: states of one to three numbers of all kinds, and nulls."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import episode
from episode.matchers import codes as oc
from episode.matchers.code.aggregates import AggregateShape
from episode.matchers.user_aggregates import TracedAggregate, trace_aggregate
from tests.property.traced_functions import BOOLEAN, REAL, WHOLE, Draw, Oracle, draw_value
from tests.unit.matchers.code.test_aggregates import program
from tests.unit.native.runs import run_all_ways


def run(functions: TracedAggregate, gives: str, values: list[Any]) -> list[Any]:
    """The result after each value; None values are left out."""
    aggregate = AggregateShape(oc.COUNT, floating=functions.takes == REAL, user=functions)
    present = np.array([value is not None for value in values], np.uint8)
    numbers = [value or 0 for value in values]
    whole = np.array([0 if functions.takes == REAL else value for value in numbers], np.int64)
    real = np.array([value if functions.takes == REAL else 0 for value in numbers], np.float64)
    out = [np.zeros(len(values), dtype) for dtype in (np.int64, np.int64, np.float64, np.int64)]
    _, arrays = run_all_ways(program(aggregate), [whole, np.zeros_like(whole), real, present, *out])
    out_i, _, out_f, null = arrays[4:]
    results = (
        out_f.tolist() if gives == "double" else [bool(one) for one in out_i] if gives == "boolean" else out_i.tolist()
    )
    return [None if is_null else result for result, is_null in zip(results, null.tolist(), strict=True)]


def fold(initial: Any, step: Callable[..., Any], finish: Callable[..., Any] | None, values: list[Any]) -> list[Any]:
    """The same by calling the functions."""
    state, results, count = initial, [], 0
    for value in values:
        if value is not None:
            state, count = step(state, value), count + 1
        results.append(None if count == 0 else state if finish is None else finish(state))
    return results


def drift_step(state: Any, value: Any) -> Any:
    last, total, count = state
    return value, total + episode.where(count > 0, abs(value - last), 0.0), count + 1


def drift(state: Any) -> Any:
    return episode.where(state[2] < 2, None, state[1] / episode.greatest(state[2] - 1, 1))


def spread_step(state: Any, value: Any) -> Any:
    count, least, greatest = state
    is_first = count == 0
    return (
        count + 1,
        episode.where(is_first, value, episode.least(least, value)),
        episode.where(is_first, value, episode.greatest(greatest, value)),
    )


AGGREGATES: dict[str, dict[str, Any]] = {
    "real": {"initial": 0.0, "step": lambda state, value: 0.5 * state + value},
    "whole": {"initial": 7, "step": lambda state, value: state + value // 2, "takes": "bigint"},
    "truth": {
        "initial": 0, "step": lambda state, value: (state + value) % 2, "finish": lambda state: state == 1,
        "takes": "bigint",
    },
    "whole that becomes real": {"initial": 1, "step": lambda state, value: state + value / 4},
    "truth as state": {"initial": False, "step": lambda state, value: (state > 0) | (value > 3)},
    "one in a tuple": {
        "initial": (1.5,), "step": lambda state, value: (state[0] * 0.5 + value,), "finish": lambda state: -state[0],
    },
    "two": {
        "initial": (math.inf, -math.inf),
        "step": lambda state, value: (episode.least(state[0], value), episode.greatest(state[1], value)),
        "finish": lambda state: state[1] - state[0],
    },
    "real first": {"initial": (0.0, 0.0, 0), "step": drift_step, "finish": drift},
    "whole numbers": {
        "initial": (0, 0, 0), "step": spread_step, "finish": lambda state: state[2] - state[1], "takes": "bigint",
    },
    "null or a truth value": {
        "initial": 0, "step": lambda state, value: state + 1,
        "finish": lambda state: episode.where(state % 3 == 0, None, state > 4),
    },
    "constant": {"initial": 0, "step": lambda state, value: 5, "finish": lambda state: 2.5},
}  # fmt: skip


@pytest.mark.parametrize("given", AGGREGATES.values(), ids=AGGREGATES)
def test_aggregates(given: dict[str, Any]) -> None:
    initial, step, finish, takes = given["initial"], given["step"], given.get("finish"), given.get("takes", "double")
    functions, gives = trace_aggregate("mine", initial, step, finish, takes)
    functions = pickle.loads(pickle.dumps(functions))
    chance = random.Random(3)
    for _ in range(3):
        numbers: list[Any] = [None if chance.random() < 0.2 else chance.randint(-50, 50) for _ in range(25)]
        if takes == "double":
            numbers = [None if one is None else one / 4 for one in numbers]
        assert run(functions, gives, numbers) == fold(initial, step, finish, numbers)


def test_over_nothing_it_is_null() -> None:
    functions, gives = trace_aggregate("mine", 3.0, AGGREGATES["real"]["step"], None, "double")
    assert run(functions, gives, [None, None, 0.5]) == [None, None, 2.0]


@pytest.mark.parametrize("seed", range(40))
def test_random_functions(seed: int) -> None:
    chance = random.Random(seed)
    takes = chance.choice((WHOLE, REAL))
    kinds = tuple(chance.choice((WHOLE, REAL)) for _ in range(chance.randint(1, 3)))
    drawn = Draw(seed, (*kinds, takes))
    steps = [drawn.tree(3, kind) for kind in kinds]
    finish = Draw(seed, kinds).tree(3, chance.choice((WHOLE, REAL, BOOLEAN)))
    initial = tuple(draw_value(kind, chance) for kind in kinds)
    functions, gives = trace_aggregate(
        "mine",
        initial,
        lambda state, value: tuple(tree.call((*state, value)) for tree in steps),
        lambda state: finish.call(state),
        "double" if takes == REAL else "bigint",
    )
    values = [draw_value(takes, chance) for _ in range(12)]
    oracle = Oracle()

    def step_of(state: Any, value: Any) -> Any:
        return tuple(oracle.value(tree, (*state, value)) for tree in steps)

    expected = fold(initial, step_of, lambda state: oracle.value(finish, state), values)
    for found, wanted in zip(run(functions, gives, values), expected, strict=True):
        assert found == wanted or (found != found and wanted != wanted)
