"""Two streams as one, each with a watermark of its own: Spark's is then that of the stream that is behind.

One watermark on both together would be that of the stream that is ahead, and the other one's events would be late.
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
        delays = [f"{delay} milliseconds" for delay in declared]
        shown = " and ".join(str(delay) for delay in declared)
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
        return F.timestamp_millis(column.cast("bigint"))
    if time.type == "timestamp":
        return column
    wall = f"CAST({quote(time.column)} AS TIMESTAMP_NTZ)"
    return F.expr(f"timestamp_micros(timestampdiff(MICROSECOND, {_EPOCH}, {wall}))")
