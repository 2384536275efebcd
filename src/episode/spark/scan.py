"""The direct scan: workers read plain local Parquet files with pyarrow, and no row passes through the JVM.

It is chosen only where it gives what Spark would give. Everything else goes the row path, with the reason said.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from episode.spark.classic import PlainFiles, plain_parquet_files
from episode.spark.snapshots import snapshot_files

LEAST_TASK_BYTES = 4 * 2**20
"""Smaller tasks take longer to start than to run."""

_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_WRITER = b"org.apache.spark.version"
_PLAIN_SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
}
_COLUMN_RULES = ("EXISTS_DEFAULT", "parquet.field.id")
_STRING_BYTES = 24
_LENGTH_BYTES = 4
_BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class Split:
    """Row groups first .. last - 1 of a file."""

    path: str
    first: int
    last: int
    bytes: int


@dataclass(frozen=True)
class ParquetScan:
    """Files to be read directly: their row groups in order, the columns to read and the types to deliver.

    dictionaries: string columns that the files store as dictionaries, and that stay so.
    """

    splits: tuple[Split, ...]
    schema: pa.Schema
    files: int
    rows: int
    bytes: int
    dictionaries: tuple[str, ...] = ()

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

    def read(self, splits: tuple[Split, ...]) -> Iterator[pa.Table]:
        """The rows of some splits, in order, in the schema of the scan."""
        for split in splits:
            with pq.ParquetFile(
                split.path, coerce_int96_timestamp_unit="us", read_dictionary=list(self.dictionaries)
            ) as file:
                names = _file_names(file.schema_arrow, self.schema)
                for batch in file.iter_batches(
                    batch_size=_BATCH_ROWS,
                    row_groups=list(range(split.first, split.last)),
                    columns=[name for name in names if name is not None],
                    use_threads=False,
                ):
                    yield _deliver(batch, names, self.schema)


def in_waves(tasks: int, cores: int) -> int:
    """As many tasks or more, so that in the last wave of them no core is without one; few stay as they are."""
    return tasks if tasks <= cores else -(-tasks // cores) * cores


def choose_scan(spark: SparkSession, frame: DataFrame, schema: pa.Schema) -> tuple[ParquetScan | None, str]:
    """A direct scan of a frame's columns (those of `schema`), or None; and why."""
    snapshot = snapshot_files(frame)
    files = plain_parquet_files(frame) if snapshot is None else snapshot
    if isinstance(files, str):
        return None, f"rows through Spark: {files}"
    found = _scan_of(spark, frame.schema, files, schema)
    if isinstance(found, str):
        return None, f"rows through Spark: {found}"
    return found, f"Parquet read directly: {found.files:,} files, {found.rows:,} rows, {len(schema)} columns"


def _scan_of(spark: SparkSession, columns: StructType, files: PlainFiles, schema: pa.Schema) -> ParquetScan | str:
    if not files.paths:
        return "there are no files"
    for key, value in _PLAIN_SETTINGS.items():
        if _setting(spark, key).upper() == value.upper():
            return f"{key} is {value}"
    for name in schema.names:
        rule = next((rule for rule in _COLUMN_RULES if rule in (columns[name].metadata or {})), None)
        if rule is not None:
            return f"column {name} has {rule}"
    try:
        with ThreadPoolExecutor(8) as pool:
            footers = list(pool.map(pq.read_metadata, files.paths))
    except (OSError, pa.ArrowException) as error:
        return f"a footer cannot be read ({error})"
    splits: list[Split] = []
    for path, footer in zip(files.paths, footers, strict=True):
        reason = _mismatch(footer, schema)
        if reason is not None:
            return f"{reason} in {path}"
        splits += _splits_of(path, footer, schema)
    rows = sum(footer.num_rows for footer in footers)
    size = sum(split.bytes for split in splits)
    return ParquetScan(tuple(splits), schema, len(footers), rows, size, _dictionaries(footers, schema))


def _setting(spark: SparkSession, key: str) -> str:
    try:
        return str(spark.conf.get(key))
    except PySparkException:
        return ""


