"""Times from one end of 64 bits to the other: event patterns and situations equal their oracles."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import Strategy
from tests.property.test_event_pattern_laws import expected, pieces_of, planned
from tests.reference import generate_situations
from tests.reference.event_patterns import Event
from tests.reference.generate_events import PLAIN, Case, Features, cases
from tests.support import situations
from tests.support.events import run_in_pieces, run_whole, spec_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
LEAST, MOST = -(2**63), 2**63 - 1
ANCHORS = [LEAST, -(2**62), -3, 2**62, MOST - 30]
WINDOWS = [0, 5, 2**61, 2**62, 2**63 - 30, 2**63 - 2]
AnyCase = TypeVar("AnyCase", Case, generate_situations.Case)


def at(time: int, kind: str, number: int) -> Event:
    return Event(number, time, time, {"type": kind, "k": 1, "x": 1, "y": 1, "s": ""})


def found(text: str, *events: tuple[str, int]) -> int:
    return len(run_whole(spec_of(text), [at(time, kind, n) for n, (kind, time) in enumerate(events)]))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_sequences_across_extreme_times(strategy: Strategy) -> None:
    where = f"WHERE {strategy.value} AND [k]"
    assert found(f"PATTERN A; B {where}", ("A", 10), ("B", MOST)) == 1
    assert found(f"PATTERN A; B {where}", ("A", LEAST), ("B", MOST)) == 1
    assert found(f"PATTERN A; B {where} WITHIN 5", ("A", -(2**62)), ("B", 2**62)) == 0
    assert found(f"PATTERN A; B {where} WITHIN 5", ("A", LEAST), ("B", MOST)) == 0
    assert found(f"PATTERN A; B {where} WITHIN 5", ("A", MOST - 5), ("B", MOST)) == 1
    assert found(f"PATTERN A; B {where} WITHIN 5", ("A", LEAST), ("B", LEAST + 5)) == 1
    assert found(f"PATTERN A {where}", ("A", LEAST), ("A", MOST)) == 2


def test_negations_and_groups_at_extreme_times() -> None:
    assert found("PATTERN A; !B WITHIN 5", ("A", MOST), ("B", MOST)) == 1
    assert found("PATTERN A; !B WITHIN 5", ("A", MOST - 1), ("B", MOST)) == 0
    assert found("PATTERN !B; A WITHIN 5", ("B", LEAST), ("A", LEAST + 1)) == 0
    assert found("PATTERN !B; A WITHIN 5", ("B", LEAST), ("A", LEAST)) == 1
    assert found("PATTERN B+; A WITHIN 5", ("B", LEAST), ("A", LEAST + 5)) == 1
    assert found("PATTERN A; B+ WITHIN 5", ("A", MOST - 5), ("B", MOST)) == 1
    assert found("PATTERN A & B WITHIN 5", ("A", LEAST), ("B", LEAST)) == 1


@pytest.mark.parametrize("text", ["PATTERN A WITHIN 0", "PATTERN A; !B WITHIN 0"])
def test_an_event_at_the_least_time_is_kept_for_the_next_piece(text: str) -> None:
    pieces = [[at(LEAST, "A", 0)], [at(LEAST + 1, "A", 1)]]
    assert len(run_in_pieces(spec_of(text), pieces, False)) == 2


@st.composite
def images(draw: st.DrawFn, least: int, most: int) -> dict[int, int]:
    """The times, in their order, spread over all of 64 bits: pieces of them begin at one anchor each."""
    span = range(least, most + 1)
    cuts = sorted(draw(st.sets(st.sampled_from(span), max_size=4)))
    anchors = sorted(draw(st.sets(st.sampled_from(ANCHORS), min_size=len(cuts) + 1, max_size=len(cuts) + 1)))
    pieces = [(begin, anchor) for begin, anchor in zip([least, *(cut + 1 for cut in cuts)], anchors, strict=True)]
    out = {}
    for time in span:
        begin, anchor = max(piece for piece in pieces if piece[0] <= time)
        out[time] = anchor + time - begin if anchor != MOST - 30 else MOST - (most - time)
    return out


def with_window(draw: st.DrawFn, text: str) -> str:
    if "WITHIN" not in text or draw(st.booleans()):
        return text
    return re.sub(r"WITHIN \d+", f"WITHIN {draw(st.sampled_from(WINDOWS))}", text)


@st.composite
def extreme(draw: st.DrawFn, features: Features = PLAIN, strategy: Strategy | None = None) -> Case:
    case = draw(cases(features, strategy=strategy))
    times = [time for event in case.events for time in (event.ts, event.te)]
    assume(times and max(times) - min(times) <= 30)
    image = draw(images(min(times), max(times)))
    events = [replace(event, ts=image[event.ts], te=image[event.te]) for event in case.events]
    text = with_window(draw, case.text)
    return replace(case, events=events, text=text, query=parse_event_query(text))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_event_patterns_equal_the_oracle(strategy: Strategy) -> None:
    @SETTINGS
    @given(extreme(strategy=strategy))
    def check(case: Case) -> None:
        spec = planned(case)
        assert sorted(run_whole(spec, case.events)) == expected(case, spec)

    check()


@SETTINGS
@given(extreme(Features(intervals=True)))
def test_events_that_last_equal_the_oracle(case: Case) -> None:
    spec = planned(case, lasting=True)
    assert sorted(run_whole(spec, case.events)) == expected(case, spec)


@SETTINGS
@given(extreme(), st.integers(1, 3), st.booleans(), st.data())
def test_pieces_and_rounds_do_not_matter(case: Case, rows: int, restore: bool, data: st.DataObject) -> None:
    spec = planned(case, round_rows=rows)
    pieces = data.draw(pieces_of(case.events))
    assert sorted(run_in_pieces(spec, pieces, restore)) == expected(case, spec)


@st.composite
def extreme_situations(draw: st.DrawFn) -> generate_situations.Case:
    case = draw(generate_situations.cases(max_events=8))
    times = [event.time for event in case.events]
    assume(times and max(times) - min(times) <= 30)
    image = draw(images(min(times), max(times)))
    text, pattern = case.text, case.pattern
    window = draw(st.sampled_from([None, *WINDOWS[2:]]))
    if pattern.within is not None and window is not None:
        pattern = replace(pattern, within=window)
        text = re.sub(r"WITHIN \d+", f"WITHIN {window}", text)
    return replace(case, text=text, pattern=pattern, events=[replace(e, time=image[e.time]) for e in case.events])


@SETTINGS
@given(extreme_situations(), st.data())
def test_situations_equal_the_oracle(case: generate_situations.Case, data: st.DataObject) -> None:
    spec = situations.spec_of(case.text, case.pattern.detect)
    oracle = sorted(situations.expected(case), key=repr)
    assert sorted(situations.run_whole(spec, case.events), key=repr) == oracle
    cut = data.draw(st.integers(0, len(case.events)))
    pieces = [case.events[:cut], case.events[cut:]]
    assume(all(event.time > LEAST for event in pieces[1]))  # the first piece is complete up to the time before
    assert sorted(situations.run_in_pieces(spec, pieces, data.draw(st.booleans())), key=repr) == oracle
