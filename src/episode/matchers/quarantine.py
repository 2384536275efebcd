"""Quarantine of keys whose data raise an error, while all other keys continue: StreamOptions(on_error='skip key').

A key is quarantined from the first time at which matching raises. Its matches up to the time before are emitted; from
then on it has no matches, and its events are counted but not matched. Like the matches of error-free feeds, that time
does not depend on how the events were cut into feeds.

A feed that raises is taken back: its matcher is dropped, and another one resumes from the state before the feed. The
keys that raise are found by halving the keys, each half fed by itself; the time by halving the time of the feed.

See decision 140.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.protocol import EventBatch, Forgets, Matcher, MatcherSpec, Snapshot, StateChunk

ASIDE_VERSION = 1
_NAME = "aside"


@dataclass
class QuarantinedKeys:
    """Quarantined keys of a shard: their codes, until when each was matched, and the error that it raised."""

    until: dict[int, int] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    _changed: bool = False

    def __len__(self) -> int:
        return len(self.until)

    @property
    def codes(self) -> np.ndarray:
        return np.array(sorted(self.until), np.int64)

    def add(self, key: int, until: int, reason: str) -> None:
        self.until[key], self.reasons[key] = until, reason
        self._changed = True

    def part(self, events: EventBatch) -> tuple[EventBatch, pa.Table | None]:
        """Split events into those of other keys and those of quarantined keys."""
        if not self.until:
            return events, None
        quarantined = np.isin(events.key, self.codes)
        if not quarantined.any():
            return events, None
        return select_events(events, ~quarantined), events.table.filter(pa.array(quarantined))

    def changes(self) -> tuple[StateChunk, ...]:
        """Return the chunk to write, if the quarantine has changed."""
        if not self._changed:
            return ()
        self._changed = False
        keys = sorted(self.until)
        columns = {
            "key": pa.array(keys, pa.int64()),
            "until": pa.array([self.until[key] for key in keys], pa.int64()),
            "reason": pa.array([self.reasons[key] for key in keys], pa.string()),
        }
        return (StateChunk(_NAME, ASIDE_VERSION, to_bytes(pa.table(columns))),)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        for chunk in chunks:
            if chunk.name == _NAME:
                chunk.check_version(ASIDE_VERSION)
                table = from_bytes(chunk.data).to_pydict()
                self.until = dict(zip(table["key"], table["until"], strict=True))
                self.reasons = dict(zip(table["key"], table["reason"], strict=True))


@dataclass
class Marked:
    """The state of a matcher before a feed, and what of it the last snapshot has not got yet."""

    chunks: dict[str, StateChunk] = field(default_factory=dict)
    _put: dict[str, StateChunk] = field(default_factory=dict)
    _removed: dict[str, None] = field(default_factory=dict)

    def take(self, changes: Snapshot) -> None:
        changes.apply(self.chunks)
        for name in changes.removed:
            self._put.pop(name, None)
            self._removed[name] = None
        for chunk in changes.put:
            self._put[chunk.name] = chunk
            self._removed.pop(chunk.name, None)

    def take_unsaved(self) -> Snapshot:
        """Return the changes since the last call."""
        found = Snapshot(tuple(self._put.values()), tuple(self._removed))
        self._put, self._removed = {}, {}
        return found


@dataclass(frozen=True)
class Feed:
    """Events that are fed up to a time. final: then the input ends. done: the time up to which all was fed before."""

    events: EventBatch
    until: int
    final: bool
    done: int

    def into(self, matcher: Matcher) -> Iterator[pa.Table]:
        if len(self.events) or not self.final:
            yield from matcher.feed(self.events, self.until)
        if self.final:
            yield from matcher.finish()

    def of(self, keys: np.ndarray) -> Feed:
        return replace(self, events=select_events(self.events, np.isin(self.events.key, keys)))

    def up_to(self, time: int) -> Feed:
        return replace(self, events=select_events(self.events, self.events.time <= time), until=time, final=False)


@dataclass(frozen=True)
class Isolated:
    """Result of a feed without the keys that failed. matcher: resumes without them. failed: until when each of them was
    matched, and the error that it raised."""

    matcher: Matcher
    matches: list[pa.Table]
    failed: Mapping[int, tuple[int, EpisodeDataError]]


def isolate(opened: Callable[[], Matcher], feed: Feed, error: EpisodeDataError) -> Isolated:
    """Feed again without the keys that raise. opened: a matcher in the state before the feed.

    The error is raised if no key raises by itself: then it does not belong to a single key.
    """
    search = _FailureSearch(opened, feed, opened().live_keys)
    keys = np.union1d(search.live, feed.events.key)
    failed = {key: (search.matched_until(key), reason) for key, reason in search.failing(keys)}
    if not failed:
        raise error
    others = np.setdiff1d(keys, np.array(list(failed), np.int64))
    matcher = search.matcher_of(others)
    matches = list(feed.of(others).into(matcher))
    for key, (until, _) in failed.items():
        if until > feed.done:
            alone = np.array([key], np.int64)
            matches += feed.of(alone).up_to(until).into(search.matcher_of(alone))
    return Isolated(matcher, matches, failed)


@dataclass(frozen=True)
class _FailureSearch:
    """A feed that raised, for which parts of it are fed again. opened: see `isolate`; live: the keys known before."""

    opened: Callable[[], Matcher]
    feed: Feed
    live: np.ndarray

    def matcher_of(self, keys: np.ndarray) -> Matcher:
        """A matcher that knows nothing of other keys than these."""
        matcher = self.opened()
        others = np.setdiff1d(self.live, keys)
        if len(others):
            assert isinstance(matcher, Forgets)
            matcher.forget(others)
        return matcher

    def failing(self, keys: np.ndarray) -> Iterator[tuple[int, EpisodeDataError]]:
        """The keys that raise by themselves, and what."""
        try:
            for _ in self.feed.of(keys).into(self.matcher_of(keys)):
                pass
        except EpisodeDataError as error:
            if len(keys) == 1:
                yield int(keys[0]), error
            elif len(keys) > 1:
                half = len(keys) // 2
                yield from self.failing(keys[:half])
                yield from self.failing(keys[half:])

    def matched_until(self, key: int) -> int:
        """The last time up to which a key can be fed."""
        feed, alone = self.feed, np.array([key], np.int64)
        fine, fails = int(feed.done), int(feed.until)
        if key not in self.live:  # nothing is known of it: nothing happens before its first event
            fine = max(fine, int(feed.events.time[feed.events.key == key].min()) - 1)
        while fails - fine > 1:
            middle = (fine + fails) // 2
            try:
                for _ in feed.of(alone).up_to(middle).into(self.matcher_of(alone)):
                    pass
                fine = middle
            except EpisodeDataError:
                fails = middle
        return fine


def select_events(events: EventBatch, rows: np.ndarray) -> EventBatch:
    """Return some of the events. rows: bool for each."""
    if rows.all():
        return events
    return EventBatch(events.table.filter(pa.array(rows)).combine_chunks(), events.key[rows], events.time[rows])


def check_skips_keys(spec: MatcherSpec) -> None:
    """Raise an error if single keys cannot be quarantined."""
    given = "StreamOptions(on_error='skip key')"
    if not spec.input_order.keys:
        raise EpisodeAnalysisError(
            f"{given}: the pattern has no partition keys, so that all events would be quarantined.",
            hint="Partition the events (PARTITION BY, or key=…), or leave on_error out.",
        )
    if not isinstance(spec.open(), Forgets):
        raise EpisodeUnsupportedError(
            f"{given} is not for correlated patterns, as their keys depend on each other's matches.",
            hint="Leave it out, or match the two patterns in separate queries.",
        )
