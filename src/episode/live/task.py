"""A live task: matches batch by batch in one shard, emits at once, and takes a snapshot every few seconds.

A task's state is a function of the input's position (chunk invariance): matches are emitted with the position up to
which they were found. A restarted task replays from its snapshot up to that position without emitting, then emits.

See decision 121.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.live.checkpoint import TaskCheckpoint, TaskState
from episode.live.input_source import InputSource, open_source
from episode.live.progress import Progress, progress_path, write_progress
from episode.live.protocol import InputBatch, LiveInput, LiveSink, Position, TaskDescription, has_reached
from episode.live.rule_changes import TaskRules
from episode.live.sinks import FileDirectory, SinkWriter, StepMatches
from episode.matchers.columns import plain
from episode.matchers.stream_shard import NO_WATERMARK, Arrived, StreamShard

STOP_POLL_S = 0.04
"""Seconds between two polls of the stop flag."""
RULE_POLL_S = 0.005
"""Seconds between two polls while the time of effect of a rule change is open."""
PROGRESS_S = 0.5
"""Seconds between two writes of the progress."""
SWITCH_INTERVAL_S = 0.0005
"""Seconds after which a thread that computes yields to another."""
STAGED_BYTES = 1 << 26
"""Bytes of matches of one step that are held before they are staged, if the sink can stage."""
LATE_ROWS = 1 << 18
"""Late events that are held before a snapshot writes them."""


@dataclass(frozen=True)
class TaskClock:
    """Time, which tests may script. now: for intervals; wall: as in files and records."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class LiveTask:
    """One task of a live query, in one process."""

    def __init__(self, description: TaskDescription, clock: TaskClock | None = None) -> None:
        self.description = description
        self.options = description.options
        self.clock = clock or TaskClock()
        self.checkpoint = TaskCheckpoint(description.checkpoint, description.task, description.fingerprint)
        self.progress = Progress(description.task)
        settings = replace(description.settings, late_by_last_step=True, keep_late=self.options.late_path is not None)
        self.shard = StreamShard(description.spec, settings)
        log = description.rule_log
        self.rules = None if log is None else TaskRules(log, description.query, description.task)
        self.position: Position = {}
        self._late: list[pa.Table] = []
        self._snapshot = 0
        self._saving: Future[None] | None = None
        self._is_first = True
        self._polled_at = self._reported_at = self._snapshot_at = 0.0
        self._rules_polled_at, self._may_continue = 0.0, False

    def run(self) -> dict[str, Any]:
        """Work until the task is asked to stop, or its input ends; returns its last progress."""
        words = deque(self.work(), maxlen=1)
        return words[0] if words else {}

    def work(self) -> Iterator[dict[str, Any]]:
        """Do the work of `run`; yields the progress about twice a second, and at the end."""
        with ExitStack() as stack:
            if not stack.enter_context(self.checkpoint.hold(self.checkpoint.should_stop)):
                return
            sink = self.description.sink.open(self.description.query, self.description.task)
            stack.callback(sink.close)
            input = self.description.input.open(self.description.task, self.description.tasks)
            stack.callback(input.close)
            writer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="episode snapshots"))
            state = self._restore()
            written = self._replay(state, input, sink)
            stack.enter_context(_quick_switches())
            outgoing = SinkWriter(sink, self._record_latency)
            outgoing.written = written
            stack.callback(outgoing.close)
            self._snapshot_at = self.clock.now()
            if not self.shard.ended:
                yield from self._loop(input, outgoing, writer)
            if self.rules is not None and self.shard.ended:
                self.rules.end(self.shard)
            self._write_progress(input, None)
            yield self.progress.as_dict()

    def _loop(self, input: LiveInput, outgoing: SinkWriter, writer: ThreadPoolExecutor) -> Iterator[dict[str, Any]]:
        source = open_source(input, self.position, self.options, self.shard)
        try:
            while not self.shard.ended and not self._should_stop():
                found = None
                if self._is_settled():
                    found = source.next(STOP_POLL_S)
                else:
                    time.sleep(RULE_POLL_S)
                if found is not None:
                    self._step(found, outgoing)
                    source.window = self.progress.state_rows + self.progress.waiting_events
                else:
                    outgoing.check()
                is_due = self.clock.now() - self._snapshot_at >= self.options.snapshot_every
                is_due |= sum(table.num_rows for table in self._late) >= LATE_ROWS
                if is_due or (found is not None and found.barrier):
                    self._take_snapshot(outgoing, writer, wait=found is not None and found.barrier)
                if self.clock.now() - self._reported_at >= PROGRESS_S:
                    self._write_progress(input, source)
                    yield self.progress.as_dict()
        finally:
            source.close()
        self._take_snapshot(outgoing, writer, wait=True)

    def _should_stop(self) -> bool:
        now = self.clock.now()
        if now - self._polled_at < STOP_POLL_S:
            return False
        self._polled_at = now
        return self.checkpoint.should_stop()

    def _step(self, found: InputBatch, outgoing: SinkWriter | None) -> None:
        """Match a batch and write its matches. outgoing: None during a replay, whose matches were written before."""
        matches = self._match(found, outgoing)
        self.position = found.after
        if matches is not None and outgoing is not None:
            outgoing.write(StepMatches(matches, found.after, found.appended))

    def _record_latency(self, found: StepMatches) -> None:
        """Record matches that can be read now. Called by the thread that wrote them."""
        if found.appended:
            latency = max(0.0, self.clock.wall() - found.appended)
            self.progress.latency.add(latency, found.matches.num_rows)
        self.progress.show(found.matches)

    def _match(self, found: InputBatch, outgoing: SinkWriter | None) -> pa.Table | None:
        """Return the finished matches of a batch, or None."""
        held: list[pa.Table] = []
        size = 0
        any_staged, finish = False, self.description.finish
        envelopes = [Arrived(None, found.table, found.reached, found.source)] if found.rows else []
        if self.rules is None:
            tables = self.shard.advance(envelopes, found.watermark)
        else:
            tables = self.rules.advance(self.shard, envelopes, found.watermark)
        for table in tables:
            if outgoing is None or not table.num_rows:
                continue
            held.append(table if finish is None else finish(table))
            size += held[-1].nbytes
            if size > STAGED_BYTES and outgoing.can_stage:
                outgoing.stage(pa.concat_tables(held))
                held, size, any_staged = [held[-1].slice(0, 0)], 0, True
        self.progress.step(self.shard.counters)
        if self.shard.late is not None:
            self._late.append(plain(self.shard.late))
        if not held:
            return None
        matches = pa.concat_tables(held) if len(held) > 1 else held[0]
        return matches if matches.num_rows or any_staged else None

    def _is_settled(self) -> bool:
        """Whether the task may continue: not while the time of effect of a rule change is open."""
        now = self.clock.now()
        if self.rules is None or (self._may_continue and now - self._rules_polled_at < STOP_POLL_S):
            return True
        self._rules_polled_at = now
        self._may_continue = self.rules.poll(self.shard)
        return self._may_continue

    def _restore(self) -> TaskState:
        state = self.checkpoint.load()
        self._snapshot, self.position = state.snapshot, state.position
        self.progress.counts.update(state.counts)
        self.progress.checkpoint_bytes = self.checkpoint.size
        if state.snapshot:
            self.shard.restore(state.chunks, state.watermark, state.ended)
        if self.rules is not None:
            self.rules.learn()
        return state

    def _replay(self, state: TaskState, input: LiveInput, sink: LiveSink) -> Position | None:
        """Read again what was matched and written since the snapshot; returns the position of the last write."""
        out = sink.last_position()
        if state.written is not None and (out is None or not has_reached(out, state.written)):
            raise EpisodeDataError(
                "The output has lost matches that this query has written: "
                f"it has them up to {_words(out)}, and should up to {_words(state.written)}.",
                hint="Start anew with another checkpoint and another output.",
            )
        while out is not None and not has_reached(self.position, out):
            found = input.read(self.position, self.options.step_rows, out)
            if found is None:
                raise EpisodeDataError(
                    f"The output has matches up to {_words(out)} of the input, which ends at {_words(self.position)}.",
                    hint="Was the input created again since? Start anew with another checkpoint and another output.",
                )
            self._step(found, None)
            self.progress.replayed += found.rows
        return out

    def _take_snapshot(self, outgoing: SinkWriter, writer: ThreadPoolExecutor, wait: bool) -> None:
        """Take a snapshot, and write it in the background. wait: until it is written."""
        self._wait_for_snapshot()
        self._snapshot_at = self.clock.now()
        outgoing.flush(self.position)
        self._snapshot += 1
        state = TaskState(
            snapshot=self._snapshot,
            position=dict(self.position),
            written=outgoing.written,
            watermark=self.shard.watermark,
            ended=self.shard.ended,
            counts=dict(self.progress.counts),
        )
        changes = self.shard.snapshot()
        late, self._late = self._late, []

        def save() -> None:
            self._write_late(late, state.snapshot)
            self.checkpoint.save(state, changes)

        self._saving = writer.submit(save)
        self.progress.snapshots += 1
        if wait:
            self._wait_for_snapshot()

    def _wait_for_snapshot(self) -> None:
        if self._saving is not None:
            self._saving.result()
            self._saving = None
            self.progress.checkpoint_bytes = self.checkpoint.size

    def _write_late(self, late: list[pa.Table], snapshot: int) -> None:
        """Write late events since the previous snapshot, in a file with the snapshot's number. It replaces the file
        that a task killed during this snapshot may have left."""
        if self.options.late_path is None or not (late or self._is_first):
            return
        self._is_first = False
        directory = FileDirectory(self.options.late_path)
        prefix = f"late-{self.description.query}-{self.description.task:05d}-"
        name = f"{prefix}{snapshot:012d}.parquet"
        directory.tidy(prefix)
        if late:
            directory.write(name, pa.concat_tables(late), {})
        else:
            directory.remove(name)

    def _write_progress(self, input: LiveInput, source: InputSource | None) -> None:
        progress = self.progress
        self._reported_at = self.clock.now()
        progress.position = self.position
        progress.watermark = None if self.shard.watermark == NO_WATERMARK else self.shard.watermark
        progress.unread = input.unread(self.position)
        progress.ended = self.shard.ended
        if source is not None:
            progress.unprocessed, progress.mode, progress.switches = source.waiting, source.mode, source.switches
            progress.held_average, progress.held_most = source.held.average, source.held.most
        write_progress(progress_path(self.description.checkpoint, progress.task), progress.as_dict())


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Let threads of this process take turns more often than usual: those that read and write do little each time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _words(position: Position | None) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in (position or {}).items()) or "the beginning"
