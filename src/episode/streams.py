"""Declared streams: create, append, read, count, archive. The public module `episode.streams`.

A stream has a durable log, to which any process on the machine appends, and an archive of Parquet files. Its
declaration is in a catalog: the directory EPISODE_CATALOG, else `spark-warehouse/episode`; `catalog=` names another.
"""

from __future__ import annotations

import time as time_module
from collections.abc import Collection, Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Union

import pyarrow as pa

from episode.errors import EpisodeUnsupportedError
from episode.plan.event_time import EventTime, duration_in_units
from episode.queries.streams import append_by_spark, archive_by_spark, count_by_spark, register_source
from episode.queries.tables import arrow_table
from episode.store.catalog import Catalog, Declaration, declare
from episode.store.conforming import conform, table_of_dictionaries
from episode.store.declaration import Columns, Length
from episode.store.files import translate_errors
from episode.store.log import Origin
from episode.store.sources import events_of as events_of
from episode.store.stream import StreamStore, check_number, open_store

__all__ = [
    "Declaration",
    "Origin",
    "append",
    "archive",
    "compact",
    "count",
    "create",
    "describe",
    "drop",
    "expire",
    "names",
    "read",
    "register",
    "tail",
]

Place = Union[str, "PathLike[str]", None]


def create(
    name: str,
    columns: Columns,
    *,
    time: str | None = None,
    key: str | Sequence[str] = (),
    delay: Length | None = None,
    archive: str | None = None,
    retain: Length | None = None,
    location: str | None = None,
    using: str = "episode",
    options: Mapping[str, str] | None = None,
    lanes: int | None = None,
    if_not_exists: bool = False,
    catalog: Place = None,
) -> Declaration:
    """Declare a stream, as CREATE STREAM does.

    columns: `"symbol STRING, ts TIMESTAMP, price DOUBLE"`, names with types, or an Arrow schema. time: the column of
    event time; None if it is the only TIMESTAMP, TIMESTAMP_NTZ or DATE, or without any of these the only integer. key:
    column or columns whose equal values are one key. delay: how late events may come; retain: how long they are kept
    ('30 days', or a number where time is one). archive: the name of the archive. location: a directory for log and
    archive, which then stays when the stream is dropped; events that are there already must be of the same columns.
    """
    declaration = declare(
        name,
        columns,
        time=time,
        key=key,
        delay=delay,
        archive=archive,
        retain=retain,
        location=location,
        using=using,
        options=options,
        lanes=lanes,
    )
    return _catalog(catalog).create(declaration, if_not_exists=if_not_exists)


def drop(name: str, *, if_exists: bool = False, catalog: Place = None) -> bool:
    """Forget a stream, with its events unless it was declared with a location; whether there was one."""
    return _catalog(catalog).drop(name, if_exists=if_exists)


def names(*, catalog: Place = None) -> list[str]:
    """The names of the declared streams."""
    return _catalog(catalog).names()


def describe(name: str, *, catalog: Place = None) -> Declaration:
    """The declaration of a stream, by its name or that of its archive."""
    return _declaration(name, catalog)


def register(spark: Any = None) -> None:
    """Make the data source `format("episode")` known to a Spark session (the active one, or a local one).

    Sessions that `episode.sql` and the like are called in know it by themselves, once a stream is declared.
    """
    register_source(spark)


def append(name: str, rows: Any, *, origin: Origin | None = None, catalog: Place = None) -> int:
    """Store rows, all or none, and give back the position after them.

    rows: an Arrow table, a pandas or Polars frame, a Spark DataFrame, or dictionaries, one for each row. A value that a
    column cannot hold as it is, is refused. origin: a batch of a producer that is stored once, however often it is
    appended; in Kafka, batches have none, and positions are not known (-1).
    """
    declaration = _declaration(name, catalog)
    is_spark = type(rows).__module__.split(".")[0] == "pyspark"
    if declaration.using != "episode" or (is_spark and origin is None):
        if origin is not None:
            raise EpisodeUnsupportedError(f"The events of {declaration.name} are in {declaration.using}: no origin.")
        given = rows if is_spark else conform(table_of(rows, declaration), declaration)
        append_by_spark(declaration, given, str(_catalog(catalog).directory))
        return open_store(declaration).head() if declaration.using == "episode" else -1
    store = open_store(declaration)
    return store.append(table_of(rows, store.declaration), origin)


