"""Stream stores in a Spark session: the catalog, the data source, and streams and archives by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from episode.matchers.envelope import SCHEMA, Packing
from episode.plan.schema import quote
from episode.spark.classic import table_of_source
from episode.spark.errors import raise_translation
from episode.spark.scan.direct import row_bytes
from episode.spark.stores.kafka import append_to_topic, topic_stream, topic_table
from episode.spark.stores.reading import EARLIEST, EnvelopeOptions
from episode.spark.stores.source import (
    CATALOG,
    ENVELOPES,
    FORMAT,
    MAX_EVENTS,
    STARTING,
    STREAM,
    EpisodeSource,
    declared_schema,
)
from episode.spark.types import arrow_schema
from episode.spark.versions import check_read_limit
from episode.store.catalog import Catalog, catalog_directory
from episode.store.conforming import conform
from episode.store.declaration import Declaration
from episode.store.history import StoreHistory
from episode.store.stream import open_store

SETTING = "spark.episode.catalog"
_WAREHOUSE = "spark.sql.warehouse.dir"
_REGISTERED = "spark.episode.registered"
"""The catalog with which the data source is registered in a session."""


def catalog_of(spark: SparkSession) -> Catalog:
    """The catalog of a session: EPISODE_CATALOG, `spark.episode.catalog`, or in Spark's warehouse."""
    return Catalog(catalog_directory(_conf(spark, SETTING), _conf(spark, _WAREHOUSE)))


def register(spark: SparkSession) -> None:
    """Make `format("episode")` known to a session, once."""
    catalog = str(catalog_of(spark).directory)
    if _conf(spark, _REGISTERED) == catalog:
        return
    # A new class is pickled by value, and so carries the session's catalog along.
    spark.dataSource.register(type("SessionSource", (EpisodeSource,), {"catalog": catalog}))
    spark.conf.set(_REGISTERED, catalog)


def register_if_declared(spark: SparkSession) -> None:
    """Register it in a session that has a catalog."""
    if catalog_of(spark).directory.is_dir():
        register(spark)


