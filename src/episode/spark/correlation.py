"""Correlated patterns on Spark: the events of both as one frame, and the pairs of matches with the columns of both."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.matchers.correlation.spec import CorrelationSpec, correlation_spec
from episode.matchers.correlation.strategies import unavailable
from episode.matchers.protocol import StateLimit
from episode.plan.correlation.pairs import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN, PairPlan
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.event_time import counted_in
from episode.plan.options import RunOptions
from episode.plan.output import HIDDEN_END, HIDDEN_START, MATCH_END, MATCH_START, Result
from episode.plan.schema import quote
from episode.spark import types as carry
from episode.spark.batch.runtime import plan_batch
from episode.spark.classic import parquet_roots
from episode.spark.expressions import Arguments, check_measures, select, unite, where
from episode.spark.query import Planned
from episode.spark.stream.runtime import own_watermarks, plan_stream
from episode.store.history import ParquetHistory

_TIMES = {MATCH_START: HIDDEN_START, MATCH_END: HIDDEN_END}
"""Names of a pair's times while the columns of its matches are computed."""


@dataclass(frozen=True)
class PlannedCorrelation(Planned):
    """Two patterns on their inputs: lazily a DataFrame of pairs."""

    pattern: PairPlan

    @property
    def reasons(self) -> list[str]:
        """Why it runs as it does, and which strategies it cannot use."""
        barred = unavailable(self.run.spec) if isinstance(self.run.spec, CorrelationSpec) else {}
        refused = [f"not available: {strategy.value}, because {reason}" for strategy, reason in barred.items()]
        return [*self.run.reasons, *refused]

    def frame(self) -> DataFrame:
        """The pairs: columns of the live match, of the archive match (either with its prefix), and their times."""
        done = _both_finished(self._whole(self.run.frame()), self.pattern, self.arguments)
        prefixes = (LIVE_PREFIX, ARCHIVE_PREFIX)
        columns = [F.col(quote(name)) for prefix in prefixes for name in done.columns if name.startswith(prefix)]
        return done.select(*columns, *(self._column(F.col(quote(own)), name) for name, own in _TIMES.items()))

    def _whole(self, matched: DataFrame) -> DataFrame:
        """Add nulls for columns that are not built: they are unused, and Spark drops them."""
        spec = self.run.spec
        if not isinstance(spec, CorrelationSpec) or spec.wanted is None:
            return matched
        columns = []
        for field in replace(spec, wanted=None).output_schema:
            missing = F.lit(None).cast(carry.spark_type(field)).alias(field.name)
            columns.append(F.col(quote(field.name)) if field.name in spec.wanted else missing)
        return matched.select(*columns)


def _both_finished(matched: DataFrame, pattern: PairPlan, arguments: Arguments) -> DataFrame:
    """The pairs with the columns of both patterns' outputs in place of their matchers' columns."""
    names = list(matched.columns)
    for time, hidden in _TIMES.items():
        matched = matched.withColumnRenamed(time, hidden)
    live = [name for name in names if name.startswith(LIVE_PREFIX)]
    archive = [name for name in names if name.startswith(ARCHIVE_PREFIX)]
    half = _finish(matched, pattern.live.result, LIVE_PREFIX, live, arguments)
    return _finish(half, pattern.archive.result, ARCHIVE_PREFIX, archive, arguments)


def finished_pairs(spark: SparkSession, matched: pa.Table, pattern: PairPlan, arguments: Arguments) -> DataFrame:
    """Pairs that were matched in this process, finished by Spark: the columns of both patterns, and any others."""
    return _both_finished(spark.createDataFrame(matched), pattern, arguments)


