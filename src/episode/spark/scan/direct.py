"""The direct scan: workers read Parquet files with pyarrow, and no row passes through the JVM.

It is chosen only where it gives what Spark would give. Everything else goes the row path, with the reason said.

See decision 142.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from episode.matchers.envelope import FLUSH_BYTES
from episode.matchers.ordering import order_image
from episode.matchers.protocol import OrderKey
from episode.matchers.slices.keys import SlicedKeys
from episode.matchers.slices.slicing import Overlap, SliceBounds
from episode.matchers.times import NEVER
from episode.spark.scan.conditions import Condition, Range, columns_in, evaluate, excludes_all, text_of
from episode.spark.scan.lakehouse import snapshot_files
from episode.spark.scan.parquet import TableFiles, convert_column, file_names, group_ranges, mismatch
from episode.spark.scan.plan_files import files_of_plan
from episode.spark.scan.storage import LOCAL, Storage
from episode.words import count_of

LEAST_TASK_BYTES = 4 * 2**20
"""Smaller tasks take longer to start than to run."""

_STRING_BYTES = 24
_LENGTH_BYTES = 4
_BATCH_ROWS, _LEAST_BATCH_ROWS = 1 << 21, 1 << 16
_FOOTERS_AT_ONCE, _REMOTE_FOOTERS_AT_ONCE = 8, 32


@dataclass(frozen=True)
class Split:
    """Row groups first .. last - 1 of a file; partition: the row of its constant columns."""

    path: str
    first: int
    last: int
    bytes: int
    partition: int = 0


@dataclass(frozen=True)
class ParquetScan:
    """Files to be read directly: their row groups in order, and the columns to deliver.

    schema: of the output. inputs: columns that are read from the files or constant in them, in Spark's types; `columns`
    maps each output column to one of them. partitions: constant columns, a row for each set of values.
    dictionaries: string columns that the files store as dictionaries, and that stay so.
    """

    splits: tuple[Split, ...]
    schema: pa.Schema
    files: int
    rows: int
    bytes: int
    inputs: pa.Schema
    columns: tuple[str, ...]
    partitions: pa.Table
    condition: Condition | None = None
    storage: Storage = LOCAL
    case_sensitive: bool = False
    dictionaries: tuple[str, ...] = ()
    groups_left_out: int = 0

    def tasks(self, task_bytes: int, cores: int, per_core: int) -> list[tuple[Split, ...]]:
        """The splits in order, in tasks of about the same size: at most about task_bytes, and if possible some for each
        core, so that all cores are done at about the same time."""
        wanted = min(cores * per_core, self.bytes // LEAST_TASK_BYTES)
        count = in_waves(max(1, wanted, -(-self.bytes // task_bytes)), cores)
        tasks: dict[int, list[Split]] = {}
        before = 0
        for split in self.splits:
            middle = before + split.bytes // 2
            tasks.setdefault(middle * count // max(1, self.bytes), []).append(split)
            before += split.bytes
        return [tuple(task) for task in tasks.values()]

    def of_columns(self, names: Sequence[str]) -> ParquetScan:
        """The scan of some of the delivered columns."""
        places = [self.schema.get_field_index(name) for name in names]
        columns = tuple(self.columns[place] for place in places)
        read = {*columns, *(columns_in(self.condition) if self.condition is not None else ())}
        return replace(
            self,
            schema=pa.schema([self.schema.field(place) for place in places]),
            inputs=pa.schema([field for field in self.inputs if field.name in read]),
            columns=columns,
        )

    def read(self, splits: tuple[Split, ...], batch_rows: int = _BATCH_ROWS) -> Iterator[pa.Table]:
        """Read some splits in order, in the schema of the scan, in tables of at most `rows` rows."""
        storage = self.storage.open()
        for path, of_file in groupby(splits, key=lambda split: split.path):
            settings = {"coerce_int96_timestamp_unit": "us", "read_dictionary": list(self.dictionaries)}
            with pq.ParquetFile(path, filesystem=storage, pre_buffer=storage is not None, **settings) as file:
                for split in of_file:
                    yield from self._rows(file, split, batch_rows)

    def _rows(self, file: pq.ParquetFile, split: Split, batch_rows: int) -> Iterator[pa.Table]:
        of_file = [field for field in self.inputs if field.name not in self.partitions.column_names]
        found = file_names(file.schema_arrow.names, [field.name for field in of_file], self.case_sensitive)
        groups = list(range(split.first, split.last))
        total = sum(file.metadata.row_group(number).num_rows for number in groups)
        constants = {
            name: _repeat(self.partitions.column(name)[split.partition], min(total, batch_rows))
            for name in self.partitions.column_names
        }
        names = [name for name in found if name is not None]
        packed = FLUSH_BYTES // max(1, row_bytes(pa.schema(of_file)))  # the number packed at once, without a copy
        size = min(batch_rows, max(packed, _LEAST_BATCH_ROWS), _BATCH_ROWS)
        batches = file.iter_batches(size, groups, names, use_threads=False) if names else _without_columns(total, size)
        for batch in batches:
            rows = {}
            for name, field in zip(found, of_file, strict=True):
                column = pa.nulls(batch.num_rows, field.type) if name is None else batch[name]
                rows[field.name] = convert_column(column, field.type)
            table = self._output(rows, constants, batch.num_rows)
            if table.num_rows:
                yield table

    def _output(self, rows: dict[str, pa.Array], constants: dict[str, pa.Array], count: int) -> pa.Table:
        found = rows | {name: array.slice(0, count) for name, array in constants.items()}
        if self.condition is not None:
            kept = evaluate(self.condition, found, count)
            left = kept.true_count
            if left < count:
                found = {name: array.filter(kept) for name, array in rows.items() if name in self.columns}
                found |= {name: array.slice(0, left) for name, array in constants.items()}
        arrays = [found[name] for name in self.columns]
        fields = [field.with_type(array.type) for field, array in zip(self.schema, arrays, strict=True)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    @property
    def words(self) -> str:
        """The scan in words, for explain."""
        sizes = ((self.files, "file"), (self.rows, "row"), (len(self.schema), "column"))
        parts = [f"Parquet read directly: {', '.join(count_of(*one) for one in sizes)}"]
        if self.storage != LOCAL:
            parts.append(self.storage.words)
        if self.partitions.column_names:
            parts.append(f"constant in each file: {', '.join(self.partitions.column_names)}")
        if self.condition is not None:
            parts.append(f"where {text_of(self.condition)}")
        if self.groups_left_out:
            parts.append(f"{count_of(self.groups_left_out, 'row group')} left out by statistics")
        return "; ".join(parts)


def _repeat(value: pa.Scalar, rows: int) -> pa.Array:
    """A constant column, of which every batch takes a slice: strings as places in a dictionary of one."""
    if value.type not in (pa.string(), pa.binary()):
        return pa.repeat(value, rows)
    place = pa.repeat(pa.scalar(0 if value.is_valid else None, pa.int32()), rows)
    return pa.DictionaryArray.from_arrays(place, pa.array([value.as_py()] if value.is_valid else [], value.type))


def _without_columns(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of `rows` rows in all, with a column of nulls only."""
    for start in range(0, rows, batch_rows):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(batch_rows, rows - start))], ["nothing"])


