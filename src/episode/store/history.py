"""The past of a stream for correlation: rows of some keys between two times, reading no more than needed.

Files are chosen by the manifest or by partition directories, row groups by their statistics, segments of the log by
their lanes and times. A history can be pickled and sent to other processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from episode.errors import EpisodeDataError
from episode.store import segment
from episode.store.archive import Archive, retry
from episode.store.declaration import Declaration
from episode.store.files import data_files, translate_method_errors
from episode.store.log import Log
from episode.store.manifest import ArchivedFile
from episode.store.parquet import COMMIT, FileIndex, cached_index, groups_of, wanted_keys
from episode.store.segment import Footer
from episode.store.upkeep import read_expiry

_SUFFIXES = (".parquet", ".parq", "")


@dataclass
class ScanCost:
    """Cost of reading: row groups and segments read, how many exist, and rows read."""

    groups: int = 0
    groups_of: int = 0
    rows: int = 0


@translate_method_errors
@dataclass(frozen=True)
class StoreHistory:
    """The past of a declared stream: its archive, and commits that are not archived yet.

    until: no commits after this one, so that the past stays what it was (None: all commits).
    """

    declaration: Declaration
    until: int | None = None
    indexes: dict[str, FileIndex] = field(default_factory=dict, compare=False, repr=False)
    footers: dict[int, Footer] = field(default_factory=dict, compare=False, repr=False)
    scanned: ScanCost = field(default_factory=ScanCost, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreHistory, (self.declaration, self.until)

    @cached_property
    def log(self) -> Log:
        return Log(self.declaration)

    @cached_property
    def archive(self) -> Archive:
        return Archive(self.declaration)

    def read(self, keys: pa.Table | None, lo: int, hi: int, columns: Sequence[str]) -> pa.Table:
        """Return the rows of these keys (None: of all) with lo <= time <= hi, in order of time and arrival."""
        schema = pa.schema([self.declaration.schema.field(name) for name in columns])
        return retry(lambda: _sort_by_time(list(self._parts(keys, lo, hi, schema)), schema))

    def earliest(self) -> int | None:
        """Return a lower bound of the event times; None if the stream is empty."""
        return retry(lambda: min((least for least, _ in self._spans()), default=None))

    def latest(self) -> int | None:
        """Return an upper bound of the event times; None if the stream is empty."""
        return retry(lambda: max((greatest for _, greatest in self._spans()), default=None))

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield the least and greatest time of each file of the archive and each block of the log."""
        manifest = self.archive.manifest()
        for file in manifest.files:
            if self.until is None or file.first <= self.until:
                yield file.least, file.greatest
        for footer in self._footers(manifest.archived_to):
            for block in footer.blocks:
                yield block.least, block.greatest

    def _parts(self, keys: pa.Table | None, lo: int, hi: int, schema: pa.Schema) -> Iterator[_Part]:
        manifest = self.archive.manifest()
        known = {file.name for file in manifest.files}
        for name in [name for name in self.indexes if name not in known]:
            del self.indexes[name]
        chooser = _Chooser(self.declaration.time, keys, lo, hi)
        for file in manifest.files:
            begun = self.until is None or file.first <= self.until
            if begun and file.least <= hi and file.greatest >= lo:
                yield from self.archive.open_file(file, partial(self._of_file, file, chooser, schema))
        yield from self._of_log(manifest.archived_to, chooser, schema)

    def _of_file(self, file: ArchivedFile, chooser: _Chooser, schema: pa.Schema, path: Path) -> list[_Part]:
        if file.name not in self.indexes:
            self.indexes[file.name] = cached_index(path, self.declaration.time, self.declaration.key)
        cut = self.until is not None and file.last > self.until
        wanted = schema.append(pa.field(COMMIT, pa.int64())) if cut else schema
        parts = chooser.of_file(path, self.indexes[file.name], wanted, self.scanned)
        return [self._until(part, schema) for part in parts] if cut else parts

    def _until(self, part: _Part, schema: pa.Schema) -> _Part:
        """Keep the rows of commits up to `until`."""
        kept = part.table.column(COMMIT).to_numpy() <= self.until
        return _Part(part.table.select(schema.names).filter(pa.array(kept)), part.times[kept])

    def _of_log(self, after: int, chooser: _Chooser, schema: pa.Schema) -> Iterator[_Part]:
        lanes = self._lanes(chooser.keys)
        for footer in self._footers(after):
            blocks = tuple(
                block
                for block in footer.blocks
                if block.least <= chooser.hi and block.greatest >= chooser.lo and (lanes is None or block.lane in lanes)
            )
            self.scanned.groups_of += len(footer.blocks)
            self.scanned.groups += len(blocks)
            if blocks:
                names = chooser.names(schema)
                path, declared = self.log.path(footer.commit), self.declaration.schema
                for batch in segment.read_blocks(path, footer, declared, columns=names, blocks=blocks):
                    yield chooser.of_rows(pa.Table.from_batches([batch]), schema)

    def _footers(self, after: int) -> list[Footer]:
        """Return the footers of the commits that are not archived."""
        after = max(after, read_expiry(self.log).to)
        head = self.log.head() if self.until is None else min(self.until, self.log.head())
        for number in [number for number in self.footers if number <= after]:
            del self.footers[number]
        for number in range(after + 1, head + 1):
            if number not in self.footers:
                self.footers[number] = self.log.footer(number)
        return [self.footers[number] for number in sorted(self.footers)]

    def _lanes(self, keys: pa.Table | None) -> set[int] | None:
        """Return the lanes of these keys; None if lanes depend on other columns."""
        from episode.store.lanes import lanes_of

        declared = self.declaration.key
        if keys is None or not declared or not set(declared) <= set(keys.column_names):
            return None
        schema = pa.schema([self.declaration.schema.field(name) for name in declared])
        numbers = lanes_of(keys.select(list(declared)).cast(schema), declared, self.declaration.lanes)
        return set(np.unique(numbers).tolist())


