"""One rule of a set that changes: its matcher, from when on it is active, and the keys whose data it failed on."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.aside import Feed, KeysAside, Marked, isolate
from episode.matchers.protocol import Matcher, Snapshot, StateChunk
from episode.matchers.rules.changes import Failure, RuleChange
from episode.matchers.rules.one_rule import RuleSpec

RULE_VERSION = 1
_log = logging.getLogger("episode")
_STATE = "state."


@dataclass
class ActiveRule:
    """A version of a rule at work on one shard, for events after a time.

    A key whose data raise an error is set aside for this rule alone: its matches up to the time before come out, and
    nothing of it afterwards; all other rules and keys go on (see `aside`).
    """

    change: RuleChange
    after: int
    spec: RuleSpec
    matcher: Matcher | None = None
    """None: nothing has come yet that it could match."""
    aside: KeysAside = field(default_factory=KeysAside)
    has_failed: bool = False
    _marked: Marked = field(default_factory=Marked)
    _is_marked: bool = True
    _is_new: bool = True
    _given_up: int = 0

    @property
    def name(self) -> str:
        return self.change.name

    @property
    def prefix(self) -> str:
        """Of the names of its chunks: rules keep their state apart, by version."""
        return f"rule.{self.change.number}."

    # ---- matching ------------------------------------------------------------------------------------

    def fed(self, feed: Feed) -> list[pa.Table]:
        """The matches of a feed."""
        if self.matcher is None:
            self.matcher = self.spec.open()
        events, _ = self.aside.part(feed.events)
        feed = replace(feed, events=events, done=max(feed.done, self.after))
        self._mark()
        self._is_marked = False
        given_up = self.given_up
        try:
            return list(feed.into(self.matcher))
        except EpisodeDataError as error:
            found = isolate(self._as_marked, feed, error)
        self.matcher, self._given_up = found.matcher, given_up
        for key, (until, reason) in found.failed.items():
            self.aside.add(key, until, str(reason))
            _log.warning("The rule %s is set aside for a key that it failed on: %s", self.name, reason)
        self.has_failed = True
        return found.matches

    def failure(self) -> Failure:
        """All that it failed on so far."""
        self.has_failed = False
        first = min(self.aside.until, key=lambda key: self.aside.until[key])
        return Failure(
            self.change.number, self.name, len(self.aside), self.aside.until[first], self.aside.reasons[first]
        )

    def _mark(self) -> None:
        """The state before a feed. What the last snapshot had is it already."""
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
        return self._given_up + (0 if self.matcher is None else self.matcher.given_up)

    @property
    def live_keys(self) -> np.ndarray:
        known = np.empty(0, np.int64) if self.matcher is None else self.matcher.live_keys
        return np.union1d(known, self.aside.codes) if len(self.aside) else known

    @property
    def open_matches(self) -> int:
        """How many keys hold something for a match to come."""
        return 0 if self.matcher is None else len(self.matcher.open_from[0])

    # ---- state ---------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What has changed since the last one, by names of its own."""
        self._mark()
        inner = self._marked.unsaved()
        put = [replace(chunk, name=f"{self.prefix}{_STATE}{chunk.name}") for chunk in inner.put]
        put += [replace(chunk, name=f"{self.prefix}{chunk.name}") for chunk in self.aside.changes()]
        if self._is_new:
            self._is_new = False
            put.append(StateChunk(f"{self.prefix}rule", RULE_VERSION, self._definition()))
        return Snapshot(tuple(put), tuple(f"{self.prefix}{_STATE}{name}" for name in inner.removed))

    def _definition(self) -> bytes:
        return json.dumps({"change": self.change.to_json(), "after": self.after}).encode()

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        """Continue from a state: the chunks of this rule."""
        own = [replace(chunk, name=chunk.name.removeprefix(self.prefix)) for chunk in chunks]
        inner = [replace(chunk, name=chunk.name.removeprefix(_STATE)) for chunk in own if chunk.name.startswith(_STATE)]
        self.aside.restore(own)
        if inner:
            self.matcher = self.spec.open()
            self.matcher.restore(inner)
        self._marked = Marked({chunk.name: chunk for chunk in inner})
        self._is_new = False


def definition_of(chunk: StateChunk) -> tuple[RuleChange, int] | None:
    """The rule that a chunk defines, and after when it is active; None: it is no definition."""
    if not (chunk.name.startswith("rule.") and chunk.name.endswith(".rule")):
        return None
    if chunk.version != RULE_VERSION:
        raise EpisodeDataError(
            f"The state of format {chunk.version} cannot be read; this version reads format {RULE_VERSION}."
        )
    fields = json.loads(chunk.data)
    return RuleChange.from_json(fields["change"]), fields["after"]
