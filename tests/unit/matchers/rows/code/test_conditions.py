"""Conditions as code: what is known of them before code is built, rows of elements, aggregates of users, the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import episode
from episode.lang.functions import REGISTERED
from episode.matchers.prepare import needs_of, prepare
from episode.matchers.rows import stepwise
from episode.matchers.rows.code.array_code import ArrayRoom
from episode.matchers.rows.code.row_code import StepCode, step_code
from episode.matchers.rows.code.shape import ColumnPlaces, ConditionTraits
from episode.matchers.rows.stepwise import StepwiseAttempt
from episode.matchers.running import LocalRun
from episode.native.assembly import assembly_of
from episode.plan import arrays as plan
from episode.plan.expressions import Constant, ElementRow, Expression, LabelAt, LambdaVariable, Load
from tests.support.rows import spec_of, table_in
from tests.unit.native.runs import AllWays

PATTERN = "ORDER BY ts MEASURES FIRST(ts) AS a PATTERN ((A | B | C)+) SUBSET U = (A, B) DEFINE"


def traits(define: str) -> ConditionTraits:
    return ConditionTraits.of(spec_of(f"{PATTERN} {define}").plan)


def code(define: str) -> StepCode:
    spec = spec_of(f"{PATTERN} {define}")
    events = LocalRun(spec).events(table_in(spec, [{"k": 1, "ts": 0, "v": 1, "f": 1.0, "s": "a"}]))
    prepared = prepare(spec.plan, needs_of(spec.plan), events.table, events.key)
    return step_code(spec.plan, len(spec.plan.labels.names), ColumnPlaces.of(prepared))


# ---- what is known before ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "steady", "tracked", "walks"),
    [
        ("v > 1", True, "", False),
        ("B.v > A.v", True, "A", False),
        ("A.v < B.v AND C.f = B.f", True, "AC", False),
        ("B.v > A.v + 1", False, "A", False),
        ("B.v > FIRST(A.v)", False, "A", False),
        ("B.v > FIRST(B.v)", False, "B", False),
        ("B.v > LAST(B.v, 1)", False, "", True),
        ("B.v > LAST(v, 1)", False, "", False),
        ("B.v > PREV(A.v)", False, "A", False),
        ("B.v > LAST(U.v, 1)", False, "", True),
        ("count(*) < 3", False, "", False),
        ("PREV(CLASSIFIER()) = 'A'", False, "", True),
        ("count_if(CLASSIFIER() = 'A') < 2", False, "", False),
        ("size(array_agg(A.v)) < 3", False, "", False),
        ("array_contains(array_agg(A.v), v)", False, "", True),
    ],
)
def test_what_a_condition_needs(condition: str, steady: bool, tracked: str, walks: bool) -> None:
    found = traits(f"B AS {condition}")
    label = found.names.index
    assert (found.steady[label("B")] is not None) == steady
    assert {found.names[number] for number in found.tracked} == set(tracked)
    assert found.walks_path == walks
    if steady:
        assert found.steady[label("B")] == found.tracked


def test_aggregates_leave_no_label_steady() -> None:
    assert traits("B AS count(*) < 3").steady == (None, None, None)


@pytest.mark.parametrize(
    ("condition", "rows", "room"),
    [
        ("v > A.v", 0, ArrayRoom(0, 0)),
        ("array_contains(array_agg(A.v), v)", 1, ArrayRoom(1, 0)),
        ("array_contains(array(A.v, C.v, 3), v)", 1, ArrayRoom(0, 3)),
        ("reverse(array_agg(A.v))[0] = v", 2, ArrayRoom(1, 0)),
        ("array_sort(array_agg(A.v))[0] = v", 4, ArrayRoom(1, 0)),
        ("concat(array_agg(A.v), array_agg(v), array(1))[0] = v", 4, ArrayRoom(2, 1)),
    ],
)
def test_room_for_arrays(condition: str, rows: int, room: ArrayRoom) -> None:
    found = traits(f"B AS {condition}")
    assert (found.array_rows, found.array_room) == (rows, room)


# ---- the program --------------------------------------------------------------------------------------------------


def test_constants_are_data() -> None:
    first, second = (code(f"B AS B.v > A.v + {n} OR B.s <> LAST(A.s, 1) OR sum(v) < {m}") for n, m in ((1, 5), (7, 9)))
    assert assembly_of(first.program, False) == assembly_of(second.program, False)
    assert first.constants.ints != second.constants.ints


def test_a_large_condition_is_built_once() -> None:
    spec = spec_of(f"{PATTERN.replace('(A | B | C)+', 'A B C B')} B AS array_contains(array_agg(A.v), v)")
    names = [one.name for one in code("B AS array_contains(array_agg(A.v), v)").program.functions]
    assert spec.plan.labels.names == ("A", "B", "C")
    assert names == ["run", "condition_1"]


# ---- elements of arrays and their rows ------------------------------------------------------------------------------

VALUES = [3.0, None, -0.0, 3.0, float("nan"), 0.0, 1.0, float("nan"), None]


def rows_of(values: list[Any]) -> list[dict[str, Any]]:
    return [{"k": 1, "ts": n, "v": n, "f": value, "s": "a"} for n, value in enumerate(values)]


def evaluate(made: Expression, value: str, values: list[Any]) -> list[tuple[bool, int]]:
    """What stands in a column (or the label) on the rows of the elements of an array: is it null?, and the value."""
    row = ElementRow(90)
    of_row = LabelAt(row) if value == "label" else Load(value, row, "int")
    walked = plan.Mapped(
        made, plan.Walk(LambdaVariable(91, "double"), LambdaVariable(92, "int"), row), None, of_row, "array<int>"
    )
    spec = spec_of(f"{PATTERN} A AS A.f > LAST(v, 1) AND PREV(CLASSIFIER()) = 'A'")
    elements = [plan.ElementOf(walked, Constant(place, "bigint"), of_row.type) for place in range(len(values))]
    trial = StepwiseAttempt(
        spec.plan, LocalRun(spec).events(table_in(spec, rows_of(values))), [plan.Size(walked), *elements]
    )
    instructions = {one.label: at for at, one in enumerate(spec.plan.program.instructions) if one.label is not None}
    trial.begin(0, 0)
    for place in range(len(values)):
        trial.take(instructions["AB"[place % 2]])
    size = trial.value(0)[1]
    return [trial.value(1 + place)[:2] for place in range(size)]


def collected(labels: frozenset[str] | None = None) -> plan.Collected:
    row = ElementRow(1)
    return plan.Collected(labels, Load("f", row, "double"), row, "array<double>")


def with_null() -> plan.Joined:
    """The values, a null and one more."""
    listed = plan.Listed((Constant(None, "double"), Constant(1.0, "double")), "array<double>")
    return plan.Joined((collected(), listed), "array<double>")


@pytest.fixture(autouse=True)
def _all_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepwise, "compile_program", AllWays)


ORDERED = [2, 5, 6, 0, 3, 4, 7]
"""The rows of VALUES in ascending order: 0.0 and -0.0 are equal, NaN is the greatest."""


@pytest.mark.parametrize(
    ("arrangement", "rows", "with_others"),
    [
        (plan.REVERSED, [7, 6, 5, 4, 3, 2, 0], [None, None, 7, 6, 5, 4, 3, 2, 0]),
        (plan.ASCENDING, ORDERED, [2, 5, 6, None, 0, 3, 4, 7, None]),
        (plan.ASCENDING_NULLS_FIRST, ORDERED, [None, 2, 5, 6, None, 0, 3, 4, 7]),
        (plan.DESCENDING, ORDERED[::-1], [7, 4, 3, 0, None, 6, 5, 2, None]),
        (plan.DISTINCT, [0, 2, 4, 6], [0, 2, 4, 6, None]),
    ],
)
def test_elements_keep_their_rows(arrangement: str, rows: list[int], with_others: list[int | None]) -> None:
    made = plan.Rearranged(arrangement, collected(), "array<double>")
    assert evaluate(made, "v", VALUES) == [(False, row) for row in rows]
    made = plan.Rearranged(arrangement, with_null(), "array<double>")
    found = evaluate(made, "v", VALUES)
    assert [None if null else value for null, value in found] == with_others


def test_rows_of_elements_have_labels() -> None:
    made = plan.Rearranged(plan.DESCENDING, collected(), "array<double>")
    found = evaluate(made, "label", VALUES)
    assert [null for null, _ in found] == [False] * 7
    codes = {row % 2: value for row, (_, value) in zip(ORDERED[::-1], found)}
    assert [value for _, value in found] == [codes[row % 2] for row in ORDERED[::-1]]
    assert codes[0] < codes[1]


def test_elements_of_some_labels() -> None:
    assert evaluate(collected(frozenset("B")), "v", VALUES) == [(False, row) for row in (3, 5, 7)]
    assert evaluate(collected(frozenset("C")), "v", VALUES) == []


# ---- aggregates of users ------------------------------------------------------------------------------------------


def widen(state: tuple[float, float], value: float) -> tuple[float, float]:
    return episode.where(value < state[0], value, state[0]), episode.where(value > state[1], value, state[1])


def extent(state: tuple[float, float]) -> float:
    return state[1] - state[0]


@pytest.fixture
def _registered() -> Iterator[None]:
    before = dict(REGISTERED)
    episode.aggregate("extent", initial=(1e9, -1e9), step=widen, finish=extent)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


@pytest.mark.usefixtures("_registered")
def test_aggregates_of_users() -> None:
    spec = spec_of(f"{PATTERN} A AS extent(A.v) <= 2, B AS extent(U.f) > 1 OR extent(C.v) IS NULL")
    values = [1.0, 2.5, None, 4.0, 0.5]
    rows = [{**row, "v": v} for row, v in zip(rows_of(values), [1, 3, None, 4, 2])]
    trial = StepwiseAttempt(spec.plan, LocalRun(spec).events(table_in(spec, rows)))
    instructions = {one.label: at for at, one in enumerate(spec.plan.program.instructions) if one.label is not None}
    trial.begin(0, 0)
    found = []
    for label in "AAACB":
        trial.take(instructions[label])
        found.append(trial.holds(spec.plan.labels.names.index(label)))
    assert found == [True, True, True, True, True]
    trial.back_to(3)
    trial.take(instructions["A"])
    assert not trial.holds(0)
    trial.back_to(0)
    trial.take(instructions["B"])
    assert trial.holds(1)


def test_a_trial_of_a_plan_without_conditions() -> None:
    spec = spec_of(f"{PATTERN} A AS v > 1")
    trial = StepwiseAttempt(replace(spec.plan), LocalRun(spec).events(table_in(spec, rows_of([1.0]))))
    trial.begin(0, 0)
    trial.take(1)
    assert trial.holds(0)