def _conf(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(name, None)


def store_table(spark: SparkSession, name: str) -> DataFrame | None:
    """The stream of a name, or the table of an archive's name; None if the catalog has neither."""
    catalog = catalog_of(spark)
    if not catalog.directory.is_dir():
        return None
    declaration = catalog.lookup(name)
    if declaration is None:
        return None
    register(spark)
    is_live, place = declaration.name.lower() == name.lower(), str(catalog.directory)
    if declaration.using == "kafka":
        frame = topic_stream(spark, declaration) if is_live else topic_table(spark, declaration, place)
    else:
        options = {CATALOG: place, STREAM: name}
        if is_live and MAX_EVENTS in declaration.options:
            check_read_limit(MAX_EVENTS)
            options[MAX_EVENTS] = declaration.options[MAX_EVENTS]
        frame = (spark.readStream if is_live else spark.read).format(FORMAT).options(**options).load()
    _declarations[frame] = declaration
    return frame


def past_of(frame: DataFrame) -> DataFrame | None:
    """All events so far of the declared stream that a frame is, as a table: archived ones, and those in the log.
    None if the frame is another stream."""
    spark = frame.sparkSession
    declaration = declaration_of(spark, frame)
    if declaration is None:
        return None
    scan = scan_of(spark, frame)
    place = (scan is not None and scan.options.get(CATALOG)) or str(catalog_of(spark).directory)
    if declaration.using == "kafka":
        table = topic_table(spark, declaration, place)
    else:
        table = spark.read.format(FORMAT).options(**{STREAM: declaration.name, CATALOG: place}).load()
    return table.select(*map(quote, frame.columns))


_declarations: WeakKeyDictionary[DataFrame, Declaration] = WeakKeyDictionary()
"""Frames made for a name: only these, unchanged, count as a stream or its archive."""


def declaration_of(spark: SparkSession, frame: DataFrame) -> Declaration | None:
    """The declaration of the stream or archive that a frame is; None if it is neither."""
    known = _declarations.get(frame)
    if known is not None:
        return known
    scan = scan_of(spark, frame)
    return None if scan is None or any(own != name for own, name in scan.columns.items()) else scan.declaration


def append_frame(frame: DataFrame, declaration: Declaration, catalog: str | None = None) -> None:
    """Append the rows of a table; columns that it does not have are null. catalog: where the stream is declared, if it
    is not the session's."""
    declared = declared_schema(declaration)
    missing = [field for field in declared if field.name not in frame.columns]
    given = [_assign(field, declared) for field in frame.schema]
    whole = frame.select(*given, *[F.lit(None).cast(field.dataType).alias(field.name) for field in missing])
    conform(arrow_schema(whole.schema).empty_table(), declaration)  # names and types, before anything runs
    if declaration.using == "kafka":
        append_to_topic(whole, declaration)
        return
    register(frame.sparkSession)
    place = catalog or str(catalog_of(frame.sparkSession).directory)
    writer = whole.write.format(FORMAT).mode("append").option(CATALOG, place)
    with raise_translation():
        writer.option(STREAM, declaration.name).save()


def _assign(field: StructField, declared: StructType) -> Column:
    """Cast a column as INSERT does in SQL, beyond the store's own casts: decimals to doubles, dates and times without a
    zone by the session's zone. The store checks everything else row by row."""
    column = F.col(quote(field.name))
    wanted = next((one.dataType for one in declared if one.name == field.name), field.dataType)
    assigned = any(isinstance(field.dataType, given) and isinstance(wanted, kinds) for given, kinds in _ASSIGNED)
    return column.cast(wanted).alias(field.name) if assigned and wanted != field.dataType else column


_TIMES = (TimestampType, TimestampNTZType)
_ASSIGNED = ((DecimalType, (FloatType, DoubleType)), (_TIMES, _TIMES), (DateType, _TIMES))


@dataclass(frozen=True)
class StoreScan:
    """A frame that is a stream store and no more: its readers can pack envelopes themselves.

    columns: names in the frame → names in the stream. options: of the reader.
    """

    spark: SparkSession
    columns: Mapping[str, str]
    options: Mapping[str, str]
    is_stream: bool

    @property
    def name(self) -> str:
        return self.options.get(STREAM) or self.options["path"]

    @property
    def declaration(self) -> Declaration:
        found = Catalog(self.options[CATALOG]).lookup(self.name) if CATALOG in self.options else None
        return found or catalog_of(self.spark).find(self.name)

    def size(self, schema: pa.Schema) -> int:
        """Approximate bytes of the events of these columns."""
        return open_store(self.declaration).count() * row_bytes(schema)

    def envelopes(self, packing: Packing, call: int | None = None) -> DataFrame:
        """Envelopes instead of rows. call: the shard that is called after the events of a partition."""
        how = EnvelopeOptions(tuple((theirs, ours) for ours, theirs in self.columns.items()), packing, call)
        reader = self.spark.readStream if self.is_stream else self.spark.read
        return reader.format(FORMAT).schema(SCHEMA).options(**self.options).option(ENVELOPES, how.as_option()).load()


def scan_of(spark: SparkSession, frame: DataFrame) -> StoreScan | None:
    """The stream store that a frame is, with some of its columns; None if it is not one."""
    found = table_of_source(frame, FORMAT)
    if isinstance(found, str) or ENVELOPES in found[1]:
        return None
    columns, options = found
    return StoreScan(spark, dict(zip(frame.columns, columns, strict=True)), options, frame.isStreaming)


# The archive of a declared stream next to a live stream. An archive grows with its stream, and the archived past of an
# event is all that happened before it. So over a live stream, the name of an archive means the stream, with everything
# that was archived before the query began.


_BEGINNINGS = (EARLIEST, "0")


@dataclass(frozen=True)
class ArchivedStream:
    """frame: the stream. history: of it. begins_later: do the first events not come in, because it is read from a later
    position on?"""

    frame: DataFrame
    history: StoreHistory
    begins_later: bool


def stream_of_archive(spark: SparkSession, live: DataFrame, archive: DataFrame) -> ArchivedStream | None:
    """The stream after a frame that is a declared archive; None if it is not. live: the frame of the live pattern,
    which may be the same stream."""
    declaration = declaration_of(spark, archive)
    if declaration is None:
        return None
    history = StoreHistory(declaration)
    if declaration_of(spark, live) == declaration and set(archive.columns) <= set(live.columns):
        scan = scan_of(spark, live)
        given, name = (declaration.options, "startingOffsets") if scan is None else (scan.options, STARTING)
        lower = {option.lower(): value for option, value in given.items()}
        return ArchivedStream(live, history, lower.get(name.lower(), EARLIEST).lower() not in _BEGINNINGS)
    frame = store_table(spark, declaration.name)
    return None if frame is None else ArchivedStream(frame.select(*map(quote, archive.columns)), history, False)