def in_waves(tasks: int, cores: int) -> int:
    """Round the number of tasks up so that the last wave fills all cores; a few stay as they are."""
    return tasks if tasks <= cores else -(-tasks // cores) * cores


# ---- choosing ----------------------------------------------------------------------------------------------


def choose_scan(spark: SparkSession, frame: DataFrame, schema: pa.Schema) -> tuple[ParquetScan | None, str]:
    """A direct scan of a frame's columns (those of `schema`), or None; and why."""
    snapshot = snapshot_files(spark, frame)
    files = files_of_plan(spark, frame) if snapshot is None else snapshot
    found = files if isinstance(files, str) else scan_of_files(files, schema)
    return (None, f"rows through Spark: {found}") if isinstance(found, str) else (found, found.words)


def scan_of_files(table: TableFiles, schema: pa.Schema) -> ParquetScan | str:
    """The scan of a table's files, after a look at all footers; or why Spark must read them."""
    if not table.files:
        return "there are no files"
    read = dict.fromkeys((*table.columns, *(columns_in(table.condition) if table.condition is not None else ())))
    inputs = pa.schema([table.fields.field(name) for name in read])
    of_files = pa.schema([field for field in inputs if field.name not in table.partitions.column_names])
    footers = _footers(table)
    if isinstance(footers, str):
        return footers
    splits: list[Split] = []
    groups = rows = 0
    width = row_bytes(schema)
    for file, footer in zip(table.files, footers, strict=True):
        reason = mismatch(footer, of_files, table.case_sensitive)
        if reason is not None:
            return f"{reason} in {file.path}"
        groups += sum(footer.row_group(number).num_rows > 0 for number in range(footer.num_row_groups))
        for number, count in _groups_with_rows(table, footer, of_files):
            splits.append(Split(file.path, number, number + 1, count * width, file.partition))
            rows += count
    return ParquetScan(
        tuple(splits),
        schema,
        len(footers),
        rows,
        rows * width,
        inputs,
        table.columns,
        table.partitions.select([name for name in table.partitions.column_names if name in read]),
        table.condition,
        table.storage,
        table.case_sensitive,
        _dictionaries(footers, of_files),
        groups - len(splits),
    )


def _footers(table: TableFiles) -> list[pq.FileMetaData] | str:
    at_once = _FOOTERS_AT_ONCE if table.storage == LOCAL else _REMOTE_FOOTERS_AT_ONCE
    try:
        storage = table.storage.open()
    except (OSError, ValueError, pa.ArrowException, ImportError, TypeError) as error:
        return f"the file system cannot be opened ({error})"  # an older pyarrow lacks file systems and options
    try:
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda file: pq.read_metadata(file.path, filesystem=storage), table.files))
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"a footer cannot be read ({error})"


