"""A stream store: the live log of a declared stream and its archive, read as one."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError, EpisodeWarning
from episode.store.conforming import conform
from episode.store.declaration import Declaration, find_column
from episode.store.log import Log, Origin, Staged
from episode.store.segment import CorruptSegment


def open_store(declaration: Declaration) -> StreamStore:
    """The store of a declared stream; one of another kind than the embedded store is refused."""
    if declaration.using != "episode":
        raise EpisodeUnsupportedError(f"The events of {declaration.name} are in {declaration.using}: Spark reads them.")
    return StreamStore(declaration)


class StreamStore:
    """Appends to a stream, reads from any position, archives. Several may be open on one stream, in any process.

    Positions are numbers of commits: a reader at position n has seen the commits 1 to n. 0 is before the first.
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.log = Log(declaration)
        self.skipped: set[Path] = set()
        """Corrupt segments that readers with skip_corrupt=True have left out."""

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow holds them."""
        return self.declaration.schema

    # ---- appending --------------------------------------------------------------------------------

    def append(self, table: pa.Table, origin: Origin | None = None, first_row: int = 1) -> int:
        """Store rows, all or none; the position after them. Errors count rows from first_row on."""
        return self.commit([self.stage(table, first_row)], origin)

    def stage(self, table: pa.Table, first_row: int = 1) -> Staged:
        """Check rows and write them aside; `commit`, here or in another process, makes them visible."""
        return self.log.stage(conform(table, self.declaration, first_row))

    def commit(self, staged: Sequence[Staged], origin: Origin | None = None) -> int:
        """Make staged rows visible, all at once; the position after them."""
        return self.log.commit(staged, origin)

    def discard(self, staged: Sequence[Staged]) -> None:
        """Forget staged rows."""
        self.log.discard(staged)

    # ---- reading ----------------------------------------------------------------------------------

    def head(self) -> int:
        """The position after the last commit."""
        return self.log.head()

    def advance(self, after: int, rows: int | None = None) -> int:
        """How far a reader at a position goes on if it takes this many rows: at least one commit, or to the end."""
        head = self.head()
        if rows is None:
            return head
        position, taken = after, 0
        while position < head:
            taken += self.log.footer(position + 1).rows
            if taken > rows and position > after:
                break
            position += 1
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
        """The rows of the commits after a position, and the position after them. A key's rows come in order."""
        until = self.head() if until is None else until
        schema = self.selected(columns)
        found = list(self.batches(after, until, lanes=lanes, columns=schema.names, skip_corrupt=skip_corrupt))
        return pa.Table.from_batches(found, schema), max(after, until)

    def batches(
        self,
        after: int,
        until: int,
        *,
        lanes: Collection[int] | None = None,
        columns: Sequence[str] | None = None,
        skip_corrupt: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """As `read`, batch by batch."""
        for number in range(after + 1, until + 1):
            try:
                yield from self.log.batches(number, lanes, columns)
            except CorruptSegment as error:
                self._skip(number, error, skip_corrupt)

    def selected(self, columns: Sequence[str] | None) -> pa.Schema:
        """The schema of some columns, whose names may be in large or small letters."""
        if columns is None:
            return self.schema
        found = [find_column(self.declaration.columns, name) for name in columns]
        missing = next((name for name, column in zip(columns, found) if column is None), None)
        if missing is not None:
            names = ", ".join(self.schema.names)
            raise EpisodeAnalysisError(f"{self.declaration.name} has no column {missing}.", hint=f"Columns: {names}.")
        return pa.schema([self.schema.field(column[0]) for column in found if column is not None])

    def count(self) -> int:
        """How many events the stream holds, archived or not."""
        return self.log.tally().rows

    def _skip(self, number: int, error: CorruptSegment, wanted: bool) -> None:
        if not wanted:
            raise error
        path = self.log.path(number)
        if path not in self.skipped:
            self.skipped.add(path)
            message = f"The corrupt segment {path} is left out ({len(self.skipped):,} so far)."
            warnings.warn(message, EpisodeWarning, stacklevel=3)
