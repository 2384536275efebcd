"""Slice invariance of row patterns: any cuts of time give the matches of one task, as they are numbered there."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.matchers.ordering import times_of
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import run
from episode.matchers.slices.slicing import Overlap, Slicing
from tests.property.test_row_pattern_laws import canonical
from tests.reference.generate import Given, clauses, tables
from tests.support.rows import spec_of, table_in
from tests.support.slices import run_sliced

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
ORDERED = Given(
    orders=["ts", "ts", "ts ASC, v", "ts, f DESC NULLS LAST", "ts DESC", "v NULLS LAST, ts", "v NULLS FIRST, ts DESC"],
)
BOUNDED = ["A B+ C", "A+ B", "A B{1,3}", "(A | B C)+", "A? B* C", "A B | B A C", "A{3}", "A B C", "^ A+ | B A", "A+ $"]
MODES = ["", "", "MAXIMAL MATCH", "INCREMENTAL MATCH", "ALL MATCHES"]
SKIPS = ["PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW", "TO LAST A", "TO FIRST B", "TO LAST C"]
ROWS = ["ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
        "ALL ROWS PER MATCH WITH UNMATCHED ROWS"]  # fmt: skip
CONDITIONS = ["{0}.v > 1", "{0}.v <= 2", "{0}.v >= PREV({0}.v)", "NEXT({0}.v) <> {0}.v", "{0}.v <> A.v", "TRUE",
              "count(*) <= 4", "{0}.v >= FIRST(v)"]  # fmt: skip


def sliceable(text: str) -> tuple[RowPatternSpec, Slicing]:
    """The spec; what is refused at plan time, and what is not sliced, is none of this test's."""
    try:
        spec = spec_of(text)
    except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
        note(str(error))
        assume(False)
        raise
    slicing = spec.slicing
    assume(isinstance(slicing, Slicing))
    assert isinstance(slicing, Slicing)
    event(f"chained: {slicing.chained}")
    return spec, slicing


def some_cuts(data: st.DataObject, spec: RowPatternSpec, table: pa.Table) -> list[int]:
    """Times of rows, and times next to them, at which rows are cut: none, some or all of them."""
    times = sorted({int(time) + by for time in times_of(table, spec.input_order) for by in (0, 1)})
    times = [time for time in times if abs(time) < 2**62] or [0]
    return sorted(data.draw(st.sampled_from([set(times), None])) or data.draw(st.sets(st.sampled_from(times))))


def check(spec: RowPatternSpec, table: pa.Table, cuts: list[int], overlap: Overlap | None = None) -> None:
    """The law, for one spec, table and cuts."""
    try:
        whole = canonical(run(spec, table).to_pylist())
    except EpisodeDataError:
        event("an error")
        with pytest.raises(EpisodeDataError):
            run_sliced(spec, table, cuts, overlap)
        return
    assert canonical(run_sliced(spec, table, cuts, overlap).to_pylist()) == whole


@SETTINGS
@given(clauses(given=ORDERED), tables(max_rows=14), st.data())
def test_slices_do_not_matter(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    spec, slicing = sliceable(text)
    table = table_in(spec, rows)
    more = data.draw(st.sampled_from([None, None, Overlap(20, 3, 20, 3)]))
    given = slicing.overlap
    if more is not None:  # rows further away do no harm
        more = Overlap(given.before_time + 20, given.before_rows + 3, given.after_time + 2, given.after_rows + 9)
    check(spec, table, some_cuts(data, spec, table), more)


@st.composite
def chained_clauses(draw: st.DrawFn) -> str:
    """Clauses that are nearly always sliced, over labels that rows may have in several ways."""
    pattern = draw(st.sampled_from(BOUNDED))
    labels = [label for label in "ABC" if label in pattern]
    conditions = [(label, draw(st.sampled_from(CONDITIONS)).format(label)) for label in labels]
    unbounded = "+" in pattern or "*" in pattern
    within = draw(st.sampled_from([2, 5, 9] if unbounded else [0, 3, None, None]))
    parts = [
        draw(st.sampled_from(["", "", "PARTITION BY k"])),
        "ORDER BY ts, s",
        draw(st.sampled_from(["MEASURES FIRST(ts) AS a, LAST(ts) AS b, MATCH_NUMBER() AS n",
                              "MEASURES FIRST(ts) AS a, PREV(FIRST(v), 2) AS b, NEXT(LAST(v)) AS n"])),
        draw(st.sampled_from(ROWS)),
        f"AFTER MATCH SKIP {draw(st.sampled_from([skip for skip in SKIPS if skip[-1] in ['W', *labels]]))}",
        draw(st.sampled_from(MODES)),
        f"PATTERN ({pattern})",
        "" if within is None else f"WITHIN {within}",
        f"DEFINE {', '.join(f'{label} AS {condition}' for label, condition in conditions)}",
    ]  # fmt: skip
    return " ".join(part for part in parts if part)


def longer_table(seed: int, size: int) -> list[dict[str, Any]]:
    """So many rows, with gaps and equal times."""
    draw = random.Random(seed)
    values = draw.choice([[0, 1, 2, 3], [1, 2], [0, 0, 0, 1, 2, 3], [1, 1, 1, 2, None]])
    ts, rows = 0, []
    for _ in range(size):
        ts += draw.choice([0, 1, 1, 1, 2, draw.choice([1, 20])])
        key = draw.choice([1, 1, 1, 2])
        rows.append({"k": key, "ts": ts, "v": draw.choice(values), "f": 0.5, "s": draw.choice("abc")})
    draw.shuffle(rows)
    return rows


@SETTINGS
@given(chained_clauses(), st.integers(0, 2**16), st.integers(0, 80), st.data())
def test_chains_find_their_way_through_slices(text: str, seed: int, size: int, data: st.DataObject) -> None:
    spec, _ = sliceable(text)
    table = table_in(spec, longer_table(seed, size))
    check(spec, table, some_cuts(data, spec, table))


@pytest.mark.slow
@settings(SETTINGS, max_examples=2_000)
@given(clauses(given=ORDERED), tables(max_rows=14), st.data())
def test_slices_do_not_matter_at_length(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    test_slices_do_not_matter.hypothesis.inner_test(text, rows, data)


@pytest.mark.slow
@settings(SETTINGS, max_examples=2_000)
@given(chained_clauses(), st.integers(0, 2**16), st.integers(0, 80), st.data())
def test_chains_find_their_way_at_length(text: str, seed: int, size: int, data: st.DataObject) -> None:
    test_chains_find_their_way_through_slices.hypothesis.inner_test(text, seed, size, data)
