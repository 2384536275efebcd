"""Tables that are given in process: Arrow tables, pandas and Polars frames, and whatever else hands out Arrow streams.

pandas and Polars are not imported here: a frame that is given brings its library along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError, kind_of
from episode.matchers.spark_types import held_as, lossy_value_error, spark_name, to_spark_types, zones_of


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
    lazy = hasattr(frame, "collect")
    spark = _library(frame) == "pyspark"
    raise EpisodeAnalysisError(
        f"The table {name} is a {type(frame).__module__.split('.')[0]} {type(frame).__name__}.",
        hint="Use episode.sql or episode.match for Spark's DataFrames."
        if spark
        else "Collect it first: frame.collect()."
        if lazy
        else "In process, tables are Arrow tables, pandas or Polars frames.",
    )


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
        return _as_pandas(result)
    return type(frame)(result) if _library(frame) == "polars" else result


def _as_pandas(result: pa.Table) -> Any:
    """Integers with nulls stay integers."""
    frame = result.to_pandas(integer_object_nulls=True)
    for field in result.schema:
        if pa.types.is_integer(field.type) and result.column(field.name).null_count:
            frame[field.name] = frame[field.name].astype("Int64")
    return frame


def _library(frame: Any) -> str:
    return type(frame).__module__.split(".")[0]
