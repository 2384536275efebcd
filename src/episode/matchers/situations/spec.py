"""A planned situation pattern, shipped to the workers."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from episode.matchers.assembly import atom_field
from episode.matchers.prepare import Needs, needs_of
from episode.matchers.protocol import InputOrder, OrderKey, StateLimit, Traits
from episode.matchers.screening import ClassDemand, demand_of
from episode.matchers.situations.matcher import SituationPatternMatcher
from episode.matchers.situations.prepare import needs_beyond
from episode.matchers.slices.slicing import Overlap, SliceBounds, Slicing, Unsliced
from episode.matchers.state import column_types, fingerprint
from episode.plan.expressions import looks_beside
from episode.plan.output import columns_read, expressions_of
from episode.plan.situations.plan import MatchMoment, SituationMoment, SituationPlan


@dataclass(frozen=True)
class SituationPatternSpec:
    """A planned situation pattern over rows of a known Arrow schema. forced: orders of search to keep to."""

    plan: SituationPlan
    input_schema: pa.Schema
    limit: StateLimit | None = None
    forced: tuple[tuple[int, ...], ...] | None = None

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def input_order(self) -> InputOrder:
        return InputOrder(self.plan.keys, (OrderKey(self.plan.time),), needs_time=True)

    @property
    def output_schema(self) -> pa.Schema:
        time = self.input_schema.field(self.plan.time)
        fields = []
        for atom, name in self.plan.measures.atoms.items():
            kind = time if isinstance(atom, (SituationMoment, MatchMoment)) else atom_field(atom, self.input_schema)
            fields.append(kind.with_name(name).with_nullable(True))
        return pa.schema(fields)

    @property
    def fingerprint(self) -> str:
        plan = self.plan
        text = plan.source.text_at(plan.source.span)
        columns = column_types(self.input_schema, self.input_columns)
        return fingerprint(text, plan.detect, plan.time, *plan.keys, *columns)

    @property
    def needs(self) -> Needs:
        return needs_of(self.plan)

    @property
    def demand(self) -> ClassDemand:
        """See `Demands`: a row of no situation ends those before it and does nothing else, and every match has a
        situation of each symbol. What looks at neighbouring rows must see all of them."""
        plan = self.plan
        conditions = (plan.conditions[symbol].row_local for symbol in plan.symbols)
        alone = not any(looks_beside(one) for one in needs_beyond(plan).computed)
        return demand_of(plan.symbols, conditions, ((symbol,) for symbol in plan.symbols), alone, followed=True)

    @property
    def columns_beyond(self) -> tuple[str, ...]:
        """The columns that are read of events of which it is known whether the conditions of symbols hold."""
        plan = self.plan
        wanted = {*plan.keys, plan.time, *columns_read(expressions_of([], plan.measures), plan.measures)}
        return tuple(name for name in plan.input_columns if name in wanted)

    @property
    def traits(self) -> Traits:
        return Traits(dependent="a situation may have begun long before", states=len(self.plan.labels.names))

    @property
    def slicing(self) -> Slicing | Unsliced:
        """A slice owns what is detected in it. At a detection all situations have begun within the window; one that
        holds at the row before that began too early, whenever it was."""
        if self.plan.within is None:
            return Unsliced("without WITHIN a match may have situations of any time")
        return Slicing(Overlap(before_time=self.plan.within, before_rows=1))

    def open(self) -> SituationPatternMatcher:
        return SituationPatternMatcher(self)

    def open_slice(self, bounds: SliceBounds) -> SituationPatternMatcher:
        return SituationPatternMatcher(self, bounds)
