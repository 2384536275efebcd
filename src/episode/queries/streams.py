"""Stream stores in statements: CREATE, DROP, SHOW and DESCRIBE STREAM, INSERT INTO, and names of streams as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError, kind_of
from episode.lang.creation import Insertion
from episode.lang.statement import Statement
from episode.lang.streams import CreateStream, DescribeStream, DropStream, StreamStatement
from episode.lang.syntax import Source, Span
from episode.lang.table_patterns import may_precede_table
from episode.plan.streams import check_stream_store
from episode.store.catalog import Catalog, declare
from episode.store.declaration import OPTIONS, Declaration, find_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")

SHOWN = "name string, archive string, store string, time string, key string, location string"
DESCRIBED = "col_name string, data_type string, comment string"


def streams_in(spark: SparkSession, statement: Statement, given: Iterable[str]) -> dict[str, DataFrame]:
    """The streams and archives that a statement names where a table may stand, each once. given: other tables.

    A confined statement may not read streams, so none is opened for it.
    """
    from episode.spark.confinement import current
    from episode.spark.stores.catalog import catalog_of, store_table

    if current() is not None:
        return {}
    catalog = catalog_of(spark)
    if not catalog.directory.is_dir():
        return {}
    declarations = catalog.declarations()
    names = [*(one.name for one in declarations), *(one.archive for one in declarations if one.archive)]
    known = {name.lower() for name in names} - {name.lower() for name in given}
    found: dict[str, DataFrame] = {}
    for index, token in enumerate(statement.tokens):
        if not token.is_name or token.identifier.lower() not in known:
            continue
        after = statement.tokens[index + 1]
        if after.is_symbol(".") or after.is_symbol("(") or not may_precede_table(list(statement.tokens), index - 1):
            continue
        known.discard(token.identifier.lower())
        frame = store_table(spark, token.identifier)
        if frame is not None:
            found[token.identifier] = frame
    return found


def run_stream_statement(spark: SparkSession, statement: StreamStatement) -> DataFrame:
    """CREATE, DROP, SHOW or DESCRIBE STREAM: done at once; what comes back is a small table."""
    from episode.spark.stores.catalog import catalog_of, register

    catalog = catalog_of(spark)
    if isinstance(statement, CreateStream):
        create(catalog, statement, spark)
        register(spark)
        return spark.createDataFrame([], "name string")
    if isinstance(statement, DropStream):
        dropped, if_exists = statement.name, statement.if_exists
        _at(statement.source, dropped.span, lambda: catalog.drop(dropped.text, if_exists=if_exists))
        return spark.createDataFrame([], "name string")
    if isinstance(statement, DescribeStream):
        named = statement.name
        found = catalog.lookup(named.text)
        rows = _at(statement.source, named.span, lambda: describe_stream(found or catalog.find(named.text)))
        return spark.createDataFrame(rows, DESCRIBED)
    return spark.createDataFrame([row_of_stream(one) for one in catalog.declarations()], SHOWN)


def create(catalog: Catalog, created: CreateStream, spark: SparkSession | None = None) -> Declaration:
    """Declare a stream. spark: the session whose tables may not have its names."""
    created = check_stream_store(created, OPTIONS)
    assert created.time is not None
    time = created.time.text
    exists = created.if_not_exists and catalog.lookup(created.name.text) is not None
    for named in (created.name, created.archive):
        if spark is not None and named is not None and not exists and spark.catalog.tableExists(named.text):
            message = f"There is a table called {named.text} in Spark's catalog already."
            raise created.source.error(EpisodeAnalysisError, message, named.span, "Choose another name.")
    delay, retain = (
        None if length is None else created.source.text_at(length.span) for length in (created.delay, created.retain)
    )

    def create() -> Declaration:
        declaration = declare(
            created.name.text,
            [(column.name, column.type) for column in created.columns],
            time=time,
            key=[name.text for name in created.key],
            delay=delay,
            retain=retain,
            archive=None if created.archive is None else created.archive.text,
            location=None if created.location is None else created.location.text,
            using=created.using.text,
            options={name.text: value for name, value in created.options},
        )
        return catalog.create(declaration, if_not_exists=created.if_not_exists)

    return _at(created.source, created.name.span, create)


def row_of_stream(declaration: Declaration) -> tuple[str | None, ...]:
    key, location = ", ".join(declaration.key) or None, declaration.location or None
    return declaration.name, declaration.archive, declaration.using, declaration.time, key, location


def describe_stream(declaration: Declaration) -> list[tuple[str, str, str]]:
    """The rows of DESCRIBE STREAM: the columns, then what else is declared."""
    rows = []
    for name, _ in declaration.columns:
        roles = ["event time"] if name == declaration.time else []
        roles += ["key"] if name in declaration.key else []
        rows.append((name, declaration.written_type(name), ", ".join(roles)))
    unit = "" if declaration.event_time.units_per_millisecond == 1 else " microseconds"
    details = {
        "Name": declaration.name,
        "Archive": declaration.archive or "",
        "Delay": f"{declaration.delay or 0}{unit}",
        "Retain": "" if declaration.retain is None else f"{declaration.retain}{unit}",
        "Store": declaration.using,
        "Lanes": str(declaration.lanes) if declaration.using == "episode" else "",
        "Location": declaration.location,
        **{f"Option {name}": value for name, value in declaration.options.items()},
    }
    return [*rows, ("", "", ""), ("# Stream", "", ""), *((name, value, "") for name, value in details.items() if value)]


def _at(source: Source, span: Span, done: Callable[[], Result]) -> Result:
    """Do something for a statement; its errors show a place in the text."""
    try:
        return done()
    except EpisodeError as error:
        if error.position is not None:
            raise
        raise source.error(kind_of(error), error.message, span, error.hint) from None


def insertion_target(spark: SparkSession, statement: Statement, inserted: Insertion) -> Declaration | None:
    """The stream that rows are inserted into; None if the table is not a stream."""
    from episode.spark.stores.catalog import catalog_of

    catalog = catalog_of(spark)
    found = catalog.lookup(inserted.table.text) if catalog.directory.is_dir() else None
    if found is None:
        return None
    source = Source(statement.source)
    if found.name.lower() != inserted.table.text.lower():
        message = f"{inserted.table.text} is an archive: its events come from the stream {found.name}."
        raise source.error(EpisodeUnsupportedError, message, inserted.table.span, f"Insert into {found.name}.")
    if inserted.overwrite:
        message = f"The stream {found.name} is appended to, never overwritten."
        raise source.error(EpisodeUnsupportedError, message, inserted.table.span, f"Write INSERT INTO {found.name}.")
    return found


def insert(statement: Statement, inserted: Insertion, declaration: Declaration, rows: DataFrame) -> DataFrame:
    """Append the rows of a query: its columns are those of the stream, in order, or those that are listed."""
    from episode.spark.stores.catalog import append_frame

    source = Source(statement.source)
    if rows.isStreaming:
        message = "The query that is inserted is a stream, which does not end."
        hint = (
            f"Run the query alone, and start it: .writeStream.format('episode').option('checkpointLocation', …)"
            f".start('{declaration.name}')."
        )
        raise source.error(EpisodeUnsupportedError, message, inserted.query, hint)
    names = _columns(source, inserted, declaration)
    if len(rows.columns) != len(names):
        message = f"The query has {len(rows.columns)} columns; {len(names)} go into {declaration.name}."
        hint = f"Columns: {', '.join(names)}."
        raise source.error(EpisodeAnalysisError, message, Span(inserted.query.start, inserted.query.start + 1), hint)
    _at(source, inserted.table.span, lambda: append_frame(rows.toDF(*names), declaration))
    return rows.sparkSession.createDataFrame([], "name string")


def _columns(source: Source, inserted: Insertion, declaration: Declaration) -> list[str]:
    if not inserted.columns:
        return [name for name, _ in declaration.columns]
    found: list[str] = []
    for named in inserted.columns:
        column = find_column(declaration.columns, named.text)
        if column is None or column[0] in found:
            what = f"There is no column {named.text} in" if column is None else f"{named.text} is there twice for"
            columns = ", ".join(name for name, _ in declaration.columns)
            message = f"{what} the stream {declaration.name}."
            raise source.error(EpisodeAnalysisError, message, named.span, f"Columns: {columns}.")
        found.append(column[0])
    return found


def register_source(spark: SparkSession | None) -> None:
    """Make the data source known to a session (the active one, or a local one)."""
    from episode.spark.startup.session import session
    from episode.spark.stores.catalog import register

    register(session(spark))


def append_by_spark(declaration: Declaration, rows: DataFrame | pa.Table, catalog: str) -> None:
    """Append a DataFrame, or any rows to a stream that is not in the embedded store."""
    from episode.spark.startup.session import session
    from episode.spark.stores.catalog import append_frame

    frame = session().createDataFrame(rows) if isinstance(rows, pa.Table) else rows
    append_frame(frame, declaration, catalog)


def archive_by_spark(declaration: Declaration, *, skip_corrupt: bool) -> int:
    """Archive a stream that is not in the embedded store; how many events were moved."""
    from episode.spark.startup.session import session
    from episode.spark.stores.kafka import archive_topic

    return archive_topic(session(), declaration, skip_corrupt=skip_corrupt)


def count_by_spark(declaration: Declaration, catalog: str) -> int:
    """Count the events, archived or not, of a stream that is not in the embedded store."""
    from episode.spark.startup.session import session
    from episode.spark.stores.catalog import register
    from episode.spark.stores.kafka import topic_table

    spark = session()
    register(spark)
    return topic_table(spark, declaration, catalog).count()
