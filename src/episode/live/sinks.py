"""Sinks of live tasks, which emit every match once: streams, files, functions of the driver. A thread writes to them.

A restarted task asks for the position of its last write, and emits nothing until it is there again.
"""

from __future__ import annotations

import json
import posixpath
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Event, Thread

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from episode.errors import EpisodeDataError
from episode.live.protocol import LiveSink, Position
from episode.store.declaration import Declaration
from episode.store.files import replace_file, space_needed, sync_path
from episode.store.log import Origin, Staged
from episode.store.stream import StreamStore


class FileDirectory:
    """A directory of Parquet files that appear whole or not at all. Names of unfinished ones begin with an underscore,
    which readers skip."""

    def __init__(self, path: str) -> None:
        self.path = path
        found = FileSystem.from_uri(path) if "://" in path else (LocalFileSystem(), path)
        self.files: FileSystem = found[0]
        self.place: str = found[1]

    def write(self, name: str, table: pa.Table, notes: Mapping[str, str]) -> None:
        """Write a file, with notes in its metadata. It replaces one of the same name."""
        self.files.create_dir(self.place, recursive=True)
        unfinished = posixpath.join(self.place, f"_{name}-{uuid.uuid4().hex}")
        known = {**(table.schema.metadata or {}), **{key.encode(): value.encode() for key, value in notes.items()}}
        with space_needed(f"{name} in {self.path}"):
            pq.write_table(table.replace_schema_metadata(known), unfinished, filesystem=self.files)
            self._sync(unfinished)
            self.files.move(unfinished, posixpath.join(self.place, name))
            self._sync(self.place)

    def _sync(self, place: str) -> None:
        if isinstance(self.files, LocalFileSystem):
            sync_path(place)

    def names(self, prefix: str) -> list[str]:
        found = self.files.get_file_info(FileSelector(self.place, allow_not_found=True))
        names = [str(info.base_name) for info in found if info.type == FileType.File]
        return sorted(name for name in names if name.startswith(prefix))

    def remove(self, name: str) -> None:
        for found in self.names(name):
            if found == name:
                self.files.delete_file(posixpath.join(self.place, name))

    def tidy(self, prefix: str) -> None:
        """Remove unfinished files with this prefix: their writer has ended."""
        for name in self.names(f"_{prefix}"):
            self.files.delete_file(posixpath.join(self.place, name))

    def note(self, name: str, key: str) -> str | None:
        """A note from a file's metadata."""
        schema = pq.read_schema(posixpath.join(self.place, name), filesystem=self.files)
        found = (schema.metadata or {}).get(key.encode())
        return None if found is None else found.decode()


AFTER = "episode.after"
"""The note of a file: the input position up to which it has the matches."""
FILE_ROWS = 1 << 20
"""Matches after which a file is written before the next snapshot."""


@dataclass(frozen=True)
class StreamOutput:
    """Matches become events of a declared stream of the embedded store."""

    declaration: Declaration

    def open(self, query: str, task: int) -> StreamSink:
        return StreamSink(self.declaration, f"{query}/{task}")


@dataclass(frozen=True)
class FilesOutput:
    """Matches become rows of Parquet files in a directory."""

    directory: str

    def open(self, query: str, task: int) -> FilesSink:
        return FilesSink(self.directory, f"{query}-{task:05d}")


class StreamSink:
    """Appends to a stream. The input position is the note of the producer, which is the task."""

    def __init__(self, declaration: Declaration, producer: str) -> None:
        self.store = StreamStore(declaration)
        self.store.log.sync_names = False  # a name that is lost with the machine is written again; see `flush`
        self.producer = producer
        self._staged: list[Staged] = []
        last = self.store.last(producer)
        self._batch = -1 if last is None else last.batch

    def last_position(self) -> Position | None:
        last = self.store.last(self.producer)
        return None if last is None else _position(last.note, f"the stream {self.store.declaration.name}")

    def stage(self, matches: pa.Table) -> None:
        """Write matches of a step that gives many; they are committed with its last ones, by `write`."""
        self._staged.append(self.store.stage(matches))

    def write(self, matches: pa.Table, after: Position) -> None:
        staged, self._staged = self._staged, []
        if matches.num_rows:
            staged.append(self.store.stage(matches))
        if staged:
            self.store.commit(staged, Origin(self.producer, self._batch + 1, json.dumps(dict(after))))
            self._batch += 1

    def flush(self, after: Position) -> None:
        """Make what was written durable, even if the machine is lost."""
        self.store.log.sync_all()

    def close(self) -> None:
        self.store.discard(self._staged)
        self._staged = []


