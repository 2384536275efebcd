"""The possible times of a batch's events, checked: where time is imprecise."""

from __future__ import annotations

import numpy as np

from episode.errors import EpisodeDataError
from episode.matchers.columns import one_chunk
from episode.matchers.events.code.confidence import EventClock, running_sums
from episode.matchers.protocol import EventBatch
from episode.matchers.times import NEVER
from episode.plan.events.plan import EventPlan

MOST_POINTS = 1 << 16
"""Times that one event may have."""
WIDEST = 1 << 62
"""Far enough from the end of numbers for sums of times."""
CLOSE_TO_ONE, CLOSE_AS_FLOATS = 1e-9, 1e-6
"""How far from 1 the sum of an event's probabilities may be, as numbers are rounded; they are divided by their sum."""


def clock_of(plan: EventPlan, events: EventBatch, lo: np.ndarray) -> EventClock:
    """The times of all events; an error that names an event whose interval or probabilities are wrong."""
    imprecise = plan.times.imprecise
    assert imprecise is not None
    hi, step = events.time, imprecise.granularity
    none = np.zeros(0, np.float64)
    width = hi.view(np.uint64) - lo.view(np.uint64)
    points = width // np.uint64(step) + np.uint64(1)
    wide = np.flatnonzero(width > WIDEST)
    if len(wide):
        raise _error(plan, events, int(wide[0]), "has an interval that is too long", "Leave it out.")
    many = np.flatnonzero(points > MOST_POINTS)
    if len(many):
        what = f"can have more than {MOST_POINTS:,} times"
        raise _error(plan, events, int(many[0]), what, "Give a coarser granularity: GRANULARITY 1 second.")
    early = np.flatnonzero(lo == NEVER)
    if len(early):
        raise _error(plan, events, int(early[0]), "has the least of all numbers as its time", "Leave it out.")
    if imprecise.probabilities is None:
        return EventClock(lo, hi, step, np.zeros(0, np.int64), none, none)
    exactly, from_ = _probabilities(plan, events, imprecise.probabilities, points.astype(np.int64))
    return EventClock(lo, hi, step, from_, *running_sums(exactly, from_))


def _probabilities(
    plan: EventPlan, events: EventBatch, column: str, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """All probabilities, one event's after the other's, and where each event's begin."""
    lists = one_chunk(events.table.column(column))
    hint = f"{column} has a number from 0 to 1 for each possible time, and their sum is 1."
    if lists.null_count:
        row = int(np.argmax(lists.is_null().to_numpy(zero_copy_only=False)))
        raise _error(plan, events, row, "has no probabilities", hint)
    lengths = np.diff(lists.offsets.to_numpy()).astype(np.int64)
    wrong = np.flatnonzero(lengths != points)
    if len(wrong):
        row = int(wrong[0])
        what = f"has {lengths[row]:,} probabilities for {points[row]:,} possible times"
        raise _error(plan, events, row, what, hint)
    from_ = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = lists.flatten()
    values = flat.to_numpy(zero_copy_only=False).astype(np.float64)
    close = CLOSE_TO_ONE if flat.type.bit_width == 64 else CLOSE_AS_FLOATS
    good = (values >= 0) & (values <= 1 + close)  # a null is NaN, and so not good
    if not good.all():
        row = int(np.searchsorted(from_, int(np.argmin(good)), side="right")) - 1
        raise _error(plan, events, row, "has a probability that is none", hint)
    sums = np.add.reduceat(values, from_[:-1]) if len(values) else np.zeros(0)
    off = np.flatnonzero(np.abs(sums - 1.0) > close)
    if len(off):
        what = f"has probabilities whose sum is {sums[off[0]]:.12g}"
        raise _error(plan, events, int(off[0]), what, hint)
    return values, from_


def _error(plan: EventPlan, events: EventBatch, row: int, what: str, hint: str) -> EpisodeDataError:
    assert plan.times.start is not None
    names = dict.fromkeys([*plan.keys, plan.times.start, plan.times.end])
    where = plan.source.pattern
    return plan.source.error(EpisodeDataError, f"The event with {events.values_at(row, names)} {what}.", where, hint)
