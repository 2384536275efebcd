"""Planned rules over one input, shipped to the workers, and the changes of a set while it runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from episode.matchers.protocol import InputOrder, MatcherSpec, Screens, Traits
from episode.matchers.rules.matcher import ActiveRule, RuleSetMatcher
from episode.matchers.rules.one_rule import MATCH_END, MATCH_START, RESULT, Pool, RuleSpec, pool_matches
from episode.matchers.rules.shared import SharedPlan, shared_plan
from episode.matchers.screening import Screen
from episode.matchers.spark_types import held_as
from episode.matchers.state import column_types, fingerprint

MOST_SCREENED = 64
"""Classes of rows that a screen tells apart."""

GROUP_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Member:
    """One rule of a set. number: of it among all rules. columns: of the pool, for its output columns in order."""

    name: str
    number: int
    spec: MatcherSpec
    columns: tuple[str, ...]


@dataclass(frozen=True)
class RuleSetSpec:
    """Rules over rows of a known Arrow schema. pool: the columns of their matches."""

    members: tuple[Member, ...]
    input_schema: pa.Schema
    pool: pa.Schema

    planner: ClassVar[None] = None
    """A set that never changes."""

    @property
    def keeps_dictionaries(self) -> bool:
        """See `protocol.keeps_dictionaries`: conditions on strings are evaluated for distinct values, and most
        rules are given few rows."""
        return True

    @property
    def group_bytes(self) -> int:
        """Small shards are matched together up to this size: a feed costs for every rule."""
        return GROUP_BYTES

    @property
    def input_columns(self) -> tuple[str, ...]:
        """The columns that all rules read together."""
        return tuple(dict.fromkeys(name for member in self.members for name in member.spec.input_columns))

    @property
    def input_order(self) -> InputOrder:
        orders = [member.spec.input_order for member in self.members]
        return replace(orders[0], needs_time=any(order.needs_time for order in orders))

    @property
    def output_schema(self) -> pa.Schema:
        return self.pool

    @property
    def screen(self) -> Screen | None:
        """Rows that no rule can have are left out, if every rule has such."""
        screens = [member.spec.screen if isinstance(member.spec, Screens) else None for member in self.members]
        known = [one for one in screens if one is not None]
        classes = tuple(dict.fromkeys(one for screen in known for one in screen.conditions))
        if len(known) < len(screens) or len(classes) > MOST_SCREENED or any(one.width is not None for one in known):
            return None
        return Screen(classes, self.input_order)

    @cached_property
    def shared(self) -> SharedPlan:
        return shared_plan([member.spec for member in self.members])

    def __getstate__(self) -> dict[str, object]:
        """Leave out what is computed again if needed."""
        return {name: value for name, value in self.__dict__.items() if name not in ("shared", "_columns")}

    @property
    def fingerprint(self) -> str:
        return fingerprint(*(part for member in self.members for part in (member.name, member.spec.fingerprint)))

    @property
    def traits(self) -> Traits:
        every = [member.spec.traits for member in self.members]
        early = [one.early for one in every]
        return Traits(
            prompt=all(one.prompt for one in every),
            early=None if None in early else max(early),  # type: ignore[type-var]
            dependent="a set of rules has matches of several patterns",
        )

    def first_rules(self) -> list[ActiveRule]:
        return [ActiveRule(member.name, member.number, member.spec) for member in self.members]

    def shared_by(self, rules: Sequence[ActiveRule]) -> SharedPlan:
        """Return what the rules have in common; there are never others."""
        return self.shared

    def output(self, rule: ActiveRule, matches: pa.Table, keyed: bool) -> pa.Table:
        """Return matches of a rule in the columns of the pool."""
        return pool_matches(matches, rule.number, self._columns[rule.name], self.pool, keyed)

    @cached_property
    def _columns(self) -> dict[str, tuple[str, ...]]:
        return {member.name: member.columns for member in self.members}

    def open(self) -> RuleSetMatcher:
        return RuleSetMatcher(self)


def rule_groups(
    rules: Sequence[tuple[str, MatcherSpec]], schema: pa.Schema, first: Mapping[str, Sequence[str]] | None = None
) -> tuple[RuleSetSpec, ...]:
    """Group named specs over one input by how they group and order its rows; their matches share a pool of columns.

    first: by rule, the columns of its output that many rules have."""
    pool, leading = Pool(), first or {}
    columns = [pool.take(spec.output_schema, leading.get(name, ())) for name, spec in rules]
    groups: dict[InputOrder, list[Member]] = {}
    for number, ((name, spec), own) in enumerate(zip(rules, columns, strict=True)):
        order = replace(spec.input_order, needs_time=False)
        groups.setdefault(order, []).append(Member(name, number, spec, own))
    return tuple(RuleSetSpec(tuple(members), _read(schema, members), pool.schema) for members in groups.values())


def _read(schema: pa.Schema, members: Iterable[Member]) -> pa.Schema:
    names = dict.fromkeys(name for member in members for name in member.spec.input_columns)
    return pa.schema([schema.field(name) for name in names])


# The spec of a set of rules that change while they run: see `matcher`.

RULE = "rule"


class RulePlanner(Protocol):
    """Plans rules from their texts, the same in every process; picklable."""

    def plan(self, name: str, text: str) -> RuleSpec:
        """Return the spec of a rule, the same object for the same text; an error if it is not a rule for this input."""
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
"""Shared plans of sets of rules, for the shards of this process."""
_MOST_SHARED = 16
