"""Streams whose live store is Kafka: the topic as a stream, appends to it, and its archive.

Events are JSON objects, their key is the record's key, so that one key's events stay in order. The archive is that of
the embedded store: each micro-batch of the archiver is a commit of it, and its manifest keeps the offsets up to which
the topic is archived.

See decision 111.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeDataError
from episode.plan.schema import quote
from episode.spark.errors import raise_translation
from episode.spark.stores.source import ARCHIVED_TO, CATALOG, FORMAT, STREAM, declared_schema
from episode.spark.tables import no_connector
from episode.store.archive import Arrival
from episode.store.conforming import conform
from episode.store.declaration import Declaration
from episode.store.manifest import choose_partitioning
from episode.store.stream import StreamStore

TOPIC = "topic"
ARCHIVE_BATCH = 1_000_000
"""Events that the archiver takes at once, at most: they go through the driver."""

OF_STREAMS = (
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
)  # fmt: skip
"""Options of the declaration that only a stream takes."""

_FORMATS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Written with all microseconds; any ISO time is read."""

_PLACE = ("partition", "offset")


def topic_stream(spark: SparkSession, declaration: Declaration) -> DataFrame:
    """The events of the topic as they come; from the first one unless the declaration sets another start."""
    further = {name: value for name, value in declaration.options.items() if name in OF_STREAMS}
    options = {"startingOffsets": "earliest", **_connection(declaration), **further}
    return _events(_load(spark.readStream, options, declaration), declaration)


def topic_table(spark: SparkSession, declaration: Declaration, catalog: str) -> DataFrame:
    """Every event so far, once: from the archive, and later ones from the topic."""
    manifest = StreamStore(declaration).archived.manifest()
    offsets = manifest.origin.get("offsets")
    options = {**_connection(declaration), "startingOffsets": json.dumps(offsets) if offsets else "earliest"}
    beyond = _events(_load(spark.read, options, declaration), declaration)
    if not manifest.version:
        return beyond
    archived = spark.read.format(FORMAT).option(CATALOG, catalog).option(STREAM, declaration.name)
    return archived.option(ARCHIVED_TO, manifest.archived_to).load().unionByName(beyond)


def append_to_topic(frame: DataFrame, declaration: Declaration) -> None:
    """Send the rows of a table to the topic; a row without an event time is an error."""
    message = f"A row has no event time: {declaration.time} is null."
    untimed = F.col(quote(declaration.time)).isNull()
    names = [quote(name) for name, _ in declaration.columns]
    value = F.when(untimed, F.raise_error(F.lit(message))).otherwise(F.to_json(F.struct(*names), _FORMATS))
    columns = [value.alias("value")]
    if declaration.key:  # one column as a text, several as a JSON array
        keys = [F.col(quote(name)).cast("string") for name in declaration.key]
        columns.append((keys[0] if len(keys) == 1 else F.to_json(F.array(*keys))).alias("key"))
    options = {**_connection(declaration), TOPIC: declaration.options[TOPIC]}
    del options["subscribe"]
    try:
        frame.select(*columns).write.format("kafka").options(**options).save()
    except AnalysisException as error:
        raise no_connector(error, declaration.options[TOPIC], frame.sparkSession) or error from None
    except PySparkException as error:
        if message in str(error):
            hint = "Nothing is known of the rows before it: Kafka may have them."
            raise EpisodeDataError(message, hint=hint) from None
        raise


# ---- archiving ---------------------------------------------------------------------------------------


def archive_topic(spark: SparkSession, declaration: Declaration, *, skip_corrupt: bool = False) -> int:
    """Move all events of the topic so far into the archive; returns their number.

    skip_corrupt: skip and count records that are not events of the stream (not JSON, no event time).
    """
    archiver = _Archiver(declaration, skip_corrupt)
    archiver.check()
    before = archiver.store.archived.manifest().rows
    limit = declaration.options.get("maxOffsetsPerTrigger", str(ARCHIVE_BATCH))
    options = {"startingOffsets": "earliest", **_connection(declaration), "maxOffsetsPerTrigger": limit}
    frame = _events(_load(spark.readStream, options, declaration), declaration, _PLACE)
    writer = frame.writeStream.foreachBatch(archiver.add).option("checkpointLocation", str(archiver.checkpoint))
    with raise_translation():
        writer.trigger(availableNow=True).start().awaitTermination()
    archived = archiver.store.archived
    archived.compact()
    added = archived.manifest().rows - before
    archiver.expire()
    return added


