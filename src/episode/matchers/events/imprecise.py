"""Matches over imprecise time, round by round: every order of events is weighed by its probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from episode.errors import EpisodeDataError
from episode.matchers.columns import one_chunk
from episode.matchers.events.adapt import Adaptation
from episode.matchers.events.code.arrays import BUDGET, LIMIT, ROWS, UNTIL, WINDOW, settings_of
from episode.matchers.events.code.between import FINE
from episode.matchers.events.code.checks import PathShape
from episode.matchers.events.code.confidence import FRONTIERS, EventClock, running_sums
from episode.matchers.events.code.imprecise import (
    BEGIN_OF_WALK,
    FACTS,
    MATCHES,
    NEEDED,
    RESUME,
    ROW,
    SMALL,
    ImpreciseShape,
    imprecise_program,
)
from episode.matchers.events.code.runs import BUDGET_SPENT
from episode.matchers.events.compiled_loops import lane_arrays, path_arrays, path_shape_of
from episode.matchers.events.construct import BUFFER
from episode.matchers.events.errors import budget_spent
from episode.matchers.events.output import FoundMatches
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.rounds import Horizon, Round, Rounds
from episode.matchers.protocol import EventBatch
from episode.matchers.times import EVER, NEVER
from episode.native.running import compiled_with
from episode.plan.events.alternatives import MARK
from episode.plan.events.plan import EventPlan

# The possible times of a batch's events, checked.


MOST_POINTS = 1 << 16
"""Times that one event may have."""
WIDEST = 1 << 62
"""Far enough from the end of numbers for sums of times."""
CLOSE_TO_ONE, CLOSE_AS_FLOATS = 1e-9, 1e-6
"""The tolerance of the sum of an event's probabilities, for rounding; they are divided by their sum."""


def clock_of(plan: EventPlan, events: EventBatch, lo: np.ndarray) -> EventClock:
    """The times of all events; raises an error for an event whose interval or probabilities are wrong."""
    imprecise = plan.times.imprecise
    assert imprecise is not None
    hi, step = events.time, imprecise.granularity
    none = np.zeros(0, np.float64)
    width = hi.view(np.uint64) - lo.view(np.uint64)
    points = width // np.uint64(step) + np.uint64(1)
    coarser = "Give a coarser granularity: GRANULARITY 1 second."
    for wrong, what, hint in (
        (width > WIDEST, "has an interval that is too long", "Leave it out."),
        (points > MOST_POINTS, f"can have more than {MOST_POINTS:,} times", coarser),
        (lo == NEVER, "has the least of all numbers as its time", "Leave it out."),
    ):
        if wrong.any():
            raise _error(plan, events, int(np.argmax(wrong)), what, hint)
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
        raise _error(plan, events, row, "has an impossible probability", hint)
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


EVENTS_PER_RECORD = 4
"""Events per record: matches have any length, so their events are counted."""
FIRST_ROOM = 256
"""Room for frontiers, to begin with."""


def imprecise_horizon(horizon: Horizon, widest: int | None) -> Horizon:
    """The horizon with intervals, which reach beyond the window. widest: None if unknown.

    The events x and z of a match are within the window w at some of their times: lo(z) - hi(x) <= w. If it is decided
    later than `done`, with z, then hi(x) > done - w - (hi(z) - lo(z)). Places of a pattern are in order only at some of
    their times, so no event is ruled out by the others.
    """
    anywhere = np.zeros(0, np.uint64)
    if horizon.window == EVER or widest is None or horizon.window > EVER - widest:
        return replace(horizon, window=EVER, back=EVER, chain=anywhere)
    return replace(horizon, back=horizon.window + widest, chain=anywhere)