@dataclass(frozen=True)
class ParquetHistory:
    """The past in plain Parquet files: of files or directories, hive partitions included.

    schema: the columns' types, if not those of the files, and the types of partition columns.
    """

    paths: tuple[str, ...]
    time: str
    keys: tuple[str, ...] = ()
    schema: pa.Schema | None = None
    indexes: dict[str, FileIndex] = field(default_factory=dict, compare=False, repr=False)
    scanned: ScanCost = field(default_factory=ScanCost, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ParquetHistory, (self.paths, self.time, self.keys, self.schema)

    @cached_property
    def files(self) -> list[tuple[Path, Path]]:
        """The files as of now, and the paths that they were found below."""
        return [(path, Path(root)) for root in self.paths for path in data_files(Path(root), _SUFFIXES)]

    @cached_property
    def columns(self) -> pa.Schema:
        """Return all columns of the files."""
        if self.schema is not None:
            return self.schema
        if not self.files:
            raise EpisodeDataError(f"There are no Parquet files in {', '.join(self.paths)}.")
        return _schema_of(*self.files[0])

    def read(self, keys: pa.Table | None, lo: int, hi: int, columns: Sequence[str]) -> pa.Table:
        """Return the rows of these keys (None: of all) with lo <= time <= hi, in order of time, files and rows."""
        full = self.columns
        schema = pa.schema([full.field(name) for name in columns])
        chooser = _Chooser(self.time, keys, lo, hi)
        parts: list[_Part] = []
        for path, root in self.files:
            constants = _partition_values(path, root, full)
            if chooser.may_have(constants):
                parts += chooser.of_file(path, self._index(path), schema, self.scanned, constants, full)
        return _sort_by_time(parts, schema)

    def earliest(self) -> int | None:
        """Return the time of the first event; None if the files are empty."""
        least = [self._index(path).least for path, _ in self.files]
        return min((int(times.min()) for times in least if len(times)), default=None)

    def latest(self) -> int | None:
        """Return the time of the last event; None if the files are empty."""
        greatest = [self._index(path).greatest for path, _ in self.files]
        return max((int(times.max()) for times in greatest if len(times)), default=None)

    def _index(self, path: Path) -> FileIndex:
        name = str(path)
        if name not in self.indexes:
            self.indexes[name] = cached_index(path, self.time, self.keys)
        return self.indexes[name]


@dataclass(frozen=True)
class _Part:
    """Requested rows with their times, in order of arrival."""

    table: pa.Table
    times: np.ndarray


class _Chooser:
    """Chooses row groups by statistics, then rows by their values."""

    def __init__(self, time: str, keys: pa.Table | None, lo: int, hi: int) -> None:
        from episode.matchers.keys import KeyCoder

        self.time, self.keys, self.lo, self.hi = time, keys, lo, hi
        self.wanted = {} if keys is None else wanted_keys(keys)
        self.coder = None if keys is None else KeyCoder(tuple(keys.column_names))
        self.typed = False

    def names(self, schema: pa.Schema) -> list[str]:
        """Return the columns to read: the requested ones, time and keys."""
        keys = [] if self.keys is None else self.keys.column_names
        return list(dict.fromkeys([*schema.names, self.time, *keys]))

    def may_have(self, constants: dict[str, pa.Scalar]) -> bool:
        """Whether a file whose rows all have these values can have one of the keys, and times in between."""
        for name, value in constants.items():
            one = self.wanted.get(name)
            if one is not None and not (one.null if not value.is_valid else value.as_py() in one.values):
                return False
        if self.time in constants:
            from episode.store.lanes import event_times

            value = constants[self.time]
            return value.is_valid and self.lo <= event_times(pa.table({"t": [value]}), "t")[0] <= self.hi
        return True

    def of_file(
        self,
        path: Path,
        index: FileIndex,
        schema: pa.Schema,
        scanned: ScanCost,
        constants: dict[str, pa.Scalar] | None = None,
        types: pa.Schema | None = None,
    ) -> list[_Part]:
        """Return the requested rows of a file. constants: columns that have one value and are not in the file."""
        groups = groups_of(index, self.wanted, self.lo, self.hi)
        scanned.groups_of += len(index.least)
        scanned.groups += len(groups)
        if not groups:
            return []
        names = self.names(schema)
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read_row_groups(groups, [name for name in names if name in index.names])
        for name, value in (constants or {}).items():
            if name in names and name not in index.names:
                table = table.append_column(name, pa.repeat(value, table.num_rows))
        if types is not None:
            table = _cast_columns(table, types)
        scanned.rows += table.num_rows
        return [self.of_rows(table, schema)]

    def of_rows(self, table: pa.Table, schema: pa.Schema) -> _Part:
        """Return the requested ones of these rows."""
        from episode.store.lanes import event_times

        valid = table.column(self.time).is_valid()
        if table.column(self.time).null_count:
            table = table.filter(valid)
        times = event_times(table, self.time)
        chosen = (times >= self.lo) & (times <= self.hi)
        if self.keys is not None and chosen.any():
            chosen &= self._of_keys(table)
        if chosen.all():
            return _Part(table.select(schema.names), times)
        return _Part(table.select(schema.names).filter(pa.array(chosen)), times[chosen])

    def _of_keys(self, table: pa.Table) -> np.ndarray:
        assert self.keys is not None
        assert self.coder is not None
        if not self.typed:
            fields = [table.schema.field(name) for name in self.keys.column_names]
            self.count = int(self.coder.encode(self.keys.cast(pa.schema(fields))).code.max(initial=-1)) + 1
            self.typed = True
        coded = self.coder.encode(table)
        return (coded.code < self.count)[coded.local]


def _sort_by_time(parts: Sequence[_Part], schema: pa.Schema) -> pa.Table:
    """Return all rows in order of time; equal times stay in the order of the parts."""
    from episode.matchers.columns import one_chunk_each, take

    if not parts:
        return schema.empty_table()
    table = pa.concat_tables([part.table.cast(schema) for part in parts])
    times = np.concatenate([part.times for part in parts])
    if len(times) < 2 or (np.diff(times) >= 0).all():
        return one_chunk_each(table) if len(times) else schema.empty_table()
    return take(table, np.argsort(times, kind="stable"))


def _schema_of(path: Path, root: Path) -> pa.Schema:
    from episode.matchers.spark_types import held_as

    with pq.ParquetFile(path) as file:
        fields = [pa.field(field.name, held_as(field.type)) for field in file.schema_arrow]
    known = {field.name for field in fields}
    fields += [pa.field(name, pa.string()) for name, _ in _directories(path, root) if name not in known]
    return pa.schema(fields)


def _directories(path: Path, root: Path) -> list[tuple[str, str]]:
    from urllib.parse import unquote

    if root.is_file():
        return []
    parts = [part.partition("=") for part in path.relative_to(root).parts[:-1]]
    return [(unquote(name), unquote(value)) for name, sign, value in parts if sign]


def _partition_values(path: Path, root: Path, schema: pa.Schema) -> dict[str, pa.Scalar]:
    found: dict[str, pa.Scalar] = {}
    for name, text in _directories(path, root):
        if name in schema.names:
            kind = schema.field(name).type
            value = None if text == "__HIVE_DEFAULT_PARTITION__" else text
            found[name] = pa.scalar(value, pa.string()).cast(kind)
    return found


def _cast_columns(table: pa.Table, types: pa.Schema) -> pa.Table:
    """Cast columns to the types that a query has for them; nanoseconds are cut off."""
    for i, one in enumerate(table.schema):
        kind = types.field(one.name).type if one.name in types.names else one.type
        if kind != one.type:
            table = table.set_column(i, pa.field(one.name, kind), table.column(i).cast(kind, safe=False))
    return table
