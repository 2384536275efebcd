"""Matches over imprecise time, round by round: the automaton that weighs every order of events by its probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from episode.kernels.events import imprecise as kernel
from episode.kernels.events.confidence import Clock
from episode.matchers.events.adapt import Adaptation
from episode.matchers.events.clock import clock_of
from episode.matchers.events.errors import budget_spent
from episode.matchers.events.output import FoundMatches, given_lists
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.rounds import Horizon, Round, Rounds
from episode.matchers.events.runs import automaton_arrays
from episode.matchers.protocol import EventBatch
from episode.matchers.times import EVER
from episode.plan.events.names import MARK
from episode.plan.events.plan import EventPlan

EVENTS_PER_RECORD = 4
"""Matches are of any length: their events are counted, so many to a record."""
START = np.zeros((0, 4), np.int64)


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
        self.most_events = most_records * EVENTS_PER_RECORD
        self.threshold = plan.imprecise.threshold
        sets = plan.imprecise.sets
        self.sets = np.array([name.split(MARK)[0] in sets for name in plan.variables], np.bool_)
        self.clock: Clock | None = None

    def begin(self, events: EventBatch, lo: np.ndarray) -> None:
        """Take the times of a feed's events, before its rounds."""
        self.clock = clock_of(self.plan, events, lo)
        widest = int((events.time - lo).max())
        self.rounds.horizon = imprecise_horizon(self.horizon, widest)

    def matches(self, events: EventBatch, arrays: EventArrays, round_: Round) -> Iterator[FoundMatches]:
        """All matches of a round."""
        assert self.plan.automaton is not None
        automaton = automaton_arrays(self.plan, self.plan.automaton, arrays)
        order, from_ = self._order(round_)
        resume, status, count = START, kernel.MORE, 0
        while status == kernel.MORE:
            status, row, offsets, rows, variables, confidence, resume = kernel.matches(
                automaton, arrays.kernel_lanes, self.sets, self.clock, round_.bits, order, from_,
                self.horizon.window, round_.done, round_.until, self.threshold, self.step_budget,
                self.most_events, resume,
            )  # fmt: skip
            if status == kernel.BUDGET_SPENT:
                raise budget_spent(self.plan, events, int(row), self.step_budget)
            count += len(confidence)
            lists = partial(given_lists, offsets, rows, variables)
            yield FoundMatches(len(confidence), lists, confidence=confidence)
        self.adaptation.note([], count, {})
        self.rounds.fit(round_, count)

    def _order(self, round_: Round) -> tuple[np.ndarray, np.ndarray]:
        """The round's rows that qualify for something, each partition's by (lo, hi, arrival); and where those begin."""
        low, high = int(round_.from_[0]), int(round_.from_[-1])
        rows = low + np.flatnonzero(round_.bits[low:high])
        group = np.searchsorted(round_.from_, rows, side="right") - 1
        order = rows[np.lexsort((rows, round_.end[rows], round_.start[rows], group))]
        from_ = np.searchsorted(group, np.arange(len(round_.from_)))
        return order.astype(np.int64), from_.astype(np.int64)