def read(
    name: str,
    after: int = 0,
    *,
    until: int | None = None,
    limit: int | None = None,
    columns: Sequence[str] | None = None,
    lanes: Collection[int] | None = None,
    skip_corrupt: bool = False,
    catalog: Place = None,
) -> tuple[pa.Table, int]:
    """The events after a position (0: all), and the position from which to read on.

    They come batch by batch as they were appended, and within a batch in order of time; what has left the log comes
    from the archive, several batches together in order of time. limit: about how many rows; batches are not cut, and at
    least one is read. skip_corrupt: leave out the damaged lanes of corrupt segments, with a warning for each.
    """
    store = store_of(name, catalog)
    until = store.advance(after, limit) if until is None else min(check_number(until, "until"), store.check(after))
    schema = store.schema_of(columns)
    pages = store.pages(after, until, columns=_with_time(schema.names, store), lanes=lanes, skip_corrupt=skip_corrupt)
    tables = [store.by_time(batches).select(schema.names) for _, batches in pages if batches]
    return (pa.concat_tables(tables) if tables else schema.empty_table()), max(after, until)


def tail(
    name: str,
    after: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    follow: bool = True,
    poll: float = 0.1,
    skip_corrupt: bool = False,
    catalog: Place = None,
) -> Iterator[tuple[pa.Table, int]]:
    """Batches of events as they are appended, each with the position after it; without an end, unless follow=False.

    after: the position to begin at (None: now). poll: seconds between two looks.
    """
    store = store_of(name, catalog)
    position = store.head() if after is None else after
    names = store.schema_of(columns).names
    while True:
        head = store.head()
        pages = store.pages(position, head, columns=_with_time(names, store), skip_corrupt=skip_corrupt)
        for position, batches in pages:
            if batches:
                yield store.by_time(batches).select(names), position
        if not follow:
            return
        if store.head() == head:
            time_module.sleep(poll)


def archive(name: str, *, skip_corrupt: bool = False, catalog: Place = None) -> int:
    """Move the events that have come into the archive, and let go what RETAIN no longer keeps; how many were moved."""
    declaration = _declaration(name, catalog)
    if declaration.using != "episode":
        return archive_by_spark(declaration, skip_corrupt=skip_corrupt)
    store = open_store(declaration)
    moved = store.archive(skip_corrupt=skip_corrupt)
    store.expire()
    return moved


def compact(name: str, *, catalog: Place = None) -> int:
    """Join the small files of an archive to large ones; how many files were replaced."""
    return store_of(name, catalog).compact()


def expire(name: str, *, catalog: Place = None) -> int:
    """Delete events that are older than RETAIN allows, and return their number."""
    return store_of(name, catalog).expire()


def count(name: str, *, catalog: Place = None) -> int:
    """Return the number of events in a stream."""
    declaration = _declaration(name, catalog)
    if declaration.using != "episode":
        return count_by_spark(declaration, str(_catalog(catalog).directory))
    return open_store(declaration).count()


def seconds(duration: str) -> float:
    """A duration by the clock, such as '10 seconds'."""
    return duration_in_units(duration, EventTime("", "timestamp"), "The duration") / 1e6


def store_of(name: str, catalog: Place = None) -> StreamStore:
    """The store of a stream, by its name or that of its archive."""
    return open_store(_declaration(name, catalog))


def _with_time(names: Sequence[str], store: StreamStore) -> list[str]:
    return list(dict.fromkeys([*names, store.declaration.time]))


@translate_errors
def table_of(rows: Any, declaration: Declaration) -> pa.Table:
    """Rows of any kind as an Arrow table."""
    if type(rows).__module__.split(".")[0] == "pyspark":
        return rows.toArrow()
    if isinstance(rows, Mapping):
        rows = [rows]
    if isinstance(rows, (list, tuple)) or (isinstance(rows, Iterator) and not hasattr(rows, "__arrow_c_stream__")):
        return table_of_dictionaries(rows, declaration)
    return arrow_table(declaration.name, rows)


def _declaration(name: str, catalog: Place) -> Declaration:
    found = _catalog(catalog)
    return found.lookup(name) or found.find(name)


def _catalog(place: Place) -> Catalog:
    return Catalog(None if place is None else fspath(place))