class ImpreciseSearch:
    """Searches rounds of events whose times are imprecise. Output comes in bounded pieces, however much there is."""

    def __init__(
        self, plan: EventPlan, rounds: Rounds, adaptation: Adaptation, step_budget: int, most_records: int
    ) -> None:
        assert plan.imprecise is not None
        self.plan = plan
        self.rounds = rounds
        self.horizon = rounds.horizon
        self.adaptation = adaptation
        self.step_budget = step_budget
        self.most_events = min(most_records * EVENTS_PER_RECORD, BUFFER)
        self.threshold = plan.imprecise.threshold
        sets = plan.imprecise.sets
        self.sets = tuple(name.split(MARK)[0] in sets for name in plan.variables)
        self.clock: EventClock | None = None

    def begin(self, events: EventBatch, lo: np.ndarray) -> None:
        """Take the times of a feed's events, before its rounds."""
        self.clock = clock_of(self.plan, events, lo)
        widest = int((events.time - lo).max())
        self.rounds.horizon = imprecise_horizon(self.horizon, widest)

    def matches(self, events: EventBatch, arrays: EventArrays, round_: Round) -> Iterator[FoundMatches]:
        """All matches of a round."""
        assert self.plan.automaton is not None
        assert self.clock is not None
        path_shape = path_shape_of(self.plan, self.plan.automaton, arrays)
        given, windowed = len(self.clock.from_) > 0, self.horizon.window < EVER
        code, constants = compiled_with(imprecise_program, ImpreciseShape(path_shape, self.sets, given, windowed))
        work = {**constants.arrays(arrays.lanes), **self._arrays(arrays, round_, path_shape)}
        work |= _frontiers(FIRST_ROOM)
        work["times"][0], work["mass"][0] = NEVER, 1.0
        status, count = SMALL, 0
        while status != FINE:
            status = code.run(work)
            if status == BUDGET_SPENT:
                raise budget_spent(self.plan, events, int(work["resume"][ROW]), self.step_budget)
            if status == SMALL:
                for name, room in _frontiers(2 * int(work["resume"][NEEDED])).items():
                    room[: len(work[name])] = work[name]
                    work[name] = room
            found = int(work["resume"][MATCHES])
            if found == 0:
                continue
            offsets = work["offsets"][: found + 1].copy()
            rows, variables = (work[name][: offsets[-1]].copy() for name in ("out_rows", "out_variables"))
            count += found
            confidence = work["confidence"][:found].copy()
            yield FoundMatches.of_lists(offsets, rows, variables, confidence=confidence)
        self.adaptation.note([], count, {})
        self.rounds.fit(round_, count)

    def _arrays(self, arrays: EventArrays, round_: Round, path_shape: PathShape) -> dict[str, np.ndarray]:
        """The arrays of the code."""
        assert self.clock is not None
        order, from_ = self._order(round_)
        longest = int(np.diff(from_).max(initial=0))
        most = self.most_events + longest + 2
        path = path_arrays(path_shape, longest)
        settings = {ROWS: arrays.lanes.ints.shape[1], WINDOW: self.horizon.window, BUDGET: self.step_budget,
                    LIMIT: self.most_events, UNTIL: round_.until}  # fmt: skip
        resume = np.zeros(RESUME, np.int64)
        resume[list(BEGIN_OF_WALK)] = list(BEGIN_OF_WALK.values())
        return {
            **lane_arrays(arrays.lanes), **self.clock.arrays, **path,
            "bits": round_.bits, "start": round_.start, "end": round_.end, "done": round_.done, "from_": from_,
            "order": order, "ahead": _next_places(path["state_mask"], round_.bits[order], from_),
            "facts": np.zeros(FACTS * (longest + 2), np.int64), "set_stop": np.zeros(longest + 3, np.int64),
            "resume": resume, "settings": settings_of(settings),
            "threshold": np.array([self.threshold], np.float64), "offsets": np.zeros(most, np.int64),
            "confidence": np.empty(most, np.float64), "out_rows": np.empty(most, np.int32),
            "out_variables": np.empty(most, np.int32),
        }  # fmt: skip

    def _order(self, round_: Round) -> tuple[np.ndarray, np.ndarray]:
        """The round's rows that qualify for something, each partition's by (lo, hi, arrival); and where those begin."""
        low, high = int(round_.from_[0]), int(round_.from_[-1])
        rows = low + np.flatnonzero(round_.bits[low:high])
        group = np.searchsorted(round_.from_, rows, side="right") - 1
        order = rows[np.lexsort((rows, round_.end[rows], round_.start[rows], group))]
        from_ = np.searchsorted(group, np.arange(len(round_.from_)))
        return order.astype(np.int64), from_.astype(np.int64)


def _frontiers(room: int) -> dict[str, np.ndarray]:
    return {name: np.zeros(room, type_.dtype) for name, (type_, _) in FRONTIERS.items() if name != "set_stop"}


def _next_places(masks: np.ndarray, bits: np.ndarray, from_: np.ndarray) -> np.ndarray:
    """By state and place: from each place of a partition on, the next one of an event that a state can take."""
    ends = np.repeat(from_[1:], np.diff(from_))
    found = [np.zeros(0, np.int64)]
    for mask in masks:
        places = np.where(bits & mask != 0, np.arange(len(bits)), len(bits))
        found.append(np.minimum(np.minimum.accumulate(places[::-1])[::-1], ends))
    return np.concatenate(found)
