"""Imprecise time against the oracle of possible worlds, and the laws of every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from episode.matchers.protocol import StateChunk
from episode.matchers.running import LocalRun
from episode.matchers.stream_shard import ShardSettings, StreamShard
from tests.reference.generate_imprecise import ImpreciseCase, imprecise_cases
from tests.reference.imprecise import ImpreciseEvent
from tests.support.events import run_whole, spec_of
from tests.support.imprecise import Found, found_in, run_case, spec_of_case, spec_of_text, table_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
END = 1_000
WIDTH = 12


def expected(case: ImpreciseCase) -> Found:
    return {match.bound: float(match.confidence) for match in case.matches()}


def assert_same(found: Found, oracle: Found) -> None:
    assert found.keys() == oracle.keys()
    for match, confidence in oracle.items():
        assert abs(found[match] - confidence) < 1e-9


def by_latest(events: list[ImpreciseEvent]) -> list[ImpreciseEvent]:
    """The events in order of their latest times, as a stream decides them."""
    return sorted(events, key=lambda event: (event.te, event.position))


@st.composite
def pieces_of(draw: st.DrawFn, events: list[ImpreciseEvent]) -> list[list[ImpreciseEvent]]:
    """Pieces that end where a latest time ends."""
    events = by_latest(events)
    borders = [i for i in range(1, len(events)) if events[i].te != events[i - 1].te]
    cuts = sorted(draw(st.sets(st.sampled_from(borders)))) if borders else []
    return [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]


@SETTINGS
@given(imprecise_cases())
def test_equals_the_oracle(case: ImpreciseCase) -> None:
    assert_same(run_case(spec_of_case(case), [case.events], case.granularity), expected(case))


@SETTINGS
@given(imprecise_cases(weights=False))
def test_uniform_times_equal_the_oracle(case: ImpreciseCase) -> None:
    assert_same(run_case(spec_of_case(case), [case.events], case.granularity), expected(case))


@SETTINGS
@given(imprecise_cases(max_events=5))
def test_closures_in_order_equal_the_oracle(case: ImpreciseCase) -> None:
    case = case.correlated()
    assert_same(run_case(spec_of_case(case), [case.events], case.granularity), expected(case))


@SETTINGS
@given(imprecise_cases(), st.booleans(), st.booleans(), st.data())
def test_chunks_and_restarts_do_not_matter(
    case: ImpreciseCase, bounded: bool, restore: bool, data: st.DataObject
) -> None:
    spec = spec_of_case(case, width=WIDTH if bounded else None)
    pieces = data.draw(pieces_of(case.events))
    assert_same(run_case(spec, pieces, case.granularity, restore=restore), expected(case))


@SETTINGS
@given(imprecise_cases(), st.integers(1, 4), st.integers(1, 3))
def test_rounds_and_limits_do_not_matter(case: ImpreciseCase, rows: int, most: int) -> None:
    """Small rounds, and output that is handed out after every few events of matches."""
    spec = spec_of_case(case, round_rows=rows, most_records=most)
    assert_same(run_case(spec, [case.events], case.granularity), expected(case))


@SETTINGS
@given(imprecise_cases(), st.data())
def test_shards_do_not_matter(case: ImpreciseCase, data: st.DataObject) -> None:
    spec = spec_of_case(case)
    assume(spec.input_order.keys)
    shards: dict[int, list[ImpreciseEvent]] = {}
    where: dict[tuple[Any, ...], int] = {}
    for event in case.events:
        key = tuple(event.values[name] for name in spec.input_order.keys)
        if key not in where:
            where[key] = data.draw(st.integers(0, 2))
        shards.setdefault(where[key], []).append(event)
    together: Found = {}
    for events in shards.values():
        together |= run_case(spec, [events], case.granularity)
    assert_same(together, expected(case))


@SETTINGS
@given(imprecise_cases(), st.data())
def test_streams_equal_tables(case: ImpreciseCase, data: st.DataObject) -> None:
    """Events arrive in any order within the watermark, in envelopes, with restarts; wide ones do not count."""
    assume(case.query.within is not None)
    spec = spec_of_case(case, width=WIDTH)
    shard = StreamShard(spec, ShardSettings())
    found: list[pa.Table] = []
    at, watermark, delay = 0, -100, 20
    chunks: dict[str, StateChunk] = {}
    wide = ImpreciseEvent(99, 0, WIDTH + 50, case.events[0].values) if case.events else None
    while at < len(case.events):
        count = data.draw(st.integers(1, 3))
        piece = case.events[at : at + count]
        at += count
        tables = [table_of([event], case.granularity) for event in piece]
        if wide is not None and data.draw(st.booleans()):
            tables.append(table_of([wide], case.granularity))
        tables = [table.select(spec.input_columns) for table in tables]
        step = shard.step([(None, table) for table in tables], watermark)
        assert step.counters.null_times == len(tables) - len(piece)
        found.append(step.matches)
        watermark = max(watermark, max(event.te for event in piece) - delay)
        if data.draw(st.booleans()):
            shard.snapshot().apply(chunks)
            moved = StreamShard(spec, ShardSettings())
            moved.restore(list(chunks.values()), shard.watermark, shard.ended)
            shard = moved
    found.append(shard.step([], END).matches)
    assert_same(found_in(spec, pa.concat_tables(found)), expected(case))


@SETTINGS
@given(imprecise_cases(weights=False))
def test_precise_times_are_certain(case: ImpreciseCase) -> None:
    """Intervals of one point, no two events at the same: the matches of the ordinary engines, with confidence 1."""
    exact = [replace(e, ts=2 * n, te=2 * n) for n, e in enumerate(by_latest(case.events))]
    imprecise = run_case(spec_of_case(replace(case, events=exact)), [exact], case.granularity)
    assert set(imprecise.values()) <= {1.0}
    ordinary = spec_of(case.text, typed=case.typed, key=case.key)
    assert sorted(imprecise) == sorted(run_whole(ordinary, exact))


@pytest.mark.parametrize("pattern", ["SEQ(A a, B+ b[], C c)", "SEQ(B+ b[])", "SEQ(A a, B b)"])
def test_state_is_bounded(pattern: str) -> None:
    """A steady stream: what is held does not grow, and is about the events of a window and a width."""
    spec = spec_of_text(f"PATTERN {pattern} WITHIN 6", width=4)
    running = LocalRun(spec)
    held = []
    for chunk in range(40):
        events = [
            ImpreciseEvent(t, t - 2, t, {"type": "ABCD"[t % 4], "k": 1, "x": 1, "y": 1, "s": ""})
            for t in range(chunk * 20, chunk * 20 + 20)
        ]
        running.feed(table_of(events), events[-1].te)
        held.append(running.matcher.state_rows)
    assert max(held) <= 10
    assert running.matcher.state_rows > 0
