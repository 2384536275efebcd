"""The archive of a declared stream, under a live stream: the events of the stream that it archives.

An archive grows with its stream, and what is archived of an event's past is all that happened before it. So over a live
stream, the name of an archive means the stream, with everything that was archived before the query began.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from episode.plan.schema import quote
from episode.spark.store_reading import EARLIEST
from episode.spark.store_source import STARTING
from episode.spark.stores import declaration_of, scan_of, store_table
from episode.store.declaration import Declaration
from episode.store.history import StoreHistory

_BEGINNINGS = (EARLIEST, "0")


@dataclass(frozen=True)
class ArchivedStream:
    """frame: the stream. history: of it. begins_later: do the first events not come in, because it is read from a later
    position on?"""

    frame: DataFrame
    history: StoreHistory
    begins_later: bool


def stream_of_archive(spark: SparkSession, live: DataFrame, archive: DataFrame) -> ArchivedStream | None:
    """The stream after a frame that is a declared archive; None where it is not. live: the frame of the live pattern,
    which may be the same stream."""
    declaration = declaration_of(spark, archive)
    if declaration is None:
        return None
    history = StoreHistory(declaration)
    if declaration_of(spark, live) == declaration and set(archive.columns) <= set(live.columns):
        return ArchivedStream(live, history, _beginning(spark, live, declaration) not in _BEGINNINGS)
    frame = store_table(spark, declaration.name)
    return None if frame is None else ArchivedStream(frame.select(*map(quote, archive.columns)), history, False)


def _beginning(spark: SparkSession, live: DataFrame, declaration: Declaration) -> str:
    """Where a stream is read from."""
    scan = scan_of(spark, live)
    given, name = (declaration.options, "startingOffsets") if scan is None else (scan.options, STARTING)
    lower = {option.lower(): value for option, value in given.items()}
    return lower.get(name.lower(), EARLIEST).lower()
