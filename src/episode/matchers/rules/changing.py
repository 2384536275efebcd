"""Rules that change while they run: a Matcher of many, to which rules are added and from which they are taken between
two feeds.

A change takes effect after a time up to which all events were fed: what was added sees later events alone, and of what
was removed the matches that were certain by then have come out; its open matches are given up, and counted. All others
go on as they are, with the state that they have.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.aside import Feed
from episode.matchers.fingerprint import column_types, fingerprint
from episode.matchers.protocol import END_OF_TIME, EventBatch, InputOrder, Matcher, Snapshot, StateChunk, Traits
from episode.matchers.rules.batches import RuleBatches
from episode.matchers.rules.changes import Failure, RuleChange
from episode.matchers.rules.changing_rule import ActiveRule, definition_of
from episode.matchers.rules.one_rule import MATCH_END, MATCH_START, RESULT, RuleSpec
from episode.matchers.rules.packs import Packs
from episode.matchers.rules.shared import SharedPlan, shared_plan
from episode.matchers.spark_types import held_as

RULE = "rule"
APPLIED_VERSION = 1
_APPLIED = "applied"
_EVER = np.iinfo(np.int64).min


class RulePlanner(Protocol):
    """Makes rules of their texts, the same ones wherever it is asked; picklable."""

    def plan(self, name: str, text: str) -> RuleSpec:
        """A rule's spec, the same object for the same text; an error where the text is no rule for this input."""
        ...


@dataclass(frozen=True)
class ChangingSpec:
    """A set of rules over one input, without any at first. order: of the input, which is that of every rule."""

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

    def open(self) -> ChangingMatcher:
        return ChangingMatcher(self)


def output_of_rules(events: pa.Schema, keys: Sequence[str], time: str) -> pa.Schema:
    """What the matcher of each rule gives."""
    fields = [events.field(name).with_type(held_as(events.field(name).type)) for name in keys]
    times = [pa.field(name, held_as(events.field(time).type)) for name in (MATCH_START, MATCH_END)]
    return pa.schema([*fields, *times, pa.field(RESULT, pa.string())])


