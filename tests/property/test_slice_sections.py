"""A slice that is larger than its budget is cut into sections by the task that has it: no match depends on that."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import run
from episode.matchers.slices.slicing import SUMMARY, Entry, Overlap, SliceBounds, bounds_between, sections_of
from tests.property.test_row_pattern_laws import canonical
from tests.property.test_row_pattern_slices import ORDERED, chained_clauses, longer_table, sliceable, some_cuts
from tests.reference.generate import clauses, tables
from tests.support.rows import table_in
from tests.support.slices import fed_rows

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
ORDER = InputOrder((), (OrderKey("ts"),))

overlaps = st.builds(Overlap, st.integers(0, 6), st.integers(0, 5), st.integers(0, 6), st.integers(0, 5))
some_bounds = st.sampled_from(
    [SliceBounds(), SliceBounds(None, 20), SliceBounds(10, None), SliceBounds(5, 25), SliceBounds(12, 13)]
)


@SETTINGS
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), overlaps, some_bounds, st.integers(16, 900))
def test_sections_are_fed_all_that_they_need(
    times: list[int], overlap: Overlap, bounds: SliceBounds, budget: int
) -> None:
    table = pa.table({"ts": pa.array(times, pa.int64()), "id": pa.array(range(len(times)), pa.int64())})
    every = sorted(zip(times, range(len(times)), strict=True))
    begin, end = fed_rows(np.sort(times), bounds, overlap)
    arrived = table.take(pa.array(sorted(row for _, row in every[begin:end]), pa.int64()))
    tables = [arrived.slice(at, 7) for at in range(0, len(arrived), 7)]
    found = list(sections_of(tables, ORDER, bounds, overlap, budget))
    assert (arrived.nbytes <= budget) <= (len(found) == 1)
    assert [found[0][0].first, *(section.last for section, _ in found)] == [
        bounds.first, *(section.first for section, _ in found[1:]), bounds.last,
    ]  # fmt: skip
    for section, fed in found:
        rows = sorted((ts, row) for one in fed for ts, row in zip(*one.to_pydict().values(), strict=True))
        low, high = fed_rows(np.sort(times), section, overlap)
        needed, at = every[low:high], rows.index(every[low]) if low < high else 0
        assert rows[at : at + len(needed)] == needed
        equal = [row for one in fed for row in one.column("id").to_pylist()]
        assert all(
            equal.index(one) < equal.index(other) for (ts, one), (time, other) in pairwise(rows) if ts == time
        ), "rows of a time come in order of arrival"


def test_sections_are_half_the_budget_and_as_long_as_the_overlap() -> None:
    table = pa.table({"ts": np.arange(10_000), "id": np.arange(10_000)})
    found = list(sections_of([table], ORDER, SliceBounds(), Overlap(), 16_000))
    assert 19 <= len(found) <= 22
    assert max(sum(one.nbytes for one in fed) for _, fed in found) < 10_000
    found = list(sections_of([table], ORDER, SliceBounds(), Overlap(after_time=2_000), 16_000))
    assert [section.last for section, _ in found] == [2_000, 4_000, 6_000, 8_000, None]
    found = list(sections_of([table], ORDER, SliceBounds(), Overlap(before_rows=2_500), 16_000))
    assert 3 <= len(found) <= 5


def test_rows_of_one_time_stay_together() -> None:
    table = pa.table({"ts": np.zeros(10_000, np.int64), "id": np.arange(10_000)})
    ((_, fed),) = sections_of([table], ORDER, SliceBounds(), Overlap(), 16_000)
    assert sum(map(len, fed)) == 10_000


def in_sections(spec: RowPatternSpec, table: pa.Table, cuts: list[int], overlap: Overlap, budget: int) -> list[Any]:
    """The matches of slices that are fed by hand, each in sections of a small budget, as two stages find them."""
    events = events_of(table, spec.input_order, KeyCoder(spec.input_order.keys))
    found: list[Any] = []
    for begin, end in zip(events.bounds[:-1], events.bounds[1:], strict=True):
        key, time, entry = events.table.slice(begin, end - begin), events.time[begin:end], Entry()
        for bounds in bounds_between(cuts):
            low, high = fed_rows(time, bounds, overlap)
            tables = [key.slice(at, min(9, high - at)) for at in range(low, high, 9)]
            for number, (section, fed) in enumerate(sections_of(tables, spec.input_order, bounds, overlap, budget)):
                event(f"section {min(number, 5)}")
                parts = sorted(spec.first_pass(fed, section), key=lambda part: part.kind != SUMMARY)
                if parts:
                    found += [row for batch in spec.second_pass(parts, entry) for row in batch.to_pylist()]
                    entry = spec.next_entry(entry, parts[0].blob)
    return found


def check(spec: RowPatternSpec, table: pa.Table, cuts: list[int], overlap: Overlap, budget: int) -> None:
    """The matches are those of one run; where that is an error, there is one."""
    try:
        whole = canonical(run(spec, table).to_pylist())
    except EpisodeDataError:
        with pytest.raises(EpisodeDataError):
            in_sections(spec, table, cuts, overlap, budget)
        return
    assert canonical(in_sections(spec, table, cuts, overlap, budget)) == whole


@SETTINGS
@given(chained_clauses(), st.integers(0, 2**16), st.integers(0, 120), st.integers(100, 900), st.data())
def test_sections_do_not_matter(text: str, seed: int, size: int, budget: int, data: st.DataObject) -> None:
    spec, slicing = sliceable(text)
    assume(slicing.chained)
    table = table_in(spec, longer_table(seed, size))
    cuts = data.draw(st.sampled_from([[], [30], None]))
    check(spec, table, some_cuts(data, spec, table) if cuts is None else cuts, slicing.overlap, budget)


@SETTINGS
@given(clauses(given=ORDERED), tables(max_rows=14), st.integers(20, 200), st.data())
def test_sections_of_any_order(text: str, rows: list[dict[str, Any]], budget: int, data: st.DataObject) -> None:
    """Descending times, and rows without one."""
    spec, slicing = sliceable(text)
    assume(slicing.chained)
    table = table_in(spec, rows)
    cuts = data.draw(st.sampled_from([[], None]))
    check(spec, table, some_cuts(data, spec, table) if cuts is None else cuts, slicing.overlap, budget)
