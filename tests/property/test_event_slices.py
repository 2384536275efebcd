"""Slice invariance of event patterns: whatever the cuts, the matches are those of one run; none is lost, none comes
twice. For every strategy, for closures, negations, collapsed results, lasting events, imprecise times, aggregates."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TypeVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import Strategy
from episode.matchers.running import run
from episode.matchers.shard import run_shard
from episode.matchers.slices.slicing import Overlap, SliceSpec, Slicing, Unsliced, bounds_between
from episode.matchers.times import EVER, NEVER
from tests.property import test_collapsed as collapsed
from tests.property.test_event_pattern_laws import planned
from tests.property.test_trend_aggregates import planned as planned_aggregates
from tests.reference.event_patterns import Event
from tests.reference.generate_events import CLOSED, Case, Features, cases
from tests.reference.generate_imprecise import ImpreciseCase, imprecise_cases
from tests.reference.generate_trends import TrendCase, trend_cases
from tests.reference.imprecise import ImpreciseEvent
from tests.support import imprecise
from tests.support.aggregated import aggregated_spec
from tests.support.draws import assert_enough
from tests.support.events import spec_of, table_of
from tests.support.slices import assert_slices_do_not_matter, cuts_of, rows_of, shifts

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
FEWER = settings(SETTINGS, max_examples=max(1, settings.default.max_examples // 2))
E = TypeVar("E", Event, ImpreciseEvent)


def longer(data: st.DataObject, events: list[E], most: int = 4) -> list[E]:
    """Several copies of the events, each later than the one before."""
    last = max((one.te for one in events), default=0)
    copies = [
        replace(one, ts=one.ts + by, te=one.te + by) for by in data.draw(shifts(last, most)) for one in events
    ]  # fmt: skip
    return [replace(one, position=position) for position, one in enumerate(copies)]


def cuts_in(data: st.DataObject, events: list[E]) -> list[int]:
    return data.draw(cuts_of([one.te for one in events]))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_slices_do_not_matter(strategy: Strategy) -> None:
    found = 0

    @SETTINGS
    @given(cases(strategy=strategy), st.data())
    def check(case: Case, data: st.DataObject) -> None:
        nonlocal found
        events = longer(data, case.events)
        found += assert_slices_do_not_matter(planned(case), table_of(events), cuts_in(data, events))

    check()
    assert_enough(found, 20)


@pytest.mark.parametrize(
    "features",
    [
        Features(intervals=True),
        CLOSED,
        Features(closure_alone=True, groups_of_alternatives=True, shared_in_closure=True),
        Features(neighbouring_groups=True),
        Features(edge_negations=True, late_negation=True, alternatives=True),
        Features(choosing=True),
    ],
    ids=["lasting", "closed", "closures alone", "groups", "negations", "choosing"],
)
def test_slices_of_more_patterns_do_not_matter(features: Features) -> None:
    found = 0

    @FEWER
    @given(cases(features, max_events=6), st.integers(1, 4), st.data())
    def check(case: Case, rows: int, data: st.DataObject) -> None:
        nonlocal found
        spec = planned(case, lasting=features.intervals, round_rows=rows)
        events = longer(data, case.events, most=3)
        found += assert_slices_do_not_matter(spec, table_of(events), cuts_in(data, events))

    check()
    assert_enough(found, 5)


PATTERNS = [
    "A; B; C", "A; !D; B; C", "!D; A; B", "A; B; !D", "!D; A; B; !D e", "A & B & !D", "A+; B", "B*; C", "A; C*",
    "(A | B); C; !D", "SEQ(A a, B+ b[], C c)", "SEQ(A a, B+ b[], ~D d)", "SEQ(~D d, A a, B+ b[])", "A^2; B",
]  # fmt: skip


@pytest.mark.parametrize("strategy", list(Strategy))
def test_slices_of_long_streams_do_not_matter(strategy: Strategy) -> None:
    """Windows that are short beside the slices: with ties, gaps, events that nothing asks for."""

    @FEWER
    @given(st.sampled_from(PATTERNS), st.integers(0, 12), st.integers(0, 2**32), st.data())
    def check(pattern: str, within: int, seed: int, data: st.DataObject) -> None:
        random = Random(seed)
        events, at = [], 0
        for position in range(random.randint(1, 60)):
            at += random.choice([0, 1, 1, 1, 2, 9])
            kind = random.choice("AABBCCD-")
            events.append(Event(position, at, at, {"type": kind, "k": 1, "x": position % 3, "y": 1, "s": "a"}))
        try:
            spec = spec_of(f"PATTERN {pattern} WITHIN {within}", strategy=strategy, key="k")
        except EpisodeUnsupportedError as error:
            note(str(error))
            assume(False)
        assert_slices_do_not_matter(spec, table_of(events), cuts_in(data, events))

    check()


@FEWER
@given(collapsed.queries(collapsed.COUNTED + collapsed.MADE), collapsed.events(), st.data())
def test_slices_of_collapsed_results_do_not_matter(text: str, rows: list[Event], data: st.DataObject) -> None:
    try:
        spec = spec_of(f"{text} RETURN COLLAPSED")
    except EpisodeUnsupportedError as error:
        note(str(error))
        assume(False)
    events = longer(data, rows, most=3)
    assert_slices_do_not_matter(spec, table_of(events), cuts_in(data, events))


@FEWER
@given(imprecise_cases(), st.data())
def test_slices_of_imprecise_time_do_not_matter(case: ImpreciseCase, data: st.DataObject) -> None:
    spec = imprecise.spec_of_case(case, width=max((one.te - one.ts for one in case.events), default=1) or 1)
    events = longer(data, case.events, most=2)
    assert_slices_do_not_matter(spec, imprecise.table_of(events, case.granularity), cuts_in(data, events))


@FEWER
@given(trend_cases(), st.data())
def test_slices_of_aggregates_do_not_matter(case: TrendCase, data: st.DataObject) -> None:
    events = longer(data, case.events, most=3)
    assert_slices_do_not_matter(planned_aggregates(case), table_of(events), cuts_in(data, events))


def test_slices_fed_in_pieces() -> None:
    """A slice that does not fit into memory is spilled and fed piece by piece, its overlap first."""
    spec = spec_of("PATTERN A; B; !D WITHIN 20", key="k")
    events = [
        Event(n, n, n, {"type": "ABCADBBA"[n % 8], "k": 1 if n % 5 else 2, "x": 1, "y": 1, "s": "a"})
        for n in range(3_000)
    ]
    table = table_of(events)
    whole = rows_of(run(spec, table))
    assert len(whole) > 100
    found = []
    for bounds in bounds_between([700, 701, 1500, 2980]):
        first, last = bounds.first or 0, bounds.last or 3_000
        fed = table.slice(max(0, first - 40), last - max(0, first - 40))
        parts = [fed.slice(at, 100) for at in range(0, fed.num_rows, 100)]
        found += [pa.Table.from_batches([batch]) for batch in run_shard(SliceSpec(spec, bounds), parts, 10_000)]
    assert rows_of(pa.concat_tables(found)) == whole


@pytest.mark.parametrize("cuts", [[NEVER], [NEVER + 1], [EVER], [EVER - 1], [NEVER, NEVER + 1, 0, EVER - 1, EVER]])
@pytest.mark.parametrize("pattern", ["A; B", "A; B; !D", "!D; A; B", "A"])
def test_slices_at_the_ends_of_time(pattern: str, cuts: list[int]) -> None:
    spec = spec_of(f"PATTERN {pattern} WITHIN 10")
    times = [NEVER, NEVER + 1, NEVER + 9, -1, 0, 1, EVER - 9, EVER - 1, EVER]
    events = [Event(n, t, t, {"type": "ABA"[n % 3], "k": 1, "x": 1, "y": 1, "s": "a"}) for n, t in enumerate(times)]
    assert assert_slices_do_not_matter(spec, table_of(events), cuts) > 0


@pytest.mark.parametrize(
    ("pattern", "strategy", "overlap"),
    [
        ("A; B WITHIN 10", Strategy.ANY, Overlap(before_time=10)),
        ("!D; A; B WITHIN 10", Strategy.ANY, Overlap(before_time=10)),
        ("!D; A; B WITHIN 10", Strategy.NEXT, Overlap(before_time=20)),
        ("A; B; !D WITHIN 10", Strategy.ANY, Overlap(before_time=20)),
        ("A; B WITHIN 10", Strategy.STRICT, Overlap(before_time=10)),
        ("A; B; C", Strategy.STRICT, Overlap(before_rows=2)),
        ("A; (B | C; D); C e", Strategy.STRICT, Overlap(before_rows=3)),
        ("A", Strategy.STRICT, Overlap()),
    ],
)
def test_what_a_slice_is_fed(pattern: str, strategy: Strategy, overlap: Overlap) -> None:
    assert spec_of(f"PATTERN {pattern}", strategy=strategy).slicing == Slicing(overlap)


@pytest.mark.parametrize(
    ("pattern", "strategy", "reason"),
    [
        ("A; B", Strategy.ANY, "without WITHIN a match may have events of any time"),
        ("A; B", Strategy.NEXT, "without WITHIN a match may have events of any time"),
        ("A; B+; C", Strategy.STRICT, "without WITHIN a match with a closure may have any number of events"),
        ("A; B; !D", Strategy.STRICT, "without WITHIN a negation before or after a match reaches to any time"),
        ("!D; A; B", Strategy.STRICT, "without WITHIN a negation before or after a match reaches to any time"),
    ],
)
def test_why_a_pattern_is_not_sliced(pattern: str, strategy: Strategy, reason: str) -> None:
    assert spec_of(f"PATTERN {pattern}", strategy=strategy).slicing == Unsliced(reason)


def test_imprecise_times_need_a_width() -> None:
    text = "PATTERN A; B WITHIN 10"
    assert imprecise.spec_of_text(text, width=7).slicing == Slicing(Overlap(before_time=17))
    assert imprecise.spec_of_text(text).slicing == Unsliced("without WIDTH the times of an event may be any time apart")


@pytest.mark.parametrize(
    ("clause", "doubles", "slicing"),
    [
        ("WITHIN 10 AGGREGATE count(*) EVERY 5", False, Slicing(Overlap(before_time=14))),
        ("WITHIN 10 AGGREGATE avg(a.x), max(b.x) EVERY 5", False, Slicing(Overlap(before_time=14))),
        ("WITHIN 10 AGGREGATE count(*)", False, Unsliced("without EVERY aggregates are over all matches of a key")),
        ("AGGREGATE count(*) EVERY 5", False, Unsliced("without WITHIN a match may have events of any time")),
        (
            "WITHIN 10 AGGREGATE sum(cast(a.x AS double)) EVERY 5",
            False,
            Unsliced("sums of doubles are rounded in the order in which they are added up"),
        ),
        (
            "WITHIN 10 AGGREGATE count(*) EVERY 5",
            True,
            Unsliced("sums of doubles are rounded in the order in which they are added up"),
        ),
    ],
)
def test_aggregates_are_sliced_by_their_buckets(clause: str, doubles: bool, slicing: Slicing | Unsliced) -> None:
    assert aggregated_spec(f"PATTERN SEQ(A a, B b) {clause}", doubles=doubles).slicing == slicing
