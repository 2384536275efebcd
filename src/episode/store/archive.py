"""The archive of a stream: every event once, as Parquet files in partitions by time.

Files are written in `_staging`; a manifest that names them makes them part of the archive; then they move to their
place, and files that it no longer names to `_trash`. A process that is killed between two steps leaves either nothing
of the change (staged files that no manifest names are removed) or all of it (the next process completes the moves). So
tools that read plain Parquet files without the manifest also see each event once. One process changes an archive at a
time.

See decision 113.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, Union

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError, EpisodeError
from episode.plan.event_time import EventTime, duration_in_units
from episode.plan.types import is_integer
from episode.store import parquet
from episode.store.declaration import Declaration
from episode.store.files import lock_file, sync_path
from episode.store.manifest import ArchivedFile, Manifest, Manifests, Partitioning
from episode.store.upkeep import runs_of

CHUNK_ROWS = 1 << 21
CHUNK_BYTES = 1 << 29
"""Events that are sorted and written at once, and their bytes."""
LOG_RETAIN = 3_600.0
"""Seconds that archived segments, and files that were replaced, stay for readers that have planned to read them."""

STAGED, GONE = ".staged", ".gone"

Origin = Union[Mapping[str, Any], None]
Result = TypeVar("Result")


class MissingFile(EpisodeDataError):
    """Raised for a file that a manifest names and that does not exist: it was replaced, has expired or is lost."""


ATTEMPTS = 20


def retry(look: Callable[[], Result]) -> Result:
    """Call a function again if files have moved while it ran."""
    for _ in range(ATTEMPTS - 1):
        with suppress(MissingFile, FileNotFoundError):
            return look()
    return look()


@dataclass(frozen=True)
class Arrival:
    """Rows of one commit (a commit may come in several parts). last: no more of it come; logged: see Manifest.

    skipped: the commit's segment is corrupt and left out.
    """

    commit: int
    table: pa.Table
    last: bool
    logged: int
    skipped: bool = False


@dataclass
class _Change:
    """Events on their way into the archive: `held` in memory, the others already written to `files`."""

    scheme: Partitioning
    files: list[ArchivedFile] = field(default_factory=list)
    held: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    skipped: int = 0
    latest: Arrival | None = None


class Archive:
    """The archive below a stream's location."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.directory = Path(declaration.location) / "archive"
        self.staging, self.trash = self.directory / "_staging", self.directory / "_trash"
        self.manifests = Manifests(self.directory / "_manifest")
        wish = declaration.options.get("log_retain")
        self.grace = LOG_RETAIN if wish is None else duration_in_units(wish, EventTime("", "timestamp"), "") / 1e6

    def manifest(self) -> Manifest:
        return self.manifests.current()

    def read(
        self, file: ArchivedFile, columns: Sequence[str], after: int | None = None, until: int | None = None
    ) -> pa.Table:
        """Return columns of a file, limited to the commits after `after` and up to `until` if given."""
        return self.open_file(file, lambda path: parquet.read(path, self.declaration, columns, after, until))

    def open_file(self, file: ArchivedFile, open_: Callable[[Path], Result]) -> Result:
        """Call `open_` with the path of a file wherever it is now. Files only move from staging to their place, and
        from there to the trash."""
        for place in (self._staged_path(file.name), self.directory / file.path, self._trash_path(file.name)):
            try:
                parquet.check_footer(place, file.footer)
                return open_(place)
            except FileNotFoundError:
                continue
            except EpisodeError:
                raise
            except parquet.UNREADABLE as error:
                if getattr(error, "errno", None) is not None:  # the system's, and not of what is in the file
                    raise
                raise EpisodeDataError(
                    f"The file {place} of the archive is corrupt: {error}.", hint="Restore the file."
                ) from None
        raise MissingFile(
            f"The file {self.directory / file.path} of the archive is missing.",
            hint="If it was replaced or has expired since the query began, run the query again.",
        )

    @contextmanager
    def changing(self) -> Iterator[Manifest]:
        """Lock the archive for changes, after completing or undoing what a killed process has left."""
        self.staging.mkdir(parents=True, exist_ok=True)
        with lock_file(self.directory / "_lock"):
            manifest = self.manifest()
            self._put_in_place(manifest)
            for path in _files(self.staging, STAGED):  # those of the manifest are in their places now
                path.unlink()
            yield manifest

    def extend(
        self,
        arrivals: Callable[[Manifest], Iterable[Arrival]],
        scheme: Callable[[], Partitioning],
        origin: Origin = None,
    ) -> int:
        """Add the events that arrived since a manifest, in order of commits; return how many.

        Each time that enough of them are in memory and their last commit is complete, they become part of the archive.
        scheme: the partitioning of an archive that has none yet. origin: kept in the manifest, if given.
        """
        with self.changing() as manifest:
            before = manifest.rows
            change = _Change(manifest.partitioning or scheme())
            for arrival in arrivals(manifest):
                change.held.append(parquet.with_commit(arrival.table, arrival.commit))
                change.rows += arrival.table.num_rows
                change.bytes += arrival.table.nbytes
                change.skipped += arrival.skipped
                change.latest = arrival
                if change.rows >= CHUNK_ROWS or change.bytes >= CHUNK_BYTES:
                    self._write_held(change)
                    if arrival.last:
                        manifest = self._publish_change(manifest, change, origin)
                        change = _Change(change.scheme)
            if change.latest is not None:
                self._write_held(change)
                manifest = self._publish_change(manifest, change, origin)
            return manifest.rows - before

    def _write_held(self, change: _Change) -> None:
        from episode.store.lanes import event_times

        if change.held:
            table = pa.concat_tables(change.held)
            times = event_times(table, self.declaration.time)
            change.files += [self._write_one(part, directory) for directory, part in change.scheme.split(table, times)]
        change.held, change.rows, change.bytes = [], 0, 0

    def _publish_change(self, manifest: Manifest, change: _Change, origin: Origin) -> Manifest:
        assert change.latest is not None
        return self._publish(
            manifest.next_version(
                archived_to=change.latest.commit,
                logged=change.latest.logged,
                partitioning=change.scheme,
                files=(*manifest.files, *change.files),
                skipped=manifest.skipped + change.skipped,
                origin=manifest.origin if origin is None else origin,
            )
        )

    def compact(self, *, whole: bool = False) -> int:
        """Join small files of a partition to larger ones; return how many files were replaced.

        Each event is copied a few times at most, however often this is called. whole: join all small files.
        """
        replaced = 0
        with self.changing() as manifest:
            for run in list(runs_of(manifest.files, whole=whole)):
                parts = [self.read(file, parquet.file_schema(self.declaration).names) for file in run]
                merged = self._write_one(pa.concat_tables(parts), run[0].partition)
                files: list[ArchivedFile] = []
                gone = {file.path for file in run}
                for file in manifest.files:
                    if file.path == run[0].path:
                        files.append(merged)
                    if file.path not in gone:
                        files.append(file)
                manifest = self._publish(
                    manifest.next_version(files=tuple(files), removed=tuple(file.path for file in run))
                )
                replaced += len(run)
        return replaced

    def expire(self, before: int) -> int:
        """Remove files whose events are all before a time; return the number of events."""
        with self.changing() as manifest:
            gone = [file for file in manifest.files if file.greatest < before]
            if gone:
                kept = tuple(file for file in manifest.files if file.greatest >= before)
                self._publish(manifest.next_version(files=kept, removed=tuple(file.path for file in gone)))
            return sum(file.rows for file in gone)

    def tidy(self) -> None:
        """Remove replaced files once readers cannot need them any more."""
        with suppress(FileNotFoundError):
            for path in _files(self.trash, GONE):
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime <= time.time() - self.grace:
                        path.unlink()

    def limit(self, retain: int, greatest: int | None) -> int | None:
        """Return the time before which events expire: counted from the latest event, but not from one in the future."""
        if greatest is None:
            return None
        if not is_integer(self.declaration.time_type):
            greatest = min(greatest, time.time_ns() // 1000)
        return greatest - retain

    def _write_one(self, table: pa.Table, directory: str) -> ArchivedFile:
        from episode.store.lanes import event_times

        times = event_times(table, self.declaration.time)
        commits = event_times(table, parquet.COMMIT)
        first, last = int(commits.min()), int(commits.max())
        name = f"{first:012d}-{last:012d}-{uuid.uuid4().hex[:12]}.parquet"
        path = self._staged_path(name)
        try:
            size = parquet.write(parquet.sort(table, self.declaration), path, self.declaration)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        least, greatest = int(times.min()), int(times.max())
        footer = parquet.footer_checksum(path)
        return ArchivedFile(f"{directory}/{name}", table.num_rows, size, least, greatest, first, last, footer)

    def _publish(self, manifest: Manifest) -> Manifest:
        sync_path(self.staging)
        if not self.manifests.publish(manifest):
            raise EpisodeDataError(f"Another process has changed the archive of {self.declaration.name} meanwhile.")
        self._put_in_place(manifest)
        return manifest

    def _put_in_place(self, manifest: Manifest) -> None:
        """Move files to their places by a manifest: replaced ones first, so that nobody sees an event twice."""
        for gone in manifest.removed:
            path = self.directory / gone
            if path.exists():
                self.trash.mkdir(exist_ok=True)
                os.utime(path)
                os.rename(path, self._trash_path(path.name))
                with suppress(OSError):
                    path.parent.rmdir()  # if it is empty now
        staged = {path.name for path in _files(self.staging, STAGED)}
        for file in manifest.files if staged else ():
            path = self._staged_path(file.name)
            if path.name in staged:
                place = self.directory / file.path
                place.parent.mkdir(exist_ok=True)
                os.rename(path, place)
                sync_path(place.parent)

    def _staged_path(self, name: str) -> Path:
        """Return the path of a file before it is published. Its suffix hides it from tools that read all Parquet files
        below a directory."""
        return self.staging / f"{name}{STAGED}"

    def _trash_path(self, name: str) -> Path:
        return self.trash / f"{name}{GONE}"


def _files(directory: Path, suffix: str) -> list[Path]:
    """Return our files in a directory, which may also hold files of others."""
    return [path for path in directory.iterdir() if path.name.endswith(f".parquet{suffix}") and path.is_file()]


# Reading an archive by commits: events that have left the log, for readers that come late.


def cuts_of(files: Sequence[ArchivedFile], archived_to: int) -> list[int]:
    """Return commits at which no file continues: a reader may stop there without reading a file twice."""
    cuts = []
    reached = 0
    for file in sorted(files, key=lambda file: file.first):
        if reached and file.first > reached:
            cuts.append(reached)
        reached = max(reached, file.last)
    return [cut for cut in cuts if cut < archived_to] + [archived_to]


def advance(manifest: Manifest, after: int, rows: int) -> int:
    """Return the position of a reader after about `rows` more rows of the archive."""
    position, taken = after, 0
    for cut in cuts_of(manifest.files, manifest.archived_to):
        if cut <= after:
            continue
        taken += sum(file.rows for file in manifest.files if position < file.last <= cut)
        if taken > rows and position > after:
            break
        position = cut
    return position


def commits(
    archive: Archive,
    manifest: Manifest,
    after: int,
    until: int,
    lanes: Collection[int] | None,
    columns: Sequence[str],
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Yield the events of some commits, piece by piece: the last commit of the piece, and its batches in order of
    commits.

    Within a commit they are in order of key, time and arrival.
    """
    from episode.matchers.columns import take
    from episode.store.lanes import event_times, lanes_of

    declaration = archive.declaration
    wanted = list(dict.fromkeys([*columns, *(declaration.key if lanes is not None else ())]))
    begin = after
    for cut in cuts_of(manifest.files, manifest.archived_to):
        end = min(cut, until)
        if end <= begin:
            continue
        files = [file for file in manifest.files if file.last > begin and file.first <= end]
        parts = [archive.read(file, wanted, begin, end) for file in files]
        begin = end
        table = pa.concat_tables(parts) if parts else pa.table({})
        if lanes is not None and table.num_rows:
            kept = np.isin(lanes_of(table, declaration.key, declaration.lanes), list(lanes))
            table = table.filter(pa.array(kept))
        if table.num_rows:
            order = np.argsort(event_times(table, parquet.COMMIT), kind="stable")
            yield end, take(table, order).select(list(columns)).to_batches()
        else:
            yield end, []
