"""One rule of a set at work: its matcher, from when on it is active, and the keys it is quarantined for.

See decisions 165 and 166.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError, EpisodeError
from episode.matchers.protocol import Matcher, MatcherSpec, Snapshot, StateChunk
from episode.matchers.quarantine import Feed, Marked, QuarantinedKeys, isolate
from episode.matchers.rules.one_rule import Failure, RuleChange, RuleFeed, RuleSpec, of_rule

RULE_VERSION = 1
EVER = np.iinfo(np.int64).min
_log = logging.getLogger("episode")
_STATE = "state."


@dataclass
class ActiveRule:
    """A rule at work on one shard, for events after a time. number: names its state, apart from that of other rules.

    text, planned: of a rule of a changing set. Its text is part of the state. Where data of a key raise an error, the
    rule is quarantined for this key: matches up to the time before are returned, and none of the key afterwards; all
    other rules and keys continue (see `aside`). In a set that never changes, an error of a rule ends the run.
    """

    name: str
    number: int
    spec: MatcherSpec
    after: int = EVER
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
            put.append(StateChunk(f"{self.prefix}rule", RULE_VERSION, self._definition()))
        return Snapshot(tuple(put), tuple(f"{self.prefix}{_STATE}{name}" for name in inner.removed))

    def _definition(self) -> bytes:
        change = RuleChange(self.number, self.name, self.text)
        return json.dumps({"change": change.to_json(), "after": self.after}).encode()

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        """Continue from a state: the chunks of this rule."""
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
    if chunk.version != RULE_VERSION:
        raise EpisodeDataError(
            f"The state of format {chunk.version} cannot be read; this version reads format {RULE_VERSION}."
        )
    fields = json.loads(chunk.data)
    return RuleChange.from_json(fields["change"]), fields["after"]
