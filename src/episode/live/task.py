"""A live task at work: slice by slice through one shard, matches out at once, a snapshot now and then.

What a task has is a function of the input's position (chunk invariance): matches go out with the position up to which
they were found, and a task that starts again reads on from its snapshot, silently up to that position, then aloud.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.live.checkpoint import TaskCheckpoint, TaskState
from episode.live.handling import InputSource, open_source
from episode.live.outgoing import Found, Outgoing
from episode.live.progress import Progress, progress_path, write_progress
from episode.live.protocol import LiveInput, LiveSink, Position, Slice, TaskDescription, has_reached
from episode.live.rule_changes import TaskRules
from episode.live.sinks import FileDirectory
from episode.matchers.columns import from_bytes, plain
from episode.matchers.stream_shard import NO_WATERMARK, Arrived, Envelope, LiveShard

LOOKS = 0.04
"""Seconds after which a task looks whether it shall stop."""
AGREES = 0.005
"""Seconds between two looks while it is open when a change of rules takes effect."""
SAYS = 0.5
"""Seconds between two words on its progress."""
SWITCHES = 0.0005
"""Seconds after which a thread that computes lets another one go on."""
STAGED_BYTES = 1 << 26
"""Matches of one step that are held before they are written aside, where the sink can do so."""
LATE_ROWS = 1 << 18
"""Late events that are held before a snapshot writes them."""


@dataclass(frozen=True)
class Clock:
    """Time, which tests may script. now: for intervals; wall: as files and records have it."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class LiveTask:
    """One task of a live query, in one process."""

    def __init__(self, description: TaskDescription, clock: Clock | None = None) -> None:
        self.description = description
        self.options = description.options
        self.clock = clock or Clock()
        self.checkpoint = TaskCheckpoint(description.checkpoint, description.task, description.fingerprint)
        self.progress = Progress(description.task)
        rules = replace(description.rules, of_matches=True, keep_late=self.options.late_path is not None)
        self.shard = LiveShard(description.spec, rules)
        log = description.rule_log
        self.rules = None if log is None else TaskRules(log, description.query, description.task)
        self.position: Position = {}
        self._late: list[pa.Table] = []
        self._snapshot = 0
        self._saving: Future[None] | None = None
        self._is_first = True
        self._looked = self._said = self._kept = 0.0
        self._ruled, self._may_go_on = 0.0, False

    # ---- life ----------------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Work until the task is asked to stop, or its input ends; what it says last."""
        words = deque(self.work(), maxlen=1)
        return words[0] if words else {}

    def work(self) -> Iterator[dict[str, Any]]:
        """As `run`; hands over what the task says of itself about twice a second, and at its end."""
        with ExitStack() as stack:
            if not stack.enter_context(self.checkpoint.locked(self.checkpoint.should_stop)):
                return
            sink = self.description.sink.open(self.description.query, self.description.task)
            stack.callback(sink.close)
            input = self.description.input.open(self.description.task, self.description.tasks)
            stack.callback(input.close)
            writer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="episode snapshots"))
            state = self._restore()
            written = self._replay(state, input, sink)
            stack.enter_context(_quick_switches())
            outgoing = Outgoing(sink, self._is_out)
            outgoing.written = written
            stack.callback(outgoing.close)
            self._kept = self.clock.now()
            if not self.shard.ended:
                yield from self._loop(input, outgoing, writer)
            if self.rules is not None and self.shard.ended:
                self.rules.end(self.shard)
            self._say(input, None)
            yield self.progress.as_dict()

    def _loop(self, input: LiveInput, outgoing: Outgoing, writer: ThreadPoolExecutor) -> Iterator[dict[str, Any]]:
        source = open_source(input, self.position, self.options, self.shard)
        try:
            while not self.shard.ended and not self._should_stop():
                found = source.next(LOOKS) if self._has_rules() else self._pause()
                if found is not None:
                    self._step(found, outgoing)
                    source.window = self.progress.state_rows + self.progress.waiting_events
                else:
                    outgoing.check()
                if self._is_due() or (found is not None and found.barrier):
                    self._keep(outgoing, writer, wait=found is not None and found.barrier)
                if self.clock.now() - self._said >= SAYS:
                    self._say(input, source)
                    yield self.progress.as_dict()
        finally:
            source.close()
        self._keep(outgoing, writer, wait=True)

    def _should_stop(self) -> bool:
        now = self.clock.now()
        if now - self._looked < LOOKS:
            return False
        self._looked = now
        return self.checkpoint.should_stop()

    # ---- a step --------------------------------------------------------------------------------------

    def _step(self, found: Slice, outgoing: Outgoing | None) -> None:
        """Match a slice; what it gives goes out (None: it has been there)."""
        matches = self._matched(found, outgoing)
        self.position = found.after
        if matches is not None and outgoing is not None:
            outgoing.write(Found(matches, found.after, found.appended))

    def _is_out(self, found: Found) -> None:
        """Matches can be read (said by the thread that wrote them)."""
        if found.appended:
            latency = max(0.0, self.clock.wall() - found.appended)
            self.progress.latency.add(latency, found.matches.num_rows)
        self.progress.show(found.matches)

    def _matched(self, found: Slice, outgoing: Outgoing | None) -> pa.Table | None:
        """The finished matches of a slice; None where there are none."""
        held: list[pa.Table] = []
        size = 0
        any_staged = False
        envelopes = [Arrived(None, found.table, found.reached, found.source)] if found.rows else []
        for table in self._advanced(envelopes, found.watermark):
            if outgoing is None or not table.num_rows:
                continue
            held.append(self._finished(table))
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

    def _advanced(self, envelopes: Sequence[Envelope], watermark: int) -> Iterator[pa.Table]:
        if self.rules is None:
            return self.shard.advance(envelopes, watermark)
        return self.rules.advance(self.shard, envelopes, watermark)

    def _has_rules(self) -> bool:
        """May the task go on? Not while it is open when a change of its rules takes effect."""
        now = self.clock.now()
        if self.rules is None or (self._may_go_on and now - self._ruled < LOOKS):
            return True
        self._ruled = now
        self._may_go_on = self.rules.look(self.shard)
        return self._may_go_on

    def _pause(self) -> Slice | None:
        time.sleep(AGREES)
        return None

    def _finished(self, matched: pa.Table) -> pa.Table:
        finish = self.description.finish
        return matched if finish is None else finish(matched)

    # ---- state ---------------------------------------------------------------------------------------

    def _restore(self) -> TaskState:
        state = self.checkpoint.load()
        self._snapshot, self.position = state.snapshot, state.position
        self.progress.counts.update(state.counts)
        self.progress.checkpoint_bytes = self.checkpoint.size
        if state.snapshot:
            self.shard.restore(state.chunks, state.watermark, state.ended, from_bytes)
        if self.rules is not None:
            self.rules.learn()
        return state

    def _replay(self, state: TaskState, input: LiveInput, sink: LiveSink) -> Position | None:
        """Read again what has been matched since the snapshot and is out; up to where."""
        out = sink.committed()
        if state.written is not None and (out is None or not has_reached(out, state.written)):
            raise EpisodeDataError(
                "The output has lost matches that this query has written: "
                f"it has them up to {_shown(out)}, and should up to {_shown(state.written)}.",
                hint="Start anew with another checkpoint and another output.",
            )
        while out is not None and not has_reached(self.position, out):
            found = input.read(self.position, self.options.step_rows, out)
            if found is None:
                raise EpisodeDataError(
                    f"The output has matches up to {_shown(out)} of the input, which ends at {_shown(self.position)}.",
                    hint="Was the input created again since? Start anew with another checkpoint and another output.",
                )
            self._step(found, None)
            self.progress.replayed += found.rows
        return out

    def _is_due(self) -> bool:
        if sum(table.num_rows for table in self._late) >= LATE_ROWS:
            return True
        return self.clock.now() - self._kept >= self.options.snapshot_every

    def _keep(self, outgoing: Outgoing, writer: ThreadPoolExecutor, wait: bool) -> None:
        """Take a snapshot, and write it while the task goes on. wait: until it is written."""
        self._saved()
        self._kept = self.clock.now()
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
            self._saved()

    def _saved(self) -> None:
        """Wait for the snapshot that is being written."""
        if self._saving is not None:
            self._saving.result()
            self._saving = None
            self.progress.checkpoint_bytes = self.checkpoint.size

    def _write_late(self, late: list[pa.Table], snapshot: int) -> None:
        """Late events since the snapshot before, in a file with the snapshot's number: a task that was killed before
        the snapshot was complete may have left one, which is replaced; it would go further, or not as far."""
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

    # ---- words ---------------------------------------------------------------------------------------

    def _say(self, input: LiveInput, source: InputSource | None) -> None:
        progress = self.progress
        self._said = self.clock.now()
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
    """Threads of this process take turns more often than usual: those that read and write do little each time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCHES)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _shown(position: Position | None) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in (position or {}).items()) or "the beginning"
