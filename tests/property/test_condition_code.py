"""Residual conditions as code against the oracle, on any path: compiled, compiled with checks and interpreted.

Rows are taken one after the other, whether their conditions hold or not, and some are given back; after each one the
condition of its label is asked for.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.parser import parse_clause
from episode.matchers.rows import stepwise
from episode.matchers.rows.stepwise import StepwiseAttempt
from episode.matchers.running import LocalRun
from tests.property.test_arrays_in_conditions import conditions as array_conditions
from tests.property.test_arrays_in_conditions import extremes
from tests.reference.generate import COLUMNS, NUMBERS, PATH_DEPENDENT, conditions, tables
from tests.reference.row_patterns import Step, _Budget, _Paths, _Table
from tests.support.rows import ARROW_TYPES, SPARK_TYPES, spec_of, table_in
from tests.unit.native.runs import AllWays

TYPES = {**SPARK_TYPES, "b": "bigint", "m": "decimal(12,2)", "w": "decimal(30,18)", "z": "decimal(38,18)"}
ARROW = pa.schema({
    **ARROW_TYPES,
    "b": pa.int64(), "m": pa.decimal128(12, 2), "w": pa.decimal128(30, 18), "z": pa.decimal128(38, 18),
})  # fmt: skip


@pytest.fixture(autouse=True)
def _all_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepwise, "compile_program", AllWays)


paths = st.lists(st.sampled_from("ABC"), min_size=1, max_size=8)


def check(defined: dict[str, str], rows: list[dict[str, Any]], path: str, start: int, number: int, back: int) -> None:
    """Take rows by a path, and once more from its place `back` on with the labels in another order."""
    define = ", ".join(f"{label} AS {condition}" for label, condition in defined.items())
    text = f"ORDER BY ts MEASURES FIRST(ts) AS a PATTERN ((A | B | C)+) SUBSET U = (A, B), W = (C, B) DEFINE {define}"
    note(text)
    try:
        spec = spec_of(text, TYPES, ARROW)
    except EpisodeUnsupportedError:
        assume(False)
    rows = sorted(rows, key=lambda row: row["ts"])
    clause = parse_clause(text)
    trial = StepwiseAttempt(spec.plan, LocalRun(spec).events(table_in(spec, rows)))
    oracle = _Paths(clause, rows, _Table([*COLUMNS, *NUMBERS]), start, number + 1, _Budget(None))
    instructions = {one.label: at for at, one in enumerate(spec.plan.program.instructions) if one.label is not None}
    labels = list(spec.plan.labels.names)
    trial.begin(start, number)
    again = path[:back] + path[back:][::-1]
    for way in (path, again):
        kept = 0 if way is path else back
        trial.back_to(start + kept)
        for place in range(kept, min(len(way), len(rows) - start)):
            row, label = start + place, way[place]
            trial.take(instructions[label])
            steps = tuple(Step(one, False) for one in way[: place + 1])
            holds = trial.offers(row, labels.index(label)) and trial.holds(labels.index(label))
            assert holds == oracle.holds(label, steps), (way[: place + 1], row)


@st.composite
def definitions(draw: st.DrawFn, **how: Any) -> dict[str, str]:
    names = ["A", "B", "C", "U", "W"]
    return {label: draw(conditions(label, names, PATH_DEPENDENT, **how)) for label in "ABC"}


@given(definitions(), tables(), paths, st.integers(0, 2), st.integers(0, 3), st.integers(0, 4))
def test_conditions_of_the_match_so_far(
    defined: dict[str, str], rows: list[dict[str, Any]], path: list[str], start: int, number: int, back: int
) -> None:
    check(defined, rows, "".join(path), min(start, len(rows)), number, back)


@given(definitions(numbers=True), tables(numbers=True), paths, st.integers(0, 1), st.integers(0, 4))
def test_conditions_on_numbers_near_their_limits(
    defined: dict[str, str], rows: list[dict[str, Any]], path: list[str], start: int, back: int
) -> None:
    check(defined, rows, "".join(path), min(start, len(rows)), 0, back)


@given(array_conditions(), array_conditions() | extremes(), tables(), paths, st.integers(0, 4))
def test_conditions_on_arrays(
    first: str, second: str, rows: list[dict[str, Any]], path: list[str], back: int
) -> None:  # fmt: skip
    check({"A": first, "B": second}, rows, "".join(path), 0, 0, back)
