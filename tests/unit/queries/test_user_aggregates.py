"""Aggregates of users: what is accepted, and what they come to, against plain Python folds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import episode
from episode.lang.functions import REGISTERED, UserAggregate

INFINITE = float("inf")


@pytest.fixture(autouse=True)
def no_traces() -> Iterator[None]:
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def extent_step(state: Any, value: Any) -> Any:
    return episode.least(state[0], value), episode.greatest(state[1], value)


def extent(state: Any) -> Any:
    return state[1] - state[0]


def drift_step(state: Any, value: Any) -> Any:
    last, total, count = state
    total += episode.where(count > 0, abs(value - last), 0.0)
    return value, total, count + 1


def drift(state: Any) -> Any:
    return episode.where(state[2] < 2, None, state[1] / episode.greatest(state[2] - 1, 1))


@cache
def of_all_tests() -> dict[str, UserAggregate]:
    """Two aggregates, traced once."""
    episode.aggregate("extent", initial=(INFINITE, -INFINITE), step=extent_step, finish=extent)
    episode.aggregate("drift", initial=(0.0, 0.0, 0), step=drift_step, finish=drift)
    return {name: REGISTERED[name] for name in ("EXTENT", "DRIFT")}


def parity(state: Any, value: Any) -> Any:
    return (state + value) % 2


def is_odd(state: Any) -> Any:
    return state == 1


def folded(initial: Any, step: Any, finish: Any, values: list[Any]) -> Any:
    values = [value for value in values if value is not None]
    if not values:
        return None
    state = initial
    for value in values:
        state = step(state, value)
    return finish(state)


VALUES = st.lists(st.one_of(st.none(), st.integers(-50, 50).map(float)), min_size=1, max_size=7)


@given(VALUES, st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_in_closures_of_event_patterns(values: list[float | None], limit: int) -> None:
    REGISTERED.update(of_all_tests())
    count = len(values) + 2
    events = pa.table(
        {
            "ts": list(range(count)),
            "type": ["A", *["B"] * len(values), "C"],
            "v": pa.array([None, *values, None], pa.float64()),
        }
    )
    text = (
        f"PATTERN SEQ(A a, B+ b[], C c) WHERE extent(b[].v) <= {limit} AND drift(b[..i].v) < 40 "
        "RETURN b[].ts AS at, extent(b[].v) AS e, drift(b[].v) AS d"
    )
    found = episode.match_local(events, text, time="ts", type_column="type").to_pylist()
    expected = []
    for size in range(1, len(values) + 1):
        for chosen in combinations(range(len(values)), size):
            taken = [values[at] for at in chosen]
            extents = folded((INFINITE, -INFINITE), extent_step, extent, taken)
            drifts = [folded((0.0, 0.0, 0), drift_step, drift, taken[: at + 1]) for at in range(size)]
            if extents is not None and extents <= limit and all(one is not None and one < 40 for one in drifts):
                expected.append(([at + 1 for at in chosen], extents, drifts[-1]))
    assert sorted((row["at"], row["e"], row["d"]) for row in found) == sorted(expected)


@given(VALUES, st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_in_row_patterns(values: list[float | None], limit: int) -> None:
    REGISTERED.update(of_all_tests())
    events = pa.table({"ts": list(range(len(values))), "v": pa.array(values, pa.float64())})
    text = (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES extent(A.v) AS e, count(*) AS n PATTERN (A+) "
        f"DEFINE A AS extent(A.v) <= {limit})"
    )
    found = [(row["e"], row["n"]) for row in episode.sql_local(text, t=events).to_pylist()]
    expected, at = [], 0
    while at < len(values):
        end, value = at, None
        while end < len(values):
            now = folded((INFINITE, -INFINITE), extent_step, extent, values[at : end + 1])
            if now is None or now > limit:
                break
            end, value = end + 1, now
        if end > at:
            expected.append((value, end - at))
        at = max(end, at + 1)
    assert found == expected


def test_whole_numbers_truth_values_and_states_of_one_number() -> None:
    episode.aggregate("odd_sum", initial=0, step=parity, finish=is_odd, takes="bigint")
    episode.aggregate("longest", initial=0, step=lambda state, value: episode.greatest(state, value), takes="bigint")
    events = pa.table({"ts": [1, 2, 3, 4], "v": [2**62 + 1, 2, 4, 3]})
    text = (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES odd_sum(A.v) AS o, longest(v) AS m "
        "ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS odd_sum(A.v))"
    )
    found = episode.sql_local(text, t=events)
    assert found.schema.field("o").type == pa.bool_()
    assert [(row["o"], row["m"]) for row in found.to_pylist()] == [(True, 2**62 + 1)] * 3 + [(True, 3)]
    with pytest.raises(episode.EpisodeAnalysisError, match="cannot be applied to double"):
        episode.sql_local(text, t=events.set_column(1, "v", pa.array([1.0, 2.0, 3.0, 4.0])))


def test_a_state_that_begins_whole_and_becomes_real() -> None:
    episode.aggregate("halves", initial=0, step=lambda state, value: state + value / 2)
    events = pa.table({"ts": [1, 2], "v": [1, 2]})
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES halves(v) AS h PATTERN (A+) DEFINE A AS TRUE)"
    assert episode.sql_local(text, t=events).to_pylist() == [{"h": 1.5}]


def failing(state: Any, value: Any) -> Any:
    if value < 0:
        raise ValueError("negative")
    return state + value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial": "x", "step": parity}, "one number, or a tuple of up to 3 numbers"),
        ({"initial": (0, 0, 0, 0), "step": parity, "finish": is_odd}, "one number, or a tuple of up to 3 numbers"),
        ({"initial": (0, 0), "step": extent_step}, "needs finish="),
        ({"initial": 0, "step": lambda state: state}, "step= takes the state and a value: 2 parameters"),
        ({"initial": 0, "step": parity, "finish": parity}, "finish= takes the state: 1 parameter"),
        ({"initial": 0, "step": max}, "step= is not a Python function"),
        ({"initial": 0.0, "step": failing}, "step= uses `if`"),
        ({"initial": 0, "step": lambda state, value: str(value)}, "step= returns numbers"),
        ({"initial": 0, "step": lambda state, value: unknown_function(value)}, "step= raises NameError"),  # noqa: F821
        ({"initial": (0, 0), "step": lambda state, value: state[0], "finish": extent}, "a tuple of 2 as initial= is"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_an_error_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(episode.EpisodeUnsupportedError) as raised:
        episode.aggregate("mine", **arguments)
    assert message in str(raised.value)
    assert "MINE" not in REGISTERED


def test_names() -> None:
    for name in ("sum", "Last", "explode", "median"):
        with pytest.raises(episode.EpisodeAnalysisError, match="is a function of SQL"):
            episode.aggregate(name, initial=0, step=parity)
    for name in ("two words", "a-b", "", "1a"):
        with pytest.raises(episode.EpisodeAnalysisError, match="is not a name"):
            episode.aggregate(name, initial=0, step=parity)
    with pytest.raises(episode.EpisodeAnalysisError, match="'double' or 'bigint'"):
        episode.aggregate("mine", initial=0, step=parity, takes="string")


def test_over_nothing_it_is_null_and_division_by_zero_is_not_finite() -> None:
    episode.aggregate("inverse", initial=0.0, step=lambda state, value: state + 1 / value)
    events = pa.table({"ts": [1, 2, 3], "type": ["A", "B", "A"], "v": pa.array([None, 0.0, 2.0])})
    text = (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES inverse(A.v) AS a, inverse(B.v) AS b PATTERN (A B) "
        "DEFINE A AS type = 'A', B AS type = 'B')"
    )
    (row,) = episode.sql_local(text, t=events).to_pylist()
    assert row["a"] is None
    assert math.isinf(row["b"])