def _finish(matched: DataFrame, result: Result, prefix: str, columns: list[str], arguments: Arguments) -> DataFrame:
    """The pairs with the columns of one pattern's output in place of its matcher's columns, which have its prefix."""
    others = [(quote(name), name) for name in matched.columns if name not in columns]
    own = matched.select(
        *(F.col(quote(name)).alias(name.removeprefix(prefix)) for name in columns),
        *(F.col(sql) for sql, _ in others),
    )
    check_measures(own, result, arguments)
    for condition in result.conditions:
        own = where(own, condition.sql, arguments)
    return select(own, [*((one.sql, f"{prefix}{one.name}") for one in result.outputs), *others], arguments)


def plan_correlation(
    spark: SparkSession,
    live: DataFrame,
    archive: DataFrame,
    pattern: PairPlan,
    run: RunOptions,
    wanted: Collection[str] | None = None,
) -> PlannedCorrelation:
    """Plan a run of correlated patterns over the DataFrames that they were bound to. wanted: lower-cased names of
    the only columns that are asked for: others are not built, which is most of the cost where pairs are many. Over
    streams all are built."""
    parts = [live] if pattern.shared else _parts(live, archive, pattern, run)
    columns, derived = pattern.input_columns, pattern.derived
    if not live.isStreaming:
        spec = partial(_narrow_spec, pattern, wanted)
        batch = plan_batch(spark, unite(parts), columns, derived, spec, run)
        return PlannedCorrelation(pattern, batch, run.arguments)
    limit = StateLimit.of(run.stream)
    time, watermark = counted_in(pattern.event_time(limit is not None), run.stream.time_unit), None
    if pattern.closed:
        events, other = parts
        missing = [one for one in other.schema if one.name not in events.columns]
        parts = [events.select("*", *(F.lit(None).cast(one.dataType).alias(one.name) for one in missing))]
    elif len(parts) > 1:
        parts, watermark = own_watermarks(parts, time, run.watermark)
    spec_of, delays = partial(correlation_spec, pattern, limit=limit), pattern.delays()
    stream = plan_stream(spark, unite(parts), columns, derived, spec_of, time, delays, run, watermark)
    return PlannedCorrelation(pattern, stream, run.arguments)


def _narrow_spec(pattern: PairPlan, wanted: Collection[str] | None, schema: pa.Schema) -> CorrelationSpec:
    """Restrict the spec to the wanted columns of the pairs."""
    spec = correlation_spec(pattern, schema)
    if wanted is None:
        return spec
    sides = ((LIVE_PREFIX, pattern.live.result), (ARCHIVE_PREFIX, pattern.archive.result))
    columns = {f"{prefix}{name}" for prefix, result in sides for name in result.values(wanted)}
    times = [time for time in _TIMES if time in wanted]
    names = {*columns, *times} & set(spec.output_schema.names)
    return replace(spec, wanted=frozenset(names or {MATCH_END}))


def _parts(live: DataFrame, archive: DataFrame, pattern: PairPlan, run: RunOptions) -> list[DataFrame]:
    """The rows of both tables, marked by their side; with the event id, if there is one."""
    event_id, parts = run.stream.event_id, []
    for frame, selections, side in zip((live, archive), pattern.selections, (LIVE_ROW, ARCHIVE_ROW), strict=True):
        named = [] if event_id is None or event_id not in frame.columns else [(quote(event_id), event_id)]
        own = select(frame, list(dict.fromkeys([*selections, *named])), run.arguments)
        parts.append(own.withColumn(SIDE_COLUMN, F.lit(side).cast("tinyint")))
    return parts


def one_table(live: DataFrame, archive: DataFrame) -> bool:
    """Are both frames the same rows?"""
    if live is archive:
        return True
    try:
        return live.sameSemantics(archive)
    except PySparkException:
        return False


def files_of(table: DataFrame) -> Callable[[str, tuple[str, ...]], ParquetHistory] | str:
    """A direct scan of a table's Parquet files, given its columns of time and keys; or the reason why not."""
    roots = parquet_roots(table)
    if isinstance(roots, str):
        return roots
    schema = carry.arrow_schema(table.schema)
    return lambda time, keys: ParquetHistory(roots, time, keys, schema)
