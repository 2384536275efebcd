"""The oracle for imprecise time against probabilities worked out by hand, and against whole possible worlds.

Events are written as class and interval: `A1-2` happens at 1 or at 2, `B3` at 3. A match is written with its events in
order of the pattern's places, closures in brackets.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from functools import partial
from math import prod

import pytest
from hypothesis import HealthCheck, given, settings

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import EventClass
from tests.reference import event_patterns
from tests.reference.event_patterns import Event
from tests.reference.generate_imprecise import ImpreciseCase, imprecise_cases
from tests.reference.imprecise import ImpreciseEvent, confidence, imprecise_matches, is_correlated, precise

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


def stream(text: str, **columns: list) -> list[ImpreciseEvent]:
    events = []
    for position, name in enumerate(text.split()):
        lo, _, hi = name[1:].partition("-")
        values = {"name": name, "type": name[0], **{column: values[position] for column, values in columns.items()}}
        events.append(ImpreciseEvent(position, int(lo), int(hi or lo), values))
    return events


def of_type(place: EventClass, event: Event) -> bool:
    return event.values["type"] == place.name


def found(text: str, events: list[ImpreciseEvent], **options: object) -> dict[str, Fraction]:
    results = {}
    for match in imprecise_matches(parse_event_query(text), events, member=of_type, **options):  # type: ignore[arg-type]
        words = []
        for bound in match.events.values():
            names = [event.values["name"] for event in (bound if isinstance(bound, tuple) else (bound,))]
            words.append(f"[{' '.join(names)}]" if isinstance(bound, tuple) else names[0])
        assert " ".join(words) not in results
        results[" ".join(words)] = match.confidence
    return results


# ---- confidence -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A1-2 B2-3", Fraction(3, 4)),  # all of (1,2) (1,3) (2,2) (2,3) but the tie
        ("A1-2 B3-9", Fraction(1)),
        ("A3 B3", Fraction(0)),
        ("A1-3 B1-3", Fraction(1, 3)),  # of nine, three have a before b
        ("A1-3 B1-3 C1-3", Fraction(1, 27)),  # only 1, 2, 3
        ("A1-4 B2-3 C1-4", Fraction(1 * 2 + 2 * 1, 32)),  # b = 2: a = 1, c in 3, 4; b = 3: a in 1, 2, c = 4
    ],
)
def test_order(text: str, expected: Fraction) -> None:
    assert confidence([(event,) for event in stream(text)]) == expected


@pytest.mark.parametrize(
    ("within", "expected"),
    [(None, Fraction(3, 4)), (2, Fraction(3, 4)), (1, Fraction(1, 2)), (0, Fraction(0))],
)
def test_window_is_part_of_the_probability(within: int | None, expected: Fraction) -> None:
    """A1-2 B2-3: differences 1, 2, 0 and 1."""
    assert confidence([(event,) for event in stream("A1-2 B2-3")], within) == expected


def test_granularity_says_which_points_there_are() -> None:
    """a is at 0, 10 or 20, b at 5, 15 or 25: one, two or three of the three b are after it, in turn from the end."""
    a, b = ImpreciseEvent(0, 0, 20, {}), ImpreciseEvent(1, 5, 29, {})
    assert [time for time, _ in b.points(10)] == [5, 15, 25]
    assert confidence([(a,), (b,)], granularity=10) == Fraction(3 + 2 + 1, 9)
    assert confidence([(a,), (b,)], within=5, granularity=10) == Fraction(3, 9)


def test_given_probabilities() -> None:
    a = ImpreciseEvent(0, 1, 2, {}, weights=(Fraction(9, 10), Fraction(1, 10)))
    b = ImpreciseEvent(1, 2, 3, {}, weights=(Fraction(1, 4), Fraction(3, 4)))
    assert confidence([(a,), (b,)]) == 1 - Fraction(1, 10) * Fraction(1, 4)


def test_nothing_is_demanded_inside_a_stage() -> None:
    """Both b are always between a and c, also at one time."""
    a, b, other, c = stream("A1 B2-3 B2-3 C4")
    assert confidence([(a,), (b, other), (c,)]) == 1
    assert confidence([(a,), (b,), (other,), (c,)]) == Fraction(1, 4)


def test_the_window_is_between_the_earliest_and_the_latest_event() -> None:
    b, other = stream("B1-2 B4-5")
    assert confidence([(b, other)], within=2) == Fraction(1, 4)
    assert confidence([(b, other)], within=3) == Fraction(3, 4)


# ---- matches ----------------------------------------------------------------------------------------


def test_every_possible_match_with_its_confidence() -> None:
    assert found("PATTERN SEQ(A a, B b) WITHIN 10", stream("A1-2 B2-3 B0-1 A5")) == {"A1-2 B2-3": Fraction(3, 4)}
    assert found("PATTERN SEQ(A a, B b)", stream("A1-2 B1-2 B2")) == {
        "A1-2 B1-2": Fraction(1, 4),
        "A1-2 B2": Fraction(1, 2),
    }


def test_threshold_keeps_what_is_as_likely_or_more() -> None:
    events = stream("A1-2 B1-2 B2 B3")
    kept = {
        limit: set(found("PATTERN SEQ(A a, B b)", events, threshold=Fraction(limit))) for limit in ("0", "1/2", "1")
    }
    assert kept == {"0": {"A1-2 B1-2", "A1-2 B2", "A1-2 B3"}, "1/2": {"A1-2 B2", "A1-2 B3"}, "1": {"A1-2 B3"}}


def test_uncorrelated_closures_take_sets() -> None:
    """One match for each non-empty set: with both b the probability that both lie between."""
    assert found("PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > 0", stream("A1 B1-2 B2-3 C4", x=[1, 1, 1, 1])) == {
        "A1 [B1-2] C4": Fraction(1, 2),
        "A1 [B2-3] C4": Fraction(1),
        "A1 [B1-2 B2-3] C4": Fraction(1, 2),
    }


def test_star_may_be_empty() -> None:
    """Then the neighbours follow one another."""
    assert found("PATTERN SEQ(A a, B* b[], C c)", stream("A1-2 B2 C2-3")) == {
        "A1-2 [] C2-3": Fraction(3, 4),
        "A1-2 [B2] C2-3": Fraction(1, 4),
    }


def test_correlated_closures_take_sequences() -> None:
    """Both orders of two events are possible; their condition holds in both or in one."""
    events = stream("A1 B2-3 B2-3 C4", x=[0, 1, 2, 0])
    names = ["B2-3", "B2-3"]
    assert names == [event.values["name"] for event in events[1:3]]
    events[2].values["name"] = "other"
    single = {"A1 [B2-3] C4": Fraction(1), "A1 [other] C4": Fraction(1)}
    assert found("PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x <> b[i-1].x", events) == {
        **single,
        "A1 [B2-3 other] C4": Fraction(1, 4),
        "A1 [other B2-3] C4": Fraction(1, 4),
    }
    rising = {**single, "A1 [B2-3 other] C4": Fraction(1, 4)}
    assert found("PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x", events) == rising
    assert found("PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > max(b[..i-1].x)", events) == rising


@pytest.mark.parametrize(
    ("rest", "correlated"),
    [
        ("", False),
        ("WHERE b[i].x > a.x", False),
        ("WHERE sum(b[].x) > 3", False),
        ("WHERE count(b[]) = 2 RETURN b[].x AS xs", False),
        ("WHERE c.x < max(b[..i].x)", False),  # all of b: c stands after it
        ("WHERE b[i].x > b[i-1].x", True),
        ("WHERE b[1].x > 2", True),
        ("WHERE b[last].x > 2", True),
        ("WHERE b[i].x > avg(b[..i-1].x)", True),
        ("WHERE sum(b[..i].x) < 3", True),
        ("RETURN first(b[].x) AS x", True),
        ("RETURN b[last] AS x", True),
    ],
)
def test_what_correlates_a_closure(rest: str, correlated: bool) -> None:
    assert is_correlated(parse_event_query(f"PATTERN SEQ(A a, B+ b[], C c) {rest}"), "b") is correlated


def test_equal_attributes_and_keys() -> None:
    events = stream("A1 B2 B3", k=[1, 1, 2])
    assert set(found("PATTERN SEQ(A a, B b) WHERE [k]", events)) == {"A1 B2"}
    assert set(found("PATTERN SEQ(A a, B b)", events, key=lambda event: event.values["k"])) == {"A1 B2"}


# ---- possible worlds --------------------------------------------------------------------------------


@SETTINGS
@given(imprecise_cases(max_events=5, max_points=3))
def test_confidence_is_the_probability_of_the_worlds_that_have_the_match(case: ImpreciseCase) -> None:
    """The definition of section 2.3: the oracle for precise time, in every world of the whole stream.

    With precise time the events of a closure never tie, so that its set is also a sequence: all closures are made
    correlated here.
    """
    worlds: Counter[tuple] = Counter()
    correlated = case.correlated()
    variables = [name for name, _ in correlated.names()]
    key = None if case.key is None else partial(_value_of, case.key)
    for world in itertools.product(*(event.points(case.granularity) for event in case.events)):
        probability = prod((weight for _, weight in world), start=Fraction(1))
        events = precise(case.events, tuple(time for time, _ in world))
        for match in event_patterns.matches(correlated.query, events, member=case.member, key=key):
            worlds[_positions(match, variables)] += probability  # type: ignore[assignment]
    possible = {bound: probability for bound, probability in worlds.items() if probability}
    assert {match.bound: match.confidence for match in correlated.matches(threshold=False)} == possible


def _positions(match: event_patterns.Match, variables: list[str]) -> tuple:
    bound = []
    for name in variables:
        events = match.events[name.lower()]
        bound.append((name, tuple(e.position for e in (events if isinstance(events, tuple) else (events,)))))
    return tuple(bound)


def _value_of(column: str, event: Event) -> object:
    return event.values[column]
