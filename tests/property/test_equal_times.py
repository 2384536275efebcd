"""Events of equal times are not before one another: every engine against the oracle, with many ties in any order of
arrival, closures, and windows so small that starts leave them.

An engine is forced by conditions that always hold, and by options.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import EventClass, Strategy
from episode.matchers.events.aggregated import AggregatedSpec
from episode.matchers.events.aggregated_search import FEW
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.running import run
from tests.reference.event_patterns import Event, Match, matches
from tests.reference.trend_aggregates import TrendAggregate, fold
from tests.support.aggregated import aggregated_spec, exact, run_aggregated
from tests.support.events import run_whole, spec_of, table_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Shape:
    """A SEQ of classes and closures: "A+ B C*" within a window. Variables are v1, v2, …"""

    places: str
    within: int | None

    @property
    def signs(self) -> list[str]:
        """Of single events, empty."""
        return [place[1:] for place in self.places.split()]

    @property
    def names(self) -> list[str]:
        """v1, v2[], …"""
        return [f"v{n}{'[]' if sign else ''}" for n, sign in enumerate(self.signs, start=1)]

    @property
    def single(self) -> list[str]:
        return [name for name in self.names if not name.endswith("[]")]

    def text(self, where: str = "", clause: str = "") -> str:
        """where: with {0} for a closure."""
        parts = [f"{place} {name}" for place, name in zip(self.places.split(), self.names, strict=True)]
        closure = next(name.removesuffix("[]") for name in self.names if name.endswith("[]"))
        conditions = f"WHERE {where.format(closure)}" if where else ""
        within = "" if self.within is None else f"WITHIN {self.within}"
        return f"PATTERN SEQ({', '.join(parts)}) {conditions} {within} {clause}"


TABLE, TREE = "{0}[i].y = {0}[i-1].y", "{0}[i].y <= {0}[i-1].y"
AGGREGATING = {
    "sliding": ("", FEW),
    "by start, table": (TABLE, 0),
    "by start, tree": (TREE, 0),
    "by start, two trees": ("{0}[i].x <> {0}[i-1].y - 1", 0),
    "by start, scan": (f"{TREE} AND {{0}}[i].y >= {{0}}[i-1].y", 0),
    "by start, compared": (TREE, FEW),
    "by start, scan compared": (f"{TREE} AND {TABLE}", FEW),
}
"""Conditions on a closure that always hold, and how many rows are compared event by event: what makes a plan take an
engine of aggregates."""
COUNTING = {"all": "", "table": TABLE, "tree": TREE, "pairs": f"{TREE} AND {TABLE}"}
"""Conditions that always hold, with which choices are counted in different ways."""
FUNCTIONS = ("sum", "min", "max", "count")


@cache
def aggregating(shape: Shape, engine: str, every: int | None) -> AggregatedSpec:
    where, few = AGGREGATING[engine]
    asked = ["count(*)", *(f"{function}({name}.x)" for name in shape.names for function in FUNCTIONS)]
    clause = f"AGGREGATE {', '.join(asked)} {'' if every is None else f'EVERY {every}'}"
    spec = aggregated_spec(shape.text(where, clause), few=few)
    assert spec.plan.per_start == (engine != "sliding")
    return spec


@cache
def counting(shape: Shape, way: str) -> EventPatternSpec | None:
    try:
        return spec_of(shape.text(COUNTING[way], "RETURN COLLAPSED"))
    except EpisodeUnsupportedError:
        return None


@cache
def matching(shape: Shape, strategy: Strategy, closure: str) -> EventPatternSpec | None:
    try:
        return spec_of(shape.text("[k]"), strategy=strategy, closure=closure)
    except EpisodeUnsupportedError:
        return None


# ---- one case, by every engine ----------------------------------------------------------------------------------


def rows_of(text: str) -> list[Event]:
    """Events in order of arrival: "0A 1A 2B"."""
    return [
        Event(n, int(part[:-1]), int(part[:-1]), {"type": part[-1], "k": 1, "x": n + 1, "y": 1, "s": ""})
        for n, part in enumerate(text.split())
    ]


def _is_of(place: EventClass, event: Event) -> bool:
    return bool(event.values["type"] == place.name)


def oracle(shape: Shape, rows: list[Event], strategy: Strategy = Strategy.ANY) -> list[Match]:
    return matches(parse_event_query(shape.text()), rows, member=_is_of, strategy=strategy)


def check_aggregates(shape: Shape, rows: list[Event], every: int | None, engines: list[str] | None = None) -> None:
    items = [TrendAggregate("count")]
    items += [TrendAggregate(one, name.removesuffix("[]"), "x") for name in shape.names for one in FUNCTIONS]
    groups: dict[tuple[int, ...], list[Match]] = {}
    for match in oracle(shape, rows):
        groups.setdefault(() if every is None else (match.te // every * every,), []).append(match)
    expected = {group: [exact(value) for value in fold(together, items)] for group, together in groups.items()}
    for engine in engines or AGGREGATING:
        found = run_aggregated(aggregating(shape, engine, every), [rows])
        assert {group: [exact(value) for value in values] for group, values in found.items()} == expected, engine


def check_counts(shape: Shape, rows: list[Event]) -> None:
    """Choices are counted, by the single events around them."""
    expected = Counter(
        tuple(match.events[name].position for name in shape.single)  # type: ignore[union-attr]
        for match in oracle(shape, rows)
    )
    for way in COUNTING:
        spec = counting(shape, way)
        if spec is None:
            continue
        output = run(spec, table_of(rows))
        columns: dict[str, list[Any]] = {
            measure.name: output.column(measure.sql.removesuffix(" END").split()[-1].strip("`")).to_pylist()
            for measure in spec.plan.measures.measures
        }
        found = Counter[tuple[int, ...]]()
        for row, number in enumerate(columns["matches"]):
            found[tuple(columns[f"out_{name}"][row] for name in shape.single)] += int(number)
        assert found == expected, way


def check_matches(shape: Shape, rows: list[Event], strategy: Strategy, closures: tuple[str, ...] = ("auto",)) -> None:
    expected = sorted(
        tuple(
            tuple(event.position for event in (bound if isinstance(bound, tuple) else (bound,)))
            for bound in match.events.values()
        )
        for match in oracle(shape, rows, strategy)
    )
    for closure in closures:
        spec = matching(shape, strategy, closure)
        if spec is not None:
            assert sorted(tuple(at for _, at in one) for one in run_whole(spec, rows)) == expected, (strategy, closure)


def check_all(shape: Shape, rows: list[Event], every: int | None = None) -> None:
    check_aggregates(shape, rows, every)
    check_counts(shape, rows)
    check_matches(shape, rows, Strategy.ANY, ("auto", "runs", "postponed", "on the fly"))
    for strategy in (Strategy.NEXT, Strategy.STRICT, Strategy.PARTITION):
        check_matches(shape, rows, strategy)


# ---- cases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "within", "events", "count"),
    [
        ("A+ B+", 4, "0A 1A 2B 2A 5B", 7),
        ("A+ B+", 4, "0A 1A 2A 2B 5B", 7),
        ("A* B A", 2, "0B 1A 2B 2A 3A", 4),
    ],
)
def test_starts_that_have_left_the_window(places: str, within: int, events: str, count: int) -> None:
    """Of two events of one time, the first to arrive is of a later place; a start leaves the window."""
    shape = Shape(places, within)
    assert len(oracle(shape, rows_of(events))) == count
    check_all(shape, rows_of(events))


def tied_events(rng: random.Random, classes: str) -> str:
    """Up to eight events, about half of them of the time of the one before."""
    time, found = 0, []
    for _ in range(rng.randint(4, 8)):
        time += rng.choice((0, 0, 0, 1, 1, 2))
        found.append(f"{time}{rng.choice(classes)}")
    return " ".join(found)


@pytest.mark.parametrize("within", [2, 3, 4])
@pytest.mark.parametrize("places", ["A+ B+", "A* B+", "A* B A", "B B* A^2", "A+ B A+ B", "A+ B* A+"])
def test_many_ties_as_starts_leave_the_window(places: str, within: int) -> None:
    rng = random.Random(f"{places} {within}")
    for _ in range(60):
        events = tied_events(rng, "AB")
        check_aggregates(Shape(places, within), rows_of(events), None, ["sliding"])


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    places = [draw(st.sampled_from("ABC")) + draw(st.sampled_from(["", "+", "*", "^2", "+", ""])) for _ in range(4)]
    places = places[: draw(st.integers(1, 4))]
    if all(len(place) == 1 for place in places):
        places[0] += "+"
    return Shape(" ".join(places), draw(st.sampled_from([2, 3, 1, 4, None])))


@SETTINGS
@given(shapes(), st.randoms(use_true_random=False), st.sampled_from([None, None, 2, 3]))
def test_every_engine_equals_the_oracle(shape: Shape, rng: random.Random, every: int | None) -> None:
    check_all(shape, rows_of(tied_events(rng, "ABABC")), every)
