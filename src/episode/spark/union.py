"""Several DataFrames as one stream of events, each row with the number of its table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episode.plan.schema import quote
from episode.plan.tables import CLASS_COLUMN, EventTable
from episode.spark.schema import TIME
from episode.spark.tables import spark_error


def one_stream(frames: Mapping[str, DataFrame], tables: Mapping[str, EventTable]) -> DataFrame:
    """The events of all frames; a column that a table does not have is null for its events."""
    delay = _declared_delay(frames)
    parts = [_part(frame, tables[name], delay) for name, frame in frames.items()]
    try:
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    except AnalysisException as error:
        raise spark_error(error) from None


def _declared_delay(frames: Mapping[str, DataFrame]) -> int | None:
    """The longest delay that the frames declare for their event time; None where one of them declares none."""
    declared = [[f.metadata[TIME] for f in frame.schema.fields if TIME in f.metadata] for frame in frames.values()]
    return max(delays[0] for delays in declared) if all(declared) else None


def _metadata(delay: int | None) -> dict[str, int]:
    return {} if delay is None else {TIME: delay}


def _part(frame: DataFrame, table: EventTable, delay: int | None) -> DataFrame:
    """The events of one table, as part of the stream. delay: of the declared event time of all of them."""
    columns = []
    for own, name in table.columns.items():
        column = F.col(quote(own))
        if own in table.widened:
            column = column.cast(table.widened[own])
        is_time = TIME in frame.schema[own].metadata
        columns.append(column.alias(name, metadata=_metadata(delay)) if is_time else column.alias(name))
    return frame.select(F.lit(table.number).alias(CLASS_COLUMN), *columns)
