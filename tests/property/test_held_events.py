"""What event patterns hold between feeds: no match is lost or found twice by what is let go, and little is held.

Events are fed as sets of rules are fed: only those that can matter, with what they qualify for known.
"""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.lang.events.parser import parse_event_query
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import EventBatch
from episode.matchers.rules.batches import RuleBatches
from episode.matchers.rules.classes import ClassRows
from episode.matchers.rules.shared import shared_plan
from episode.matchers.running import LocalRun
from tests.reference.event_patterns import Event
from tests.reference.generate_events import Case
from tests.support.events import Bound, bound, spec_of, table_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
PATTERNS = (
    "PATTERN SEQ(A a, B b) WITHIN 6",
    "PATTERN SEQ(A a, B b)",
    "PATTERN SEQ(A a, B b, A c) WHERE a.x < c.x WITHIN 8",
    "PATTERN SEQ(A a, !(X x), B b) WITHIN 6",
    "PATTERN SEQ(A a, !(X x), B b)",
    "PATTERN SEQ(A a, !(X x), B b) WHERE x.x > a.x WITHIN 6",
    "PATTERN SEQ(A a, !(X x), B b) WHERE x.x > 1 WITHIN 6",
    "PATTERN SEQ(A a, !(X x), B b, C c) WITHIN 8",
    "PATTERN SEQ(A a, B b, !(X x), C c) WITHIN 8",
    "PATTERN SEQ(A a, B b, !(A x), B c) WITHIN 8",
    "PATTERN SEQ(A a, !(SEQ(X x, X z)), B b) WITHIN 8",
    "PATTERN SEQ(!(X x), A a, B b) WITHIN 6",
    "PATTERN SEQ(A a, B b, !(X x)) WITHIN 4",
    "PATTERN SEQ(A a, B+ b[], C c) WITHIN 6",
    "PATTERN SEQ(A a, B b & C c) WITHIN 6",
    "PATTERN SEQ(A a, B b | X x, C c) WITHIN 6",
)
KEYS = 3


def positions(case: Case, spec: EventPatternSpec) -> list[Bound]:
    """The matches of the reference."""
    names = [one.name[len("out_") :] for one in spec.plan.measures.measures if one.name.startswith("out_")]
    found = []
    for match in case.matches():
        own = [(name, match.events.get(name.lower(), ())) for name in names]
        found.append(
            tuple(
                (name, (one.position,) if isinstance(one, Event) else tuple(each.position for each in one))
                for name, one in own
            )
        )
    return sorted(found)


def as_in_a_set(spec: EventPatternSpec, events: EventBatch) -> EventBatch:
    """The events as a pattern of a set of rules gets them."""
    shared = shared_plan([spec])
    (place,) = shared.places
    if place.asked is None or not len(events):
        return events
    batches = RuleBatches(events, ClassRows(shared.index, events), shared.needs)
    fed = batches.of(place.asked, shared.asked[place.asked], False, place.shares)
    return EventBatch.empty(spec.input_schema, spec.input_columns) if fed is None else fed


def fed_in_pieces(spec: EventPatternSpec, pieces: list[list[Event]], moves: list[bool], known: bool) -> list[Bound]:
    """moves: before which pieces the state is written and read."""
    running, outputs = LocalRun(spec), []
    for piece, move in zip(pieces, moves, strict=True):
        if move:
            running.move()
        events = running.events(table_of(piece))
        outputs += running.matcher.feed(as_in_a_set(spec, events) if known else events, piece[-1].te)
    return bound(spec, running.concat([*outputs, *running.matcher.finish()]))


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Events of a few keys, some of them at the same time."""
    steps = st.tuples(st.integers(0, 2), st.sampled_from("AABBXC"), st.integers(0, KEYS - 1), st.integers(0, 3))
    events, time = [], 0
    for position, (step, kind, key, x) in enumerate(draw(st.lists(steps, min_size=1, max_size=14))):
        time += step
        events.append(Event(position, time, time, {"type": kind, "k": key, "x": x, "y": 0, "s": "a"}))
    return events


@pytest.mark.parametrize("text", PATTERNS)
def test_what_is_let_go_is_missed_by_no_match(text: str) -> None:
    spec = spec_of(text, key="k")

    @SETTINGS
    @given(streams(), st.data())
    def check(events: list[Event], data: st.DataObject) -> None:
        borders = [at for at in range(1, len(events)) if events[at].te != events[at - 1].te]
        cuts = sorted(data.draw(st.sets(st.sampled_from(borders)))) if borders else []
        pieces = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
        moves = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
        case = Case(parse_event_query(text), text, events, True, "k", None)
        assert sorted(fed_in_pieces(spec, pieces, moves, data.draw(st.booleans()))) == positions(case, spec)

    check()


@pytest.mark.parametrize(
    ("text", "kinds", "most"),
    [
        # An event that ends a match is held for no other one.
        ("PATTERN SEQ(A a, B b) WITHIN 1000", "ABBBB", 40),
        # After a forbidden event, neither it nor what came before it can matter.
        ("PATTERN SEQ(A a, !(X x), B b) WITHIN 1000", "AXXXX", 3 * KEYS),
        ("PATTERN SEQ(A a, !(X x), B b)", "AXXXX", 3 * KEYS),
        # Before the first event of a match, nothing is forbidden.
        ("PATTERN SEQ(A a, !(X x), B b) WHERE x.x > a.x WITHIN 1000", "XXXXB", 0),
    ],
)
def test_little_is_held(text: str, kinds: str, most: int) -> None:
    spec, chance = spec_of(text, key="k"), random.Random(7)
    running, held = LocalRun(spec), []
    for feed in range(20):
        times = range(10 * feed, 10 * feed + 10)
        rows = [
            {"pos": t, "ts": t, "te": t, "type": kinds[t % len(kinds)], "k": chance.randrange(KEYS), "x": 0, "s": "a"}
            for t in times
        ]
        running.feed(pa.Table.from_pylist(rows, schema=table_of([]).schema), times[-1])
        held.append(running.matcher.state_rows)
    assert max(held) <= most


def test_a_snapshot_of_what_has_not_changed_is_empty() -> None:
    running = LocalRun(spec_of("PATTERN SEQ(A a, B b) WITHIN 50", key="k"))
    event = Event(0, 1, 1, {"type": "A", "k": 1, "x": 0, "y": 0, "s": "a"})
    running.feed(table_of([event]), 1)
    assert running.matcher.snapshot().put
    running.feed(table_of([]), 20)
    assert running.matcher.snapshot().put == ()
    running.feed(table_of([]), 60)
    assert running.matcher.state_rows == 0
    assert running.matcher.snapshot().removed
