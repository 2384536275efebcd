"""Tables that are given in process: Arrow tables, pandas and Polars frames, and whatever else hands out Arrow streams.

pandas and Polars are not imported here: a frame that is given brings its library along.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.matchers.spark_types import retyped, zones_of


def arrow_table(name: str, frame: Any) -> pa.Table:
    """The rows of a frame, as they are."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if _library(frame) == "pandas":
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
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


def like(frame: Any, result: pa.Table) -> Any:
    """The result as the kind of frame that came in."""
    zones = {zone for field in arrow_table("", frame).schema for zone in zones_of(field.type)}
    if len(zones) == 1:
        result = retyped(result, zones.pop())
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
