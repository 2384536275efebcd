"""The stream runtime: pack the events of a micro-batch, shuffle the envelopes by shard, match them with state.

There is one state group per shard. The watermark is the input's own if it has one; otherwise it is set on the
envelopes; over matches of another pattern it is that pattern's (`spark.stream.chain`). Late events are recognised one
by one inside the shard (`matchers.stream_shard`), not by Spark: so they can be counted and kept.

See decisions 38 and 41.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError, warn
from episode.matchers.envelope import SCHEMA, Packing, pack
from episode.matchers.protocol import MatcherSpec
from episode.matchers.quarantine import check_skips_keys
from episode.matchers.stream_shard import ShardSettings
from episode.plan.event_time import Delays, EventTime, counted_in, end_of_stream, watermark_delay, widest
from episode.plan.options import RunOptions
from episode.plan.parameters import arguments_text
from episode.plan.schema import OWN, quote
from episode.plan.types import is_integer
from episode.spark import types as carry
from episode.spark.classic import parallelism
from episode.spark.expressions import TIME
from episode.spark.packing import columns_of, pack_rows, with_call
from episode.spark.startup.session import PARTITIONS, ROCKSDB, STATE_STORE
from episode.spark.stores.catalog import StoreScan, scan_of
from episode.spark.stream.chain import DELAY, WATERMARK, WatermarkClock, chain_of, has_watermark, mark
from episode.spark.stream.packed_processor import PackedProcessor
from episode.spark.stream.shards import COUNTERS, OUTPUT, ROLL_CALL, ShardProcessor, StreamSettings, open_matches
from episode.spark.versions import check_streams

# Event time on Spark's clock; and two streams as one, each with its own watermark. Spark's watermark is then that of
# the stream that is behind. One watermark on both together would be that of the stream that is ahead, and the events of
# the other would be late.

MOMENT = f"{OWN}moment"
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_MICROS = 1000
_MOST_MILLISECONDS = (2**63 - 1) // _MICROS
"""Whole numbers beyond this are not times of Spark's clock, which counts microseconds."""

_BEYOND = (
    "\nepisode.errors.",  # apart from the next word: plans that errors show must not look like one of ours
    "EpisodeDataError: The event time ",
    " is beyond the clock of a stream, on which one stands for a millisecond.\n"
    "  If it counts smaller units, set StreamOptions(time_unit='nanoseconds') or 'microseconds'.",
)


