"""Slice invariance of situation patterns: whatever the cuts, the matches are those of one run, with the moments of
their detection and their values as of then."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.matchers.running import run
from episode.matchers.shard import run_shard
from episode.matchers.slices.slicing import Overlap, SliceSpec, Slicing, Unsliced, bounds_between
from episode.matchers.times import EVER, NEVER
from tests.reference.generate_situations import Case, cases
from tests.reference.situations import Event
from tests.support.draws import assert_enough
from tests.support.situations import spec_of, table_of
from tests.support.slices import assert_slices_do_not_matter, cuts_of, rows_of, shifts

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
FEWER = settings(SETTINGS, max_examples=5 * settings.default.max_examples // 6)  # enough for matches at cuts
WITHIN = st.sampled_from([3, 5, 8, 12])


def longer(data: st.DataObject, events: list[Event]) -> list[Event]:
    """Several copies of the events, each later than the one before; situations at their borders go on."""
    last = max((one.time for one in events), default=0)
    return [replace(one, time=one.time + by) for by in data.draw(shifts(last, 3)) for one in events]


@pytest.mark.parametrize("detect", ["earliest", "complete"])
def test_slices_do_not_matter(detect: str) -> None:
    found = 0

    @FEWER
    @given(cases(detect=detect, max_keys=2), WITHIN, st.data())
    def check(case: Case, within: int, data: st.DataObject) -> None:
        """Every pattern has a window, most often that of its own."""
        nonlocal found
        text = case.text
        if case.pattern.within is None:
            within = max(within, *(one.at_least or 0 for one in case.pattern.definitions))
            before, returns, after = text.partition(" RETURN ")
            text = f"{before} WITHIN {within}{returns}{after}"
        events = longer(data, case.events)
        cuts = data.draw(cuts_of([one.time for one in events]))
        found += assert_slices_do_not_matter(spec_of(text, detect), table_of(events), cuts)

    check()
    assert_enough(found, 20)


DEFINED = "FROM t DEFINE A AS a{}, B AS b{} PATTERN {} WITHIN {} RETURN count(A.x) AS n, first(B.x) AS x, sum(A.n) AS s"
LIMITS = ["", " AT LEAST 2", " AT MOST 4", " BETWEEN 2 units AND 5 units"]
RELATIONS = [
    "A before B", "A after B", "A meets B", "A overlaps B", "A starts B", "A during B", "A contains B",
    "A finishes B", "A equals B", "A overlaps B; A before B", "A during B; A starts B; A meets B", "A overlapped-by B",
]  # fmt: skip


def long_stream(random: Random) -> list[Event]:
    """Conditions that hold for one event or for many, now and then at the same time, with ties and gaps."""
    events, at, holds = [], 0, 0
    for _ in range(random.choice([60, 40, 3])):
        holds ^= random.choice([1, 1, 2, 2, 3])
        for _ in range(random.choice([1, 1, 1, 2, 9])):
            at += random.choice([0, 1, 1, 1, 1, 1, 2, 6])
            values = {"a": bool(holds & 1), "b": bool(holds & 2), "c": None, "d": None}
            events.append(Event(at, {**values, "x": float(len(events)), "n": at, "s": "s"}, None))
    return events


@pytest.mark.parametrize("detect", ["earliest", "complete"])
def test_slices_of_long_streams_do_not_matter(detect: str) -> None:
    """Situations much longer than the window, which cross several cuts; gaps; some that never end."""
    found = 0

    @FEWER
    @given(
        st.sampled_from(LIMITS),
        st.sampled_from(LIMITS),
        st.sampled_from(RELATIONS),
        st.sampled_from([5, 6, 9, 14]),
        st.integers(0, 2**32),
        st.data(),
    )
    def check(a: str, b: str, relation: str, within: int, seed: int, data: st.DataObject) -> None:
        nonlocal found
        events = long_stream(Random(seed))
        spec = spec_of(DEFINED.format(a, b, relation, within), detect)
        found += assert_slices_do_not_matter(spec, table_of(events), data.draw(cuts_of([one.time for one in events])))

    check()
    assert_enough(found, 20)


def test_slices_fed_in_pieces() -> None:
    """A slice that does not fit into memory is spilled and fed piece by piece, the row before its overlap first."""
    spec = spec_of(DEFINED.format("", "", "A overlaps B; A before B", 12))
    events = [
        Event(t, {"a": t % 7 < 3, "b": 2 < t % 11 < 6, "c": None, "d": None, "x": 1.5 * t, "n": t, "s": "s"}, None)
        for t in range(3_000)
    ]
    table = table_of(events)
    whole = rows_of(run(spec, table))
    assert len(whole) > 100
    found = []
    for bounds in bounds_between([700, 701, 1500, 2980]):
        begin, end = max(0, (bounds.first or 0) - 13), bounds.last or 3_000
        fed = table.slice(begin, end - begin)
        parts = [fed.slice(at, 100) for at in range(0, fed.num_rows, 100)]
        found += [pa.Table.from_batches([batch]) for batch in run_shard(SliceSpec(spec, bounds), parts, 10_000)]
    assert rows_of(pa.concat_tables(found)) == whole


@pytest.mark.parametrize("cuts", [[NEVER], [NEVER + 1], [EVER], [EVER - 1], [NEVER, NEVER + 1, 0, EVER - 1, EVER]])
def test_slices_at_the_ends_of_time(cuts: list[int]) -> None:
    spec = spec_of(DEFINED.format("", "", "A meets B", 10))
    times = [NEVER, NEVER + 1, NEVER + 3, -1, 0, 1, EVER - 2, EVER - 1, EVER]
    events = [
        Event(t, {"a": n % 3 == 0, "b": n % 3 == 1, "c": None, "d": None, "x": 1.0, "n": 1, "s": "s"}, None)
        for n, t in enumerate(times)
    ]
    assert assert_slices_do_not_matter(spec, table_of(events), cuts) > 0


def test_what_a_slice_is_fed() -> None:
    spec = spec_of(DEFINED.format("", " AT LEAST 3", "A before B", 9))
    assert spec.slicing == Slicing(Overlap(before_time=9, before_rows=1))
    unbounded = spec_of("FROM t DEFINE A AS a, B AS b PATTERN A overlaps B RETURN count(A.x) AS n")
    assert unbounded.slicing == Unsliced("without WITHIN a match may have situations of any time")
