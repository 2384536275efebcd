"""Slice invariance of row patterns: any cuts of time give the matches of one task, as they are numbered there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.matchers.ordering import times_of
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import run
from episode.matchers.slicing import Unsliced, run_sliced
from tests.property.test_row_pattern_laws import canonical
from tests.reference.generate import Given, clauses, tables
from tests.support.rows import spec_of, table_in

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
ORDERED = Given(
    orders=["ts", "ts", "ts ASC, v", "ts, f DESC NULLS LAST", "ts DESC", "v NULLS LAST, ts", "v NULLS FIRST, ts DESC"],
)


def sliceable(text: str) -> RowPatternSpec:
    """The spec; what is refused at plan time, and what is not sliced, is none of this test's."""
    try:
        spec = spec_of(text)
    except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
        note(str(error))
        assume(False)
        raise
    assume(not isinstance(spec.slicing, Unsliced))
    return spec


def some_cuts(data: st.DataObject, spec: RowPatternSpec, table: pa.Table) -> list[int]:
    """Times of rows, and times next to them, at which rows are cut: none, some or all of them."""
    times = sorted({int(time) + by for time in times_of(table, spec.input_order) for by in (0, 1)})
    times = [time for time in times if abs(time) < 2**62] or [0]
    return sorted(data.draw(st.sampled_from([set(times), None])) or data.draw(st.sets(st.sampled_from(times))))


def check(spec: RowPatternSpec, table: pa.Table, cuts: list[int]) -> None:
    """The law, for one spec, table and cuts."""
    try:
        whole = canonical(run(spec, table).to_pylist())
    except EpisodeDataError:
        with pytest.raises(EpisodeDataError):
            run_sliced(spec, table, cuts)
        return
    assert canonical(run_sliced(spec, table, cuts).to_pylist()) == whole


@SETTINGS
@given(clauses(given=ORDERED), tables(max_rows=14), st.data())
def test_slices_do_not_matter(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    spec = sliceable(text)
    assume(not spec.slicing.chained)
    table = table_in(spec, rows)
    check(spec, table, some_cuts(data, spec, table))


@SETTINGS
@given(clauses(given=ORDERED), tables(max_rows=14), st.data())
def test_slices_of_chains_do_not_matter(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    spec = sliceable(text)
    assume(spec.slicing.chained)
    table = table_in(spec, rows)
    check(spec, table, some_cuts(data, spec, table))
