"""A stream store: the live log of a declared stream and its archive, read as one."""

from __future__ import annotations

import operator
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError, EpisodeWarning
from episode.store import archive as archive_reading
from episode.store.archive import ATTEMPTS, Archive, Arrival, MissingFile, retry
from episode.store.conforming import conform
from episode.store.declaration import Declaration, find_column
from episode.store.files import translate_method_errors
from episode.store.history import StoreHistory
from episode.store.log import Log, Origin, Staged
from episode.store.manifest import ArchivedFile, Manifest, Partitioning, choose_partitioning
from episode.store.segment import CorruptSegment, LaneBlock, LastBatch
from episode.store.upkeep import Expiry, expire_log, read_expiry

# A stream as of one moment: files of the archive, then the commits that it does not have; each event once.


@dataclass(frozen=True)
class FilePart:
    """A file of the archive."""

    file: ArchivedFile


@dataclass(frozen=True)
class LogPart:
    """Commits of the log after `after` and up to `until`."""

    after: int
    until: int


Part = Union[FilePart, LogPart]


@dataclass(frozen=True)
class StreamSnapshot:
    """A stream as of one moment: the files of the archive, and the commits after archived_to, up to head, in the log.

    Its parts may be sent to other processes, whose stores read them.
    """

    files: tuple[ArchivedFile, ...]
    archived_to: int
    head: int

    @property
    def parts(self) -> list[Part]:
        """The files, and the log as one part."""
        log = [LogPart(self.archived_to, self.head)] if self.archived_to < self.head else []
        return [*map(FilePart, self.files), *log]


RATED = 1_000
"""Commits whose rate decides how an archive is partitioned."""


def open_store(declaration: Declaration) -> StreamStore:
    """Open the store of a declared stream; stores other than the embedded one are refused."""
    if declaration.using != "episode":
        raise EpisodeUnsupportedError(f"The events of {declaration.name} are in {declaration.using}: Spark reads them.")
    return StreamStore(declaration)


