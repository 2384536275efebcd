"""The input of a live task from embedded stores: the lanes of the task, commit by commit, and the streams' watermarks.

A stream's watermark at a position is just before the greatest event time of all its commits up to there, of all lanes,
minus its delay. So it depends on the position alone: all tasks compute it without talking to each other, and compute
it again when they read again. An event is late by the watermark before its own commit. Of several streams only those
that are behind are read: events of the others could not be matched earlier.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.live.protocol import InputBatch, Position, Prepare
from episode.matchers.stream_shard import NO_WATERMARK
from episode.store import archive as archive_reading
from episode.store import parquet, segment
from episode.store.archive import retry
from episode.store.declaration import Declaration
from episode.store.lanes import event_times, lanes_of
from episode.store.log import SUFFIX, Log
from episode.store.manifest import Manifest
from episode.store.stream import StreamStore

MOST_COMMITS = 256
"""Commits per batch, at most."""
HEAD_POLL_S = 0.1
"""Seconds between two checks for unread commits that have left the log."""
SHORTEST_POLL_S, LONGEST_POLL_S, WATCHED_POLL_S = 0.0005, 0.005, 0.05
"""Seconds between two checks for a new commit; the last is the limit if the directory reports new files."""


@dataclass(frozen=True)
class StreamRead:
    """A stream that a query reads.

    columns: of the stream, as `prepare` takes them; it returns the input columns of the matcher.
    delay: distance of the watermark behind the greatest event time; None: the delay that the stream declares.
    """

    declaration: Declaration
    columns: tuple[str, ...]
    prepare: Prepare | None = None
    delay: int | None = None

    @property
    def behind(self) -> int:
        """Distance of the watermark behind the greatest event time. An event at the watermark is late, and one exactly
        as late as the stream declares is not: so one unit of event time more than that."""
        return (self.declaration.delay or 0) + 1 if self.delay is None else self.delay


@dataclass(frozen=True)
class StoreInputs:
    """Streams of the embedded store as the input of a query. Their prepared columns are the same."""

    streams: tuple[StreamRead, ...]

    def open(self, task: int, tasks: int) -> StoreInput:
        return StoreInput(self.streams, task, tasks)


class StoreInput:
    """The input of one task: of each stream the lanes whose numbers are the task's, modulo the number of tasks."""

    def __init__(self, streams: Sequence[StreamRead], task: int, tasks: int) -> None:
        self.cursors: list[_Cursor] = []
        for stream in streams:
            own = stream.declaration.name
            times = 1 + sum(cursor.stream.declaration.name == own for cursor in self.cursors)
            self.cursors.append(_Cursor(own if times == 1 else f"{own}/{times}", stream, task, tasks))
        self.watch = DirectoryWatch([cursor.log.directory for cursor in self.cursors])

    def read(self, after: Position, rows: int, until: Position | None = None) -> InputBatch | None:
        """Return the next events of a stream that is behind the others."""
        for cursor in self.cursors:
            cursor.move(after.get(cursor.name, 0))
        for source in self._order(until):
            cursor = self.cursors[source]
            found = cursor.read(rows, None if until is None else until.get(cursor.name, 0))
            if found is None:
                continue
            position = {**after, cursor.name: cursor.position}
            watermark = min(cursor.watermark for cursor in self.cursors)
            return InputBatch(found.table, position, watermark, found.appended, found.reached, source)
        return None

    def _order(self, until: Position | None) -> list[int]:
        """The streams that may be read, the one furthest behind first; during a replay all of them, because the
        position may have been reached in another order."""
        order = sorted(range(len(self.cursors)), key=lambda i: self.cursors[i].watermark)
        if until is not None:
            return order
        least = self.cursors[order[0]].watermark
        return [i for i in order if self.cursors[i].watermark == least]

    def wait(self, after: Position, seconds: float) -> None:
        """Wait for the next commit: until a directory reports a file, and by polling."""
        for cursor in self.cursors:
            cursor.move(after.get(cursor.name, 0))
        behind = [self.cursors[i] for i in self._order(None)]
        deadline = time.monotonic() + seconds
        pause = WATCHED_POLL_S if self.watch.proven else SHORTEST_POLL_S
        while not any(cursor.has_more() for cursor in behind):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self.watch.wait(min(pause, left))
            pause = WATCHED_POLL_S if self.watch.proven else min(2 * pause, LONGEST_POLL_S)

    def unread(self, after: Position) -> int | None:
        """Count unread rows by the totals in the last segments."""
        counts = [cursor.unread(after.get(cursor.name, 0)) for cursor in self.cursors]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def close(self) -> None:
        self.watch.close()


