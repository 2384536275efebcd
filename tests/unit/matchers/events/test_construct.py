"""Intermediate matches: single events with all that their closures may choose from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from episode.lang.events.parser import parse_event_query
from episode.matchers.events.construct import intermediate_matches
from episode.matchers.events.prepare import event_needs, prepare_events
from episode.matchers.events.rounds import Round
from episode.matchers.events.tree import TreeRun
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.times import NEVER
from episode.plan.events.classes import EventClasses
from episode.plan.events.cost import default_statistics, search
from episode.plan.events.plan import EventPlan, plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema
from tests.support.events import SCHEMA, TYPES


def planned(text: str, closure: str) -> EventPlan:
    query = parse_event_query(text)
    return plan_event_pattern(
        query, EventClasses(query, InputSchema(TYPES), "type"), EventTimes("te", None, "bigint"), closure=closure
    )


def found(text: str, events: str, closure: str, limit: int) -> list[tuple[tuple[int, ...], dict[str, list[int]]]]:
    """The intermediate matches over events like A1 B2, of one class and value each, one per unit of time."""
    plan = planned(text, closure)
    assert plan.construction is not None
    rows = [
        {"pos": n, "ts": n, "te": n, "type": word[0], "k": 1, "x": int(word[1:]), "y": 0, "s": "a"}
        for n, word in enumerate(events.split())
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    arrays = prepare_events(plan, event_needs(plan), table, np.zeros(len(rows), np.int64))
    time = np.arange(len(rows), dtype=np.int64)
    round_ = Round(np.array([0, len(rows)]), time, time, np.array([NEVER]), END_OF_TIME, arrays.bits)
    run = TreeRun(plan, search(plan, default_statistics(plan)), arrays, round_, limit)
    out = []
    for part in intermediate_matches(run, plan.construction):
        for match, single in enumerate(part.rows.tolist()):
            groups = {}
            for name, (offsets, members) in part.groups.items():
                groups[name] = members[offsets[match] : offsets[match + 1]].tolist()
            out.append((tuple(single), groups))
    return sorted(out, key=lambda one: one[0])


@pytest.mark.parametrize("limit", [4, 1000])
@pytest.mark.parametrize("closure", ["postponed", "on the fly"])
def test_a_closure_between_single_events(closure: str, limit: int) -> None:
    text = "PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < c.x AND b[i].x > a.x AND sum(b[].x) > 100 WITHIN 9"
    events = "A1 B2 B0 A2 B3 C5 C1"
    assert found(text, events, closure, limit) == [((0, 5), {"b": [1, 4]}), ((3, 5), {"b": [4]})]


def test_closures_side_by_side_do_not_bound_each_other() -> None:
    events = "A1 C1 B1 C1 B1 D1"
    assert found("PATTERN SEQ(A a, B+ b[], C* c[], D d) WITHIN 9", events, "on the fly", 1000) == [
        ((0, 5), {"b": [2, 4], "c": [1, 3]})
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PATTERN SEQ(A a, B+ b[]) WITHIN 9", "ends with an event of a closure"),
        ("PATTERN SEQ(A a, SEQ(B b, C c)+, D d) WITHIN 9", "repeats more than one class"),
        ("PATTERN SEQ(B+ b[], C c, ~D d) WITHIN 9", "a negation comes last"),
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE skip-till-next-match WITHIN 9", "skip-till-next-match"),
    ],
)
def test_what_cannot_be_postponed_says_why(text: str, reason: str) -> None:
    plan = planned(text, "auto")
    assert plan.construction is None
    assert reason in (plan.why_runs or "")


def test_what_is_early_and_what_is_late() -> None:
    text = (
        "PATTERN SEQ(A a, ~X x, B b, ~Y y, C+ c[], D d) WHERE a.x < d.x AND c[i].x > a.x AND c[i].x > c[i-1].x "
        "AND x.y > a.y AND count(c[]) > 2 WITHIN 9"
    )
    plan = planned(text, "on the fly")
    assert plan.construction is not None
    assert plan.construction.engine == "on the fly"
    assert plan.construction.postponed == ("c[i].x > c[i-1].x", "count(c[]) > 2")
    assert [negation.variables for negation in plan.construction.automaton.negations] == [("y",)]
    assert list(plan.absent_tests) == ["!x"]
    assert [test.text for test in plan.tests] == ["a.x < d.x"]
