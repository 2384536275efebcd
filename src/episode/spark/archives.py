"""The archive of a declared stream, under a live stream: the events of the stream that it archives.

An archive grows with its stream, and what is archived of an event's past is all that happened before it. So over a live
stream, the name of an archive means the stream, with everything that was archived before the query began.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from episode.spark.store_reading import EARLIEST
from episode.spark.store_source import STARTING
from episode.spark.stores import StoreScan, scan_of, store_table
from episode.store.history import StoreHistory


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
    found = scan_of(spark, archive)
    if found is None or any(ours != theirs for ours, theirs in found.columns.items()):
        return None
    declaration = found.declaration
    own = scan_of(spark, live)
    if own is not None and own.declaration == declaration and _covers(own, found):
        return ArchivedStream(live, StoreHistory(declaration), _starting(own) not in (EARLIEST, "0"))
    frame = store_table(spark, declaration.name)
    return None if frame is None else ArchivedStream(frame, StoreHistory(declaration), False)


def _covers(own: StoreScan, other: StoreScan) -> bool:
    """Has it all columns of the other one, under the same names?"""
    return all(own.columns.get(ours) == theirs for ours, theirs in other.columns.items())


def _starting(scan: StoreScan) -> str:
    given = {name.lower(): value for name, value in scan.options.items()}
    return given.get(STARTING.lower(), EARLIEST).lower()