@dataclass(frozen=True)
class _CommitRows:
    table: pa.Table
    reached: np.ndarray
    appended: float


class _Cursor:
    """A position in one stream, and the greatest event time up to there. name: its name in positions; a stream may be
    read twice, with other columns."""

    def __init__(self, name: str, stream: StreamRead, task: int, tasks: int) -> None:
        declaration = stream.declaration
        self.stream = stream
        self.name = name
        self.store = StreamStore(declaration)
        self.log = self.store.log
        self._other_log = Log(declaration)  # for another thread
        self._directory = str(self.log.directory)
        self._looked = 0.0
        self.lanes = frozenset(lane for lane in range(declaration.lanes) if lane % tasks == task)
        self.columns = self.store.schema_of(stream.columns).names
        self.schema = self.store.schema_of(stream.columns)
        self.delay = stream.behind
        self.position = 0
        self.greatest: int | None = None

    @property
    def watermark(self) -> int:
        return NO_WATERMARK if self.greatest is None else max(NO_WATERMARK, self.greatest - self.delay)

    def move(self, position: int) -> None:
        if position == self.position:
            return
        self.store.check(position)
        try:
            greatest = None if position == 0 else self.log.footer(position).tally.greatest
        except FileNotFoundError:
            greatest = retry(lambda: _greatest_at(self.store, position))
        self.position, self.greatest = position, greatest

    def has_more(self) -> bool:
        """Whether there is another commit. One that has already left the log is checked for less often."""
        if os.path.exists(f"{self._directory}/{self.position + 1:020d}{SUFFIX}"):
            return True
        now = time.monotonic()
        if now - self._looked < HEAD_POLL_S:
            return False
        self._looked = now
        return self.log.head() > self.position

    def unread(self, position: int) -> int | None:
        try:
            before = 0 if position == 0 else self._other_log.footer(position).tally.rows
        except FileNotFoundError:
            return None
        return max(0, self._other_log.tally().rows - before)

    def read(self, rows: int, until: int | None) -> _CommitRows | None:
        """Read some commits and advance."""
        if until is not None and self.position >= until:
            return None
        batches: list[pa.RecordBatch] = []
        reached: list[int] = []
        lengths: list[int] = []
        taken, first = 0, None
        for _ in range(MOST_COMMITS):
            if (taken >= rows and batches) or self.position == until:
                break
            path = self.log.path(self.position + 1)
            try:
                footer = self.log.footer(self.position + 1)
                blocks = [block for block in footer.blocks if block.lane in self.lanes]
                count = sum(block.rows for block in blocks)
                if batches and taken + count > rows:
                    break
                if count:
                    declared = self.stream.declaration.schema
                    batches += segment.read_blocks(path, footer, declared, None, self.columns, blocks)
            except FileNotFoundError:
                break
            if count:
                reached.append(self.watermark)
                lengths.append(count)
                taken += count
            if first is None or (count and taken == count):
                first = path  # with the first events, if there are any
            self.position, self.greatest = self.position + 1, footer.tally.greatest
        if first is None:
            return self._before_log(until)
        table = self._prepare(pa.Table.from_batches(batches, self.schema))
        return _CommitRows(table, np.repeat(np.array(reached, np.int64), lengths), _write_time(first))

    def _before_log(self, until: int | None) -> _CommitRows | None:
        """Read commits after the position that have left the log, from the archive; None if nothing is left to read."""
        head = self.log.head()
        if head <= self.position:
            if until is not None:
                self.store.check(until)
            return None
        if self.log.path(self.position + 1).exists():  # written meanwhile
            return None
        end = head if until is None else min(head, until)
        if until is not None and self.store.archived.manifest().archived_to <= self.position:
            raise EpisodeDataError(
                f"Events of {self.name} after position {self.position:,} have expired that have to be read again.",
                hint="Start anew with another checkpoint, or declare the stream with a longer RETAIN.",
            )
        return retry(lambda: self._read_archived(end))

    def _read_archived(self, until: int) -> _CommitRows:
        """Read the next commits, which are before the log, and advance. Their events carry the numbers of commits."""
        store, after, declaration = self.store, self.position, self.stream.declaration
        manifest = store.archived.manifest()
        if manifest.archived_to <= after:  # those before the log have expired
            self.position = min(until, store.first_after(after) - 1)
            return _CommitRows(self._prepare(self.schema.empty_table()), np.empty(0, np.int64), 0.0)
        until = _end(manifest, after, store.before_log(manifest, after, until))
        wanted = list(dict.fromkeys([*self.columns, declaration.time, *declaration.key]))
        files = [file for file in manifest.files if file.last > after and file.first <= until]
        parts = [store.archived.read(file, wanted, after, until) for file in files]
        table = pa.concat_tables(parts) if parts else store.schema.empty_table()
        greatest, reached = self.greatest, np.empty(0, np.int64)
        if table.num_rows:
            commits = event_times(table, parquet.COMMIT)
            order = np.argsort(commits, kind="stable")
            starts = np.flatnonzero(np.diff(commits[order], prepend=-1))
            peaks = np.maximum.reduceat(event_times(table, declaration.time)[order], starts)
            before = np.maximum.accumulate(np.append(NO_WATERMARK if greatest is None else greatest, peaks))
            greatest = int(before[-1])
            of_row = np.repeat(before[:-1], np.diff(np.append(starts, len(order))))
            kept = np.isin(lanes_of(table, declaration.key, declaration.lanes), list(self.lanes))[order]
            table, of_row = table.select(self.columns).take(pa.array(order[kept])), of_row[kept]
            reached = np.where(of_row < NO_WATERMARK + self.delay, NO_WATERMARK, of_row - self.delay)
        table = self._prepare(table.select(self.columns))
        self.position, self.greatest = until, greatest
        return _CommitRows(table, reached, 0.0)

    def _prepare(self, table: pa.Table) -> pa.Table:
        return table if self.stream.prepare is None else self.stream.prepare(table)


