"""The spec of a set of rules that change while they run: see `matcher`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from episode.matchers.fingerprint import column_types, fingerprint
from episode.matchers.protocol import InputOrder, Traits
from episode.matchers.rules.active_rule import ActiveRule
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.one_rule import MATCH_END, MATCH_START, RESULT, RuleSpec
from episode.matchers.rules.shared import SharedPlan, shared_plan
from episode.matchers.spark_types import held_as

RULE = "rule"


class RulePlanner(Protocol):
    """Plans rules from their texts, the same in every process; picklable."""

    def plan(self, name: str, text: str) -> RuleSpec:
        """Return a rule's spec, the same object for the same text; an error if the text is not a rule for this
        input."""
        ...


@dataclass(frozen=True)
class ChangingSpec:
    """A set of rules over one input, empty at first. input_order: that of every rule."""

    planner: RulePlanner
    input_schema: pa.Schema
    input_order: InputOrder

    @property
    def input_columns(self) -> tuple[str, ...]:
        return tuple(self.input_schema.names)

    @cached_property
    def output_schema(self) -> pa.Schema:
        """The rule, its key, its times, and its result as JSON."""
        own = output_of_rules(self.input_schema, self.input_order.keys, self.input_order.order[0].column)
        return pa.schema([pa.field(RULE, pa.string()), *own])

    @property
    def fingerprint(self) -> str:
        order = [f"{one.column}" for one in self.input_order.order]
        return fingerprint(
            "rules", *self.input_order.keys, *order, *column_types(self.input_schema, self.input_columns)
        )

    @property
    def traits(self) -> Traits:
        return Traits()

    def first_rules(self) -> list[ActiveRule]:
        """Return no rules: a set begins empty, and its rules are part of its state."""
        return []

    def shared_by(self, rules: Sequence[ActiveRule]) -> SharedPlan:
        """Return what rules have in common: the same for all shards of this process that have them."""
        specs = [rule.planned for rule in rules if rule.planned is not None]
        which = tuple(map(id, specs))
        if which not in _shared:
            _shared[which] = specs, shared_plan([None if one.derives else one.inner for one in specs])
            while len(_shared) > _MOST_SHARED:
                _shared.popitem(last=False)
        return _shared[which][1]

    def output(self, rule: ActiveRule, matches: pa.Table, keyed: bool) -> pa.Table:
        """Return matches of a rule with its name."""
        names = pa.array([rule.name], pa.string()).take(pa.array(np.zeros(matches.num_rows, np.int32)))
        return pa.Table.from_arrays([names, *matches.columns], schema=self.output_schema)

    def open(self) -> RuleSetMatcher:
        return RuleSetMatcher(self)


def output_of_rules(events: pa.Schema, keys: Sequence[str], time: str) -> pa.Schema:
    """Return the schema of each rule's matches."""
    fields = [events.field(name).with_type(held_as(events.field(name).type)) for name in keys]
    times = [pa.field(name, held_as(events.field(time).type)) for name in (MATCH_START, MATCH_END)]
    return pa.schema([*fields, *times, pa.field(RESULT, pa.string())])


_shared: OrderedDict[tuple[int, ...], tuple[list[RuleSpec], SharedPlan]] = OrderedDict()
"""What sets of rules have in common, for the shards of this process."""
_MOST_SHARED = 16
