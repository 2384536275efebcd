"""A query of any language planned on Spark, over one DataFrame or over one per class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError, warn
from episode.lang.correlation.syntax import Correlation
from episode.queries.language import ARCHIVE, LIVE, Given, Input
from episode.queries.languages import language_of
from episode.queries.languages.class_names import Rows
from episode.queries.languages.correlation import CORRELATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.matchers.correlation.archive import History
    from episode.plan.correlation.pairs import PairPlan
    from episode.plan.options import RunOptions
    from episode.plan.schema import EventTable
    from episode.spark.correlation import PlannedCorrelation
    from episode.spark.query import PlannedQuery


Opened = Callable[[str, tuple[str, ...]], "History"]
"""Opens a history, by its own columns of time and keys."""


@dataclass(frozen=True)
class PatternEvents:
    """The events of one pattern on Spark. names: of their table. tables: of the classes that they were made of, if they
    were."""

    frame: DataFrame
    given: Given = field(default_factory=Given)
    names: tuple[str, ...] = ()
    tables: Mapping[str, EventTable] = field(default_factory=dict)

    def input(self, query: object, run: RunOptions) -> Input:
        from episode.spark.expressions import input_schema

        language = language_of(query)
        schema = input_schema(
            self.frame.sparkSession, self.frame, language.source(query), language.called, run.arguments
        )
        return Input(schema, self.names, self.tables)


def plan_over(spark: SparkSession, query: object, events: PatternEvents, run: RunOptions) -> PlannedQuery:
    from episode.spark.query import plan_query

    plan = language_of(query).bind(query, events.input(query, run), events.given, run)
    return plan_query(spark, events.frame, plan, run)


def warn_of_input(query: object, events: PatternEvents, planned: PlannedQuery) -> None:
    """Warn if the result over a table is likely not what was meant: rows in no order, classes without events. In a
    stream, the order is known and a class may come later."""
    if planned.is_stream:
        return
    language = language_of(query)
    if not planned.pattern.order:
        warn(
            f"{language.called[0].upper()}{language.called[1:]} has no ORDER BY: the rows of a table have no certain "
            "order on Spark, and matches may differ from run to run. Add ORDER BY with the columns that order the rows."
        )
    rows = None if events.tables else _rows_of(planned)
    if rows is not None:
        language.warn_of_rows(query, events.given, rows)


def _rows_of(planned: PlannedQuery) -> Rows | None:
    """Rows of the input that the driver can look at by itself: those of files that it reads directly."""
    from episode.spark.scan.sketch import all_looked_at, pieces_of_scan

    scan = getattr(planned.run, "scan", None)
    return None if scan is None else Rows(scan.schema, partial(pieces_of_scan, scan), all_looked_at(scan))


def plan_pair(
    spark: SparkSession,
    query: Correlation,
    live: PatternEvents,
    archive: PatternEvents,
    run: RunOptions,
    wanted: Collection[str] | None = None,
) -> PlannedCorrelation:
    """Two correlated patterns over their events. wanted: the columns of pairs that are asked for; None: all."""
    from episode.spark.correlation import files_of, one_table, plan_correlation
    from episode.spark.stores.catalog import stream_of_archive

    if archive.frame.isStreaming and not live.frame.isStreaming:
        message = "The live pattern is over a table, and the archive pattern over a stream."
        hint = "Read both as streams, both as tables, or the live one as a stream."
        raise query.source.error(EpisodeAnalysisError, message, query.duration.span, hint)
    stored = None
    if live.frame.isStreaming and not archive.frame.isStreaming:
        stored = stream_of_archive(spark, live.frame, archive.frame)
        archive = archive if stored is None else replace(archive, frame=stored.frame)
    _check_watermarks(query, live.frame, archive.frame)
    same = one_table(live.frame, archive.frame)
    inputs = (live.input(query.live, run), archive.input(query.archive, run))
    bound = CORRELATIONS.correlate(query, inputs, (live.given, archive.given), run, same)
    if live.frame.isStreaming and not archive.frame.isStreaming:
        files = files_of(archive.frame)
        bound = _with_history(query, bound, files, "the table of an archive pattern is read from Parquet files", True)
    elif stored is not None and (stored.begins_later or run.tuning.recent_buffer is not None):
        history, what = stored.history, "what came before the stream is read from its archive"
        bound = _with_history(query, bound, lambda time, keys: history, what, False)
    return plan_correlation(spark, live.frame, archive.frame, bound.check_buffer(), run, wanted)


def _check_watermarks(query: Correlation, live: DataFrame, archive: DataFrame) -> None:
    """Spark takes the least watermark of two streams only where either has one."""
    from episode.spark.stream.chain import has_watermark

    if live.isStreaming and archive.isStreaming and has_watermark(live) != has_watermark(archive):
        one, other = (LIVE, ARCHIVE) if has_watermark(live) else (ARCHIVE, LIVE)
        message = f"The stream of the {one} pattern has a watermark, and the {other} pattern's has none."
        hint = "Call withWatermark on both, or on neither and give Options(watermark=…)."
        raise query.source.error(EpisodeAnalysisError, message, query.duration.span, hint)


def _with_history(query: Correlation, bound: PairPlan, opened: Opened | str, what: str, closed: bool) -> PairPlan:
    """Add events of the archive pattern that workers read as live matches need them. opened: or why they cannot be
    read. what: in words, for that error."""
    from episode.matchers.correlation.spec import with_history

    computed = [sql for sql, _ in bound.archive.derived]
    reason = opened if isinstance(opened, str) else f"Spark computes {computed[0]} of it" if computed else None
    if isinstance(opened, str) or reason is not None:
        message = f"Under a stream, {what} as live matches ask for it. This one cannot be: {reason}."
        hint = (
            "Give the archive as a path, or by spark.read.parquet(…), with nothing done to it; or read it as a stream."
        )
        raise query.source.error(EpisodeUnsupportedError, message, query.duration.span, hint)
    return with_history(bound, opened, closed)


def events_of_classes(
    spark: SparkSession, query: object, frames: Mapping[str, DataFrame], given: Given
) -> PatternEvents:
    """The DataFrames of classes as one stream of events."""
    from episode.spark.expressions import input_schema, one_stream

    language = language_of(query)
    source = language.source(query)
    live = {name for name, frame in frames.items() if frame.isStreaming}
    if live and len(live) < len(frames):
        message = f"{', '.join(sorted(live))} is a stream and {', '.join(sorted(set(frames) - live))} is not."
        hint = "Read all tables of one pattern as streams, or none."
        raise source.error(EpisodeAnalysisError, message, source.span.beginning, hint)
    schemas = {name: input_schema(spark, frame, source, f"the class {name}") for name, frame in frames.items()}
    tables = language.unite(query, schemas, given)
    return PatternEvents(one_stream(frames, tables), given, tables=tables)
