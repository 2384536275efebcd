"""The event pattern Matcher: tree plans and the automaton on one shard, in batch and in a stream.

State (`state`): the events that a match to come may still have (those of the last window, as far as they qualify for
anything), and up to which time matches have been handed out. Intermediate results are no state: every feed is cut into
rounds (`rounds`), and each round builds what it needs from the events of its window (`search`). So plans can change
between any two rounds.

In a slice of time the matches that are decided before it count as handed out from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.events.adapt import Adaptation
from episode.matchers.events.imprecise import ImpreciseSearch, imprecise_horizon
from episode.matchers.events.output import EventOutput, FoundMatches
from episode.matchers.events.prepare import EventArrays, event_needs, prepare_events
from episode.matchers.events.rounds import Round, Rounds, horizon_of
from episode.matchers.events.search import EventSearch
from episode.matchers.events.slices import decisions_of
from episode.matchers.events.state import EventState
from episode.matchers.held import HoldingMatcher
from episode.matchers.prepare import Needs
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.slicing import ALL_TIMES, SliceBounds
from episode.matchers.times import EVER, is_after, window_ends
from episode.plan.events.report import EventReport

if TYPE_CHECKING:
    from episode.matchers.events.spec import EventPatternSpec


LOOKED_THROUGH = 1 << 16
"""So many events are looked through before they are prepared: are there any for all places of a match?"""


class EventPatternMatcher(HoldingMatcher["EventPatternSpec", EventState, EventOutput]):
    """One event pattern at work on one shard, or on one slice of it."""

    def __init__(self, spec: EventPatternSpec, bounds: SliceBounds = ALL_TIMES) -> None:
        self.spec = spec
        self.plan = plan = spec.plan
        self.needs: Needs = event_needs(plan)
        self.horizon = horizon_of(plan)
        self.adaptation = Adaptation(plan, spec.forced, self.horizon.let_go)
        self.rounds = Rounds(self.horizon, spec.round_rows)
        self.search: EventSearch | ImpreciseSearch
        kept = self.horizon
        if plan.times.imprecise is None:
            self.search = EventSearch(
                plan, self.rounds, self.adaptation, spec.step_budget, spec.most_records, spec.buffer
            )
        else:
            self.search = ImpreciseSearch(plan, self.rounds, self.adaptation, spec.step_budget, spec.most_records)
            kept = imprecise_horizon(self.horizon, plan.times.imprecise.width)
        self.state = EventState(plan, kept, spec.input_order, spec.input_columns, spec.limit)
        own = decisions_of(bounds)
        self.state.done, self.last = own.done, own.until
        self.output = EventOutput(plan, spec.output_schema)
        self._every = np.uint64(2 ** len(plan.variables) - 1)

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        for together, found in self.matches_in(events, until):
            yield from self.output.tables(together, found)

    def matches_in(self, events: EventBatch, until: int) -> Iterator[tuple[EventBatch, FoundMatches]]:
        """The matches of a feed as lists of events, round by round, each with the batch that its rows are of."""
        until = min(until, self.last)
        together = self.state.joined(events, until, until == self.last)
        if len(together):
            start = self.state.starts(together)
            bits = None if together.known is None else together.known.bits
            arrays = None
            if bits is None or (until > self.state.done and self._may_match(together, start, bits)):
                arrays = self._prepared(together)
                bits = arrays.bits
            self.adaptation.arrive(bits, is_after(together.time, self.state.done))
            if arrays is not None:
                for round_ in self._rounds_of(together, start, bits, until):
                    for found in self.search.matches(together, arrays, round_):
                        if len(found):
                            yield together, found
            self.state.hold(together, start, bits & self._every, END_OF_TIME if until == self.last else until)
        else:
            self.state.expire(until)
        if until != END_OF_TIME:
            self.state.done = max(self.state.done, until)

    def _may_match(self, events: EventBatch, start: np.ndarray, bits: np.ndarray) -> bool:
        """Is it worth looking for matches among these events?"""
        if len(events) > LOOKED_THROUGH or self.plan.times.imprecise is not None:
            return True
        return self.horizon.has_match(events, start, bits & self._every)

    def _prepared(self, events: EventBatch) -> EventArrays:
        needs = self.needs if events.known is None else self._needs_of_known
        return prepare_events(self.plan, needs, events.table, events.key, events.known)

    def _rounds_of(self, events: EventBatch, start: np.ndarray, bits: np.ndarray, until: int) -> Iterator[Round]:
        if isinstance(self.search, ImpreciseSearch):
            self.search.begin(events, start)
        # done NEVER says that nothing is out: what is decided at that very time comes with the next feed.
        if until > self.state.done:
            yield from self.rounds.of(events, start, bits, self.state.done, until)

    @cached_property
    def _needs_of_known(self) -> Needs:
        """Where it is known which variables events qualify for."""
        return event_needs(self.plan, local=False)

    def report(self) -> EventReport:
        return self.adaptation.report()

    @property
    def wakes_at(self) -> int | None:
        """Where something stands after the last event: the earliest end of a window."""
        held, window = self.state.held.rows, self.horizon.window
        if not self.horizon.waits or window == EVER or held is None or len(held) == 0:
            return None
        ends = window_ends(self.state.starts(held), window)
        ends = ends[is_after(ends, self.state.done) & (ends < END_OF_TIME)]
        return int(ends.min()) if len(ends) else None
