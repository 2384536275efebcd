"""A planned situation pattern, shipped to the workers."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from episode.matchers.assembly import atom_field
from episode.matchers.demand import Demand, demand_of
from episode.matchers.fingerprint import column_types, fingerprint
from episode.matchers.limits import StateLimit
from episode.matchers.prepare import Needs, needs_of
from episode.matchers.protocol import InputOrder, OrderKey, Traits
from episode.matchers.situations.matcher import SituationPatternMatcher
from episode.plan.situations.plan import SituationPlan
from episode.plan.situations.returns import MatchMoment, SituationMoment


@dataclass(frozen=True)
class SituationPatternSpec:
    """A planned situation pattern over rows of a known Arrow schema. forced: orders of search to keep to."""

    plan: SituationPlan
    input_schema: pa.Schema
    limit: StateLimit | None = None
    forced: tuple[tuple[int, ...], ...] | None = None

    @property
    def kernels(self) -> tuple[str, ...]:
        """Groups of kernels that it needs."""
        return ("situations",)

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
        text = plan.source.written(plan.source.span)
        columns = column_types(self.input_schema, self.input_columns)
        return fingerprint(text, plan.detect, plan.time, *plan.keys, *columns)

    @property
    def needs(self) -> Needs:
        """What its matchers need of a batch."""
        return needs_of(self.plan)

    @property
    def demand(self) -> Demand:
        """What `Demands` says: rows of no situation end those before them, and every match has one of each symbol."""
        plan = self.plan
        conditions = (plan.conditions[symbol].row_local for symbol in plan.symbols)
        return demand_of(plan.symbols, conditions, ((symbol,) for symbol in plan.symbols))

    @property
    def traits(self) -> Traits:
        return Traits(dependent="a situation may have begun long before")

    def open(self) -> SituationPatternMatcher:
        return SituationPatternMatcher(self)
