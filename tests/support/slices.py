"""Slices of time in tests: cuts of all kinds, and longer inputs than an oracle could take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import assume, note
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.running import run
from episode.matchers.slices.slicing import Unsliced, run_sliced

MOST_CUTS = 30


@st.composite
def cuts_of(draw: st.DrawFn, times: Sequence[int]) -> list[int]:
    """At times of events, through ties and in gaps, before and after all of them; or at every time, as far as these are
    few, else at times that are equally far apart."""
    low, high = min(times, default=0), max(times, default=0)
    if draw(st.integers(0, 4)) == 0:
        return list(range(low, high + 2, 1 + (high - low) // MOST_CUTS))
    return sorted(draw(st.sets(st.integers(low - 3, high + 12), max_size=5)))


@st.composite
def shifts(draw: st.DrawFn, length: int, most: int = 4) -> list[int]:
    """Where copies of some events begin, one after the other, with gaps of any length between them or none."""
    found, at = [0], 0
    for gap in draw(st.lists(st.integers(0, 15), max_size=most - 1)):
        at += length + gap
        found.append(at)
    return found


def rows_of(table: pa.Table) -> list[str]:
    """In one order."""
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def in_slices(spec: Any, table: pa.Table, cuts: list[int]) -> list[str]:
    return rows_of(run_sliced(spec, table, cuts))


def assert_slices_do_not_matter(spec: Any, table: pa.Table, cuts: list[int]) -> int:
    """The number of matches. What cannot be sliced, and data that are in error, are none of these tests'."""
    if isinstance(spec.slicing, Unsliced):
        note(spec.slicing.reason)
        assume(False)
    try:
        whole = rows_of(run(spec, table))
    except EpisodeDataError as error:
        note(str(error))
        assume(False)
        raise
    assert in_slices(spec, table, cuts) == whole
    return len(whole)
