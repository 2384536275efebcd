"""Records that nodes keep between feeds: however events are fed, the matches are those of the reference."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.lang.events.parser import parse_event_query
from episode.matchers.events import feeding
from episode.matchers.running import LocalRun, run
from tests.property.test_held_events import PATTERNS, positions, streams
from tests.reference.event_patterns import Event
from tests.reference.generate_events import Case
from tests.support.events import SCHEMA, bound, spec_of, table_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=15)
MORE = (
    "PATTERN A; B; C WHERE A.x < C.x WITHIN 9",
    "PATTERN A; B; C WHERE A.x = B.x AND A.y = B.y AND B.x = C.x WITHIN 9",
    "PATTERN A & B & C WHERE A.x = B.x WITHIN 7",
    "PATTERN A & B; C WHERE A.x < C.x WITHIN 9",
    "PATTERN A; (B | C); X WITHIN 9",
    "PATTERN A; B*; C WITHIN 8",
    "PATTERN A*; B; C WITHIN 8",
    "PATTERN A; B; C* WITHIN 6",
    "PATTERN A; B^2; C WHERE B.x < C.x WITHIN 8",
    "PATTERN A; !(B; X); C WITHIN 9",
    "PATTERN A; !B; C WHERE B.x > A.x AND B.x > C.x WITHIN 9",
    "PATTERN A; B; C WHERE A.s < B.s AND C.s <> A.s AND C.s > 'c' WITHIN 9",
    "PATTERN A & B; C WHERE A.s = B.s AND A.s <= C.s WITHIN 9",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN 7",
    "PATTERN SEQ(A a, B+ b[], ~X x, C c) WHERE sum(b[].x) > 2 WITHIN 8",
)


@pytest.mark.parametrize("text", [*PATTERNS, *MORE])
def test_feeds_of_any_size_find_the_matches_of_the_reference(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "LEAST_KEPT", 1)
    spec = spec_of(text, key="k", closure="postponed" if "+" in text else "auto")
    built = []

    @SETTINGS
    @given(streams(), st.data())
    def check(events: list[Event], data: st.DataObject) -> None:
        borders = [at for at in range(1, len(events)) if events[at].te != events[at - 1].te]
        cuts = sorted(data.draw(st.sets(st.sampled_from(borders)))) if borders else []
        pieces = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
        running, outputs = LocalRun(spec), []
        for event in events:  # strings that are new come before and after others
            event.values["s"] = "fbdhca"[(event.position * 5 + event.values["x"]) % 6]
        for piece in pieces:
            if data.draw(st.integers(0, 8)) == 0:
                running.move()
            outputs.append(running.feed(table_of(piece), piece[-1].te))
            built.append(running.matcher.tree is not None)
        case = Case(parse_event_query(text), text, events, True, "k", None)
        assert sorted(bound(spec, running.concat([*outputs, running.finish()]))) == positions(case, spec)

    check()
    assert any(built)


LONG = 5_000
"""A window longer than what a sample of the statistics has."""


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A; B; C WHERE A.x = B.x AND B.y = C.y AND A.y > C.x",
        "PATTERN A & B & C WHERE A.x = B.x AND A.y = C.y",
        "PATTERN A; !X; B; C WHERE A.x = B.x AND X.x = A.x AND B.y = C.y",
        "PATTERN SEQ(A a, X+ x[], C c) WHERE a.x = c.x AND x[i].y = a.x",
    ],
)
def test_small_feeds_and_long_windows(text: str) -> None:
    """Feeds of 1,000, 10 and 1 events find what one feed does; the tree is built again on the way."""
    random = np.random.default_rng(3)
    count = 14_000
    columns = {
        "pos": np.arange(count), "ts": np.arange(count), "te": np.arange(count),
        "type": np.array(list("ABCX"))[random.choice(4, count, p=[0.3, 0.3, 0.39, 0.01])],
        "k": random.integers(0, 2, count), "x": random.integers(0, 400, count), "y": random.integers(0, 300, count),
        "s": np.full(count, "a"),
    }  # fmt: skip
    events = pa.table(columns).cast(SCHEMA)
    spec = spec_of(f"{text} WITHIN {LONG}", key="k")
    running, outputs, trees = LocalRun(spec), [], set()
    for low, high in pairwise([*range(0, 13_000, 1_000), *range(13_000, 13_300, 10), *range(13_300, 13_321), count]):
        outputs.append(running.feed(events.slice(low, high - low), high - 1))
        trees.add(id(running.matcher.tree))
    found = running.concat([*outputs, running.finish()])
    assert len(trees) > 1
    assert len(found) > 0
    assert sorted(found.to_pylist(), key=str) == sorted(run(spec, events).to_pylist(), key=str)


def test_a_state_has_the_same_events_with_and_without_kept_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is needed of the last feeds is decided by a snapshot at the latest."""
    held = []
    for least in (1, 1 << 30):
        monkeypatch.setattr(feeding, "LEAST_KEPT", least)
        running = LocalRun(spec_of("PATTERN SEQ(A a, !(X x), B b, C c) WHERE a.x < c.x WITHIN 30", key="k"))
        now = []
        for time in range(100):
            rows = [(time, time, time, "AXBC"[time * 7 % 13 % 4], 0, time % 5, 0, "a")]
            running.feed(
                pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA), time
            )
            running.matcher.snapshot()
            rows_held = running.matcher.state.held.rows
            now.append([] if rows_held is None else sorted(rows_held.table.column("pos").to_pylist()))
        held.append(now)
    assert held[0] == held[1]
