"""The checkpoint of a live query: the query it belongs to, and the state of each task.

    query.json                  the query's fingerprint and id, the number of tasks
        stop                        exists while the query shall stop
    tasks/<i>/lock              held by the process that runs the task
    tasks/<i>/state.json        the manifest of the last snapshot: positions, counts, and where each chunk is
        tasks/<i>/chunks-<n>        the chunks that snapshot n wrote

A snapshot writes the chunks that changed since the previous one, then replaces the manifest by one rename: a killed
process leaves the previous snapshot. When over half of the stored bytes are dead, a snapshot writes all chunks again.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.live.protocol import Position
from episode.matchers.protocol import Snapshot, StateChunk
from episode.matchers.stream_shard import NO_WATERMARK
from episode.store.files import publish_new, replace_file, space_needed, sync_path

FORMAT = 1
SMALL = 1 << 20
"""Bytes of chunks that are not worth compacting."""
_ANEW = "Start anew with another checkpoint."


def open_query(directory: str, fingerprint: str, tasks: int) -> str:
    """Return the id of the live query that a checkpoint belongs to; a new checkpoint gets a new id.

    Raises an error if the checkpoint belongs to another query.
    """
    path = Path(directory)
    path.joinpath("tasks").mkdir(parents=True, exist_ok=True)
    made = {"format": FORMAT, "id": uuid.uuid4().hex, "fingerprint": fingerprint, "tasks": tasks}
    while not publish_new(path / "query.json", json.dumps(made).encode()):
        with suppress(FileNotFoundError):
            return _check_query(path / "query.json", fingerprint, tasks)
    return str(made["id"])


def tasks_of(directory: str) -> int | None:
    """Return the number of tasks of a checkpoint's query; None without a checkpoint."""
    try:
        return int(_read_json(Path(directory) / "query.json")["tasks"])
    except FileNotFoundError:
        return None


def _check_query(path: Path, fingerprint: str, tasks: int) -> str:
    found = _read_json(path)
    if found["format"] != FORMAT:
        raise _wrong_format(path, found["format"])
    if found["fingerprint"] != fingerprint:
        raise EpisodeAnalysisError(
            f"The checkpoint {path.parent} belongs to another query: its text, parameters, streams or output differ.",
            hint="Start the changed query with a new checkpoint.",
        )
    if found["tasks"] != tasks:
        raise EpisodeAnalysisError(
            f"The checkpoint {path.parent} was written by {found['tasks']} tasks, and this query has {tasks}.",
            hint=f"Use tasks={found['tasks']}, or start anew with another checkpoint.",
        )
    return str(found["id"])


def _wrong_format(path: Path, number: object) -> EpisodeDataError:
    return EpisodeDataError(
        f"{path} is of format {number}; this version of episode reads format {FORMAT}.",
        hint=f"Run it with the version that wrote it. {_ANEW}",
    )


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise EpisodeDataError(f"{path} is corrupt: {error}.", hint=f"Restore the file. {_ANEW}") from None


def lock_checkpoint(directory: str) -> IO[bytes]:
    """Lock the checkpoint for this process, until the returned file is closed or the process ends.

    Raises an error if another query uses it.
    """
    file = open(Path(directory, "lock"), "ab")  # noqa: SIM115  # the caller keeps it open
    if not _lock(file.fileno()):
        file.close()
        raise EpisodeAnalysisError(
            f"A live query with the checkpoint {directory} runs already.",
            hint="Stop it first, or give this one another checkpoint.",
        )
    return file


def request_stop(directory: str) -> None:
    """Ask all tasks of a query to stop."""
    Path(directory, "stop").touch()


def withdraw_stop(directory: str) -> None:
    """Let the tasks of a query run (again)."""
    Path(directory, "stop").unlink(missing_ok=True)


class _Place(NamedTuple):
    """The location of a chunk: the number of the snapshot that wrote its file, offset, length, format and checksum."""

    file: int
    offset: int
    length: int
    version: int
    crc: int


@dataclass(frozen=True)
class TaskState:
    """State from which a task resumes.

    position: the input position that the state reflects. written: the input position of the last emitted matches.
    counts: totals over the life of the query.
    """

    snapshot: int = 0
    position: Position = field(default_factory=dict)
    written: Position | None = None
    watermark: int = NO_WATERMARK
    ended: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    chunks: tuple[StateChunk, ...] = ()


