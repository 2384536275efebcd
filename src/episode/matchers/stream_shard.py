"""One shard of a live stream: events wait for the watermark in a buffer, pass the matcher in order, and leave.

An event at or before the watermark is late. All others wait in the buffer until the watermark reaches them; then they
are fed in order of (time, source, arrival), however the stream was cut into micro-batches. What the shard must remember
(buffer, matcher, keys) is kept as named chunks; each snapshot lists those that are new and those that are gone.

See decision 38.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Union

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.columns import ALL_VALID, concat, one_chunk
from episode.matchers.envelope import open_envelope
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, is_too_wide, order_image, start_image
from episode.matchers.protocol import END_OF_TIME, EventBatch, Matcher, MatcherSpec, Snapshot, StateChunk
from episode.matchers.quarantine import Feed, Marked, QuarantinedKeys, isolate
from episode.matchers.times import NEVER
from episode.matchers.waiting import BUFFER_VERSION, WaitingEvents, WaitingRun, is_waiting, run_named

_log = logging.getLogger("episode")
NO_WATERMARK = NEVER
_MATCHER = "matcher."
_LEAST_KEYS = 1024


@dataclass(frozen=True)
class ShardSettings:
    """Settings of a stream's shards.

    end: events from this time on do not belong to the stream; once the watermark is there, the input has ended.
    event_id: column by which repeated events (of the same time) are recognised; the first one counts.
    keep_late: hand late events back.
    skip_keys: a key whose data raise an error is quarantined, and all others continue (`quarantine`).
    late_by_last_step: an event is late only if the watermark of an earlier step has reached it. Matches of another
        pattern of the same query, as events, come in the very step whose watermark reaches them.
    """

    end: int | None = None
    event_id: str | None = None
    keep_late: bool = False
    late_by_last_step: bool = False
    skip_keys: bool = False


@dataclass
class Counters:
    """Counts of one step; the last four describe the state after it.

    matches: rows that the matcher gave: with ONE ROW PER MATCH a match each (or a time-out), with ALL ROWS PER MATCH a
        row of a match each.
    null_times: also events that last and have no start, or one after their end; and events whose imprecise times are
        further apart than the query's WIDTH.
    skipped: events of quarantined keys; skipped_keys: how many keys are quarantined.
    """

    events: int = 0
    late: int = 0
    null_times: int = 0
    duplicates: int = 0
    after_end: int = 0
    matches: int = 0
    given_up: int = 0
    skipped: int = 0
    state_rows: int = 0
    waiting_events: int = 0
    live_keys: int = 0
    skipped_keys: int = 0

    def as_dict(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def then(self, later: Counters) -> Counters:
        """Add the counters of the next step."""
        both = {name: value + getattr(later, name) for name, value in self.as_dict().items()}
        return Counters(**(both | {name: getattr(later, name) for name in STANDING}))


STANDING = ("state_rows", "waiting_events", "live_keys", "skipped_keys")
"""Counters that describe the present state, and do not add up."""


@dataclass(frozen=True)
class ShardStep:
    """Results of a step. late: late events and those of quarantined keys, if they are kept."""

    matches: pa.Table
    counters: Counters
    late: pa.Table | None


class Arrived(NamedTuple):
    """Events that came together, in order of arrival: as a table, and in bytes where they came in bytes.

    reached: int64 for each event: the watermark that its source had reached before; an event at or before it is also
        late. None: that of the step counts.
    source: events of the same time are in order of the numbers of their sources, then of arrival.
    """

    blob: bytes | None
    table: pa.Table
    reached: np.ndarray | None = None
    source: int = 0


Envelope = Union[tuple[Union[bytes, None], pa.Table], Arrived]


class StreamShard:
    """The state of one shard and its steps."""

    def __init__(self, spec: MatcherSpec, settings: ShardSettings) -> None:
        self.spec = spec
        self.settings = settings
        self.matcher = spec.open()
        self.coder = KeyCoder(spec.input_order.keys)
        self.watermark = NO_WATERMARK
        self.ended = False
        self.counters = Counters()
        self.late: pa.Table | None = None
        self.watched: Callable[[EventBatch], None] | None = None
        """Is shown the events that are fed."""
        self.replaced: Callable[[Matcher], None] | None = None
        """Is shown a matcher that has taken the place of the one before."""
        self.quarantine = QuarantinedKeys()
        self._marked = Marked()
        self._waiting = WaitingEvents()
        self._arrived = 0

    def step(self, envelopes: Sequence[Envelope], watermark: int) -> ShardStep:
        """Take new envelopes (in order of arrival) at a watermark, and match as far as it allows.

        An envelope is a table, and the same in bytes where it came in bytes: those are kept as they are.
        """
        outputs = [self.spec.output_schema.empty_table(), *self.advance(envelopes, watermark)]
        return ShardStep(pa.concat_tables(outputs), self.counters, self.late)

    def advance(self, envelopes: Sequence[Envelope], watermark: int) -> Iterator[pa.Table]:
        """Yield the matches of a `step` as they are found; `counters` and `late` are complete when all are taken."""
        done = self.watermark
        if not self.settings.late_by_last_step:
            self.watermark = max(self.watermark, watermark)
        self.counters = counters = Counters()
        late = []
        for envelope in envelopes:
            run, its_late = self._admit(Arrived(*envelope), counters)
            if self.settings.keep_late and its_late is not None:
                late.append(its_late)
            if run is not None:
                self._arrived += 1
                self._waiting.add(run)
        self.late = concat(late) if late else None
        self.watermark = max(self.watermark, watermark)
        for matches in self._release(done, counters):
            counters.matches += matches.num_rows
            yield matches
        counters.state_rows = self.matcher.state_rows
        counters.waiting_events = self._waiting.rows
        counters.live_keys = len(self.matcher.live_keys)
        counters.skipped_keys = len(self.quarantine)
        live = np.union1d(self.matcher.live_keys, self.quarantine.codes)
        if self.coder.size > 2 * len(live) + _LEAST_KEYS:
            self.coder.keep(live)

    def _admit(self, arrived: Arrived, counters: Counters) -> tuple[WaitingRun | None, pa.Table | None]:
        """Return the events of an envelope that are in time, and those that are late; count all others."""
        table = arrived.table
        counters.events += table.num_rows
        if not table.num_rows:
            return None, None
        image = order_image(table, self.spec.input_order.order[0])
        time = image.values
        known = np.ones(len(time), np.bool_) if image.valid is ALL_VALID else np.array(image.valid)
        starts = start_image(table, self.spec.input_order)
        if starts is not None:
            known &= starts.values <= time
            if starts.valid is not ALL_VALID:
                known &= starts.valid
            if self.spec.input_order.width is not None:
                known &= ~is_too_wide(starts.values, time, self.spec.input_order.width)
        counters.null_times += len(time) - int(np.count_nonzero(known))
        if self.settings.end is not None:
            after = known & (time >= self.settings.end)
            counters.after_end += int(np.count_nonzero(after))
            known &= ~after
        is_late = known & (time <= self.watermark)
        if arrived.reached is not None:
            is_late |= known & (time <= arrived.reached)
        counters.late += int(np.count_nonzero(is_late))
        wanted = known & ~is_late
        if self.settings.event_id is not None:
            first = self._first_of_event(table, time, wanted)
            counters.duplicates += int(np.count_nonzero(wanted & ~first))
            wanted &= first
        late = table.filter(pa.array(is_late)) if is_late.any() else None
        if not wanted.any():
            return None, late
        if not wanted.all():
            table, time = table.filter(pa.array(wanted)), time[wanted]
        return WaitingRun.of(self._arrived, arrived.source, table, time, arrived.blob), late

    def _first_of_event(self, table: pa.Table, time: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Mark events that are the first with their id and time. A repeated one is late, or its first still waits."""
        column = self.settings.event_id
        waiting = self._waiting.at(np.unique(time))
        known = [run.column(column) for run, _ in waiting]
        ids = one_chunk(pa.chunked_array([*(c for part in known for c in part.chunks), *table.column(column).chunks]))
        code = ids.dictionary_encode(null_encoding="encode").indices.to_numpy()
        times = np.concatenate([*(run_time for _, run_time in waiting), time])
        counted = np.concatenate([np.ones(len(times) - len(time), np.bool_), wanted])
        here = np.flatnonzero(counted)
        order = here[np.lexsort((here, times[here], code[here]))]
        again = np.zeros(len(order), np.bool_)
        again[1:] = (code[order[1:]] == code[order[:-1]]) & (times[order[1:]] == times[order[:-1]])
        first = np.ones(len(times), np.bool_)
        first[order[again]] = False
        nulls = ids.is_null().to_numpy(zero_copy_only=False)
        return (first | nulls)[len(times) - len(time) :]

    def _release(self, done: int, counters: Counters) -> Iterator[pa.Table]:
        """Feed the events that are due; yield the matches. done: the watermark before."""
        if self.ended or self.watermark == NO_WATERMARK:
            return
        ends = self.settings.end is not None and self.watermark >= self.settings.end - 1
        until = END_OF_TIME if ends else self.watermark
        due = self._waiting.until(until)
        wakes_at = self.matcher.wakes_at
        if due:
            events, skipped = self.quarantine.part(events_of(concat(due), self.spec.input_order, self.coder))
            if skipped is not None:
                self._count_skipped(skipped, counters)
            if self.watched is not None:
                self.watched(events)
        elif ends or (wakes_at is not None and wakes_at <= until):
            events = EventBatch.empty(self.spec.input_schema, self.spec.input_columns)
        else:
            return
        feed = Feed(events, until, ends, done)
        given_up = self.matcher.given_up
        if not self.settings.skip_keys:
            yield from feed.into(self.matcher)
        else:
            matcher, matches = self.matcher, self._feed_or_quarantine(feed, counters)
            given_up = given_up if matcher is self.matcher else 0
            yield from matches
        counters.given_up = self.matcher.given_up - given_up
        self.ended = ends

    def _feed_or_quarantine(self, feed: Feed, counters: Counters) -> list[pa.Table]:
        """Return the matches of a feed, and quarantine keys whose data raise an error."""
        self._marked.take(self.matcher.snapshot())
        try:
            return list(feed.into(self.matcher))
        except EpisodeDataError as error:
            found = isolate(self._as_marked, feed, error)
        self.matcher = found.matcher
        if self.replaced is not None:
            self.replaced(found.matcher)
        for key, (until, reason) in found.failed.items():
            self.quarantine.add(key, until, str(reason))
            _log.warning("A key is quarantined, its data can no longer be matched: %s", reason)
            later = (feed.events.key == key) & (feed.events.time > until)
            self._count_skipped(feed.events.table.filter(pa.array(later)), counters)
        return found.matches

    def _as_marked(self) -> Matcher:
        """A matcher in the state before a feed."""
        matcher = self.spec.open()
        matcher.keyed = self.matcher.keyed
        matcher.restore(list(self._marked.chunks.values()))
        return matcher

    def _count_skipped(self, events: pa.Table, counters: Counters) -> None:
        counters.skipped += events.num_rows
        if self.settings.keep_late and events.num_rows:
            self.late = events if self.late is None else concat([self.late, events])

    @property
    def wakes_at(self) -> int | None:
        """The least watermark at which a step without events could do something."""
        if self.ended:
            return None
        least, wakes_at = self._waiting.least, self.matcher.wakes_at
        times = [time for time in (least, wakes_at) if time is not None]
        if self.settings.end is not None and (least is not None or self.matcher.state_rows):
            times.append(self.settings.end - 1)
        return min(times, default=None)

    def snapshot(self) -> Snapshot:
        """Return the changes since the last snapshot."""
        inner = self.matcher.snapshot()
        if self.settings.skip_keys:
            self._marked.take(inner)
            inner = self._marked.take_unsaved()
        keys = self.coder.snapshot()
        mine = self._waiting.changes()
        put = [StateChunk(_MATCHER + chunk.name, chunk.version, chunk.data) for chunk in inner.put]
        removed = [_MATCHER + name for name in inner.removed]
        return Snapshot(
            (*mine.put, *put, *keys.put, *self.quarantine.changes()), (*mine.removed, *removed, *keys.removed)
        )

    def restore(self, chunks: Sequence[StateChunk], watermark: int, ended: bool) -> None:
        """Continue from a state."""
        self.watermark, self.ended = watermark, ended
        self.coder.restore(chunks)
        named = [chunk for chunk in chunks if chunk.name.startswith(_MATCHER)]
        inner = [StateChunk(chunk.name[len(_MATCHER) :], chunk.version, chunk.data) for chunk in named]
        self.matcher.restore(inner)
        if self.settings.skip_keys:
            self._marked = Marked({chunk.name: chunk for chunk in inner})
        self.quarantine.restore(chunks)
        for chunk in sorted(filter(is_waiting, chunks), key=run_named):
            chunk.check_version(BUFFER_VERSION)
            number, source = run_named(chunk)
            self._arrived = number
            run, _ = self._admit(Arrived(None, open_envelope(chunk.data), source=source), Counters())
            if run is not None:
                run.saved = True
                self._waiting.add(run)
            self._arrived = number + 1
