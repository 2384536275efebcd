"""Matches over imprecise time, round by round: the automaton that weighs every order of events by its probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from episode.matchers.events.adapt import Adaptation
from episode.matchers.events.clock import clock_of
from episode.matchers.events.code.arrays import BUDGET, LIMIT, ROWS, UNTIL, WINDOW, settings_of
from episode.matchers.events.code.checks import Taking
from episode.matchers.events.code.confidence import FRONTIERS, EventClock
from episode.matchers.events.code.flow import FINE
from episode.matchers.events.code.imprecise import (
    FACTS,
    MATCHES,
    NEEDED,
    OPTION,
    RESUME,
    ROW,
    SMALL,
    ImpreciseShape,
    imprecise_program,
)
from episode.matchers.events.code.runs import BUDGET_SPENT
from episode.matchers.events.construct import BUFFER
from episode.matchers.events.errors import budget_spent
from episode.matchers.events.joining import lane_arrays
from episode.matchers.events.output import FoundMatches, given_lists
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.rounds import Horizon, Round, Rounds
from episode.matchers.events.taking import no_events, path_arrays, taking_of
from episode.matchers.protocol import EventBatch
from episode.matchers.times import EVER, NEVER
from episode.native.running import compiled_with
from episode.plan.events.names import MARK
from episode.plan.events.plan import EventPlan

EVENTS_PER_RECORD = 4
"""Matches are of any length: their events are counted, so many to a record."""
FIRST_ROOM = 256
"""Room for frontiers, to begin with."""


def imprecise_horizon(horizon: Horizon, widest: int | None) -> Horizon:
    """How far back events may be needed: intervals reach beyond the window. widest: None if that is not known.

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
        taking = taking_of(self.plan, self.plan.automaton, arrays)
        given, windowed = len(self.clock.from_) > 0, self.horizon.window < EVER
        code, constants = compiled_with(imprecise_program, ImpreciseShape(taking, self.sets, given, windowed))
        work = {**constants.arrays(arrays.lanes), **self._arrays(arrays, round_, taking)}
        work |= _frontiers(FIRST_ROOM)
        status, count = SMALL, 0
        while status != FINE:
            work.update(no_events(taking))
            work["times"][0], work["mass"][0] = NEVER, 1.0
            status = code.run(work)
            if status == BUDGET_SPENT:
                raise budget_spent(self.plan, events, int(work["resume"][ROW]), self.step_budget)
            if status == SMALL:
                work |= _frontiers(2 * int(work["resume"][NEEDED]))
            found = int(work["resume"][MATCHES])
            if found == 0:
                continue
            offsets = work["offsets"][: found + 1].copy()
            rows, variables = (work[name][: offsets[-1]].copy() for name in ("out_rows", "out_variables"))
            count += found
            lists = partial(given_lists, offsets, rows, variables)
            yield FoundMatches(found, lists, confidence=work["confidence"][:found].copy())
        self.adaptation.note([], count, {})
        self.rounds.fit(round_, count)

    def _arrays(self, arrays: EventArrays, round_: Round, taking: Taking) -> dict[str, np.ndarray]:
        """What the code works on."""
        assert self.clock is not None
        order, from_ = self._order(round_)
        longest = int(np.diff(from_).max(initial=0))
        most = self.most_events + longest + 2
        path = path_arrays(taking, longest)
        settings = {ROWS: arrays.lanes.ints.shape[1], WINDOW: self.horizon.window, BUDGET: self.step_budget,
                    LIMIT: self.most_events, UNTIL: round_.until}  # fmt: skip
        resume = np.zeros(RESUME, np.int64)
        resume[OPTION] = -1
        return {
            **lane_arrays(arrays.lanes), **self.clock.arrays, **path,
            "bits": round_.bits, "start": round_.start, "end": round_.end, "done": round_.done, "from_": from_,
            "order": order, "ahead": _next_places(path["state_mask"], round_.bits[order], from_),
            "facts": np.zeros(FACTS * (longest + 2), np.int64), "again": np.zeros(4 * (longest + 2), np.int64),
            "set_stop": np.zeros(longest + 3, np.int64), "resume": resume, "settings": settings_of(settings),
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