def _groups_with_rows(table: TableFiles, footer: pq.FileMetaData, schema: pa.Schema) -> list[tuple[int, int]]:
    """The row groups of a file in which the condition may hold, with their numbers of rows."""
    rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    filled = [(number, count) for number, count in enumerate(rows) if count]
    if table.condition is None:
        return filled
    asked = pa.schema([schema.field(name) for name in set(columns_in(table.condition)) if name in schema.names])
    ranges = list(group_ranges(footer, asked, table.case_sensitive))
    return [(number, count) for number, count in filled if not excludes_all(table.condition, ranges[number])]


def row_bytes(schema: pa.Schema) -> int:
    """About how many bytes a row takes."""
    fixed = [kind for kind in schema.types if pa.types.is_primitive(kind) or pa.types.is_decimal(kind)]
    return sum(max(1, kind.bit_width // 8) for kind in fixed) + _STRING_BYTES * (len(schema) - len(fixed))


def _dictionaries(footers: list[pq.FileMetaData], schema: pa.Schema) -> tuple[str, ...]:
    """String columns that all files have, with fewer bytes than plain strings' lengths alone would take in every row
    group."""
    names = {field.name for field in schema if field.type in (pa.string(), pa.binary())}
    for footer in footers:
        names &= set(footer.schema.names)
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                if column.total_uncompressed_size >= _LENGTH_BYTES * column.num_values:
                    names.discard(column.path_in_schema)
    return tuple(sorted(names))


# Times of row groups by the statistics in their footers, and which row groups a slice of time needs by them.

MOST_READ = 2.5
"""If slices would read more than this multiple of all rows, because files are not in order of time, rows are shuffled
to them instead."""


@dataclass(frozen=True)
class GroupTimes:
    """The least and the greatest time (images, as `EventBatch.time`) of a row group. nulls: whether times may be
    null."""

    first: int
    last: int
    nulls: bool


def times_of_groups(scan: ParquetScan, order: OrderKey, splits: Sequence[Split]) -> list[GroupTimes | None]:
    """Times of the row groups of splits; None if the footers lack them."""
    field = scan.schema.field(order.column)
    name = scan.columns[scan.schema.get_field_index(order.column)]
    if name in scan.partitions.column_names:
        return [None] * len(splits)
    asked = pa.schema([pa.field(name, field.type)])
    storage = scan.storage.open()

    def of_file(path: str) -> list[Range | None]:
        footer = pq.read_metadata(path, filesystem=storage)
        return [found.get(name) for found in group_ranges(footer, asked, scan.case_sensitive)]

    paths = list(dict.fromkeys(split.path for split in splits))
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        ranges = dict(zip(paths, pool.map(of_file, paths), strict=True))
    return [_times(ranges[split.path][split.first], field.type, order) for split in splits]


def _times(found: Range | None, kind: pa.DataType, order: OrderKey) -> GroupTimes | None:
    if found is None or not isinstance(found.low, int) or not isinstance(found.high, int):
        return None
    ends = pa.array([found.low, found.high])
    if not pa.types.is_integer(kind):
        ends = ends.cast(pa.int32()).view(kind) if kind.bit_width == 32 else ends.view(kind)
    first, last = sorted(order_image(pa.table({order.column: ends}), order).time().tolist())
    return GroupTimes(first, last, found.nulls != 0)


# ---- what slices read --------------------------------------------------------------------------------------


def reads_of_slices(scan: ParquetScan, order: OrderKey, sliced: SlicedKeys) -> tuple[tuple[Split, ...], ...] | None:
    """For each slice of the only key, the row groups that have its rows and its overlap, in order; None if footers lack
    times, or files are not in order of time."""
    overlap = sliced.overlap
    if scan.condition is not None and (overlap.before_rows or overlap.after_rows):
        return None  # how many rows of a group count is not known
    found = times_of_groups(scan, order, scan.splits)
    times = [one for one in found if one is not None and not one.nulls]
    if len(times) < len(found):
        return None
    first, last = (np.array([getattr(one, name) for one in times], np.int64) for name in ("first", "last"))
    width = row_bytes(scan.schema)
    rows = np.array([split.bytes // width for split in scan.splits], np.int64)
    slices = [part for part in map(sliced.slice_of, sliced.units_of(0)) if part is not None]
    wanted = [groups_of_slice(first, last, rows, part.bounds, overlap) for part in slices]
    if sum(int(rows[groups].sum()) for groups in wanted) > MOST_READ * scan.rows:
        return None
    return tuple(tuple(scan.splits[group] for group in groups) for groups in wanted)


def groups_of_slice(
    first: np.ndarray, last: np.ndarray, rows: np.ndarray, bounds: SliceBounds, overlap: Overlap
) -> np.ndarray:
    """The row groups (with times first .. last, and rows) that may have a row of a slice or of its overlap."""
    earliest, latest = overlap.around(bounds)
    if overlap.before_rows and bounds.first is not None:
        earliest = _counted_from(first, last, rows, earliest, overlap.before_rows)
    if overlap.after_rows and bounds.last is not None:
        latest = ~_counted_from(~last, ~first, rows, ~latest, overlap.after_rows)
    return np.flatnonzero((last >= earliest) & (first <= latest))


def _counted_from(first: np.ndarray, last: np.ndarray, rows: np.ndarray, limit: int, wanted: int) -> int:
    """A time with at least `wanted` rows between it and the limit; or the least time."""
    before = np.flatnonzero(last < limit)
    order = before[np.argsort(first[before], kind="stable")[::-1]]
    enough = np.flatnonzero(np.cumsum(rows[order]) >= wanted)
    return int(first[order[enough[0]]]) if len(enough) else NEVER