class TaskCheckpoint:
    """The snapshots of one task. Use it only while holding the lock."""

    def __init__(self, directory: str, task: int, fingerprint: str) -> None:
        self.root = Path(directory)
        self.directory = self.root / "tasks" / str(task)
        self.manifest = self.directory / "state.json"
        self.fingerprint = fingerprint
        self._places: dict[str, _Place] = {}
        self._sizes: dict[int, int] = {}
        self._snapshot = 0

    @contextmanager
    def hold(self, stopping: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Hold the task's lock; waits while another process holds it. Yields False if stopped meanwhile."""
        self.directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            held = _lock(handle)
            while not held and not stopping():
                time.sleep(0.02)
                held = _lock(handle)
            yield held
        finally:
            os.close(handle)  # releases the lock

    def should_stop(self) -> bool:
        return (self.root / "stop").exists()

    def load(self) -> TaskState:
        """Return the last snapshot, or an empty state."""
        try:
            lines = self.manifest.read_bytes().splitlines()
        except FileNotFoundError:
            self._tidy()
            return TaskState()
        if len(lines) != 2 or lines[1] != b"%08x" % zlib.crc32(lines[0]):
            raise self._corrupt(self.manifest, "its checksum is wrong")
        found = json.loads(lines[0])
        if found["format"] != FORMAT:
            raise _wrong_format(self.manifest, found["format"])
        if found["fingerprint"] != self.fingerprint:
            raise EpisodeDataError(
                f"The state in {self.directory} belongs to another query.",
                hint="Start the changed query with a new checkpoint.",
            )
        self._places = {name: _Place(*place) for name, place in found["chunks"].items()}
        self._sizes = {int(number): size for number, size in found["files"].items()}
        self._snapshot = found["snapshot"]
        chunks = tuple(self._read(self._places))
        self._tidy()
        state = {name: found[name] for name in ("snapshot", "position", "written", "watermark", "ended", "counts")}
        return TaskState(**state, chunks=chunks)

    def save(self, state: TaskState, changes: Snapshot) -> None:
        """Write the next snapshot. changes: the chunks that changed since the previous one."""
        assert state.snapshot == self._snapshot + 1
        places = {name: place for name, place in self._places.items() if name not in set(changes.removed)}
        for chunk in changes.put:
            places.pop(chunk.name, None)
        added = sum(len(chunk.data) for chunk in changes.put)
        live = sum(place.length for place in places.values()) + added
        chunks = list(changes.put)
        if sum(self._sizes.values()) + added > 2 * live + SMALL:
            chunks, places = [*self._read(places), *chunks], {}
        with space_needed(f"the snapshot of a live task in {self.directory}"):
            if chunks:
                places.update(self._write(state.snapshot, chunks))
            used = {place.file for place in places.values()}
            sizes = {number: size for number, size in self._sizes.items() if number in used}
            if chunks:
                sizes[state.snapshot] = sum(len(chunk.data) for chunk in chunks)
            self._write_manifest(state, places, sizes)
        self._places, self._sizes, self._snapshot = places, sizes, state.snapshot
        self._tidy()

    @property
    def size(self) -> int:
        """Bytes of all chunk files, including dead chunks."""
        return sum(self._sizes.values())

    def _write(self, number: int, chunks: list[StateChunk]) -> dict[str, _Place]:
        places, offset = {}, 0
        with open(self._file(number), "wb") as file:
            for chunk in chunks:
                file.write(chunk.data)
                places[chunk.name] = _Place(number, offset, len(chunk.data), chunk.version, zlib.crc32(chunk.data))
                offset += len(chunk.data)
            file.flush()
            os.fsync(file.fileno())
        return places

    def _write_manifest(self, state: TaskState, places: Mapping[str, _Place], sizes: Mapping[int, int]) -> None:
        """Replace the manifest by one of this state: from then on it is the saved state."""
        found = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "snapshot": state.snapshot,
            "position": dict(state.position),
            "written": None if state.written is None else dict(state.written),
            "watermark": state.watermark,
            "ended": state.ended,
            "counts": dict(state.counts),
            "files": {str(number): size for number, size in sizes.items()},
            "chunks": places,
        }
        text = json.dumps(found).encode()
        replace_file(self.manifest, text + b"\n%08x\n" % zlib.crc32(text))
        sync_path(self.directory)

    def _read(self, places: Mapping[str, _Place]) -> Iterator[StateChunk]:
        """Read chunks from their files and check them."""
        for number in sorted({place.file for place in places.values()}):
            path = self._file(number)
            try:
                with open(path, "rb") as file:
                    for name, place in places.items():
                        if place.file != number:
                            continue
                        file.seek(place.offset)
                        data = file.read(place.length)
                        if len(data) != place.length or zlib.crc32(data) != place.crc:
                            raise self._corrupt(path, f"the checksum of {name} is wrong")
                        yield StateChunk(name, place.version, data)
            except FileNotFoundError:
                raise self._corrupt(path, "it is missing") from None

    def _tidy(self) -> None:
        """Remove files that the manifest does not name: of earlier snapshots, and of a killed process."""
        for path in self.directory.iterdir():
            name = path.name
            dead = name.startswith("chunks-") and int(name.removeprefix("chunks-")) not in self._sizes
            if dead or name.endswith(".tmp"):
                path.unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self.directory / f"chunks-{number}"

    def _corrupt(self, path: Path, what: str) -> EpisodeDataError:
        return EpisodeDataError(f"{path} is corrupt: {what}.", hint=f"Restore the file. {_ANEW}")


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
