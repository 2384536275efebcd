"""The Matcher of many rules on one shard: each rule has a matcher of its own, and is fed what it can need.

What rules have in common is done once for a feed: row-local conditions (`classes`), the rows of equal demands
(`batches`), columns in lanes. A rule whose rows are not there is not opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeError
from episode.matchers.protocol import (
    END_OF_TIME,
    EventBatch,
    Forgets,
    Matcher,
    Snapshot,
    StateChunk,
)
from episode.matchers.rules.batches import RuleBatches
from episode.matchers.rules.errors import of_rule
from episode.matchers.rules.pool import pooled
from episode.matchers.rules.report import RuleSetReport
from episode.matchers.rules.shared import Place

if TYPE_CHECKING:
    from episode.matchers.rules.spec import Member, RuleSetSpec

APART = "\x1f"
"""Between the name of a rule and that of a chunk of its state."""
Failed = Callable[["Member", EpisodeError], None]
"""Told of a rule that the data do not allow; the rule is set aside then."""


@dataclass
class Running:
    """A rule at work; it is opened when there are rows for it. place: what it shares."""

    member: Member
    place: Place
    matcher: Matcher | None = None

    @property
    def is_new(self) -> bool:
        """Does it hold nothing yet?"""
        return self.matcher is None or (self.matcher.state_rows == 0 and len(self.matcher.live_keys) == 0)

    def opened(self, keyed: bool) -> Matcher:
        if self.matcher is None:
            self.matcher = self.member.spec.open()
            self.matcher.keyed = keyed
        return self.matcher


class RuleSetMatcher:
    """Rules at work on one shard. failed: what is called where data break a rule; None: that is an error."""

    def __init__(self, spec: RuleSetSpec, failed: Failed | None = None) -> None:
        self.spec = spec
        self.failed = failed
        self.keyed = False
        self.rules: dict[str, Running] = {}
        self._report = RuleSetReport(len(spec.members))
        self._removed: list[str] = []
        self._written: dict[str, set[str]] = {}
        self._given_up = 0
        self._set()

    # ---- which rules there are -------------------------------------------------------------------------

    def _set(self) -> None:
        """The rules of the spec, with the matchers of those that are at work already."""
        before, self.rules = self.rules, {}
        for member, place in zip(self.spec.members, self.spec.shared.places, strict=True):
            known = before.get(member.name)
            self.rules[member.name] = Running(member, place, None if known is None else known.matcher)

    def change(self, spec: RuleSetSpec) -> None:
        """Other rules from now on, over the same input. Those of the same name and fingerprint go on as they are; what
        the others held is forgotten."""
        for member in self.spec.members:
            same = [one for one in spec.members if one.name == member.name]
            if not same or same[0].spec.fingerprint != member.spec.fingerprint:
                self._forget(member.name)
        self.spec = spec
        self._set()

    def _forget(self, name: str) -> None:
        rule = self.rules.pop(name, None)
        if rule is not None and rule.matcher is not None:
            self._given_up += rule.matcher.given_up
        self._removed += [f"{name}{APART}{chunk}" for chunk in self._written.pop(name, ())]

    # ---- protocol --------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        for member, matches in self.matches(events, until):
            if matches.num_rows:
                yield self._pooled(member, matches)

    def finish(self) -> Iterator[pa.Table]:
        for member, matches in self.last_matches():
            if matches.num_rows:
                yield self._pooled(member, matches)

    def _pooled(self, member: Member, matches: pa.Table) -> pa.Table:
        return pooled(matches, member.number, member.columns, self.spec.pool, self.keyed)

    def matches(self, events: EventBatch, until: int) -> Iterator[tuple[Member, pa.Table]]:
        """What a feed gives, rule by rule, in the columns of the rules' own output."""
        shared = self.spec.shared
        classes = shared.index.evaluate(events)
        batches = RuleBatches(events, classes, shared.needs, shared.prefixes)
        self._report.fed(len(events), classes.evaluated, classes.tested)
        for rule in sorted(self.rules.values(), key=lambda one: one.place.turn):
            final = until == END_OF_TIME and rule.is_new
            number = rule.place.asked
            if number is not None and len(events):
                own = batches.of(number, shared.asked[number], final, rule.place.shares)
            else:
                own = batches.every
            if own is None or len(own) == 0:
                if rule.is_new:
                    self._report.skipped += 1
                    continue
                own = EventBatch.empty(self.spec.input_schema, rule.member.spec.input_columns)
            self._report.rows += len(own)
            self._report.feeds += 1
            yield from self._guarded(rule, partial(self._fed, rule, own, until))
        self._report.prefixes += batches.prefixes_found

    def _fed(self, rule: Running, events: EventBatch, until: int) -> Iterator[pa.Table]:
        return rule.opened(self.keyed).feed(events, until)

    def last_matches(self) -> Iterator[tuple[Member, pa.Table]]:
        """What the end of the input gives, as `matches` does."""
        for rule in list(self.rules.values()):
            if rule.matcher is not None:
                yield from self._guarded(rule, rule.matcher.finish)

    def _guarded(self, rule: Running, work: Callable[[], Iterator[pa.Table]]) -> Iterator[tuple[Member, pa.Table]]:
        """The matches of one rule; an error says which rule it is of, or sets it aside."""
        try:
            for matches in work():
                yield rule.member, matches
        except EpisodeError as error:
            if self.failed is None:
                raise of_rule(error, rule.member.name) from None
            self._forget(rule.member.name)
            self.failed(rule.member, error)

    # ---- state -----------------------------------------------------------------------------------------

    @property
    def _open(self) -> list[Matcher]:
        return [rule.matcher for rule in self.rules.values() if rule.matcher is not None]

    def snapshot(self) -> Snapshot:
        put: list[StateChunk] = []
        removed, self._removed = self._removed, []
        for name, rule in self.rules.items():
            if rule.matcher is None:
                continue
            own = rule.matcher.snapshot()
            written = self._written.setdefault(name, set())
            written.difference_update(own.removed)
            written.update(chunk.name for chunk in own.put)
            put += [StateChunk(f"{name}{APART}{one.name}", one.version, one.data) for one in own.put]
            removed += [f"{name}{APART}{one}" for one in own.removed]
        return Snapshot(tuple(put), tuple(removed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        """Chunks of rules that are no longer there are forgotten with the next snapshot."""
        own: dict[str, list[StateChunk]] = {}
        for chunk in chunks:
            name, _, rest = chunk.name.partition(APART)
            own.setdefault(name, []).append(StateChunk(rest, chunk.version, chunk.data))
        for name, parts in own.items():
            self._written[name] = {chunk.name for chunk in parts}
            if name in self.rules:
                self.rules[name].opened(self.keyed).restore(parts)
            else:
                self._removed += [f"{name}{APART}{chunk}" for chunk in self._written.pop(name)]

    def forget(self, keys: np.ndarray) -> None:
        """What `Forgets` says."""
        for matcher in self._open:
            assert isinstance(matcher, Forgets)
            matcher.forget(keys)

    def report(self) -> RuleSetReport:
        """What was shared so far."""
        self._report.opened = len(self._open)
        return self._report

    @property
    def state_rows(self) -> int:
        return sum(matcher.state_rows for matcher in self._open)

    @property
    def given_up(self) -> int:
        return self._given_up + sum(matcher.given_up for matcher in self._open)

    @property
    def live_keys(self) -> np.ndarray:
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(one.live_keys for one in self._open)]))

    @property
    def wakes_at(self) -> int | None:
        return min((at for one in self._open if (at := one.wakes_at) is not None), default=None)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        parts = [one.open_from for one in self._open]
        keys = np.concatenate([np.zeros(0, np.int64), *(key for key, _ in parts)])
        times = np.concatenate([np.zeros(0, np.int64), *(time for _, time in parts)])
        order = np.lexsort((times, keys))
        unique, first = np.unique(keys[order], return_index=True)
        return unique, times[order][first]
