"""The oracle for aggregates over all matches against results worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import EventClass
from tests.reference.event_patterns import Event
from tests.reference.generate_trends import TrendCase, trend_cases
from tests.reference.trend_aggregates import TrendAggregate, aggregate_matches, over_nothing

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
TRENDS = TrendAggregate("count")


def stream(text: str, **columns: list) -> list[Event]:
    """`A1 B2` are events of classes A and B at times 1 and 2; columns in the same order."""
    return [
        Event(n, int(name[1:]), int(name[1:]), {"type": name[0], **{c: values[n] for c, values in columns.items()}})
        for n, name in enumerate(text.split())
    ]


def of_type(place: EventClass, event: Event) -> bool:
    return bool(event.values["type"] == place.name)


def values(text: str, events: list[Event], *aggregates: TrendAggregate, **options: Any) -> dict[tuple, tuple]:
    return aggregate_matches(parse_event_query(text), events, aggregates, member=of_type, **options)


def of(function: str, variable: str, column: str | None = None) -> TrendAggregate:
    return TrendAggregate(function, variable, column)


def test_the_running_example() -> None:
    """Figure 3 of SASE++: a1, b1 b2 b3, c1 has seven matches, one for each non-empty set of b. Each b is in four."""
    events = stream("A1 B2 B3 B4 C5", x=[0, 10, 20, 40, 0])
    aggregates = [of("count", "b"), of("sum", "b", "x"), of("avg", "b", "x"), of("min", "b", "x"), of("max", "b", "x")]
    assert values("PATTERN SEQ(A a, B+ b[], C c)", events, TRENDS, *aggregates) == {
        (): (7, 12, 280, Fraction(70, 3), 10, 40)
    }


@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_closure_takes_every_subset(n: int) -> None:
    events = stream(" ".join(["A0", *(f"B{i}" for i in range(1, n + 1)), f"C{n + 1}"]))
    assert values("PATTERN SEQ(A a, B+ b[], C c)", events, TRENDS) == {(): (2**n - 1,)}
    assert values("PATTERN SEQ(A a, B* b[], C c)", events, TRENDS) == {(): (2**n,)}


def test_rising_subsequences() -> None:
    """Of 1, 3, 2: [1], [3], [2], [1 3], [1 2]."""
    events = stream("B1 B2 B3", x=[1, 3, 2])
    aggregates = [TRENDS, of("count", "b"), of("sum", "b", "x")]
    rising = "PATTERN SEQ(B+ b[]) WHERE b[i].x > b[i-1].x"
    assert values(rising, events, *aggregates) == {(): (5, 7, 1 + 3 + 2 + 4 + 3)}


def test_a_single_variable_counts_once_for_each_match() -> None:
    """a1 has three matches (b2, b3, both), a2 has one."""
    events = stream("A1 B2 A2 B3", x=[5, 0, 7, 0])
    aggregates = [of("sum", "a", "x"), of("count", "a", "x"), of("avg", "a", "x")]
    assert values("PATTERN SEQ(A a, B+ b[])", events, TRENDS, *aggregates) == {(): (4, 22, 4, Fraction(22, 4))}


def test_nulls_are_skipped_and_nothing_is_null() -> None:
    aggregates = [of("count", "b"), *(of(function, "b", "x") for function in ("count", "sum", "avg", "min", "max"))]
    query = "PATTERN SEQ(A a, B+ b[])"
    assert values(query, stream("A1 B2 B3", x=[0, None, 4]), *aggregates) == {(): (4, 2, 8, 4, 4, 4)}
    assert values(query, stream("A1 B2", x=[0, None]), *aggregates) == {(): (1, 0, None, None, None, None)}
    assert values(query, stream("B2", x=[1]), *aggregates) == {}
    assert over_nothing([TRENDS, *aggregates]) == (0, 0, 0, None, None, None, None)


def test_groups() -> None:
    events = stream("A1 A2 B3 B7", s=["u", None, "u", "v"], k=[1, 1, 1, 2])
    query = "PATTERN SEQ(A a, B b)"
    assert values(query, events, TRENDS, group_by=(("a", "s"),)) == {("u",): (2,), (None,): (2,)}
    assert values(query, events, TRENDS, group_by=(("a", "s"), ("b", "s"))) == {
        ("u", "u"): (1,),
        ("u", "v"): (1,),
        (None, "u"): (1,),
        (None, "v"): (1,),
    }
    assert values(query, events, TRENDS, key=lambda event: event.values["k"]) == {(1,): (2,)}


def test_intervals_are_by_the_end_of_the_match() -> None:
    """An end at 5 lies in [5, 10)."""
    events = stream("A1 B4 B5 B10")
    assert values("PATTERN SEQ(A a, B b)", events, TRENDS, every=5) == {(0,): (1,), (5,): (1,), (10,): (1,)}
    assert values("PATTERN SEQ(A a, B+ b[])", events, TRENDS, every=5) == {(0,): (1,), (5,): (2,), (10,): (4,)}


def test_intervals_before_zero() -> None:
    assert values("PATTERN SEQ(A a, B b)", stream("A-9 B-1"), TRENDS, every=5) == {(-5,): (1,)}


@SETTINGS
@given(trend_cases(beyond=True))
def test_groups_add_up(case: TrendCase) -> None:
    """However the matches are grouped, their number is the same."""
    assert sum(row[0] for row in case.expected().values()) == len(case.matches())
    parsed = parse_event_query(case.text)
    assert replace(case, query=parsed).expected() == case.expected()
    assert case.clause.startswith("AGGREGATE count(*) AS g0")
