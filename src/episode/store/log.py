"""The live log of a stream: one segment for each committed batch, numbered 1, 2, 3, …

The numbers are the positions of readers. A batch is written to a temporary file in `tmp` and becomes visible by one
rename under a lock: a killed producer leaves nothing that a reader could see. Segments are removed from the oldest on,
and never the last, so a number that is missing between two others was lost, not removed. The lock file holds the last
number given, so that a lost one is not given again.

See decision 112.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.store import segment
from episode.store.declaration import Declaration
from episode.store.files import (
    Mark,
    lock_file,
    read_mark,
    replace_file,
    seal,
    space_needed,
    sync_path,
    temporary_path,
    unseal,
    write_mark,
)
from episode.store.segment import CorruptSegment, Footer, Head, LaneBlock, LastBatch, Layout, Tally

# Producers that the footers of segments no longer name. The footer of the last segment names the producers that were
# active last. Before a commit drops one from there, its last batch is written to a small file here: a batch is
# recognised however long ago its producer appended, and a commit costs the same however many producers there were.


class Producers:
    """A directory with one file for each producer. temporary: the directory in which files are written first."""

    def __init__(self, directory: Path, temporary: Path, sync: bool) -> None:
        self.directory, self.temporary, self.sync = directory, temporary, sync

    def find(self, producer: str) -> LastBatch | None:
        """The last batch of a producer, if it is here."""
        try:
            return unseal(self._path(producer), "The note of a producer", lambda found: _last(found, producer))
        except FileNotFoundError:
            return None

    def keep(self, lasts: Mapping[str, LastBatch]) -> None:
        """Write the last batches of producers to the disk."""
        if not lasts:
            return
        self.directory.mkdir(exist_ok=True)
        for producer, last in lasts.items():
            data = seal({"producer": producer, **last._asdict()})
            replace_file(self._path(producer), data, temporary_path(self.temporary, ".json"), sync=self.sync)
        if self.sync:
            sync_path(self.directory)

    def _path(self, producer: str) -> Path:
        name = hashlib.sha256(producer.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.directory / f"{name}.json"


def _last(found: dict[str, Any], producer: str) -> LastBatch:
    if found.pop("producer") != producer:
        raise ValueError("it is that of another producer")
    return LastBatch(**found)


SUFFIX = ".seg"
_SEGMENT = re.compile(r"(\d{20})\.seg")
_TEMPORARY = re.compile(r"\d+-[0-9a-f]{32}\.\w+")
BLOCK_ROWS = 1 << 20
BLOCK_BYTES = 1 << 28
"""The rows of a block, over all lanes, and their bytes."""
REMEMBERED = 256
"""Producers whose last batch the footer of a segment names; those of others are in files of `producers`."""
COPIED = 1 << 22
"""Bytes that are copied at once."""
LARGE = 1 << 22
"""Bytes from which on a batch is brought to the disk before its commit."""
ABANDONED = 86_400.0
"""Age in seconds at which a temporary file is removed."""


@dataclass(frozen=True)
class Origin:
    """A producer and the number of its batch: a batch whose number is not new for its producer is not stored again.

    note: kept with the producer's last batch for the producer itself, for example its position.
    """

    producer: str
    batch: int
    note: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.producer, str) or isinstance(self.batch, bool) or not isinstance(self.batch, int):
            raise EpisodeAnalysisError(
                f"Origin({self.producer!r}, {self.batch!r}) is not a name and a whole number.",
                hint="Write for example Origin('feed-1', 17).",
            )


@dataclass(frozen=True)
class Staged:
    """A batch in a temporary file, not yet visible; another process may commit it."""

    path: str
    head: Head
    blocks: tuple[LaneBlock, ...]

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)


class Log:
    """The segments of a stream, in the directory `log` of its location.

    archived_to: returns the last commit in the archive; numbers up to it are taken.
    """

    def __init__(self, declaration: Declaration, archived_to: Callable[[], int] = int) -> None:
        root = Path(declaration.location)
        self.declaration, self._archived_to = declaration, archived_to
        self.directory, self.temporary, self.lock = root / "log", root / "tmp", root / "lock"
        self.sync = declaration.options.get("sync", "true").lower() == "true"
        self.sync_names = self.sync
        """Whether a commit waits until its name is on the disk; if not, `sync_all` brings the names there."""
        self.layout = Layout(declaration.time, declaration.key, declaration.lanes)
        self.producers = Producers(root / "producers", self.temporary, self.sync)
        self._made = False
        self._head = 0
        self._last: tuple[Footer, tuple[int, ...]] | None = None
        """The footer that was read or written last, and the stamp of its file."""

    def path(self, number: int) -> Path:
        return self.directory / f"{number:020d}{SUFFIX}"

    def numbers(self) -> list[int]:
        """Return the commits in the log, in order, ignoring other files."""
        try:
            with os.scandir(self.directory) as entries:
                found = [_SEGMENT.fullmatch(entry.name) for entry in entries]
        except FileNotFoundError:
            return []
        return sorted(int(match.group(1)) for match in found if match is not None)

    def head(self) -> int:
        """Return the number of the last commit; 0 before the first."""
        mark = read_mark(self.lock)
        number = max(self._head, mark.last)
        while number and self.path(number + 1).exists():
            number += 1
        # If `number` still exists, no later one has been removed: there was none when we looked.
        if not number or not self.path(number).exists():
            number = max([*self.numbers(), mark.durable, self._archived_to()])
        self._head = number
        return number

    def next_after(self, position: int) -> int | None:
        """Return the number of the first commit after a position that is in the log, or None."""
        return next((number for number in self.numbers() if number > position), None)

    def footer(self, number: int) -> Footer:
        """Read the footer of a segment; raise FileNotFoundError if the segment has been removed."""
        if self._last is not None and self._last[0].commit == number and self._last[1] == _stamp(self.path(number)):
            return self._last[0]
        found = segment.read_footer(self.path(number))
        if found.commit != number:
            raise segment.corrupt(self.path(number), f"it is that of commit {found.commit}")
        if found.layout is not None and found.layout != self.layout:
            raise EpisodeDataError(
                f"The segment {self.path(number)} is of another stream than {self.declaration.name}: "
                f"{layout_difference(found.layout, self.layout)}.",
                hint="Was the stream created again meanwhile? Then open it again.",
            )
        return found

    def tally(self, head: int | None = None) -> Tally:
        """Return the totals of everything ever appended, or up to a commit, from the last readable segment. If that of
        the commit is corrupt, it counts as lost: batches that a producer repeats are stored again."""
        head = self.head() if head is None else head
        if head == 0:
            return Tally()
        first: EpisodeDataError | None = None
        for number in (head, *(number for number in reversed(self.numbers()) if number < head)):
            try:
                found = self.footer(number)
            except CorruptSegment as error:
                first = first or error
            except FileNotFoundError:
                first = first or self.lost(number)
            else:
                if number == head:
                    self._last = found, _stamp(self.path(number))
                return found.tally
        assert first is not None
        raise first

    def last_batch(self, producer: str, tally: Tally | None = None) -> LastBatch | None:
        """Return the last batch that a producer has stored, or None."""
        return (tally or self.tally()).origins.get(producer) or self.producers.find(producer)

    def batches(
        self,
        number: int,
        lanes: Collection[int] | None = None,
        columns: Sequence[str] | None = None,
        skip: Callable[[CorruptSegment], None] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a commit; FileNotFoundError if its segment has been removed. skip: see `read_blocks`."""
        footer = self.footer(number)
        yield from segment.read_blocks(self.path(number), footer, self.declaration.schema, lanes, columns, skip=skip)

    def stage(self, table: pa.Table) -> Staged:
        """Write rows that conform to the declaration to a temporary file."""
        from episode.store.lanes import by_lane

        declaration = self.declaration
        self._make_directories()
        path = temporary_path(self.temporary, SUFFIX)
        try:
            with self._writing(), open(path, "xb") as file:
                head = segment.write_head(file, declaration.schema)
                blocks = []
                for part in _parts(table):
                    batch, slices = by_lane(part, declaration.key, declaration.lanes, declaration.time)
                    for lane, begin, end, least, greatest in slices:
                        rows = batch.slice(begin, end - begin)
                        blocks.append(segment.write_block(file, rows, lane, least, greatest))
                if file.tell() >= LARGE:
                    self._flush(file)  # here, and not while others wait for the lock
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return Staged(str(path), head, tuple(blocks))

    def commit(self, staged: Sequence[Staged], origin: Origin | None = None) -> int:
        """Make staged batches visible, all at once; return the number of their commit.

        Without rows nothing is committed; the number is then that of the last commit. A batch that its origin has
        already committed is not stored again; the number is then that of its commit.
        """
        whole = self._join([one for one in staged if one.blocks], staged)
        self._make_directories()
        with self._writing(), lock_file(self.lock):
            head = self.head()
            if whole is None:
                return head
            tally = self.tally(head)
            last = None if origin is None else self.last_batch(origin.producer, tally)
            if origin is not None and last is not None and origin.batch <= last.batch:
                self.discard([whole])
                return last.commit
            self._check_columns(head, whole.head)
            number = head + 1
            tally, dropped = _add_batch(tally, whole, origin, number)
            footer = Footer(number, whole.blocks, tally, whole.head, self.layout)
            try:
                with self._writing():
                    self.producers.keep(dropped)
                    with open(whole.path, "r+b") as file:
                        file.seek(0, os.SEEK_END)
                        segment.write_footer(file, footer)
                        self._flush(file)
                    os.rename(whole.path, self.path(number))
            except BaseException:
                self.discard([whole])
                raise
            if self.sync_names:
                sync_path(self.directory)
            write_mark(self.lock, Mark(number, number if self.sync_names else read_mark(self.lock).durable))
            self._head, self._last = number, (footer, _stamp(self.path(number)))
            return number

    def _check_columns(self, head: int, staged: Head) -> None:
        """Raise an error if the columns are not those of the commit before: was the stream created again?"""
        with suppress(CorruptSegment, FileNotFoundError):
            before = self.footer(head).head
            stored = None if before == staged else segment.read_schema(self.path(head), before)
            wrong = None if stored is None else segment.difference(stored, self.declaration.schema)
            if wrong is not None:
                raise EpisodeDataError(
                    f"Nothing was appended to {self.declaration.name}: it was created again with other columns. "
                    f"Of these, {wrong}.",
                    hint="Open the stream again.",
                )

    def sync_all(self) -> None:
        """Bring all commits and their names to the disk."""
        if self.sync and self._made:
            sync_path(self.directory)

    def discard(self, staged: Sequence[Staged]) -> None:
        for one in staged:
            Path(one.path).unlink(missing_ok=True)

    def _join(self, full: Sequence[Staged], all_of_them: Sequence[Staged]) -> Staged | None:
        """Join staged batches to one; None if they have no rows."""
        self.discard([one for one in all_of_them if not one.blocks])
        if len(full) <= 1:
            return full[0] if full else None
        path = temporary_path(self.temporary, SUFFIX)
        blocks: list[LaneBlock] = []
        try:
            with self._writing(), open(path, "xb") as file:
                head = segment.write_head(file, self.declaration.schema)
                for one in full:
                    start = one.blocks[0].offset
                    shift = file.tell() - start
                    with open(one.path, "rb") as source:
                        source.seek(start)
                        shutil.copyfileobj(source, file, COPIED)
                    blocks += [block._replace(offset=block.offset + shift) for block in one.blocks]
                self._flush(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self.discard(full)
        return Staged(str(path), head, tuple(blocks))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Explain errors of a full disk, and of a store or a staged batch that no longer exists."""
        name = self.declaration.name
        try:
            with space_needed(f"what was appended to {name}"):
                yield
        except FileNotFoundError as error:
            raise EpisodeDataError(
                f"Nothing was appended to {name}: {error.filename} has gone.", hint="Was the stream dropped meanwhile?"
            ) from None

    def _make_directories(self) -> None:
        if not self._made:
            self.temporary.mkdir(parents=True, exist_ok=True)
            self.directory.mkdir(parents=True, exist_ok=True)
            self._made = True

    def _flush(self, file: IO[bytes]) -> None:
        file.flush()
        if self.sync:
            os.fsync(file.fileno())

    def remove_to(self, number: int, older_than: float = math.inf) -> int:
        """Remove segments from the oldest on up to a number, if they were committed before a moment (seconds of the
        clock), but never the last one. Return how many."""
        removed = 0
        for one in self.numbers()[:-1]:
            path = self.path(one)
            if one > number:
                break
            with suppress(FileNotFoundError):
                if path.stat().st_mtime > older_than:
                    break
                path.unlink()
                removed += 1
        return removed

    def tidy(self) -> None:
        """Remove temporary files of killed producers."""
        with suppress(FileNotFoundError):
            for path in self.temporary.iterdir():
                with suppress(FileNotFoundError):
                    ours = _TEMPORARY.fullmatch(path.name) and path.is_file()
                    if ours and path.stat().st_mtime < time.time() - ABANDONED:
                        path.unlink()

    def lost(self, number: int) -> EpisodeDataError:
        """Return the error for a segment that should exist."""
        return EpisodeDataError(
            f"The segment {self.path(number)} is missing: it was neither archived nor expired.",
            hint=f"Restore the file, or continue after it: read(…, after={number}).",
        )


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """Split a table into parts whose columns are small enough for Arrow's arrays of strings."""
    if table.num_rows > BLOCK_ROWS:
        for start in range(0, table.num_rows, BLOCK_ROWS):
            yield from _parts(table.slice(start, BLOCK_ROWS))
    elif table.nbytes > BLOCK_BYTES and table.num_rows > 1:
        half = table.num_rows // 2
        yield from _parts(table.slice(0, half))
        yield from _parts(table.slice(half))
    elif table.num_rows:
        yield table


def layout_difference(stored: Layout, declared: Layout) -> str | None:
    """Describe the first difference between the layout of a segment and that of a stream; None if they are equal."""
    for what, one, other in zip(("TIME", "KEY", "lanes"), stored, declared, strict=True):
        if one != other:
            texts = (", ".join(value) or "none" if isinstance(value, tuple) else value for value in (one, other))
            return "{} is stored as {} and declared as {}".format(what, *texts)
    return None


def _add_batch(tally: Tally, staged: Staged, origin: Origin | None, number: int) -> tuple[Tally, dict[str, LastBatch]]:
    """Return the tally after a batch, and the producers that it no longer names."""
    greatest = max([block.greatest for block in staged.blocks] + ([] if tally.greatest is None else [tally.greatest]))
    origins = dict(tally.origins)
    if origin is not None:
        origins.pop(origin.producer, None)
        origins[origin.producer] = LastBatch(origin.batch, number, origin.note)
    oldest = list(origins)[: max(0, len(origins) - REMEMBERED)]
    dropped = {name: origins.pop(name) for name in oldest}
    return Tally(tally.rows + staged.rows, greatest, origins), dropped


def _stamp(path: Path) -> tuple[int, ...]:
    """Return numbers that distinguish a file from another one of the same name."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
