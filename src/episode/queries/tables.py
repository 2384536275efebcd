"""Tables given to a query: checked, turned into Arrow tables or DataFrames, and the session that they belong to.

Tables are checked before Spark is started; of files, only the first bytes are read for that. pandas and Polars are not
imported: a frame brings its library along.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from os.path import abspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError, kind_of
from episode.matchers.spark_types import held_as, lossy_value_error, spark_name, to_spark_types, zones_of
from episode.paths import first_file, is_local, is_there, kind_of_files, local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ArrowStream(Protocol):
    """A table of any library that exports Arrow data: pyarrow, pandas, Polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Table = Union["DataFrame", ArrowStream, "pa.RecordBatch", str, "PathLike[str]"]

KNOWN = (
    "A table is a Spark DataFrame, an Arrow table, a pandas or Polars frame, or the path of Parquet, CSV or JSON files."
)
LAKES = ("_delta_log", "metadata")
"""Directories of table formats: files next to them are not read by themselves."""

_MAGIC = (b"PAR1", b"PARE")


def checked_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a call: Spark's DataFrames as they are, values as Arrow tables, paths as text."""
    return {name: checked_table(name, table) for name, table in tables.items()}


def checked_table(name: str, table: object) -> Any:
    """One table. name: as the query or an error calls it."""
    if not isinstance(name, str) or not name:
        raise EpisodeAnalysisError(
            f"{name!r} is not a name for a table.", hint="Give tables by names: tables={'t': …}."
        )
    if is_spark_frame(table):
        return table
    if isinstance(table, (str, PathLike)):
        return _checked_path(name, table)
    return _arrow_value(name, table)


def is_spark_frame(table: object) -> bool:
    """Is it a DataFrame of Spark, classic or Connect? The class is asked: a Column has every attribute."""
    return hasattr(type(table), "sparkSession") and hasattr(type(table), "mapInArrow")


def is_value(table: object) -> bool:
    """Is it a table of this process, and not a DataFrame of Spark, a path or a name?"""
    return not is_spark_frame(table) and not isinstance(table, (str, PathLike))


def every_table(tables: Mapping[str, Table] | None, named: Mapping[str, Table]) -> dict[str, Table]:
    """Tables of the argument `tables` and tables given by keyword."""
    if tables is None:
        return dict(named)
    if not isinstance(tables, Mapping):
        hint = "Give names with their tables: tables={'t': …}. A table called tables: tables={'tables': …}."
        raise EpisodeAnalysisError(f"tables is a {type(tables).__name__}.", hint=hint)
    twice = next((name for name in named if name in tables), None)
    if twice is not None:
        raise EpisodeAnalysisError(f"The table {twice} is given twice.", hint="By keyword, or in tables={…}.")
    return {**tables, **named}


# ---- values ------------------------------------------------------------------------------------------


def _arrow_value(name: str, value: Any) -> pa.Table:
    """A value as an Arrow table, in the types in which Spark holds it."""
    import pyarrow as pa

    if type(value).__module__.startswith("pyspark.pandas"):
        hint = f"Give its DataFrame: {name}.to_spark()."
        raise EpisodeAnalysisError(f"The table {name} is a frame of pandas on Spark.", hint=hint)
    if isinstance(value, (list, tuple, dict)):
        rows = "pyarrow.table(columns)" if isinstance(value, dict) else "pyarrow.Table.from_pylist(rows)"
        raise EpisodeAnalysisError(f"The table {name} is a {type(value).__name__}.", hint=f"{KNOWN} Write {rows}.")
    if not hasattr(value, "__arrow_c_stream__") and not isinstance(value, pa.RecordBatch):
        lazy, package = hasattr(value, "collect"), _library(value)
        package = "" if package == "builtins" else f"{package} "
        hint = "Collect it first: frame.collect()." if lazy else KNOWN
        raise EpisodeAnalysisError(f"The table {name} is a {package}{type(value).__name__}.", hint=hint)
    return held_table(name, value)


# ---- paths -------------------------------------------------------------------------------------------


def _checked_path(name: str, table: str | PathLike[str]) -> str:
    """A path whose files can be read, as seen from here. What may be the name of a stream is left to `checked_path`,
    after the streams have been searched."""
    path = fspath(table)
    if not isinstance(path, str) or not path:
        raise EpisodeAnalysisError(f"The table {name} is at {path!r}, which is not a path.", hint=KNOWN)
    return path if isinstance(table, str) and table.isidentifier() else checked_path(name, path)


