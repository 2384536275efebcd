"""Conditions on b[1] and b[k] of a closure are tested when that event is taken, under every strategy.

An event that fails is passed over, and may be taken later. Against the oracle, by every engine, whole and in chunks.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import EventClass, Strategy
from tests.property.test_event_pattern_laws import pieces_of
from tests.reference.event_patterns import Event, matches
from tests.support.events import Bound, run_in_pieces, run_whole, spec_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
PATTERNS = {
    "SEQ(S s, A+ a[], B b)": "a",
    "SEQ(A+ a[], B s)": "a",
    "SEQ(A+ a[], A s)": "a",
    "SEQ(A* a[], B s)": "a",
    "SEQ(S s, A* a[], B b)": "a",
    "SEQ(S s, A+ a[])": "a",
    "SEQ(S s, A^3 a[], B b)": "a",
    "SEQ(S s, A+ a[], B+ b[], A c)": "ab",
    "SEQ(S s, A* a[], B* b[])": "ab",
    "SEQ(S s, SEQ(A a, B b)+, S c)": "ab",
    "SEQ(S s, (A a | B b)+, S c)": "ab",
    "SEQ(SEQ(A+ a[], B b)+, S s)": "ab",
    "SEQ(S s, A+ a[], ~B n, A c)": "a",
    "SEQ(S s, (B d | A+ a[]), A c)": "a",
}
"""With the variables of their closures. Each has a single event s."""
CONDITIONS = [
    "{a}[1].x > 1", "{a}[1].x > s.x", "{a}[1].x % 2 = 0", "{a}[1].x IS NULL", "{a}[i].x >= {a}[1].x",
    "{a}[i].x > {a}[i-1].x", "{a}[2].x > 1", "{a}[2].x <> {a}[1].x", "{a}[i].x <= {a}[2].x",
    "{a}[1].x <= {b}[1].x", "{b}[i].x >= {a}[1].x", "{a}[2].x >= {b}[1].x", "s.x < {a}[1].x + {a}[i].x",
]  # fmt: skip
WHOLE = ["{a}[1].x < {a}[last].x", "count({a}[]) > {a}[1].x", "sum({a}[].x) > s.x"]
"""What needs all events of a closure: of one that is last, there is no telling under skip-till-next-match."""


@st.composite
def queries(draw: st.DrawFn) -> str:
    pattern = draw(st.sampled_from(list(PATTERNS)))
    names = st.sampled_from(PATTERNS[pattern])
    more = [] if pattern.endswith("[])") else WHOLE
    drawn = draw(st.lists(st.sampled_from([*CONDITIONS, *more]), min_size=1, max_size=2))
    where = " AND ".join(one.format(a=draw(names), b=draw(names)) for one in drawn)
    return f"PATTERN {pattern} WHERE [k] AND {where} WITHIN {draw(st.sampled_from([6, 4, 100]))}"


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    found, time = [], 0
    for n in range(draw(st.integers(3, 9))):
        time += draw(st.sampled_from([1, 1, 1, 0]))
        values = {"type": draw(st.sampled_from("SAAAABBS")), "x": draw(st.sampled_from([1, 2, 3, 0, None]))}
        found.append(Event(n, time, time, {"k": draw(st.sampled_from([1, 1, 1, 1, 2])), "y": 0, "s": "", **values}))
    return found


def _is_of(place: EventClass, event: Event) -> bool:
    return bool(event.values["type"] == place.name)


def oracle(text: str, rows: list[Event], strategy: Strategy) -> list[Bound]:
    query = parse_event_query(text)
    found = []
    for match in matches(query, rows, member=_is_of, strategy=strategy):
        lists = {name: one if isinstance(one, tuple) else (one,) for name, one in match.events.items()}
        found.append({name: tuple(event.position for event in some) for name, some in lists.items()})
    return sorted(_in_order(one) for one in found)


def _in_order(found: dict[str, tuple[int, ...]]) -> Any:
    """Positions by variable, without those of variables that have none."""
    return tuple(sorted((name, rows) for name, rows in found.items() if rows))


def engine(found: list[Bound]) -> list[Bound]:
    return sorted(_in_order(dict(one)) for one in found)


EXAMPLE = [("S", 10), ("A", 5), ("A", 20), ("B", 7)]
ALWAYS_20, ALWAYS_BOTH = {one: [(2,)] for one in Strategy}, {one: [(1, 2)] for one in Strategy}


@pytest.mark.parametrize(
    ("pattern", "where", "found"),
    [
        ("SEQ(S s, A+ a[], B b)", "a[1].x > s.x", {Strategy.NEXT: [(2,)], Strategy.ANY: [(2,)]}),
        ("SEQ(S s, A+ a[], B b)", "a[1].x > 9", {Strategy.NEXT: [(2,)], Strategy.ANY: [(2,)]}),
        ("SEQ(A+ a[], B b)", "a[1].x > 9", ALWAYS_20),
        ("SEQ(A+ a[], B b)", "a[1].x > b.x", ALWAYS_20),
        (
            "SEQ(S s, ~A n, A+ a[], B b)",
            "n.x < a[1].x",
            {**ALWAYS_BOTH, Strategy.ANY: [(1,), (1, 2)]},
        ),
        ("SEQ(S s, A+ a[], B b)", "a[2].x > 9", ALWAYS_BOTH),
    ],
)
def test_examples(pattern: str, where: str, found: dict[Strategy, list[tuple[int, ...]]]) -> None:
    rows = [Event(n, n, n, {"type": t, "k": 1, "x": x, "y": 0, "s": ""}) for n, (t, x) in enumerate(EXAMPLE)]
    for strategy in Strategy:
        text = f"PATTERN {pattern} WHERE [k] AND {where} WITHIN 20"
        matched = run_whole(spec_of(text, strategy=strategy), rows)
        assert engine(matched) == oracle(text, rows, strategy)
        assert sorted(dict(one)["a"] for one in matched) == found.get(strategy, [])


def test_runs_start_at_events_that_pass() -> None:
    """The first transition tests the condition: where it fails, no run begins."""
    spec = spec_of("PATTERN SEQ(A+ a[], B b) WHERE skip-till-next-match AND a[1].x % 500 = 0 WITHIN 5")
    automaton = spec.plan.automaton
    assert automaton is not None
    tested = {(one.source in automaton.starts, one.variable): len(one.checks) for one in automaton.transitions}
    assert tested == {(True, "a"): 1, (False, "a"): 0, (False, "b"): 0}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_condition_equals_the_oracle(pattern: str) -> None:
    """Under skip-till-next-match, where it matters most when a condition is tested."""
    rng = random.Random(pattern)
    for condition in CONDITIONS:
        text = f"PATTERN {pattern} WHERE {condition.format(a='a', b=PATTERNS[pattern][-1])} WITHIN 20"
        spec = spec_of(text, strategy=Strategy.NEXT)
        for _ in range(5):
            rows = [
                Event(n, n, n, {"type": rng.choice("SAAAABB"), "k": 1, "x": rng.randint(0, 3), "y": 0, "s": ""})
                for n in range(9)
            ]
            assert engine(run_whole(spec, rows)) == oracle(text, rows, Strategy.NEXT), (text, rows)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_equals_the_oracle(strategy: Strategy) -> None:
    @SETTINGS
    @given(queries(), events(), st.data())
    def check(text: str, rows: list[Event], data: st.DataObject) -> None:
        note(text)
        expected = None
        for closure in ("auto", "runs", "postponed", "on the fly") if strategy is Strategy.ANY else ("auto",):
            try:
                spec = spec_of(text, strategy=strategy, closure=closure)
            except EpisodeUnsupportedError as error:
                note(str(error))
                continue
            assume(spec.plan.keeps == 0)
            expected = oracle(text, rows, strategy) if expected is None else expected
            assert engine(run_whole(spec, rows)) == expected, closure
            pieces = data.draw(pieces_of(rows))
            assert engine(run_in_pieces(spec, pieces, data.draw(st.booleans()))) == expected, closure

    check()
