"""closure=: which engine evaluates the closures of SEQ, what it says of itself, and what it refuses."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.plan.events.classes import EventClasses
from episode.plan.events.cost import Statistics, search
from episode.plan.events.explain import event_section
from episode.plan.events.plan import EventPlan, plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.options import Options, Tuning
from episode.plan.schema import InputSchema
from episode.plan.sections import lines_of

TYPES = {"ts": "bigint", "type": "string", "x": "bigint", "d": "double", "p": "decimal(10,2)", "s": "string"}
SEQ = "PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < c.x AND b[i].x > a.x AND sum(b[].x) > 100 WITHIN 9"


def planned(text: str, closure: str = "auto") -> EventPlan:
    query = parse_event_query(text)
    classes = EventClasses(query, InputSchema(TYPES), "type")
    return plan_event_pattern(query, classes, EventTimes("ts", None, "bigint"), closure=closure)


def closure_lines(plan: EventPlan) -> list[str]:
    lines = [line.strip() for line in lines_of(event_section(plan))]
    first = next(number for number, line in enumerate(lines) if line.startswith("closures:"))
    return lines[first : first + 3]


def test_explain_names_the_engine_its_cost_and_that_of_the_others() -> None:
    name, cost, left = closure_lines(planned(SEQ))
    assert name.startswith("closures: on the fly (")
    assert cost.startswith("cost per window: on the fly ")
    assert "; postponed " in cost
    assert "; runs " in cost
    assert left == "left for the choices: sum(b[].x) > 100 (also by bounds)"


def test_an_engine_that_is_asked_for_is_taken() -> None:
    assert closure_lines(planned(SEQ, "postponed"))[0].startswith("closures: postponed (")
    assert closure_lines(planned(SEQ, "on the fly"))[0].startswith("closures: on the fly (")
    runs = planned(SEQ, "runs")
    assert runs.tree is None
    assert closure_lines(runs)[0].endswith("as asked for by Tuning(closure='runs')")
    assert planned(SEQ, "postponed").automaton is None


def test_postponed_relates_no_values_while_matching() -> None:
    plan = planned(SEQ, "postponed")
    assert plan.tests == ()
    assert plan.group_tests == {"b": ()}
    assert plan.construction is not None
    assert [test.text for test in plan.construction.every_test] == ["a.x < c.x", "b[i].x > a.x"]


def test_the_choice_follows_the_number_of_closure_events() -> None:
    plan = planned("PATTERN SEQ(A a, B+ b[], C c) WITHIN 9")

    def chosen(events: float) -> bool:
        return search(plan, Statistics({"a": 0.01, "b": events, "c": 20.0}, {}, events + 20.01)).automaton

    assert chosen(0.01)
    assert not chosen(20.0)
    assert not chosen(10_000.0)


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("sum(b[].x) > 100", 1),
        ("avg(b[].d) < c.d", 1),
        ("sum(b[].p) >= 2.5", 1),
        ("count(b[]) >= 3 AND max(b[].x) < c.x + a.x", 2),
        ("b[last].x > b[1].x", 1),
        ("NOT sum(b[].x) <= 100", 1),
        ("sum(b[].x) BETWEEN 1 AND 5", 2),
        ("min(b[].s) > 'a'", 0),
        ("b[i].x > b[i-1].x", 1),
        ("b[i].x > b[i-2].x", 0),
        ("b[i].x > max(b[..i-1].x) + c.x", 1),
        ("b[i].x > avg(b[].x)", 0),
        ("sum(b[].x) * 2 > 5", 1),
        ("sum(b[].x) + max(b[].x) - c.x > -min(b[].x)", 1),
        ("sum(b[].x) * max(b[].x) > 5", 0),
        ("sum(b[].x) > 100 OR a.x > 1", 1),
        ("sum(b[].x) > 100 OR min(b[].s) > 'a'", 0),
        ("sum(b[].x) > 100 OR (max(b[].x) > 5 AND min(b[].s) > 'a')", 1),
    ],
)
def test_what_bounds_can_decide(condition: str, bounds: int) -> None:
    plan = planned(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {condition} WITHIN 9")
    assert plan.construction is not None
    assert len(plan.construction.bounds.all) == bounds


@pytest.mark.parametrize(
    ("condition", "decided"),
    [
        ("sum(b[].x) > 100", True),
        ("sum(b[].x) BETWEEN 1 AND 5", True),
        ("sum(b[].x) > 100 OR (max(b[].x) > 5 AND min(b[].s) > 'a')", True),
        ("b[i].x > b[i-1].x + 2", True),
        ("sum(b[].x) * sum(b[].x) > 100", False),
    ],
)
def test_what_is_not_tested_where_bounds_say_that_it_holds(condition: str, decided: bool) -> None:
    """All parts of a condition must be known."""
    plan = planned(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {condition} WITHIN 9")
    assert plan.construction is not None
    assert all(bool(bounds) is decided for bounds in plan.construction.bounds.by_check)


@pytest.mark.parametrize(
    ("text", "closure", "kind", "message"),
    [
        ("PATTERN A; B+; C WITHIN 9", "runs", EpisodeAnalysisError, "there is no closure inside SEQ in this pattern"),
        ("PATTERN SEQ(A a, B b) WITHIN 9", "postponed", EpisodeAnalysisError, "there is no closure inside SEQ"),
        (
            "PATTERN SEQ(A a, B+ b[]) WITHIN 9",
            "postponed",
            EpisodeUnsupportedError,
            "this pattern cannot be postponed: a match ends with an event of a closure, and is reported with it.",
        ),
        (
            "PATTERN SEQ(A a, B+ b[], C c) WHERE skip-till-next-match WITHIN 9",
            "on the fly",
            EpisodeUnsupportedError,
            "this pattern cannot be postponed: skip-till-next-match follows each run by itself.",
        ),
    ],
)
def test_what_an_engine_cannot_do_is_refused(text: str, closure: str, kind: type[EpisodeError], message: str) -> None:
    with pytest.raises(kind) as raised:
        planned(text, closure)
    assert message in raised.value.message
    assert raised.value.position is not None
    assert raised.value.hint


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(EpisodeAnalysisError, match=r"Tuning\(closure='fast'\): one of 'auto', 'runs', 'postponed'"):
        Options(tuning=Tuning(closure="fast"))