def checked_path(name: str, path: str) -> str:
    """A path whose files can be read, as seen from here: the JVM resolves relative ones against the directory that it
    was started in."""
    if not is_local(path):
        return path
    if not is_there(path):
        raise EpisodeAnalysisError(f"The table {name} should be at {path}, but there is nothing.", hint=KNOWN)
    if kind_of_files(path) == "parquet" and not is_lake(path):
        _check_parquet(name, path)
    return path if path.startswith("file://") else abspath(path)


def is_lake(path: str) -> bool:
    """Is it the directory of a table format, which has its own list of files?"""
    return any(Path(local(path), folder).is_dir() for folder in LAKES)


def _check_parquet(name: str, path: str) -> None:
    """The first file of a path: is it Parquet, of types that Spark reads?"""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from episode.matchers.spark_types import NANOSECONDS

    file = first_file(path)
    if file is None:
        raise EpisodeAnalysisError(f"The table {name} should be at {path}, but there are no files.")
    with file.open("rb") as opened:
        start = opened.read(4)
    if start not in _MAGIC:
        raise EpisodeAnalysisError(
            f"The table {name} should be at {path}, but {file.name} is not a Parquet file.",
            hint="Files are read by their suffix: .csv and .json (also .jsonl and .ndjson, and compressed), else as "
            "Parquet. Other files: read them with spark.read, and give the DataFrame.",
        )
    try:
        footer = pq.read_metadata(file)
    except (OSError, pa.ArrowException):
        return  # encrypted, perhaps: Spark will see
    columns = (footer.schema.column(at) for at in range(len(footer.schema)))
    twelve_bytes = {one.path for one in columns if one.physical_type == "INT96"}  # Spark's own, which it reads
    kept = (one for one in footer.schema.to_arrow_schema() if one.name not in twelve_bytes)
    column = next((one for one in kept if pa.types.is_timestamp(one.type) and one.type.unit == "ns"), None)
    if column is not None:
        raise EpisodeAnalysisError(
            f"The column {column.name} of the table {name} has nanoseconds in its Parquet file; {NANOSECONDS}.",
            hint="Write it with microseconds, as by frame.to_parquet(path, coerce_timestamps='us') in pandas; or read "
            "it here: pyarrow.parquet.read_table(path).",
        )


# ---- frames ------------------------------------------------------------------------------------------


def held_table(name: str, frame: Any) -> pa.Table:
    """The rows of a frame in the types in which Spark holds them; nothing of them may be lost. name: of the table."""
    table = arrow_table(name, frame)
    names = table.column_names
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise EpisodeAnalysisError(f"The table {name} has two columns named {twice}.", hint="Rename one of them.")
    for field in table.schema:
        try:
            spark_name(held_as(field.type))
        except EpisodeError as error:
            message = f"The column {field.name} of the table {name} is of type {field.type}: {error.message}"
            raise kind_of(error)(message, hint=error.hint) from None
    held = to_spark_types(table, name=name)
    fields = [one.with_nullable(field.nullable) for one, field in zip(held.schema, table.schema, strict=True)]
    return pa.Table.from_arrays(held.columns, schema=pa.schema(fields))


