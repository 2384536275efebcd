"""Time slices: the events of one key are cut by time, and the slices are matched apart from each other.

A slice owns the times first <= time < last, and is fed the events of these times together with those before and after
them that its matches can need: its overlap. Of the matches that it finds, it emits those that it owns. The language
defines which these are; every match is owned by exactly one slice, whose overlap is enough to find it and to know that
it is a match. So any cuts give the same matches: *slice invariance*, the law of this file.

Where matches depend on the matches before them (a chain), slices are matched in two passes: see `Chained`.

See decision 161.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from episode.matchers.protocol import InputOrder, Matcher, MatcherSpec, Traits
from episode.matchers.shard import SortedRun, drain, read_up_to, rechunk, sorted_runs
from episode.matchers.times import EVER, NEVER


@dataclass(frozen=True)
class Overlap:
    """The events of other slices that a slice is fed, those of its key alone.

    Before it: events of the last `before_time` before its first time, and the last `before_rows` events before these.
    After it: events from its end on until `after_time` after it, and the first `after_rows` events after these.
    More of them do no harm, as long as they come further away from the slice.
    """

    before_time: int = 0
    before_rows: int = 0
    after_time: int = 0
    after_rows: int = 0

    @property
    def time(self) -> int:
        """Cuts that are less than this apart would only copy events."""
        return max(self.before_time, self.after_time)

    def around(self, bounds: SliceBounds) -> tuple[int, int]:
        """The first and the last time of a slice and the times that overlap it."""
        first = NEVER if bounds.first is None else max(NEVER, bounds.first - self.before_time)
        return first, EVER if bounds.last is None else min(EVER, bounds.last + self.after_time)


@dataclass(frozen=True)
class Slicing:
    """Way to find the matches of a pattern in slices of time.

    chained: a match may depend on the matches before it: the spec is `Chained`, and a second pass follows the chain.
    """

    overlap: Overlap
    chained: bool = False


@dataclass(frozen=True)
class Unsliced:
    """Why the events of one key must be matched by one task: a clause that begins with a small letter, for explain."""

    reason: str


@dataclass(frozen=True)
class SliceBounds:
    """The times (images, as `EventBatch.time`) that a slice owns: first <= time < last; None: no bound."""

    first: int | None = None
    last: int | None = None

    def owns(self, time: np.ndarray) -> np.ndarray:
        """bool: which of these times it owns."""
        owned = np.ones(len(time), np.bool_)
        if self.first is not None:
            owned &= time >= self.first
        if self.last is not None:
            owned &= time < self.last
        return owned

    def span(self, time: np.ndarray) -> tuple[int, int]:
        """The places of the times that it owns among times in order, from the first to before the last."""
        begin = 0 if self.first is None else int(np.searchsorted(time, self.first, "left"))
        return begin, len(time) if self.last is None else int(np.searchsorted(time, self.last, "left"))


ALL_TIMES = SliceBounds()
"""Bounds of a run that is not sliced."""


@runtime_checkable
class Sliceable(Protocol):
    """A MatcherSpec that knows whether its matches can be found in slices of time."""

    @property
    def slicing(self) -> Slicing | Unsliced: ...

    def open_slice(self, bounds: SliceBounds) -> Matcher:
        """A new matcher that is fed a slice with its overlap, and emits only the matches that the slice owns.

        Not for chained patterns.
        """


RESULTS, SUMMARY, HEAD, FAILURES = range(4)
"""Kinds of `SlicePart`: matches that may be wanted; what all slices must know of this one; rows to match once more;
errors that may be the query's."""


class SlicePart(NamedTuple):
    """A piece of what the first pass makes of a slice. order: that of the pieces of a slice."""

    kind: int
    order: int
    blob: bytes


@dataclass(frozen=True)
class Entry:
    """Entry of the chain of a key into a slice. place: counted in rows from the first that the slice owns; it may lie
    beyond its end. number: of matches before it. cover: the place after all of them."""

    place: int = 0
    number: int = 0
    cover: int = 0


@runtime_checkable
class Chained(Sliceable, Protocol):
    """A MatcherSpec whose matches depend on the matches before them, in slices of time.

    Passes are of one slice of one key. Slices without rows need no first pass, and no separate second one.
    """

    def first_pass(self, tables: Iterable[pa.Table], bounds: SliceBounds) -> Iterator[SlicePart]:
        """A slice with its overlap, matched as if the matches before it left off where it begins."""

    def next_entry(self, entry: Entry, summary: bytes) -> Entry:
        """Return where the chain enters the next slice, by the blob of kind SUMMARY of the one that it enters. Slices
        without rows have none, and are left out."""

    def second_pass(self, parts: Iterable[SlicePart], entry: Entry) -> Iterator[pa.RecordBatch]:
        """The matches that a slice owns, which the chain enters there.

        parts: all that the first pass made of it, the SUMMARY first, the others in any order.
        """