def row_bytes(schema: pa.Schema) -> int:
    """About how many bytes a row takes."""
    return sum(_STRING_BYTES if not _is_fixed(field.type) else max(1, field.type.bit_width // 8) for field in schema)


def _splits_of(path: str, footer: pq.FileMetaData, schema: pa.Schema) -> list[Split]:
    width = row_bytes(schema)
    groups = range(footer.num_row_groups)
    return [Split(path, i, i + 1, footer.row_group(i).num_rows * width) for i in groups if footer.row_group(i).num_rows]


def _dictionaries(footers: list[pq.FileMetaData], schema: pa.Schema) -> tuple[str, ...]:
    """String columns with fewer bytes than plain strings' lengths alone would take, in every row group."""
    names = {field.name for field in schema if field.type in (pa.string(), pa.binary())}
    for footer in footers:
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                if column.total_uncompressed_size >= _LENGTH_BYTES * column.num_values:
                    names.discard(column.path_in_schema)
    return tuple(sorted(names))


def _is_fixed(kind: pa.DataType) -> bool:
    return pa.types.is_primitive(kind) or pa.types.is_decimal(kind)


# ---- what a file has, and what Spark would deliver -------------------------------------------------------


def _mismatch(footer: pq.FileMetaData, schema: pa.Schema) -> str | None:
    """Why a file must be read by Spark, or None."""
    metadata = footer.metadata or {}
    has_times = any(pa.types.is_timestamp(field.type) or pa.types.is_date(field.type) for field in schema)
    if has_times and (any(key in metadata for key in _LEGACY) or metadata.get(_WRITER, b"9").split(b".")[0] < b"3"):
        return "dates and times are in the legacy calendar"
    columns = footer.schema.to_arrow_schema()
    names = _file_names(columns, schema)
    for field, name in zip(schema, names, strict=True):
        if name == "":
            return f"column {field.name} is ambiguous"
        if name is not None and not _reads_as(columns.field(name).type, field.type, _is_int96(footer, name)):
            return f"column {field.name} is {columns.field(name).type}, Spark's is {field.type}"
    return None


def _file_names(columns: pa.Schema, schema: pa.Schema) -> list[str | None]:
    """The file's name of each wanted column: exact, else the only one whatever its case; None: none, "": several."""
    names: list[str | None] = []
    for wanted in schema.names:
        exact = [name for name in columns.names if name == wanted]
        close = exact or [name for name in columns.names if name.lower() == wanted.lower()]
        names.append(None if not close else close[0] if len(close) == 1 else "")
    return names


def _is_int96(footer: pq.FileMetaData, name: str) -> bool:
    columns = (footer.schema.column(i) for i in range(len(footer.schema)))
    return any(column.path == name and column.physical_type == "INT96" for column in columns)


_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())


def _reads_as(kind: pa.DataType, wanted: pa.DataType, int96: bool) -> bool:
    """Whether pyarrow's type of a file column becomes Spark's by a cast that changes no value."""
    if pa.types.is_nested(wanted):
        return False
    if int96:
        return pa.types.is_timestamp(wanted) and wanted.tz is not None
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted):
        return kind.unit in ("ms", "us") and (kind.tz is None) == (wanted.tz is None)
    if pa.types.is_time(kind) and pa.types.is_time(wanted):
        return True
    if pa.types.is_int64(kind) and pa.types.is_duration(wanted):
        return True
    families = (_STRINGS, _BYTES)
    return kind == wanted or _WIDER.get(kind) == wanted or any(kind in f and wanted in f for f in families)


def _deliver(batch: pa.RecordBatch, names: list[str | None], schema: pa.Schema) -> pa.Table:
    columns = []
    for name, field in zip(names, schema, strict=True):
        column = pa.nulls(batch.num_rows, field.type) if name is None else _cast(batch.column(name), field.type)
        columns.append(column)
    fields = [field.with_type(column.type) for field, column in zip(schema, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind or column.type == pa.dictionary(pa.int32(), kind):
        return column
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type) and column.type.unit == kind.unit:
        return column.view(kind)
    return column.cast(kind)
