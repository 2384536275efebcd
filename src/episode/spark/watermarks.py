"""Event time on Spark's clock; and two streams as one, each with a watermark of its own.

Spark's watermark is then that of the stream that is behind. One watermark on both together would be that of the stream
that is ahead, and the other one's events would be late.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from episode.plan.event_time import EventTime, watermark_delay
from episode.plan.schema import OWN, quote
from episode.plan.types import is_integer
from episode.spark.chain import chain_of, has_watermark
from episode.spark.schema import TIME

MOMENT = f"{OWN}moment"
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_MICROS = 1000
_MOST_MILLISECONDS = (2**63 - 1) // _MICROS
"""Greater whole numbers are no times of Spark's clock, which counts microseconds."""

_BEYOND = (
    "\nepisode.errors.",  # apart from the next word: plans that errors show must not look like one of ours
    "EpisodeDataError: The event time ",
    " is beyond the clock of a stream, on which one stands for a millisecond.\n"
    "  If it counts less, say so: Options(time_unit='nanoseconds') or 'microseconds'.",
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

    watermark: what the caller says; otherwise each stream says it. None in words: no watermark was set, because a
    stream has one already, has matches of another pattern, or says nothing of it (then it counts for nothing that
    another one does).
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
    """Event time as the moment of Spark's clock that stands for it: see `stream`."""
    column = F.col(quote(time.column))
    if is_integer(time.type):
        return on_the_clock(column.cast("bigint"), time.units_per_millisecond)
    if time.type == "timestamp":
        return column
    wall = f"CAST({quote(time.column)} AS TIMESTAMP_NTZ)"
    return F.expr(f"timestamp_micros(timestampdiff(MICROSECOND, {_EPOCH}, {wall}))")
