"""A planned event pattern, shipped to the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from episode.matchers.assembly import output_schema
from episode.matchers.events.construct import BUFFER
from episode.matchers.events.imprecise import MOST_POINTS, WIDEST
from episode.matchers.events.matcher import MOST_RECORDS, EventPatternMatcher, event_slicing
from episode.matchers.events.prefixes import EventPrefix, event_prefixes
from episode.matchers.events.prepare import conditions_of
from episode.matchers.events.rounds import ROUND_ROWS, horizon_of
from episode.matchers.protocol import InputOrder, OrderKey, StateLimit, Traits
from episode.matchers.screening import ClassDemand, Screen, demand_of, screen_of
from episode.matchers.slices.slicing import SliceBounds, Slicing, Unsliced
from episode.matchers.state import column_types, fingerprint
from episode.plan.events.cost import PhysicalPlan
from episode.plan.events.plan import EventPlan, Strategy, required_events
from episode.plan.options import STEP_BUDGET
from episode.plan.output import columns_read, expressions_of


@dataclass(frozen=True)
class EventPatternSpec:
    """A planned event pattern over rows of a known Arrow schema. forced: a physical plan to keep to. round_rows,
    most_records: limits of one round. buffer: events of matches that are put out at one time, where closures are
    postponed."""

    plan: EventPlan
    input_schema: pa.Schema
    step_budget: int = STEP_BUDGET
    limit: StateLimit | None = None
    forced: PhysicalPlan | None = None
    round_rows: int = ROUND_ROWS
    most_records: int = MOST_RECORDS
    buffer: int = BUFFER

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def input_order(self) -> InputOrder:
        times = self.plan.times
        imprecise = times.imprecise
        return InputOrder(
            self.plan.keys,
            (OrderKey(times.end),),
            needs_time=True,
            start=times.start,
            imprecise=imprecise is not None,
            width=None if imprecise is None else imprecise.width,
        )

    @property
    def screen(self) -> Screen | None:
        """Conditions of the variables, if events may be skipped.

        An event that meets none of them is in no match and prevents none. If events have probabilities, the matcher
        looks at those of all events.
        """
        plan, imprecise = self.plan, self.plan.times.imprecise
        if plan.strategy not in (Strategy.ANY, Strategy.NEXT):
            return None
        width = None
        if imprecise is not None:
            if imprecise.probabilities is not None:
                return None
            widest = WIDEST if imprecise.width is None else min(WIDEST, imprecise.width)
            width = min(widest, imprecise.granularity * MOST_POINTS - 1)
        return screen_of((plan.local[name] for name in plan.variables), self.input_order, width)

    @property
    def demand(self) -> ClassDemand | None:
        """See `Demands`. If time is imprecise, the matcher looks at the times of all events."""
        plan = self.plan
        if plan.times.imprecise is not None:
            return None
        sparse = plan.strategy in (Strategy.ANY, Strategy.NEXT)
        conditions = (plan.local[name] for name in plan.variables)
        demand = demand_of(plan.variables, conditions, required_events(plan), sparse)
        horizon = horizon_of(plan)
        if not demand.sparse or not horizon.any_match or len(horizon.chain) < 2 or plan.times.start is not None:
            return demand
        return replace(demand, chain=tuple(map(int, horizon.chain)), within=horizon.window)

    @property
    def prefixes(self) -> tuple[EventPrefix, ...]:
        """See `Prefixed`."""
        return event_prefixes(self.plan)

    @property
    def columns_beyond(self) -> tuple[str, ...]:
        """The columns that are read of events whose variables are known."""
        plan = self.plan
        read = columns_read(expressions_of(conditions_of(plan), plan.measures), plan.measures)
        times = [plan.times.end, *([plan.times.start] if plan.times.start else [])]
        wanted = {*plan.keys, *times, *read}
        return tuple(name for name in plan.input_columns if name in wanted)

    @property
    def output_schema(self) -> pa.Schema:
        return output_schema(self.plan, self.input_schema)

    @property
    def fingerprint(self) -> str:
        plan = self.plan
        text = plan.source.text_at(plan.source.span)
        columns = column_types(self.input_schema, self.input_columns)
        local = [f"{name}: {parts}" for name, parts in plan.local.items()]
        times = [plan.times.end, plan.times.start or ""]
        if plan.imprecise is not None:
            times += [repr(plan.times.imprecise), repr(plan.imprecise.threshold)]
        collapsed = [] if plan.collapse is None else ["collapsed"]
        return fingerprint(text, plan.strategy.value, *plan.keys, *times, *columns, *local, *collapsed)

    @property
    def traits(self) -> Traits:
        precise = self.plan.times.imprecise is None
        return Traits(
            prompt=precise and not self.plan.waits,
            early=0 if self.plan.times.start is None else self.plan.within,
            dependent="event patterns take their events from the whole of a partition",
            reach=self.plan.within,
            states=len(self.plan.labels.names),
        )

    @property
    def slicing(self) -> Slicing | Unsliced:
        return event_slicing(self.plan)

    def open(self) -> EventPatternMatcher:
        return EventPatternMatcher(self)

    def open_slice(self, bounds: SliceBounds) -> EventPatternMatcher:
        return EventPatternMatcher(self, bounds)