class FilesSink:
    """Collects matches and writes a file of them with each snapshot. Files are numbered, and their metadata have the
    input position: a file that a killed task has not finished does not appear, and is written again."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = FileDirectory(directory)
        self.prefix = f"matches-{name}-"
        self._held: list[pa.Table] = []
        self._rows = 0
        self._number = 0

    def last_position(self) -> Position | None:
        self.directory.tidy(self.prefix)
        names = self.directory.names(self.prefix)
        if not names:
            return None
        self._number = int(names[-1].removeprefix(self.prefix).removesuffix(".parquet")) + 1
        note = self.directory.note(names[-1], AFTER)
        return _position(note or "", f"the file {names[-1]} in {self.directory.path}")

    def write(self, matches: pa.Table, after: Position) -> None:
        if matches.num_rows:
            self._held.append(matches)
            self._rows += matches.num_rows
        if self._rows >= FILE_ROWS:
            self.flush(after)

    def flush(self, after: Position) -> None:
        if not self._held:
            return
        table = pa.concat_tables(self._held)
        name = f"{self.prefix}{self._number:012d}.parquet"
        self.directory.write(name, table, {AFTER: json.dumps(dict(after))})
        self._held, self._rows, self._number = [], 0, self._number + 1

    def close(self) -> None:
        self._held, self._rows = [], 0


def _position(note: str, what: str) -> Position:
    try:
        found = json.loads(note)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EpisodeDataError(
            f"{what[0].upper()}{what[1:]} does not record up to which event it has the matches of this query.",
            hint="Was it written by something else? Start anew with another checkpoint and another output.",
        )
    return {str(name): int(number) for name, number in found.items()}


# The position is kept after each call. A driver that is killed during a call repeats it; otherwise every match is
# delivered once.

Receiver = Callable[[pa.Table], object]

POLL = 0.002
REMOVE_EVERY = 256
"""Commits between two removals of those that were delivered."""


@dataclass(frozen=True)
class Delivery:
    """Matches delivered to a function of the driver: in order of arrival, from a stream in the checkpoint.

    place: a file with the position. columns: those that the function gets.
    """

    declaration: Declaration
    place: str
    columns: tuple[str, ...]
    function: Receiver

    def run(self, ending: Event) -> None:
        """Deliver matches until `ending` is set and all are delivered."""
        store = StreamStore(self.declaration)
        path = Path(self.place)
        position = int(path.read_text()) if path.exists() else 0
        while True:
            last = ending.is_set()  # matches written before are seen below
            head = store.head()
            for after, batches in store.pages(position, head, columns=self.columns):
                if batches:
                    self.function(pa.Table.from_batches(batches).select(list(self.columns)))
                position = after
                replace_file(path, str(position).encode(), sync=False)
                if position % REMOVE_EVERY == 0:
                    store.log.remove_to(position, time.time())
            if last and store.head() == head:
                return
            if store.head() == head:
                ending.wait(POLL)


# A thread that writes matches to a sink while the next events are matched: an append waits for the disk; the task does
# not. Matches found meanwhile are written together, in order, as one write: a task that finds many writes seldom, and
# one that finds few writes at once. See decision 124.

MOST_ROWS = 1 << 17
"""Matches that may wait; beyond that the task waits."""


@dataclass(frozen=True)
class StepMatches:
    """Matches of a step: the position after it, and when its first event was appended (0: unknown)."""

    matches: pa.Table
    after: Position
    appended: float


class SinkWriter:
    """Writes matches to a sink, in order. written: the position of the last matches that were written.

    on_written: called by the thread with the matches that were written.
    """

    def __init__(self, sink: LiveSink, on_written: Callable[[StepMatches], None]) -> None:
        self.written: Position | None = None
        self._sink = sink
        self._on_written = on_written
        self._waiting: deque[StepMatches] = deque()
        self._rows = 0
        self._busy = False
        self._ending = False
        self._error: BaseException | None = None
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="episode output", daemon=True)
        self._thread.start()

    # ---- the loop's side -------------------------------------------------------------------------------

    def write(self, found: StepMatches) -> None:
        """Enqueue matches; waits if too many are queued. Raises the error of an earlier write."""
        with self._changed:
            self._wait(lambda: self._rows < MOST_ROWS)
            self._waiting.append(found)
            self._rows += found.matches.num_rows
            self._changed.notify_all()

    @property
    def can_stage(self) -> bool:
        return isinstance(self._sink, StreamSink)

    def stage(self, matches: pa.Table) -> None:
        """Write a part of the next matches; they are committed with the rest."""
        self._drain()
        assert isinstance(self._sink, StreamSink)
        self._sink.stage(matches)

    def flush(self, after: Position) -> None:
        """Write everything that is queued."""
        self._drain()
        self._sink.flush(after)

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread after it has written the queue."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join()

    def _drain(self) -> None:
        with self._changed:
            self._wait(lambda: not self._waiting and not self._busy)

    def _wait(self, ready: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._error is not None or ready())
        self.check()

    # ---- the thread's side -----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while (found := self._take()) is not None:
                tables = [one.matches for one in found]
                self._sink.write(pa.concat_tables(tables) if len(tables) > 1 else tables[0], found[-1].after)
                for one in found:
                    self._on_written(one)
                with self._changed:
                    self.written = found[-1].after
                    self._busy = False
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001  # raised again in the loop
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _take(self) -> list[StepMatches] | None:
        """Wait for matches and take all; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            found = list(self._waiting)
            self._waiting.clear()
            self._rows = 0
            self._busy = bool(found)
            self._changed.notify_all()
            return found or None