def on_the_clock(time: Column, unit: int) -> Column:
    """Event time, a whole number, as a time of Spark's clock. unit: how many of them a millisecond has."""
    if unit > _MICROS:
        divisor = F.lit(unit // _MICROS)
        return F.timestamp_micros(F.call_function("div", time - F.pmod(time, divisor), divisor))
    if unit == _MICROS:
        return F.timestamp_micros(time)
    beyond = F.raise_error(F.concat(*map(F.lit, _BEYOND[:2]), time.cast("string"), F.lit(_BEYOND[2])))
    fitting = time.between(-_MOST_MILLISECONDS, _MOST_MILLISECONDS)
    return F.timestamp_micros(F.when(fitting, time).otherwise(beyond.cast("bigint")) * (_MICROS // unit))


def declared_delay(declared: int, time: EventTime) -> int:
    """The delay that a stream declares, in milliseconds of Spark's clock."""
    return -(-declared // time.units_per_millisecond) if is_integer(time.type) else declared


def own_watermarks(
    streams: Sequence[DataFrame], time: EventTime, watermark: str | int | None
) -> tuple[list[DataFrame], str | None]:
    """The streams, whose event time is one column, with watermarks; and in words how late their events may come.

    watermark: the caller's; otherwise each stream declares its own. None in words: no watermark was set, because a
    stream has one already, has matches of another pattern, or declares none (then those of the others do not count).
    """
    if any(has_watermark(stream) or chain_of(stream) is not None for stream in streams):
        return list(streams), None
    declared = [stream.schema[time.column].metadata.get(TIME) for stream in streams]
    if watermark is not None:
        delays = [watermark_delay(watermark, time)] * len(streams)
        words = f"{watermark} behind {time.column} of the stream that is behind"
    elif None not in declared:
        milliseconds = [declared_delay(delay, time) for delay in declared]
        delays = [f"{delay} milliseconds" for delay in milliseconds]
        shown = " and ".join(str(delay) for delay in milliseconds)
        words = f"{shown} ms behind {time.column} (as the streams declare), of the one that is behind"
    else:
        own = F.col(quote(time.column)).alias(time.column, metadata={})
        return [stream.withColumn(time.column, own) for stream in streams], None
    moment = _moment(time)
    return [
        stream.withColumn(MOMENT, moment).withWatermark(MOMENT, delay).drop(MOMENT)
        for stream, delay in zip(streams, delays, strict=True)
    ], words


def _moment(time: EventTime) -> Column:
    """Return event time as a moment of Spark's clock."""
    column = F.col(quote(time.column))
    if is_integer(time.type):
        return on_the_clock(column.cast("bigint"), time.units_per_millisecond)
    if time.type == "timestamp":
        return column
    wall = f"CAST({quote(time.column)} AS TIMESTAMP_NTZ)"
    return F.expr(f"timestamp_micros(timestampdiff(MICROSECOND, {_EPOCH}, {wall}))")


LOGGER = logging.getLogger("episode.spark")
STREAM_SHARDS = 32
"""Default number of shards: the same everywhere, because a checkpoint keeps its state by shard."""

TIME_ZONE = "spark.sql.session.timeZone"
FEW_PARTITIONS = 16
"""Up to this many state partitions are never too many."""


@dataclass(frozen=True)
class Stream:
    """A planned stream: `frame()` is its result, a streaming DataFrame.

    delay: of the watermark that is set here (None: the input has one). delays: of the times in the pattern's output.
    takes_watermark: is the caller's watermark in use, for this stream or for the matches that are its events?
    store: the stream store that the input is, where its readers pack the envelopes.
    """

    spark: SparkSession
    input: DataFrame
    schema: pa.Schema
    spec: MatcherSpec
    settings: StreamSettings
    delay: str | None
    delay_words: str
    metrics: str
    delays: Delays
    takes_watermark: bool
    store: StoreScan | None = None

    is_stream: ClassVar[bool] = True

    @property
    def over_matches(self) -> bool:
        """Whether the events are matches of another pattern."""
        return self.settings.shard.late_by_last_step

    @property
    def reasons(self) -> list[str]:
        """The input and the number of shards, for explain."""
        late = f"kept in {self.settings.late_path}" if self.settings.late_path else "dropped"
        sliced = "slices: none (the events of a stream are matched as they come, those of a key by one task)"
        events = "rows of a stream" if self.store is None else f"envelopes of the stream store {self.store.name}"
        return [
            f"scan: {events}",
            f"shards: {self.settings.shards:,} (fixed for the life of a checkpoint)",
            *([] if self.spec.input_order.keys else [sliced]),
            f"watermark: {self.delay_words}; later events are counted and {late}",
        ]

    def frame(self) -> DataFrame:
        """The matches; counters of every micro-batch are observed under the name `metrics`."""
        LOGGER.info("pattern over a stream: %s", "; ".join(self.reasons))
        envelopes = self._envelopes()
        if self.delay is not None:
            time = on_the_clock(F.coalesce(F.col("last_time"), F.lit(0)), self.settings.clock.unit)
            envelopes = envelopes.withColumn("event_time", time).withWatermark("event_time", self.delay)
        matched = (
            envelopes.select("shard", "origin", "blob")
            .groupBy("shard")
            .transformWithStateInPandas(PackedProcessor(self._processor()), OUTPUT, "append", "EventTime")
        )
        observed = matched.observe(self.metrics, *[F.coalesce(F.sum(one), F.lit(0)).alias(one) for one in COUNTERS])
        schema, end = carry.travel_schema(self.spec.output_schema), self.settings.shard.end
        settled = None if end is None else max(0, self.settings.clock.reaches(end - 1))  # no more matches then
        within = self._milliseconds(widest(self.delays.values()))
        blobs = observed.select(F.col("blob").alias(mark(within, settled)))
        return carry.decode(blobs.mapInArrow(open_matches, schema), self.spec.output_schema)

    def _processor(self) -> ShardProcessor:
        return ShardProcessor(self.spec, self.settings)

    def _envelopes(self) -> DataFrame:
        packing = Packing(self.spec.input_order, self.settings.shards)
        if self.store is not None:
            return self.store.envelopes(packing, ROLL_CALL)

        def packer(tables: Iterator[pa.Table], partition_index: int) -> Iterator[pa.RecordBatch]:
            # ROLL_CALL is called because a shard alone cannot tell that the number of shards has changed: its keys then
            # come from shards of other numbers. See `ShardProcessor.handleInputRows`.
            return with_call(pack(tables, packing, partition_index), ROLL_CALL)

        return carry.encode(self.input).mapInArrow(pack_rows(packer, self.schema), SCHEMA)

    def metadata(self, column: str) -> dict[str, int] | None:
        """The delay of an output column with times of matches, for a further pattern."""
        if column not in self.delays:
            return None
        delay = self._milliseconds(self.delays[column])
        return {DELAY: -1 if delay is None else delay}

    def _milliseconds(self, delay: int | None) -> int | None:
        """A delay of the output's times, by Spark's watermark."""
        clock = self.settings.clock
        return None if delay is None else clock.delay - (-delay // clock.unit)


def plan_stream(
    spark: SparkSession,
    frame: DataFrame,
    columns: tuple[str, ...],
    derived: tuple[tuple[str, str], ...],
    spec_of: Callable[[pa.Schema], MatcherSpec],
    time: EventTime,
    delays: Delays,
    run: RunOptions,
    watermark: str | None = None,
) -> Stream:
    """Plan a run over a streaming DataFrame.

    columns: those that the query reads; the event id comes to them. delays: of the times in the pattern's output.
    watermark: in words, where the streams that the frame is made of have got theirs already.
    """
    options = run.stream
    time = counted_in(time, options.time_unit)
    if options.event_id is not None and options.event_id not in frame.columns:
        raise EpisodeAnalysisError(
            f"StreamOptions(event_id={options.event_id!r}): the stream has no such column.",
            hint=f"Its columns: {', '.join(frame.columns)}.",
        )
    read = [*columns, *([] if options.event_id is None else [options.event_id])]
    selected = columns_of(frame, tuple(dict.fromkeys(read)), derived, run.arguments)
    schema = carry.arrow_schema(selected.schema)
    spec = spec_of(schema)
    carry.check_order(selected.schema, spec.input_order)
    chain, counters, clock = chain_of(selected), run.counters, WatermarkClock(time.units_per_millisecond)
    delay: str | None = None
    if watermark is not None:
        words, takes_watermark = watermark, run.watermark is not None
    elif chain is None:
        delay, words = _watermark(selected, time, run.watermark)
        takes_watermark = delay is not None
    else:
        counters = chain.free_name(run.counters)
        clock, words, takes_watermark = chain.clock(selected, time, run.watermark)
    provider = spark.conf.get(STATE_STORE) or ""
    if not provider.endswith(ROCKSDB.rpartition(".")[2]):
        raise EpisodeAnalysisError(
            f"Pattern matching over streams needs Spark's RocksDB state store; the session uses {provider}.",
            hint=f'spark.conf.set("{STATE_STORE}", "{ROCKSDB}") before the query is made.',
        )
    check_streams()
    end, keep_late = end_of_stream(options.end, time, spark.conf.get(TIME_ZONE)), options.late_path is not None
    if options.skips_keys:
        check_skips_keys(spec)
    shard = ShardSettings(
        end, options.event_id, keep_late, late_by_last_step=chain is not None, skip_keys=options.skips_keys
    )
    count = 1 if not spec.input_order.keys else run.tuning.shards or STREAM_SHARDS
    settings = StreamSettings(
        shard, clock, count, options.late_path, counters, arguments_text(run.arguments), options.time_unit or ""
    )
    message = many_partitions(int(spark.conf.get(PARTITIONS) or 0), count, parallelism(spark))
    if message is not None:
        warn(message)
    store = None if derived or chain is not None else scan_of(spark, selected)
    return Stream(spark, selected, schema, spec, settings, delay, words, counters, delays, takes_watermark, store)


def _watermark(frame: DataFrame, time: EventTime, given: str | int | None) -> tuple[str | None, str]:
    """The delay of the watermark that episode sets (None: the input has one), and in words. given: as an option."""
    watermarked = {f.name: f.metadata[WATERMARK] for f in frame.schema.fields if WATERMARK in f.metadata}
    if time.column in watermarked:
        if given is not None:
            raise EpisodeAnalysisError(
                f"The stream has a watermark on {time.column} already, and Options(watermark=…) gives another one.",
                hint="Leave one of the two out.",
            )
        return None, f"{watermarked[time.column]} ms behind {time.column} (the stream's own)"
    declared = frame.schema[time.column].metadata.get(TIME)
    if given is None and declared is not None:
        milliseconds = declared_delay(declared, time)
        return f"{milliseconds} milliseconds", f"{milliseconds} ms behind {time.column} (as its stream declares)"
    if given is None:
        raise EpisodeAnalysisError(
            f"The stream has no watermark on its event time {time.column}: how late may events come?",
            hint=f"Call withWatermark({time.column!r}, '10 seconds') on the DataFrame, or give Options(watermark=…).",
        )
    delay = watermark_delay(given, time)
    return delay, f"{given} behind {time.column}"


def many_partitions(partitions: int, shards: int, slots: int | None) -> str | None:
    """A warning if there are far more state partitions than shards and slots (None: unknown): every micro-batch opens
    and commits each of them, also empty ones."""
    if partitions <= 2 * max(shards, slots or 1, FEW_PARTITIONS):
        return None
    wanted = min(shards, max(2, slots or shards))
    return (
        f"Spark keeps the state of this stream in {partitions} partitions, and its events are in {shards} "
        f"{'shard' if shards == 1 else 'shards'}: every micro-batch waits for the upkeep of empty partitions. "
        f'spark.conf.set("{PARTITIONS}", "{wanted}") before the query is made; '
        "a checkpoint keeps the number that it was begun with."
    )