@translate_method_errors
class StreamStore:
    """Appends to a stream, reads from any position, archives. Several processes may open stores of one stream.

    Positions are numbers of commits: a reader at position n has seen the commits 1 to n. 0 is before the first.
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.archived = Archive(declaration)
        self.log = Log(declaration, lambda: self.archived.manifest().archived_to)
        self.skipped: set[Path] = set()
        """Corrupt segments of which readers with skip_corrupt=True have left out some lanes or all."""
        self._warned: set[str] = set()

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow holds them."""
        return self.declaration.schema

    def append(self, table: pa.Table, origin: Origin | None = None, first_row: int = 1) -> int:
        """Store rows, all or none; return the position after them. Errors count rows from first_row on."""
        return self.commit([self.stage(table, first_row)], origin)

    def stage(self, table: pa.Table, first_row: int = 1) -> Staged:
        """Check rows and write them to a temporary file; `commit`, here or in another process, makes them visible."""
        return self.log.stage(conform(table, self.declaration, first_row))

    def commit(self, staged: Sequence[Staged], origin: Origin | None = None) -> int:
        """Make staged rows visible, all at once; return the position after them."""
        return self.log.commit(staged, origin)

    def discard(self, staged: Sequence[Staged]) -> None:
        self.log.discard(staged)

    def last(self, producer: str) -> LastBatch | None:
        """Return the last batch that a producer has stored, with its note, or None."""
        return self.log.last_batch(producer)

    def head(self) -> int:
        """Return the position after the last commit."""
        return self.log.head()

    def check(self, position: int) -> int:
        """Return the position after the last commit; raise an error if a reader's position is later."""
        check_number(position, "A position")
        head = self.head()
        if position > head:
            raise EpisodeDataError(
                f"The stream {self.declaration.name} is at position {head:,}; there is no position {position:,} yet.",
                hint="Was it dropped and created again since? Then begin at position 0, with a new checkpoint.",
            )
        return head

    def advance(self, after: int, rows: int | None = None) -> int:
        """Return the position of a reader after this many more rows: at least one commit further, or the end."""
        head = self.check(after)
        rows = None if rows is None else check_number(rows, "A limit")
        if rows is None or after == head:
            return head
        position, taken = after, 0
        while position < head:
            try:
                taken += self.log.footer(position + 1).rows
            except FileNotFoundError:
                if position > after:
                    return position
                manifest = self.archived.manifest()
                if after < manifest.archived_to:
                    return archive_reading.advance(manifest, after, rows)
                return self.first_after(after) - 1
            except CorruptSegment:
                taken += 0  # reading it raises the error
            if taken > rows and position > after:
                break
            position += 1
        return position

    def first_after(self, after: int) -> int:
        """Return the first commit after a position that has not expired; raise an error if the next one is lost."""
        expired = self.expiry().to
        if expired <= after:
            raise self.log.lost(after + 1)
        return expired + 1

    def back(self, rows: int) -> int:
        """Return the position before the last `rows` rows, or the first one in the log."""
        position = self.head()
        while position > 0 and rows > 0:
            try:
                rows -= self.log.footer(position).rows
            except FileNotFoundError:
                break
            except CorruptSegment:
                rows -= 0  # reading it raises the error
            position -= 1
        return position

    def read(
        self,
        after: int = 0,
        until: int | None = None,
        *,
        lanes: Collection[int] | None = None,
        columns: Sequence[str] | None = None,
        skip_corrupt: bool = False,
    ) -> tuple[pa.Table, int]:
        """Return the rows of the commits after a position, and the position after them. A key's rows are in order."""
        head = self.check(after)
        until = head if until is None else min(check_number(until, "A position"), head)
        schema = self.schema_of(columns)
        pages = self.pages(after, until, lanes=lanes, columns=schema.names, skip_corrupt=skip_corrupt)
        found = [batch for _, batches in pages for batch in batches]
        return pa.Table.from_batches(found, schema), max(after, until)

    def pages(
        self,
        after: int,
        until: int,
        *,
        lanes: Collection[int] | None = None,
        columns: Sequence[str] | None = None,
        skip_corrupt: bool = False,
    ) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        """Yield the rows of `read` commit by commit: (position after it, its rows). Commits that have left the log are
        read from the archive, several at a time."""
        names = self.schema_of(columns).names
        lanes = None if lanes is None else frozenset(check_number(lane, "A lane") for lane in lanes)
        position, until = after, min(until, self.check(after))
        expired = self.expiry().to
        while position < until:
            found = None if position < expired else self._rows_in_log(position + 1, lanes, names, skip_corrupt)
            if found is not None:
                position += 1
                yield position, found
                continue
            for position, found in self._before_log(position, until, lanes, names):  # noqa: B020
                yield position, found

    def _rows_in_log(
        self, number: int, lanes: Collection[int] | None, names: Sequence[str] | None, skip_corrupt: bool
    ) -> list[pa.RecordBatch] | None:
        """Return the rows of a commit; None if its segment has left the log. skip_corrupt: leave out damaged lanes, or
        all if it is unknown which are damaged."""
        skip = self._skip if skip_corrupt else None
        try:
            return list(self.log.batches(number, lanes, names, skip))
        except CorruptSegment as error:
            if skip is None:
                raise
            skip(error, number)
            return []
        except FileNotFoundError:
            return None

    def before_log(self, manifest: Manifest, after: int, until: int) -> int:
        """Return the last commit up to which the archive must replace the log after a position."""
        following = self.log.next_after(max(after, self.expiry().to))
        return min(until, manifest.archived_to, until if following is None else following - 1)

    def _before_log(
        self, after: int, until: int, lanes: Collection[int] | None, names: Sequence[str]
    ) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
        """Yield commits that have left the log: (position after them, their rows)."""
        for attempt in range(ATTEMPTS):
            manifest = self.archived.manifest()
            if manifest.archived_to <= after:
                yield self.first_after(after) - 1, []
                return
            end = self.before_log(manifest, after, until)
            try:
                for reached, found in archive_reading.commits(self.archived, manifest, after, end, lanes, names):
                    yield reached, found
                    after = reached
                return
            except MissingFile:  # replaced meanwhile by a store that keeps no old files
                if attempt + 1 == ATTEMPTS:
                    raise

    def snapshot(self) -> StreamSnapshot:
        """Return the whole stream as of now: the archive, and commits that are not archived yet."""
        manifest = self.archived.manifest()
        return StreamSnapshot(manifest.files, manifest.archived_to, max(self.head(), manifest.archived_to))

    def read_part(
        self, part: Part, columns: Sequence[str] | None = None, *, skip_corrupt: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the events of a part of a snapshot."""
        names = self.schema_of(columns).names
        if isinstance(part, LogPart):
            for _, batches in self.pages(part.after, part.until, columns=names, skip_corrupt=skip_corrupt):
                yield from batches
        else:
            yield from self.archived.read(part.file, names).to_batches()

    def table(self, columns: Sequence[str] | None = None, *, skip_corrupt: bool = False) -> pa.Table:
        """Return all events, archived or not, each once."""
        schema = self.schema_of(columns)

        def read() -> pa.Table:
            found = [self.read_part(part, schema.names, skip_corrupt=skip_corrupt) for part in self.snapshot().parts]
            return pa.Table.from_batches([batch for batches in found for batch in batches], schema)

        return retry(read)

    def history(self, until: int | None = None) -> StoreHistory:
        """Return the past for correlation: rows of keys between two times, of commits up to `until` (None: of all)."""
        return StoreHistory(self.declaration, until)

    def by_time(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """Return the rows of all lanes in order of time; equal times in order of lanes."""
        from episode.matchers.columns import take
        from episode.store.lanes import event_times

        table = pa.Table.from_batches(batches)
        return take(table, np.argsort(event_times(table, self.declaration.time), kind="stable"))

    def schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        """Return the schema of some columns (case-insensitive; None: all)."""
        if columns is None:
            return self.schema
        found = [find_column(self.declaration.columns, name) for name in columns]
        missing = next((name for name, column in zip(columns, found) if column is None), None)
        if missing is not None:
            names = ", ".join(self.schema.names)
            raise EpisodeAnalysisError(f"{self.declaration.name} has no column {missing}.", hint=f"Columns: {names}.")
        return pa.schema([self.schema.field(column[0]) for column in found if column is not None])

    def count(self) -> int:
        """Return the number of events in the stream, archived or not."""
        manifest = self.archived.manifest()
        return manifest.rows + self.log.tally().rows - max(manifest.logged, self.expiry().rows)

    def archive(self, *, skip_corrupt: bool = False) -> int:
        """Move new events into the archive; return how many. Their segments are removed some time later."""
        self._check_archive()
        added = self.archived.extend(lambda manifest: self._arrivals(manifest, skip_corrupt), self._partitioning)
        self.archived.compact()
        self.log.remove_to(self.archived.manifest().archived_to, time.time() - self.archived.grace)
        self.tidy()
        return added

    def compact(self) -> int:
        """Join small files of the archive to large ones; return how many files were replaced."""
        self._check_archive()
        return self.archived.compact(whole=True)

    def expire(self) -> int:
        """Remove events older than RETAIN, file by file or batch by batch; return how many."""
        retain = self.declaration.retain
        limit = None if retain is None else self.archived.limit(retain, self.log.tally().greatest)
        if limit is None:
            return 0
        if self.declaration.archive is not None:
            return self.archived.expire(limit)
        return expire_log(self.log, limit)

    def expiry(self) -> Expiry:
        return read_expiry(self.log)

    def tidy(self) -> None:
        """Remove files of killed processes, and files that nobody needs any more."""
        self.log.tidy()
        self.archived.tidy()

    def _check_archive(self) -> None:
        if self.declaration.archive is None:
            raise EpisodeAnalysisError(
                f"The stream {self.declaration.name} has no archive.",
                hint="Declare it with ARCHIVE AS and a name; without, its events stay in the log.",
            )

    def _arrivals(self, manifest: Manifest, skip_corrupt: bool) -> Iterator[Arrival]:
        expired = self.expiry()
        logged = max(manifest.logged, expired.rows)
        for number in range(max(manifest.archived_to, expired.to) + 1, self.head() + 1):
            batches = self._rows_in_log(number, None, None, skip_corrupt)
            if batches is None:
                raise self.log.lost(number)
            skipped = True
            with suppress(CorruptSegment):  # then it is skipped as a whole and counts no rows
                footer = self.log.footer(number)
                logged, skipped = footer.tally.rows, sum(batch.num_rows for batch in batches) < footer.rows
            for batch in batches[:-1]:
                yield Arrival(number, pa.Table.from_batches([batch]), False, logged)
            last = pa.Table.from_batches(batches[-1:], self.schema)
            yield Arrival(number, last, True, logged, skipped)

    def _partitioning(self) -> Partitioning:
        """Choose the partitioning by the rate of the first commits."""
        blocks: list[LaneBlock] = []
        for number in self.log.numbers()[:RATED]:
            with suppress(CorruptSegment, FileNotFoundError):
                blocks += self.log.footer(number).blocks
        least = min((block.least for block in blocks), default=0)
        greatest = max((block.greatest for block in blocks), default=0)
        return choose_partitioning(self.declaration, sum(block.rows for block in blocks), least, greatest)

    def _skip(self, error: CorruptSegment, number: int | None = None) -> None:
        """Record that a lane, or a whole segment, is left out, and warn once."""
        self.skipped.add(error.path)
        if error.message not in self._warned:
            self._warned.add(error.message)
            what = "This lane" if number is None else "The segment"
            warnings.warn(f"{error.message} {what} is left out.", EpisodeWarning, stacklevel=3)


def check_number(number: int, what: str) -> int:
    """Return a number if it is a whole number from 0 on; what: its name in the error."""
    try:
        if operator.index(number) >= 0:
            return number
    except TypeError:
        pass
    raise EpisodeAnalysisError(f"{what} is a whole number from 0 on, not {number!r}.")
