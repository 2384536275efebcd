"""A slice of a chain that is larger than a task may hold: the task cuts it once more, into sections.

How large slices are is planned by a sample, and may come out otherwise. A task that is fed more than its budget spills
the rows, in order of time. Now it knows all times, and cuts the slice into sections of half the budget; each is fed its
rows and its overlap. Sections are slices like any others: any cuts give the same matches (`slicing`). No section is
shorter than the overlap, so that rows are fed two or three times at most; and rows of one time are in one section. So
memory is bounded by the budget, the overlap, and the rows of one time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from episode.matchers.ordering import times_of
from episode.matchers.protocol import InputOrder
from episode.matchers.slicing import FIRST_TIME, LAST_TIME, Overlap, SliceBounds
from episode.matchers.spill import SortedRun, drained, gathered, rechunk

_CHUNKS = 4
"""Rows are ordered by time in pieces of the budget by this."""
_SECTIONS = 2
"""A section has the budget by this, so that there is room for its overlap."""
_SAMPLES = 4096
"""So many times of each of the pieces say where to cut."""


def sections_of(
    tables: Iterable[pa.Table],
    input_order: InputOrder,
    bounds: SliceBounds,
    overlap: Overlap,
    budget_bytes: int,
    *,
    spill_directory: str | None = None,
) -> Iterator[tuple[SliceBounds, list[pa.Table]]]:
    """The sections of a slice in order of time, and the rows that they are fed; one, if all rows fit the budget.

    tables: the rows of the slice and its overlap, of one key, in order of arrival.
    """
    source = iter(tables)
    held, whole = gathered(source, budget_bytes)
    if whole:
        yield bounds, held
        return
    with tempfile.TemporaryDirectory(prefix="episode-", dir=spill_directory) as directory:
        chunks = rechunk(drained(held, source), budget_bytes // _CHUNKS)
        runs = [
            SortedRun(chunk, times_of(chunk, input_order), Path(directory) / f"run-{i}")
            for i, chunk in enumerate(chunks)
        ]
        cuts = _cuts(runs, bounds, overlap, budget_bytes // _SECTIONS)
        for first, last in pairwise([bounds.first, *cuts, bounds.last]):
            section = SliceBounds(first, last)
            yield section, fed(runs, section, overlap)


def _cuts(runs: Sequence[SortedRun], bounds: SliceBounds, overlap: Overlap, section_bytes: int) -> list[int]:
    """Times between which there are about so many bytes of own rows, and which are as far apart as the overlap."""
    times, weights = [], []
    for run in runs:
        own = _own(run.times, bounds)
        step = max(1, len(own) // _SAMPLES)
        times.append(own[::step])
        weights.append(np.full(len(times[-1]), step * _row_bytes([run])))
    every = np.concatenate(times)
    order = np.argsort(every, kind="stable")
    every, reached = every[order], np.cumsum(np.concatenate(weights)[order])
    if len(every) == 0:
        return []
    size = max(section_bytes, (overlap.before_rows + overlap.after_rows) * _row_bytes(runs))
    before, done, cuts = int(every[0]), 0.0, []
    while reached[-1] - done > size:
        nearest = int(every[np.searchsorted(reached, done + size)])
        cut = max(nearest, before + max(1, overlap.time))
        if cut > every[-1]:
            break
        cuts.append(cut)
        before, done = cut, float(reached[np.searchsorted(every, cut) - 1])
    return cuts


def _own(times: np.ndarray, bounds: SliceBounds) -> np.ndarray:
    """Of times in order, those that a slice owns."""
    begin = 0 if bounds.first is None else int(np.searchsorted(times, bounds.first, "left"))
    end = len(times) if bounds.last is None else int(np.searchsorted(times, bounds.last, "left"))
    return times[begin:end]


def _row_bytes(runs: Sequence[SortedRun]) -> float:
    return sum(run.table.nbytes for run in runs) / max(1, sum(len(run.times) for run in runs))


def fed(runs: Sequence[SortedRun], bounds: SliceBounds, overlap: Overlap) -> list[pa.Table]:
    """The rows of a section and its overlap, in order of arrival where times are equal; all rows of a time at which the
    rows of an overlap are counted."""
    first, last = FIRST_TIME, LAST_TIME
    if bounds.first is not None:
        first = _counted_from(runs, max(FIRST_TIME, bounds.first - overlap.before_time), overlap.before_rows)
    if bounds.last is not None:
        last = _counted_to(runs, min(LAST_TIME, bounds.last + overlap.after_time), overlap.after_rows)
    return [run.between(first, last) for run in runs]


def _counted_from(runs: Sequence[SortedRun], limit: int, rows: int) -> int:
    """The time from which on so many rows come before a limit of time, or all that there are."""
    if not rows:
        return limit
    ends = [(run.times, int(np.searchsorted(run.times, limit, "left"))) for run in runs]
    nearest = np.concatenate([times[max(0, end - rows) : end] for times, end in ends])
    return int(np.partition(nearest, -rows)[-rows]) if len(nearest) > rows else FIRST_TIME


def _counted_to(runs: Sequence[SortedRun], limit: int, rows: int) -> int:
    """The time up to which so many rows come after a limit of time, or all that there are."""
    if not rows:
        return limit
    begins = [(run.times, int(np.searchsorted(run.times, limit, "right"))) for run in runs]
    nearest = np.concatenate([times[begin : begin + rows] for times, begin in begins])
    return int(np.partition(nearest, rows - 1)[rows - 1]) if len(nearest) > rows else LAST_TIME
