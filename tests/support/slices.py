"""Slices of time in tests: cuts of all kinds, and longer inputs than an oracle could take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, note
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import EventBatch
from episode.matchers.running import run
from episode.matchers.slices.slicing import (
    SUMMARY,
    Chained,
    Entry,
    Overlap,
    SliceableSpec,
    SliceBounds,
    SliceSpec,
    Unsliced,
    bounds_between,
)
from episode.matchers.times import EVER, NEVER

MOST_CUTS = 30
_ARRIVAL = "__episode_arrival"


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


def fed_rows(time: np.ndarray, bounds: SliceBounds, overlap: Overlap) -> tuple[int, int]:
    """The rows of a key that a slice is fed, from the first to before the last; time: of the key's rows, in order."""
    begin, end = 0, len(time)
    if bounds.first is not None:
        earliest = max(NEVER, bounds.first - overlap.before_time)
        begin = max(0, int(np.searchsorted(time, earliest, "left")) - overlap.before_rows)
    if bounds.last is not None:
        latest = min(EVER, bounds.last + overlap.after_time)
        end = min(len(time), int(np.searchsorted(time, latest, "right")) + overlap.after_rows)
    return begin, max(begin, end)


def slices_of_key(
    events: EventBatch, table: pa.Table, cuts: Sequence[int], overlap: Overlap
) -> Iterator[tuple[int, SliceBounds, pa.Table]]:
    """The rows of a table that the slices are fed, in order of arrival.

    events: those of one key, which have their arrival in the table as a column. Slices that are fed nothing are not
    among them.
    """
    arrival = events.table.column(_ARRIVAL).to_numpy()
    for number, bounds in enumerate(bounds_between(cuts)):
        begin, end = fed_rows(events.time, bounds, overlap)
        if begin < end:
            yield number, bounds, table.take(pa.array(np.sort(arrival[begin:end])))


def run_sliced(spec: SliceableSpec, table: pa.Table, cuts: Sequence[int], overlap: Overlap | None = None) -> pa.Table:
    """All matches of a table, every key cut at these times (which grow): those of `run`, in another order.

    All in process, one slice after the other. overlap: more of it than the spec asks for.
    """
    slicing = spec.slicing
    if isinstance(slicing, Unsliced):
        raise ValueError(f"it cannot be sliced: {slicing.reason}")
    numbered = table.append_column(_ARRIVAL, pa.array(np.arange(table.num_rows)))
    events = events_of(numbered, spec.input_order, KeyCoder(spec.input_order.keys))
    outputs = [spec.output_schema.empty_table()]
    for begin, end in zip(events.bounds[:-1], events.bounds[1:], strict=True):
        of_key = EventBatch(events.table.slice(begin, end - begin), events.key[begin:end], events.time[begin:end])
        slices = slices_of_key(of_key, table, cuts, overlap or slicing.overlap)
        if slicing.chained:
            assert isinstance(spec, Chained)
            outputs += _run_chained(spec, slices)
        else:
            outputs += [run(SliceSpec(spec, bounds), fed) for _, bounds, fed in slices]
    return pa.concat_tables(outputs)


def _run_chained(spec: Chained, slices: Iterable[tuple[int, SliceBounds, pa.Table]]) -> Iterator[pa.Table]:
    """Both passes over the slices of one key."""
    entry = Entry()
    for _, bounds, fed in slices:
        parts = sorted(spec.first_pass([fed], bounds), key=lambda part: part.kind != SUMMARY)
        batches = list(spec.second_pass(parts, entry))
        if batches:
            yield pa.Table.from_batches(batches)
        entry = spec.next_entry(entry, parts[0].blob)
