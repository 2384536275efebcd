"""The rows of one key of a pattern's input, brought to the driver: for pictures and explanations of single matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from episode.matchers.bound import BoundPattern
from episode.plan.run_options import RunOptions
from episode.plan.schema import quote
from episode.spark import carry
from episode.spark.batch import plan_batch
from episode.spark.expressions import Arguments, where
from episode.spark.packing import as_events, columns_of

Bounds = tuple[object, object]
"""The least and the greatest value of a column, both included; None: no bound."""


def rows_of_key(
    frame: DataFrame,
    columns: Sequence[str],
    derived: tuple[tuple[str, str], ...],
    arguments: Arguments,
    key: Mapping[str, object],
    bounds: Mapping[str, Bounds],
    most: int | None = None,
) -> pa.Table:
    """Columns of the rows with these key values (None: null) and within bounds, as matchers take them.

    columns: of the frame, and derived ones, (SQL, name) pairs, which Spark computes. most: so many rows at most.
    """
    selected = columns_of(_restricted(frame, key, bounds), tuple(columns), derived, arguments)
    schema = carry.arrow_schema(selected.schema)
    taken = carry.encode(selected if most is None else selected.limit(most)).toArrow()
    batches = [as_events(batch, schema) for batch in taken.to_batches()]
    return pa.concat_tables([schema.empty_table(), *batches])


def _restricted(frame: DataFrame, key: Mapping[str, object], bounds: Mapping[str, Bounds]) -> DataFrame:
    conditions: list[Column] = [F.col(quote(name)).eqNullSafe(F.lit(value)) for name, value in key.items()]
    for name, (least, greatest) in bounds.items():
        if least is not None:
            conditions.append(F.col(quote(name)) >= _literal(least))
        if greatest is not None:
            conditions.append(F.col(quote(name)) <= _literal(greatest))
    for condition in conditions:
        frame = frame.where(condition)
    return frame


def _literal(value: object) -> Column:
    """A value; a time without a zone stays one, where Spark's own would be of the machine's zone."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return F.lit(value.isoformat(sep=" ")).cast("timestamp_ntz")
    return F.lit(value)


def count_of_key(frame: DataFrame, key: Mapping[str, object]) -> int:
    """How many rows have these key values."""
    return _restricted(frame, key, {}).count()


def keys_by_rows(frame: DataFrame, keys: Sequence[str], most: int) -> pa.Table:
    """The values of the key columns with the number of their rows (column `rows`), the greatest numbers first."""
    counted = frame.groupBy(*(F.col(quote(name)) for name in keys)).agg(F.count(F.lit(1)).alias("rows"))
    return counted.orderBy(F.desc("rows"), *(F.col(quote(name)) for name in keys)).limit(most).toArrow()


def rows_at_most(
    frame: DataFrame, key: Mapping[str, object], bounds: Mapping[str, Bounds], time: str, most: int
) -> tuple[int, object]:
    """How many rows there are, and where there are more, the time up to which there are about so many."""
    restricted = _restricted(frame, key, bounds)
    count = restricted.count()
    if count <= most:
        return count, None
    share = F.lit(most / count)
    found = restricted.select(F.percentile_approx(F.col(quote(time)), share, F.lit(10_000)).alias("until")).toArrow()
    return count, found.column("until")[0].as_py()


def first_matches(frame: DataFrame, pattern: BoundPattern, run: RunOptions, most: int) -> pa.Table:
    """The matcher's columns of so many matches, the first that are found: Spark stops when it has them."""
    spark = frame.sparkSession
    batch = plan_batch(spark, frame, pattern.input_columns, pattern.derived, pattern.spec, run)
    matched = batch.frame()
    for condition in pattern.result.conditions:
        matched = where(matched, condition.sql, run.arguments)
    return matched.limit(most).toArrow()
