"""Planned aggregates over all matches of an event pattern, shipped to the workers."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from episode.matchers.demand import ClassDemand, demand_of
from episode.matchers.events.aggregated_matcher import AggregatedMatcher
from episode.matchers.events.aggregated_output import aggregated_schema
from episode.matchers.events.aggregated_search import FEW
from episode.matchers.events.slices import aggregated_slicing
from episode.matchers.fingerprint import column_types, fingerprint
from episode.matchers.limits import StateLimit
from episode.matchers.protocol import InputOrder, OrderKey, Traits
from episode.matchers.screen import Screen, screen_of
from episode.matchers.slicing import SliceBounds, Slicing, Unsliced
from episode.plan.events.aggregated import AggregatedPlan


@dataclass(frozen=True)
class AggregatedSpec:
    """Over rows of a known Arrow schema. few: partitions of so few rows are compared event by event."""

    plan: AggregatedPlan
    input_schema: pa.Schema
    limit: StateLimit | None = None
    few: int = FEW

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def input_order(self) -> InputOrder:
        return InputOrder(self.plan.keys, (OrderKey(self.plan.times.end),), needs_time=True)

    @property
    def screen(self) -> Screen | None:
        """Events are skipped at will: those that qualify for no variable do not count."""
        conditions = self.plan.conditions
        return screen_of((conditions[name].row_local for name in self.plan.variables), self.input_order)

    @property
    def demand(self) -> ClassDemand:
        """What `Demands` says."""
        names = self.plan.labels.names
        return demand_of(names, (self.plan.conditions[name].row_local for name in names), (), sparse=True)

    @property
    def output_schema(self) -> pa.Schema:
        return aggregated_schema(self.plan, self.input_schema)

    @property
    def fingerprint(self) -> str:
        plan = self.plan
        text = plan.source.written(plan.source.span)
        columns = column_types(self.input_schema, self.input_columns)
        local = [f"{name}: {condition.row_local}" for name, condition in plan.conditions.items()]
        return fingerprint(text, str(plan.doubles), *plan.keys, plan.times.end, *columns, *local)

    @property
    def traits(self) -> Traits:
        return Traits(dependent="aggregates are of all matches together")

    @property
    def slicing(self) -> Slicing | Unsliced:
        return aggregated_slicing(self.plan)

    def open(self) -> AggregatedMatcher:
        return AggregatedMatcher(self)

    def open_slice(self, bounds: SliceBounds) -> AggregatedMatcher:
        return AggregatedMatcher(self, bounds)