class _Archiver:
    """Takes micro-batches of a topic into the archive, each once: the number of the batch is that of the commit."""

    def __init__(self, declaration: Declaration, skip_corrupt: bool) -> None:
        self.declaration, self.skip_corrupt = declaration, skip_corrupt
        self.store = StreamStore(declaration)
        self.checkpoint = Path(declaration.location) / "archiver"

    def check(self) -> None:
        archived = self.store.archived.manifest().archived_to
        if archived and not (self.checkpoint / "offsets").is_dir():
            raise EpisodeDataError(
                f"The archiver of {self.declaration.name} has lost its checkpoint {self.checkpoint}.",
                hint="Restore the directory: without it, events would be archived twice or not at all.",
            )

    def add(self, frame: DataFrame, batch: int) -> None:
        """Runs in the driver."""
        commit = batch + 1
        if commit <= self.store.archived.manifest().archived_to:
            return  # it was archived before the query was killed
        table, skipped = self._valid(frame.toArrow().sort_by([(name, "ascending") for name in _PLACE]))
        events = conform(table.drop_columns(list(_PLACE)), self.declaration)
        manifest = self.store.archived.manifest()
        arrival = Arrival(commit, events, True, manifest.logged + events.num_rows, skipped > 0)
        # the offsets of all partitions after a batch, which Spark wrote before it ran the batch
        offsets = (self.checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()[-1]
        origin = {"offsets": json.loads(offsets), "skipped": manifest.origin.get("skipped", 0) + skipped}
        self.store.archived.extend(lambda _: [arrival], lambda: self._partitioning(events), origin)

    def _valid(self, table: pa.Table) -> tuple[pa.Table, int]:
        """The records that are events, and the number of the others."""
        wrong = table.column(self.declaration.time).is_null()
        count = table.column(self.declaration.time).null_count
        if count and not self.skip_corrupt:
            row = pc.index(wrong, True).as_py()
            partition, offset = (table.column(name)[row].as_py() for name in _PLACE)
            raise EpisodeDataError(
                f"The record {offset} of partition {partition} of the topic {self.declaration.options[TOPIC]} is "
                f"not an event of {self.declaration.name}: it has no {self.declaration.time}.",
                hint="archive(…, skip_corrupt=True) leaves such records out, and counts them.",
            )
        return (table.filter(pc.invert(wrong)) if count else table), count

    def _partitioning(self, events: pa.Table) -> Any:
        from episode.store.lanes import event_times

        times = event_times(events, self.declaration.time)
        least, greatest = (int(times.min()), int(times.max())) if len(times) else (0, 0)
        return choose_partitioning(self.declaration, len(times), least, greatest)

    def expire(self) -> None:
        """Remove events that RETAIN no longer keeps."""
        archived, retain = self.store.archived, self.declaration.retain
        greatest = max((file.greatest for file in archived.manifest().files), default=None)
        limit = None if retain is None else archived.limit(retain, greatest)
        if limit is not None:
            archived.expire(limit)
        archived.tidy()


# ---- reading -----------------------------------------------------------------------------------------


def _connection(declaration: Declaration) -> dict[str, str]:
    """The options of every reader."""
    options = {name: value for name, value in declaration.options.items() if name not in (*OF_STREAMS, TOPIC)}
    return {**options, "subscribe": declaration.options[TOPIC]}


def _load(reader: Any, options: Mapping[str, str], declaration: Declaration) -> DataFrame:
    try:
        return reader.format("kafka").options(**options).load()
    except AnalysisException as error:
        raise no_connector(error, declaration.options[TOPIC], reader._spark) or error from None


def _events(records: DataFrame, declaration: Declaration, extra: tuple[str, ...] = ()) -> DataFrame:
    """The values of records as rows of the stream. extra: columns of the records to keep."""
    schema = declared_schema(declaration)
    event = F.from_json(F.col("value").cast("string"), schema).alias("__episode_event")
    rows = records.select(event, *extra)
    columns = [
        F.col(f"__episode_event.{quote(field.name)}").alias(field.name, metadata=field.metadata or {})
        for field in schema
    ]
    return rows.select(*columns, *extra)