class ChangingMatcher:
    """The rules of one shard at work.

    done: the time up to which all events were fed, as far as it is known. applied: the number of the last change.
    """

    keyed = False

    def __init__(self, spec: ChangingSpec) -> None:
        self.spec = spec
        self.rules: dict[str, ActiveRule] = {}
        self.done = _EVER
        self.applied = 0
        self._is_applied_saved = True
        self._packs = Packs()
        self._gone: list[ActiveRule] = []
        self._given_up = 0

    # ---- rules ---------------------------------------------------------------------------------------

    def change(self, changes: Iterable[RuleChange], after: int) -> None:
        """Rules are added, replaced and removed, for events after a time up to which all events were fed."""
        for change in sorted(changes, key=lambda one: one.number):
            if change.number <= self.applied:
                continue
            self.applied, self._is_applied_saved = change.number, False
            before = self.rules.pop(change.name, None)
            if before is not None:
                self._given_up += before.given_up + before.open_matches
                self._gone.append(before)
            if change.text is not None:
                spec = self.spec.planner.plan(change.name, change.text)
                self.rules[change.name] = ActiveRule(change, after, spec)

    def failures(self) -> list[Failure]:
        """Of the rules that have failed on data since the last call, all that each failed on."""
        return [rule.failure() for rule in self.rules.values() if rule.has_failed]

    @property
    def keys_aside(self) -> int:
        """How many keys are set aside, those of one rule counted apart from those of others."""
        return sum(len(rule.aside) for rule in self.rules.values())

    # ---- matching ------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        yield from self._fed(Feed(events, until, False, self.done))
        self.done = until

    def finish(self) -> Iterator[pa.Table]:
        nothing = EventBatch.empty(self.spec.input_schema, self.spec.input_columns)
        yield from self._fed(Feed(nothing, END_OF_TIME, True, self.done))

    def _fed(self, feed: Feed) -> Iterator[pa.Table]:
        rules = list(self.rules.values())
        shared = shared_by(rules)
        batches = _batches(shared, feed.events)
        for rule, place in zip(rules, shared.places, strict=True):
            own: EventBatch | None = feed.events
            if batches is not None and place.asked is not None and not rule.spec.derives:
                own = batches.of(place.asked, shared.asked[place.asked], False, place.shares)
            if own is None or len(own) == 0:
                if rule.is_new:
                    continue
                own = EventBatch.empty(self.spec.input_schema, self.spec.input_columns)
            for matches in rule.fed(replace(feed, events=own)):
                yield self._output(rule.name, matches)

    def _output(self, name: str, matches: pa.Table) -> pa.Table:
        names = pa.array([name], pa.string()).take(pa.array(np.zeros(matches.num_rows, np.int32)))
        return pa.Table.from_arrays([names, *matches.columns], schema=self.spec.output_schema)

    # ---- state ---------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        put: list[StateChunk] = []
        if not self._is_applied_saved:
            self._is_applied_saved = True
            put.append(StateChunk(_APPLIED, APPLIED_VERSION, str(self.applied).encode()))
        removed = []
        for gone in self._gone:
            removed += [name for name in self._packs.chunks if name.startswith(gone.prefix)]
        self._gone = []
        for rule in self.rules.values():
            changes = rule.snapshot()
            put += changes.put
            removed += changes.removed
        return self._packs.changed(put, removed)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self._packs.restore(chunks)
        own = list(self._packs.chunks.values())
        if _APPLIED in self._packs.chunks:
            self.applied = int(self._packs.chunks[_APPLIED].data)
        defined = [definition for definition in map(definition_of, own) if definition is not None]
        by_prefix: dict[str, list[StateChunk]] = {}
        for chunk in own:
            by_prefix.setdefault(_prefix(chunk.name), []).append(chunk)
        for change, after in sorted(defined, key=lambda one: one[0].number):
            assert change.text is not None
            rule = ActiveRule(change, after, self.spec.planner.plan(change.name, change.text))
            rule.restore(by_prefix[rule.prefix])
            self.rules[rule.name] = rule

    # ---- what a runtime asks -------------------------------------------------------------------------

    @property
    def _open(self) -> list[Matcher]:
        return [rule.matcher for rule in self.rules.values() if rule.matcher is not None]

    @property
    def state_rows(self) -> int:
        return sum(matcher.state_rows for matcher in self._open)

    @property
    def given_up(self) -> int:
        return self._given_up + sum(rule.given_up for rule in self.rules.values())

    @property
    def live_keys(self) -> np.ndarray:
        found = [rule.live_keys for rule in self.rules.values()]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    @property
    def wakes_at(self) -> int | None:
        times = [matcher.wakes_at for matcher in self._open]
        return min((time for time in times if time is not None), default=None)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        found = [matcher.open_from for matcher in self._open]
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        keys, inverse = np.unique(np.concatenate([key for key, _ in found]), return_inverse=True)
        least = np.full(len(keys), np.iinfo(np.int64).max)
        np.minimum.at(least, inverse, np.concatenate([time for _, time in found]))
        return keys, least


_shared: OrderedDict[tuple[int, ...], tuple[list[RuleSpec], SharedPlan]] = OrderedDict()
"""What sets of rules have in common, as shards of this process ask for it."""
_MOST_SHARED = 16


class _Apart:
    """In the place of a spec: one that says nothing of what it asks of rows."""


def shared_by(rules: Sequence[ActiveRule]) -> SharedPlan:
    """What rules have in common: the same for all shards that have them. Rules that derive columns share nothing."""
    specs = [rule.spec for rule in rules]
    which = tuple(map(id, specs))
    if which not in _shared:
        _shared[which] = specs, shared_plan([_Apart() if one.derives else one.inner for one in specs])  # type: ignore[misc]
        while len(_shared) > _MOST_SHARED:
            _shared.popitem(last=False)
    return _shared[which][1]


def _batches(shared: SharedPlan, events: EventBatch) -> RuleBatches | None:
    """The events as rules see them; None where a condition that rules share fails on them: then each looks itself."""
    if not len(events):
        return None
    try:
        return RuleBatches(events, shared.index.evaluate(events), shared.needs)
    except EpisodeDataError:
        return None


def _prefix(name: str) -> str:
    """The part of a chunk's name that says whose it is."""
    parts = name.split(".", 2)
    return f"{parts[0]}.{parts[1]}." if len(parts) > 2 else name
