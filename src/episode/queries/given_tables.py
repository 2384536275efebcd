"""Tables that are given to a query, checked before Spark is started: DataFrames, values, and paths or names.

A value (an Arrow table, a pandas or Polars frame) becomes an Arrow table in the types that Spark would hold it in.
Nothing else is read here but the first bytes of local files.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from os.path import abspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

from episode.errors import EpisodeAnalysisError
from episode.paths import first_file, is_local, is_there, kind_of_files, local

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class ArrowStream(Protocol):
    """A table of any library that hands out Arrow data: pyarrow, pandas, Polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Table = Union["DataFrame", ArrowStream, "pa.RecordBatch", str, "PathLike[str]"]

KNOWN = (
    "A table is a Spark DataFrame, an Arrow table, a pandas or Polars frame, or the path of Parquet, CSV or JSON files."
)
LAKES = ("_delta_log", "metadata")
"""Directories of table formats: what lies beside them is not to be read as loose files."""

_MAGIC = (b"PAR1", b"PARE")


def checked_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a call: Spark's DataFrames as they are, values as Arrow tables, paths as text."""
    return {name: checked_table(name, table) for name, table in tables.items()}


def checked_table(name: str, table: object) -> Any:
    """One table. name: as the query or an error calls it."""
    if not isinstance(name, str) or not name:
        raise EpisodeAnalysisError(f"{name!r} is no name for a table.", hint="Give tables by names: tables={'t': …}.")
    if is_spark_frame(table):
        return table
    if isinstance(table, (str, PathLike)):
        return _checked_path(name, table)
    return _value(name, table)


def is_spark_frame(table: object) -> bool:
    """Is it a DataFrame of Spark, classic or Connect?"""
    return hasattr(table, "sparkSession") and hasattr(table, "mapInArrow")


def every_table(tables: Mapping[str, Table] | None, named: Mapping[str, Table]) -> dict[str, Table]:
    """Those of the argument `tables` and those given by keyword."""
    if tables is None:
        return dict(named)
    if not isinstance(tables, Mapping):
        raise EpisodeAnalysisError(
            f"tables is a {type(tables).__name__}.",
            hint="Give names with their tables: tables={'t': …}. A table called tables: tables={'tables': …}.",
        )
    twice = next((name for name in named if name in tables), None)
    if twice is not None:
        raise EpisodeAnalysisError(f"The table {twice} is given twice.", hint="By keyword, or in tables={…}.")
    return {**tables, **named}


# ---- values ------------------------------------------------------------------------------------------


def _value(name: str, value: Any) -> pa.Table:
    """A value as an Arrow table, in the types in which Spark holds it."""
    import pyarrow as pa

    from episode.queries.frames import held_table

    if type(value).__module__.startswith("pyspark.pandas"):
        raise EpisodeAnalysisError(
            f"The table {name} is a frame of pandas on Spark.", hint=f"Give its DataFrame: {name}.to_spark()."
        )
    if isinstance(value, (list, tuple, dict)):
        rows = "pyarrow.table(columns)" if isinstance(value, dict) else "pyarrow.Table.from_pylist(rows)"
        raise EpisodeAnalysisError(f"The table {name} is a {type(value).__name__}.", hint=f"{KNOWN} Write {rows}.")
    if not hasattr(value, "__arrow_c_stream__") and not isinstance(value, pa.RecordBatch):
        lazy = hasattr(value, "collect")
        raise EpisodeAnalysisError(
            f"The table {name} is a {_library(value)}{type(value).__name__}.",
            hint="Collect it first: frame.collect()." if lazy else KNOWN,
        )
    return held_table(name, value)


def _library(value: object) -> str:
    package = type(value).__module__.split(".")[0]
    return "" if package == "builtins" else f"{package} "


# ---- paths -------------------------------------------------------------------------------------------


def _checked_path(name: str, table: str | PathLike[str]) -> str:
    """A path whose files can be read, as seen from here. What may be the name of a stream is left to `checked_path`,
    when it is known that there is none."""
    path = fspath(table)
    if not isinstance(path, str) or not path:
        raise EpisodeAnalysisError(f"The table {name} is at {path!r}, which is no path.", hint=KNOWN)
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
    """Is it the directory of a table format, which says itself what is read?"""
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
            f"The table {name} should be at {path}, but {file.name} is no Parquet file.",
            hint="Files are read by their suffix: .csv and .json (also .jsonl and .ndjson, and compressed), else as "
            "Parquet. Other files: read them with spark.read, and give the DataFrame.",
        )
    try:
        footer = pq.read_metadata(file)
    except (OSError, pa.ArrowException):
        return  # encrypted, perhaps: Spark will see
    columns = (footer.schema.column(at) for at in range(len(footer.schema)))
    twelve_bytes = {one.path for one in columns if one.physical_type == "INT96"}  # Spark's own, which it reads
    column = next(
        (
            one
            for one in footer.schema.to_arrow_schema()
            if pa.types.is_timestamp(one.type) and one.type.unit == "ns" and one.name not in twelve_bytes
        ),
        None,
    )
    if column is not None:
        raise EpisodeAnalysisError(
            f"The column {column.name} of the table {name} has nanoseconds in its Parquet file; {NANOSECONDS}.",
            hint="Write it with microseconds, as by frame.to_parquet(path, coerce_timestamps='us') in pandas; or read "
            "it here: pyarrow.parquet.read_table(path).",
        )