class SliceableSpec(Sliceable, MatcherSpec, Protocol):
    """A MatcherSpec that is Sliceable."""


@dataclass(frozen=True)
class SliceSpec:
    """A MatcherSpec for one slice: whatever runs a spec runs this one, on the rows of the slice and its overlap."""

    spec: SliceableSpec
    bounds: SliceBounds

    @property
    def input_order(self) -> InputOrder:
        return self.spec.input_order

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.spec.input_columns

    @property
    def input_schema(self) -> pa.Schema:
        return self.spec.input_schema

    @property
    def output_schema(self) -> pa.Schema:
        return self.spec.output_schema

    @property
    def fingerprint(self) -> str:
        return f"{self.spec.fingerprint} from {self.bounds.first} to {self.bounds.last}"

    @property
    def traits(self) -> Traits:
        return self.spec.traits

    def open(self) -> Matcher:
        return self.spec.open_slice(self.bounds)


def bounds_between(cuts: Sequence[int]) -> list[SliceBounds]:
    """The slices between cuts, which grow: one more than there are cuts."""
    return [SliceBounds(first, last) for first, last in zip([None, *cuts], [*cuts, None], strict=True)]


# A slice of a chain that is larger than a task may hold: the task cuts it once more, into sections.
#
# How large slices are is planned by a sample, and may turn out otherwise. A task that is fed more than its budget
# spills the rows, in order of time. Now it knows all times, and cuts the slice into sections of half the budget; each
# is fed its rows and its overlap. Sections are slices like any others: any cuts give the same matches (`slicing`). No
# section is shorter than the overlap, so that rows are fed two or three times at most; and rows of one time are in one
# section. So memory is bounded by the budget, the overlap, and the rows of one time.


_CHUNKS = 4
"""Rows are ordered by time in pieces of the budget by this."""
_SECTIONS = 2
"""A section has the budget by this, so that there is room for its overlap."""
_SAMPLES = 4096
"""Times sampled from each of the pieces to decide where to cut."""


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
    held, whole = read_up_to(source, budget_bytes)
    if whole:
        yield bounds, held
        return
    with tempfile.TemporaryDirectory(prefix="episode-", dir=spill_directory) as directory:
        chunks = rechunk(drain(held, source), budget_bytes // _CHUNKS)
        runs = sorted_runs(chunks, input_order, Path(directory))
        cuts = _cuts(runs, bounds, overlap, budget_bytes // _SECTIONS)
        for first, last in pairwise([bounds.first, *cuts, bounds.last]):
            section = SliceBounds(first, last)
            yield section, section_rows(runs, section, overlap)


def _cuts(runs: Sequence[SortedRun], bounds: SliceBounds, overlap: Overlap, section_bytes: int) -> list[int]:
    """Times with about `section_bytes` of own rows between them, and at least as far apart as the overlap."""
    times, weights = [], []
    for sorted_run in runs:
        own = sorted_run.times[slice(*bounds.span(sorted_run.times))]
        step = max(1, len(own) // _SAMPLES)
        times.append(own[::step])
        weights.append(np.full(len(times[-1]), step * _row_bytes([sorted_run])))
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


def _row_bytes(runs: Sequence[SortedRun]) -> float:
    return sum(run.table.nbytes for run in runs) / max(1, sum(len(run.times) for run in runs))


def section_rows(runs: Sequence[SortedRun], bounds: SliceBounds, overlap: Overlap) -> list[pa.Table]:
    """The rows of a section and its overlap, in order of arrival where times are equal; all rows of a time at which the
    rows of an overlap are counted."""
    first, last = overlap.around(bounds)
    if bounds.first is not None:
        first = _limit_by_rows(runs, first, overlap.before_rows, after=False)
    if bounds.last is not None:
        last = _limit_by_rows(runs, last, overlap.after_rows, after=True)
    return [run.between(first, last) for run in runs]


def _limit_by_rows(runs: Sequence[SortedRun], limit: int, rows: int, after: bool) -> int:
    """The time from which on (after: up to which) `rows` rows come before (after) a limit, or all."""
    if not rows:
        return limit
    ends = [(run.times, int(np.searchsorted(run.times, limit, "right" if after else "left"))) for run in runs]
    parts = [times[end : end + rows] if after else times[max(0, end - rows) : end] for times, end in ends]
    nearest = np.concatenate(parts)
    if len(nearest) <= rows:
        return EVER if after else NEVER
    place = rows - 1 if after else len(nearest) - rows
    return int(np.partition(nearest, place)[place])
