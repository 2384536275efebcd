"""The Matcher of aggregates over all matches: on one shard, in batch and in a stream.

State: the events that a match to come may still have, those of the last window and of the bucket that is not over. A
bucket is decided when all its events are in; its totals are then computed at once from the events that are held.
Without EVERY all is decided at the end of the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.events.aggregated_arrays import aggregated_needs, prepare_aggregated
from episode.matchers.events.aggregated_output import AggregatedOutput, bucket_of
from episode.matchers.events.aggregated_search import search
from episode.matchers.events.slices import decisions_of
from episode.matchers.events.state import HeldEvents
from episode.matchers.held import HoldingMatcher
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.slicing import ALL_TIMES, SliceBounds
from episode.matchers.times import NEVER
from episode.plan.events.aggregated import AggregatedPlan
from episode.plan.events.report import AggregatedReport

if TYPE_CHECKING:
    from episode.matchers.events.aggregated_spec import AggregatedSpec


class AggregatedMatcher(HoldingMatcher["AggregatedSpec", HeldEvents, AggregatedOutput]):
    """Aggregates over all matches of one event pattern, at work on one shard, or on one slice of it."""

    def __init__(self, spec: AggregatedSpec, bounds: SliceBounds = ALL_TIMES) -> None:
        self.spec = spec
        self.plan: AggregatedPlan = spec.plan
        self.needs = aggregated_needs(self.plan)
        self.output = AggregatedOutput(self.plan, spec.output_schema)
        self.state = HeldEvents(self.plan, spec.input_columns, spec.limit)
        own = decisions_of(bounds)
        self.state.done, self.last = self._decided(own.done), own.until
        self._report = AggregatedReport()

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        until = min(until, self.last)
        together = self.state.held.joined(events, until == END_OF_TIME)
        decided = self._decided(until)
        if len(together):
            prepared = prepare_aggregated(self.plan, self.needs, together.table, together.key, together.known)
            if decided > self.state.done:
                found = search(self.plan, together, prepared, self.state.done, decided, self.spec.few)
                self._report.passes += 1
                self._report.events += len(together)
                self._report.rows += len(found.last)
                if len(found.last):
                    yield self.output.table(together, found)
            self._hold(together, prepared.bits, decided, until)
        if until != END_OF_TIME:
            self.state.done = max(self.state.done, decided)

    def _decided(self, until: int) -> int:
        """The last time of buckets that are over. (NEVER: there is none.)"""
        if until == END_OF_TIME:
            return END_OF_TIME
        if self.plan.every is None or until == NEVER:
            return NEVER
        return max(NEVER, (until + 1) // self.plan.every * self.plan.every - 1)

    def _hold(self, events: EventBatch, bits: np.ndarray, decided: int, until: int) -> None:
        """Keep the events that a later match can have."""
        if until == self.last:
            self.state.held.forget()
            return
        keep = bits != 0
        decided = max(decided, self.state.done)
        if self.plan.within is not None and decided > NEVER and decided >= NEVER + self.plan.within:
            keep &= events.time > decided - self.plan.within
        self.state.keep(events, np.flatnonzero(keep))

    def report(self) -> AggregatedReport:
        return self._report

    @property
    def wakes_at(self) -> int | None:
        """When the first bucket with an event is over."""
        held = self.state.held.rows
        if held is None or self.plan.every is None:
            return None
        times = held.time[held.time > self.state.done]
        return int(bucket_of(times.min(keepdims=True), self.plan.every)[1][0]) - 1 if len(times) else None