def arrow_table(name: str, frame: Any) -> pa.Table:
    """The rows of a frame, as they are. name: of the table."""
    try:
        return _arrow_table(name, frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise EpisodeAnalysisError(f"The table {name} cannot be read as an Arrow table: {reason}") from None


def _arrow_table(name: str, frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if _library(frame) == "pandas":
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        _check_objects(name, frame, table)
        return table
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    hint = "In process, tables are Arrow tables, pandas or Polars frames."
    if _library(frame) == "pyspark":
        hint = "Use episode.sql or episode.match for Spark's DataFrames."
    elif hasattr(frame, "collect"):
        hint = "Collect it first: frame.collect()."
    raise EpisodeAnalysisError(f"The table {name} is a {_library(frame)} {type(frame).__name__}.", hint=hint)


def _check_objects(name: str, frame: Any, table: pa.Table) -> None:
    """Refuse nanoseconds of single pandas objects: Arrow reads a column of them as microseconds."""
    for at, (field, kind) in enumerate(zip(table.schema, frame.dtypes, strict=True)):
        if kind.name != "object" or not any(unit in str(field.type) for unit in ("timestamp[us", "duration[us")):
            continue
        row = next((row for row, value in enumerate(frame.iloc[:, at]) if _has_nanoseconds(value)), None)
        if row is not None:
            raise lossy_value_error(field.name, name, pa.timestamp("ns"), row)


def _has_nanoseconds(value: Any) -> bool:
    """Does a value, or one inside it, have parts of a microsecond?"""
    if isinstance(value, Mapping):
        return any(map(_has_nanoseconds, value.values()))
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return any(map(_has_nanoseconds, value))
    return bool(getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0))


def like(frame: Any, result: pa.Table) -> Any:
    """The result as the kind of frame that came in."""
    zones = {zone for field in arrow_table("", frame).schema for zone in zones_of(field.type)}
    if len(zones) == 1:
        result = to_spark_types(result, zones.pop())
    if _library(frame) == "pandas":
        pandas = result.to_pandas(integer_object_nulls=True)
        for field in result.schema:  # integers with nulls stay integers
            if pa.types.is_integer(field.type) and result.column(field.name).null_count:
                pandas[field.name] = pandas[field.name].astype("Int64")
        return pandas
    return type(frame)(result) if _library(frame) == "polars" else result


def _library(frame: Any) -> str:
    return type(frame).__module__.split(".")[0]


def session_of(spark: SparkSession | None, tables: Mapping[str, Any]) -> SparkSession:
    """The given session, that of a given DataFrame, the active one, or a local one."""
    from episode.spark.startup.session import session
    from episode.spark.startup.workers import warm

    if spark is not None and not hasattr(spark, "createDataFrame"):
        shown = repr(spark) if isinstance(spark, str) else type(spark).__name__
        hint = "A table of this name is given as tables={'spark': …}."
        raise EpisodeAnalysisError(f"spark={shown}: a SparkSession is needed.", hint=hint)
    frames = [table for table in tables.values() if hasattr(table, "sparkSession")]
    found = session(frames[0].sparkSession if spark is None and frames else spark)
    warm(found)
    # Loaded after that: what a plan needs takes half a second, in which a worker can begin.
    from episode.spark.errors import install
    from episode.spark.stores.catalog import register_if_declared

    install(found)
    register_if_declared(found)
    return found


def text_of(text: object) -> str:
    if not isinstance(text, str):
        raise EpisodeAnalysisError(f"A query is a text, not a {type(text).__name__}.")
    return text


def arguments_of(args: Mapping[str, object] | None) -> Mapping[str, object]:
    if args is not None and not isinstance(args, Mapping):
        if hasattr(args, "__arrow_c_stream__") or hasattr(args, "sparkSession"):
            message = f"A {type(args).__name__} is given as args, which are values of parameters."
            hint = "Give tables by the names that they have in the query: t=df, or tables={'t': df}."
            raise EpisodeAnalysisError(message, hint=hint)
        message = f"args={reprlib.repr(args)}: the values of parameters are given by their names."
        raise EpisodeAnalysisError(message, hint="Write :x in the query and args={'x': 5}.")
    return args or {}


def keyword_tables(spark: SparkSession, tables: Mapping[str, Any]) -> dict[str, DataFrame]:
    """Tables given to a query, which are checked, as DataFrames."""
    return {name: _open_table(spark, name, table) for name, table in tables.items()}


def _open_table(spark: SparkSession, name: str, table: Any) -> DataFrame:
    """A DataFrame is itself; a text is the name of a stream or an archive, or a path; all else is an Arrow table."""
    from episode.spark.tables import frame_of_value, keyword_table

    if isinstance(table, str):
        return keyword_table(spark, name, _stream_or_path(spark, name, table))
    return frame_of_value(spark, name, table) if isinstance(table, pa.Table) else table


def _stream_or_path(spark: SparkSession, name: str, table: str) -> DataFrame | str:
    """A stream or an archive of this name, or else a path."""
    from episode.spark.stores.catalog import store_table

    if not table.isidentifier():
        return table
    stream = store_table(spark, table)
    return checked_path(name, table) if stream is None else stream


def one_table(spark: SparkSession | None, events: Table) -> tuple[SparkSession, DataFrame]:
    tables = {"events": checked_table("events", events)}
    session = session_of(spark, tables)
    return session, keyword_tables(session, tables)["events"]