def _write_time(path: Path) -> float:
    """Time at which a segment was written; 0 if it has been removed."""
    try:
        return float(path.stat().st_mtime)
    except FileNotFoundError:
        return 0.0


MOST_ROWS = 1 << 20
"""Events of commits that have left the log read at once, about, unless a single commit is larger."""


def _greatest_at(store: StreamStore, position: int) -> int | None:
    """The greatest event time of the commits up to a position whose segment has left the log."""
    times, column = [], store.declaration.time
    for file in store.archived.manifest().files:
        if file.last <= position:
            times.append(file.greatest)
        elif file.first <= position:
            times.append(int(event_times(store.archived.read(file, [column], 0, position), column).max()))
    return max(times, default=None)


def _end(manifest: Manifest, after: int, until: int) -> int:
    """The commit to stop at, so that about MOST_ROWS are read."""
    cut = next(cut for cut in archive_reading.cuts_of(manifest.files, manifest.archived_to) if cut > after)
    until = min(cut, until)
    rows = sum(
        file.rows * (min(file.last, until) - max(file.first, after + 1) + 1) // (file.last - file.first + 1)
        for file in manifest.files
        if file.last > after and file.first <= until
    )
    return until if rows <= MOST_ROWS else after + max(1, (until - after) * MOST_ROWS // rows)


# Waiting for files to appear in a directory without polling: by Linux's inotify, if available. It is only a hint:
# callers must re-check after it returns, and poll now and then, because directories of other machines report nothing.

_IN_MOVED_TO = 0x80
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def _libc() -> Any:
    """The C library; None if it lacks inotify."""
    try:
        found = ctypes.CDLL(None, use_errno=True)
        return found if hasattr(found, "inotify_init1") else None
    except OSError:
        return None


class DirectoryWatch:
    """Watches directories, also those that do not exist yet. proven: whether it has ever reported a file."""

    def __init__(self, directories: list[Path]) -> None:
        self.proven = False
        self._missing = [os.fsencode(directory) for directory in directories]
        self._libc = _libc()
        self._handle = -1 if self._libc is None else self._libc.inotify_init1(_FLAGS)
        self._poll = select.poll()
        if self._handle >= 0:
            self._poll.register(self._handle, select.POLLIN)
            self._closing = weakref.finalize(self, os.close, self._handle)  # a user has few of them

    def wait(self, seconds: float) -> None:
        """Return when a file has appeared since the last call, or after `seconds`."""
        if self._handle < 0:
            time.sleep(seconds)
            return
        if self._missing:
            add_watch = self._libc.inotify_add_watch
            self._missing = [one for one in self._missing if add_watch(self._handle, one, _IN_MOVED_TO) < 0]
        if self._poll.poll(seconds * 1000):
            self.proven = True
            with suppress(BlockingIOError):
                os.read(self._handle, 1 << 16)

    def close(self) -> None:
        if self._handle >= 0:
            self._closing()
            self._handle = -1
