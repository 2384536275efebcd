"""The Matcher of a set of rules on one shard: each rule has its own matcher, and is fed what it can need.

What rules have in common is computed once per feed: row-local conditions (`classes`), the rows of equal demands
(`batches`), columns in lanes. A rule that has no rows yet is not opened.

Rules over a table are a set that never changes. Rules over a stream change between two feeds. A change takes effect
after a time up to which all events were fed: an added rule sees later events only; of a removed rule the matches that
were certain by then have been returned, and its open matches are given up, and counted. All other rules keep their
state.

See decisions 165 and 166.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError, EpisodeError
from episode.matchers.protocol import END_OF_TIME, EventBatch, Matcher, MatcherSpec, Snapshot, StateChunk
from episode.matchers.quarantine import Feed, Marked, QuarantinedKeys, isolate
from episode.matchers.rules.batches import RuleBatches
from episode.matchers.rules.classes import ClassRows
from episode.matchers.rules.one_rule import Failure, RuleChange, RuleFeed, RuleSetReport, RuleSpec, of_rule
from episode.matchers.rules.packs import Packs, check_version
from episode.matchers.rules.shared import RulePlace, SharedPlan, shared_plan
from episode.matchers.times import NEVER

if TYPE_CHECKING:
    from episode.matchers.rules.spec import ChangingSpec, RuleSetSpec

RULE_VERSION = APPLIED_VERSION = 1
_STATE, _APPLIED = "state.", "applied"
_log = logging.getLogger("episode")


@dataclass
class ActiveRule:
    """A rule at work on one shard, for events after a time. number: names its state, apart from that of other rules.

    text, planned: of a rule of a changing set. Its text is part of the state. Where data of a key raise an error, the
    rule is quarantined for this key: matches up to the time before are returned, and none of the key afterwards; all
    other rules and keys continue (see `quarantine`). In a set that never changes, an error of a rule ends the run.
    """

    name: str
    number: int
    spec: MatcherSpec
    after: int = NEVER
    text: str | None = None
    planned: RuleSpec | None = None
    matcher: Matcher | None = None
    """None: nothing has come yet that it could match."""
    quarantine: QuarantinedKeys = field(default_factory=QuarantinedKeys)
    has_failed: bool = False
    _marked: Marked = field(default_factory=Marked)
    _is_marked: bool = True
    _is_defined: bool = False
    _given_up: int = 0

    @property
    def prefix(self) -> str:
        """The beginning of the names of its chunks."""
        return f"rule.{self.number}."

    def feed(self, feed: Feed, keyed: bool) -> Iterator[pa.Table]:
        """Return the matches of a feed; an error names the rule."""
        if self.matcher is None:
            self.matcher = self.spec.open()
        self.matcher.keyed = keyed
        try:
            if self.planned is None:
                self._is_marked = False
                yield from feed.into(self.matcher)
            else:
                events, _ = self.quarantine.part(feed.events)
                done = max(feed.done, self.after)
                yield from self._guard(self.matcher, RuleFeed(events, feed.until, feed.final, done, self.planned))
        except EpisodeError as error:
            raise of_rule(error, self.name) from None

    def _guard(self, matcher: Matcher, feed: RuleFeed) -> list[pa.Table]:
        """Return the matches of a feed; keys whose data raise an error are quarantined."""
        self._mark()
        self._is_marked = False
        given_up = self.given_up
        try:
            return list(feed.into(matcher))
        except EpisodeDataError as error:
            found = isolate(self._as_marked, feed, error)
        self.matcher, self._given_up = found.matcher, given_up
        for key, (until, reason) in found.failed.items():
            self.quarantine.add(key, until, str(reason))
            _log.warning("The rule %s is disabled for a key that it failed on: %s", self.name, reason)
        self.has_failed = True
        return found.matches

    def failure(self) -> Failure:
        """Return all that it failed on so far."""
        self.has_failed = False
        until, reasons = self.quarantine.until, self.quarantine.reasons
        first = min(until, key=lambda key: until[key])
        return Failure(self.number, self.name, len(self.quarantine), until[first], reasons[first])

    def _mark(self) -> None:
        """Keep the state before a feed. The last snapshot has it already if nothing was fed since."""
        if not self._is_marked and self.matcher is not None:
            self._marked.take(self.matcher.snapshot())
            self._is_marked = True

    def _as_marked(self) -> Matcher:
        matcher = self.spec.open()
        matcher.restore(list(self._marked.chunks.values()))
        return matcher

    @property
    def is_new(self) -> bool:
        """Does it hold nothing?"""
        return self.matcher is None or (self.matcher.state_rows == 0 and len(self.matcher.live_keys) == 0)

    @property
    def given_up(self) -> int:
        """Open matches dropped by the state limit so far."""
        return self._given_up + (0 if self.matcher is None else self.matcher.given_up)

    @property
    def live_keys(self) -> np.ndarray:
        """Codes of the keys of which it still knows something."""
        known = np.empty(0, np.int64) if self.matcher is None else self.matcher.live_keys
        return np.union1d(known, self.quarantine.codes) if len(self.quarantine) else known

    @property
    def open_matches(self) -> int:
        """The number of keys that hold something for a match to come."""
        return 0 if self.matcher is None else len(self.matcher.open_from[0])

    def snapshot(self) -> Snapshot:
        """Return what has changed since the last snapshot, under names of this rule."""
        self._mark()
        inner = self._marked.take_unsaved()
        put = [replace(chunk, name=f"{self.prefix}{_STATE}{chunk.name}") for chunk in inner.put]
        put += [replace(chunk, name=f"{self.prefix}{chunk.name}") for chunk in self.quarantine.changes()]
        if self.text is not None and not self._is_defined:
            self._is_defined = True
            change = RuleChange(self.number, self.name, self.text)
            definition = json.dumps({"change": change.to_json(), "after": self.after}).encode()
            put.append(StateChunk(f"{self.prefix}rule", RULE_VERSION, definition))
        return Snapshot(tuple(put), tuple(f"{self.prefix}{_STATE}{name}" for name in inner.removed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        own = [replace(chunk, name=chunk.name.removeprefix(self.prefix)) for chunk in chunks]
        inner = [replace(chunk, name=chunk.name.removeprefix(_STATE)) for chunk in own if chunk.name.startswith(_STATE)]
        self.quarantine.restore(own)
        if inner:
            self.matcher = self.spec.open()
            self.matcher.restore(inner)
        self._marked = Marked({chunk.name: chunk for chunk in inner})
        self._is_defined = True


def definition_of(chunk: StateChunk) -> tuple[RuleChange, int] | None:
    """Return the rule that a chunk defines, and after when it is active; None for other chunks."""
    if not (chunk.name.startswith("rule.") and chunk.name.endswith(".rule")):
        return None
    check_version(chunk, RULE_VERSION)
    fields = json.loads(chunk.data)
    return RuleChange.from_json(fields["change"]), fields["after"]


class RuleSetMatcher:
    """Rules at work on one shard.

    done: the time up to which all events were fed, as far as it is known. applied: the number of the last change.
    """

    def __init__(self, spec: RuleSetSpec | ChangingSpec) -> None:
        self.spec = spec
        self.keyed = False
        self.rules: dict[str, ActiveRule] = {rule.name: rule for rule in spec.first_rules()}
        self.done = NEVER
        self.applied = 0
        self._is_applied_saved = True
        self._packs = Packs()
        self._gone: list[ActiveRule] = []
        self._given_up = 0
        self._report = RuleSetReport(0)

    def change(self, changes: Iterable[RuleChange], after: int) -> None:
        """Add, replace and remove rules, for events after a time up to which all events were fed."""
        for change in sorted(changes, key=lambda one: one.number):
            if change.number <= self.applied:
                continue
            self.applied, self._is_applied_saved = change.number, False
            before = self.rules.pop(change.name, None)
            if before is not None:
                self._given_up += before.given_up + before.open_matches
                self._gone.append(before)
            if change.text is not None:
                self._add(change, after)

    def _add(self, change: RuleChange, after: int) -> None:
        assert self.spec.planner is not None
        assert change.text is not None
        planned = self.spec.planner.plan(change.name, change.text)
        rule = ActiveRule(change.name, change.number, planned.inner, after, change.text, planned)
        self.rules[rule.name] = rule

    def failures(self) -> list[Failure]:
        """Return all that rules failed on, for the rules that failed on data since the last call."""
        return [rule.failure() for rule in self.rules.values() if rule.has_failed]

    @property
    def quarantined_keys(self) -> int:
        """The number of quarantined keys, counted for each rule."""
        return sum(len(rule.quarantine) for rule in self.rules.values())

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        for rule, matches in self.matches(events, until):
            if matches.num_rows:
                yield self.spec.output(rule, matches, self.keyed)

    def finish(self) -> Iterator[pa.Table]:
        for rule, matches in self.last_matches():
            if matches.num_rows:
                yield self.spec.output(rule, matches, self.keyed)

    def matches(self, events: EventBatch, until: int) -> Iterator[tuple[ActiveRule, pa.Table]]:
        """Return the matches of a feed, rule by rule, in the columns of each rule's output."""
        rules = list(self.rules.values())
        shared, batches = self._share(rules, events)
        for rule, place in sorted(zip(rules, shared.places, strict=True), key=lambda one: one[1].turn):
            own = None if batches is None else self._events_for(batches, shared, rule, place, until)
            if own is None or len(own) == 0:
                if rule.is_new:
                    self._report.skipped += 1
                    continue
                own = self._nothing
            self._report.rows += len(own)
            self._report.feeds += 1
            for found in rule.feed(Feed(own, until, False, self.done), self.keyed):
                yield rule, found
        self._report.prefixes += 0 if batches is None else batches.prefixes_found
        self.done = until

    def last_matches(self) -> Iterator[tuple[ActiveRule, pa.Table]]:
        """Return the matches that the end of the input gives, as `matches` does."""
        for rule in list(self.rules.values()):
            if rule.matcher is not None:
                for found in rule.feed(Feed(self._nothing, END_OF_TIME, True, self.done), self.keyed):
                    yield rule, found

    def _share(self, rules: list[ActiveRule], events: EventBatch) -> tuple[SharedPlan, RuleBatches | None]:
        """Return what the rules have in common, and the events as they see them; None without events."""
        shared = self.spec.shared_by(rules)
        if len(events) == 0:
            self._report.count_batch(0, 0, 0)
            return shared, None
        try:
            classes = ClassRows(shared.index, events)
        except EpisodeDataError:  # of rows that a rule may never look at: each evaluates its own conditions
            shared = shared_plan([None] * len(rules))
            classes = ClassRows(shared.index, events)
        self._report.count_batch(len(events), classes.evaluated, classes.tested)
        return shared, RuleBatches(events, classes, shared.needs, shared.prefixes)

    def _events_for(
        self, batches: RuleBatches, shared: SharedPlan, rule: ActiveRule, place: RulePlace, until: int
    ) -> EventBatch | None:
        """Return the events that a rule is fed."""
        if place.asked is None:
            return batches.every
        whole = self.spec.planner is None and until == END_OF_TIME and rule.is_new
        return batches.of(place.asked, shared.asked[place.asked], whole, place.shares)

    @cached_property
    def _nothing(self) -> EventBatch:
        return EventBatch.empty(self.spec.input_schema, self.spec.input_columns)

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
        return self._packs.update(put, removed)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self._packs.restore(chunks)
        own = list(self._packs.chunks.values())
        if _APPLIED in self._packs.chunks:
            self.applied = int(self._packs.chunks[_APPLIED].data)
        defined = [definition for definition in map(definition_of, own) if definition is not None]
        for change, after in sorted(defined, key=lambda one: one[0].number):
            self._add(change, after)
        by_prefix: dict[str, list[StateChunk]] = {}
        for chunk in own:
            by_prefix.setdefault(_prefix(chunk.name), []).append(chunk)
        for rule in self.rules.values():
            rule.restore(by_prefix.get(rule.prefix, []))

    def report(self) -> RuleSetReport:
        self._report.rules, self._report.opened = len(self.rules), len(self._open)
        return self._report

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
        return np.unique(np.concatenate([np.empty(0, np.int64), *(rule.live_keys for rule in self.rules.values())]))

    @property
    def wakes_at(self) -> int | None:
        return min((at for one in self._open if (at := one.wakes_at) is not None), default=None)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        found = [(np.empty(0, np.int64), np.empty(0, np.int64)), *(matcher.open_from for matcher in self._open)]
        keys, inverse = np.unique(np.concatenate([key for key, _ in found]), return_inverse=True)
        least = np.full(len(keys), END_OF_TIME)
        np.minimum.at(least, inverse, np.concatenate([time for _, time in found]))
        return keys, least


def _prefix(name: str) -> str:
    """Return the part of a chunk's name that identifies its owner."""
    parts = name.split(".", 2)
    return f"{parts[0]}.{parts[1]}." if len(parts) > 2 else name
