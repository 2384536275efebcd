"""Several DataFrames as one stream of events, each row with the number of its table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from episode.plan.schema import quote
from episode.plan.tables import CLASS_COLUMN, EventTable
from episode.spark.tables import spark_error


def one_stream(frames: Mapping[str, DataFrame], tables: Mapping[str, EventTable]) -> DataFrame:
    """The events of all frames; a column that a table does not have is null for its events."""
    parts = [_part(frame, tables[name]) for name, frame in frames.items()]
    try:
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    except AnalysisException as error:
        raise spark_error(error) from None


def _part(frame: DataFrame, table: EventTable) -> DataFrame:
    """The events of one table, as part of the stream."""
    columns = []
    for own, name in table.columns.items():
        column = F.col(quote(own))
        columns.append((column.cast(table.widened[own]) if own in table.widened else column).alias(name))
    return frame.select(F.lit(table.number).alias(CLASS_COLUMN), *columns)
