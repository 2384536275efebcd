"""Where the matches of a live task go, each of them once: what is out says up to which input position it goes.

A task that starts again asks for that position, and is silent until it is there again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.live.files import FileDirectory
from episode.live.protocol import Position
from episode.store.declaration import Declaration
from episode.store.log import Origin, Staged
from episode.store.stream import StreamStore

AFTER = "episode.after"
"""The note of a file: the input position up to which it has the matches."""
FILE_ROWS = 1 << 20
"""Matches from which on a file is written before a snapshot asks for it."""


@dataclass(frozen=True)
class StreamOutput:
    """Matches are events of a declared stream of the embedded store."""

    declaration: Declaration

    def open(self, query: str, task: int) -> StreamSink:
        return StreamSink(self.declaration, f"{query}/{task}")


@dataclass(frozen=True)
class FilesOutput:
    """Matches are rows of Parquet files in a directory."""

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

    def committed(self) -> Position | None:
        last = self.store.last(self.producer)
        return None if last is None else _position(last.note, f"the stream {self.store.declaration.name}")

    def stage(self, matches: pa.Table) -> None:
        """Matches of a step that gives many: they come out with its last ones, by `write`."""
        self._staged.append(self.store.stage(matches))

    def write(self, matches: pa.Table, after: Position) -> None:
        staged, self._staged = self._staged, []
        if matches.num_rows:
            staged.append(self.store.stage(matches))
        if staged:
            self.store.commit(staged, Origin(self.producer, self._batch + 1, json.dumps(dict(after))))
            self._batch += 1

    def flush(self, after: Position) -> None:
        """What was written is out, and stays so even if the machine is lost."""
        self.store.log.sync_all()

    def close(self) -> None:
        self.store.discard(self._staged)
        self._staged = []


class FilesSink:
    """Gathers matches and writes a file of them with each snapshot. Files are numbered, and say in their metadata up to
    which input position they go: one that a killed task has not finished is not there, and is written again."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = FileDirectory(directory)
        self.prefix = f"matches-{name}-"
        self._held: list[pa.Table] = []
        self._rows = 0
        self._number = 0

    def committed(self) -> Position | None:
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
            f"{what[0].upper()}{what[1:]} does not say up to which event it has the matches of this query.",
            hint="Was it written by something else? Start anew with another checkpoint and another output.",
        )
    return {str(name): int(number) for name, number in found.items()}
