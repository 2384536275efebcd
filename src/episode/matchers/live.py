"""One shard of a live stream: events wait for the watermark in a buffer, pass the matcher in order, and leave.

An event at or before the watermark is late. All others wait in the buffer, in the envelopes in which they came, until
the watermark reaches them; then they are fed in order of (time, arrival), however the stream was cut into
micro-batches. What the shard must remember (buffer, matcher, keys) is kept as named chunks; each snapshot says which of
them are new and which are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError
from episode.matchers.columns import ALL_VALID, concat, one_chunk, plain, to_bytes
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, is_too_wide, order_image, start_image
from episode.matchers.protocol import END_OF_TIME, EventBatch, MatcherSpec, Snapshot, StateChunk

NO_WATERMARK = np.iinfo(np.int64).min
BUFFER_VERSION = 1
_BUFFER = "buffer."
_MATCHER = "matcher."
_LEAST_KEYS = 1024


@dataclass(frozen=True)
class LiveRules:
    """What a stream does with its events.

    end: events from this time on do not belong to the stream; once the watermark is there, the input has ended.
    event_id: column by which repeated events (of the same time) are recognised; the first one counts.
    keep_late: hand late events back.
    of_matches: the events are matches of another pattern of the same query. They come in the very step whose watermark
        reaches them; so one is late only if the watermark of an earlier step had reached it.
    """

    end: int | None = None
    event_id: str | None = None
    keep_late: bool = False
    of_matches: bool = False


@dataclass
class Counters:
    """What happened in one step; the last three say how things stand after it.

    matches: rows that the matcher gave: with ONE ROW PER MATCH a match each (or a time-out), with ALL ROWS PER MATCH a
        row of a match each.
    null_times: also events that last and have no start, or one after their end; and events whose imprecise times are
        further apart than the query's WIDTH.
    """

    events: int = 0
    late: int = 0
    null_times: int = 0
    duplicates: int = 0
    after_end: int = 0
    matches: int = 0
    given_up: int = 0
    state_rows: int = 0
    waiting_events: int = 0
    live_keys: int = 0

    def as_dict(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Step:
    """What a step gave."""

    matches: pa.Table
    counters: Counters
    late: pa.Table | None


@dataclass
class _Waiting:
    """An envelope in the buffer: the events in it that are still to come."""

    number: int
    table: pa.Table
    time: np.ndarray

    def split(self, watermark: int) -> tuple[pa.Table | None, _Waiting | None]:
        """Events that are due, and those that wait on."""
        due = self.time <= watermark
        if due.all():
            return self.table, None
        if not due.any():
            return None, self
        mask = pa.array(due)
        rest = _Waiting(self.number, self.table.filter(pc.invert(mask)), self.time[~due])
        return self.table.filter(mask), rest


class LiveShard:
    """The state of one shard and its steps."""

    def __init__(self, spec: MatcherSpec, rules: LiveRules) -> None:
        self.spec = spec
        self.rules = rules
        self.matcher = spec.open()
        self.coder = KeyCoder(spec.input_order.keys)
        self.watermark = NO_WATERMARK
        self.ended = False
        self.counters = Counters()
        self.late: pa.Table | None = None
        self._buffer: list[_Waiting] = []
        self._arrived = 0
        self._changes = _Changes()

    # ---- one step ------------------------------------------------------------------------------------

    def step(self, envelopes: Sequence[tuple[bytes | None, pa.Table]], watermark: int) -> Step:
        """Take new envelopes (in order of arrival) at a watermark, and go on as far as it allows.

        An envelope is a table, and the same in bytes where it came in bytes: those are kept as they are.
        """
        outputs = [self.spec.output_schema.empty_table(), *self.advance(envelopes, watermark)]
        return Step(pa.concat_tables(outputs), self.counters, self.late)

    def advance(self, envelopes: Sequence[tuple[bytes | None, pa.Table]], watermark: int) -> Iterator[pa.Table]:
        """As `step`, matches coming as they are found; when all are taken, `counters` and `late` say what happened."""
        if not self.rules.of_matches:
            self.watermark = max(self.watermark, watermark)
        self.counters = counters = Counters()
        late = [table for blob, table in envelopes for table in self._take(blob, table, counters)]
        self.late = concat(late) if late else None
        self.watermark = max(self.watermark, watermark)
        given_up = self.matcher.given_up
        for matches in self._released():
            counters.matches += matches.num_rows
            yield matches
        counters.given_up = self.matcher.given_up - given_up
        counters.state_rows = self.matcher.state_rows
        counters.waiting_events = sum(len(waiting.time) for waiting in self._buffer)
        counters.live_keys = len(self.matcher.live_keys)
        self._forget_keys()

    def _take(self, blob: bytes | None, table: pa.Table, counters: Counters) -> Iterator[pa.Table]:
        """Put the events of an envelope into the buffer; late ones come back, if they are kept."""
        counters.events += table.num_rows
        waiting, late = self._admitted(table, counters)
        if self.rules.keep_late and late is not None:
            yield late
        if waiting is not None:
            self._arrived = waiting.number + 1
            self._buffer.append(waiting)
            data = blob if blob is not None else to_bytes(plain(table))
            self._changes.put(StateChunk(f"{_BUFFER}{waiting.number}", BUFFER_VERSION, data))

    def _admitted(self, table: pa.Table, counters: Counters) -> tuple[_Waiting | None, pa.Table | None]:
        """The events of an envelope that are in time, and those that are late; all others are counted."""
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
        if self.rules.end is not None:
            after = known & (time >= self.rules.end)
            counters.after_end += int(np.count_nonzero(after))
            known &= ~after
        is_late = known & (time <= self.watermark)
        counters.late += int(np.count_nonzero(is_late))
        wanted = known & ~is_late
        if self.rules.event_id is not None:
            first = self._first_of_event(table, time, wanted)
            counters.duplicates += int(np.count_nonzero(wanted & ~first))
            wanted &= first
        late = table.filter(pa.array(is_late)) if is_late.any() else None
        if not wanted.any():
            return None, late
        if not wanted.all():
            table, time = table.filter(pa.array(wanted)), time[wanted]
        return _Waiting(self._arrived, table, time), late

    def _first_of_event(self, table: pa.Table, time: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Which events are the first with their id and time. A repeated one is late, or its first still waits."""
        column = self.rules.event_id
        known = [waiting.table.column(column) for waiting in self._buffer]
        ids = one_chunk(pa.chunked_array([*(c for part in known for c in part.chunks), *table.column(column).chunks]))
        code = ids.dictionary_encode(null_encoding="encode").indices.to_numpy()
        times = np.concatenate([*(waiting.time for waiting in self._buffer), time])
        counted = np.concatenate([*(np.ones(len(waiting.time), np.bool_) for waiting in self._buffer), wanted])
        here = np.flatnonzero(counted)
        order = here[np.lexsort((here, times[here], code[here]))]
        again = np.zeros(len(order), np.bool_)
        again[1:] = (code[order[1:]] == code[order[:-1]]) & (times[order[1:]] == times[order[:-1]])
        first = np.ones(len(times), np.bool_)
        first[order[again]] = False
        nulls = ids.is_null().to_numpy(zero_copy_only=False)
        return (first | nulls)[len(times) - len(time) :]

    def _released(self) -> Iterator[pa.Table]:
        """Feed what is due; the matches."""
        if self.ended or self.watermark == NO_WATERMARK:
            return
        ends = self.rules.end is not None and self.watermark >= self.rules.end - 1
        due, rest = [], []
        for waiting in self._buffer:
            released, left = waiting.split(END_OF_TIME if ends else self.watermark)
            if released is not None:
                due.append(released)
            if left is not None:
                rest.append(left)
            else:
                self._changes.remove(f"{_BUFFER}{waiting.number}")
        self._buffer = rest
        until = END_OF_TIME if ends else self.watermark
        wakes_at = self.matcher.wakes_at
        if due:
            yield from self.matcher.feed(events_of(concat(due), self.spec.input_order, self.coder), until)
        elif not ends and wakes_at is not None and wakes_at <= until:
            yield from self.matcher.feed(self._no_events(), until)
        if ends:
            yield from self.matcher.finish()
            self.ended = True

    def _no_events(self) -> EventBatch:
        empty = self.spec.input_schema.empty_table().select(list(self.spec.input_columns))
        return events_of(empty, self.spec.input_order, self.coder)

    def _forget_keys(self) -> None:
        live = self.matcher.live_keys
        if self.coder.size > 2 * len(live) + _LEAST_KEYS:
            self.coder.keep(live)

    @property
    def wakes_at(self) -> int | None:
        """The least watermark at which a step without events could do something."""
        if self.ended:
            return None
        times = [int(waiting.time.min()) for waiting in self._buffer]
        if self.matcher.wakes_at is not None:
            times.append(self.matcher.wakes_at)
        if self.rules.end is not None and (self._buffer or self.matcher.state_rows):
            times.append(self.rules.end - 1)
        return min(times, default=None)

    # ---- state ---------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What has changed since the last snapshot."""
        inner = self.matcher.snapshot()
        keys = self.coder.snapshot()
        mine = self._changes.taken()
        put = [StateChunk(_MATCHER + chunk.name, chunk.version, chunk.data) for chunk in inner.put]
        removed = [_MATCHER + name for name in inner.removed]
        return Snapshot((*mine.put, *put, *keys.put), (*mine.removed, *removed, *keys.removed))

    def restore(
        self, chunks: Sequence[StateChunk], watermark: int, ended: bool, opened: Callable[[bytes], pa.Table]
    ) -> None:
        """Continue from a state; `opened` is the table of an envelope."""
        self.watermark, self.ended = watermark, ended
        self.coder.restore(chunks)
        inner = [chunk for chunk in chunks if chunk.name.startswith(_MATCHER)]
        self.matcher.restore([StateChunk(c.name[len(_MATCHER) :], c.version, c.data) for c in inner])
        envelopes = sorted((int(c.name[len(_BUFFER) :]), c) for c in chunks if c.name.startswith(_BUFFER))
        for number, chunk in envelopes:
            if chunk.version != BUFFER_VERSION:
                raise EpisodeDataError(
                    f"The state of format {chunk.version} cannot be read; this version reads format {BUFFER_VERSION}."
                )
            self._arrived = number
            waiting, _ = self._admitted(opened(chunk.data), Counters())
            if waiting is not None:
                self._buffer.append(waiting)
            self._arrived = number + 1


@dataclass
class _Changes:
    """Chunks put and removed since the last snapshot; what came and went between two snapshots leaves no trace."""

    chunks: dict[str, StateChunk] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)

    def put(self, chunk: StateChunk) -> None:
        self.chunks[chunk.name] = chunk

    def remove(self, name: str) -> None:
        if self.chunks.pop(name, None) is None:
            self.gone.append(name)

    def taken(self) -> Snapshot:
        result = Snapshot(tuple(self.chunks.values()), tuple(self.gone))
        self.chunks, self.gone = {}, []
        return result
