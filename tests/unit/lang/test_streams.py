"""Statements of stream stores: what is read, and what is left to Spark."""

from __future__ import annotations

import pytest

from episode.lang.creation import insertion
from episode.lang.statement import parse_statement
from episode.lang.streams import (
    CreateStream,
    DescribeStream,
    DropStream,
    ShowStreams,
    StreamColumn,
    WrittenName,
)
from episode.lang.syntax import Duration
from episode.plan.streams import check_stream_store
from episode.store.declaration import OPTIONS

WHOLE = """
CREATE STREAM IF NOT EXISTS StockLive (symbol STRING, ts TIMESTAMP, price DECIMAL(10, 2), tags MAP<STRING, ARRAY<INT>>,
    place STRUCT<lat: DOUBLE, `lon gitude` DOUBLE>)
TIME ts KEY symbol DELAY 10 seconds ARCHIVE AS StockArchive RETAIN 30 days LOCATION '/data/it''s'
USING episode OPTIONS (lanes 4, log_retain = '2 hours');
"""


def created(text: str) -> CreateStream:
    found = parse_statement(text).streams
    assert isinstance(found, CreateStream)
    return found


def test_every_clause() -> None:
    found = created(WHOLE)
    assert found == CreateStream(
        source=found.source,
        name=WrittenName("StockLive"),
        columns=(
            StreamColumn("symbol", "string"),
            StreamColumn("ts", "timestamp"),
            StreamColumn("price", "decimal(10,2)"),
            StreamColumn("tags", "map<string,array<int>>"),
            StreamColumn("place", "struct<lat:double,`lon gitude`:double>"),
        ),
        time=WrittenName("ts"),
        key=(WrittenName("symbol"),),
        delay=Duration(10_000_000, "microseconds"),
        archive=WrittenName("StockArchive"),
        retain=Duration(30 * 86_400_000_000, "microseconds"),
        location=WrittenName("/data/it's"),
        using=WrittenName("episode"),
        options=((WrittenName("lanes"), "4"), (WrittenName("log_retain"), "2 hours")),
        if_not_exists=True,
    )
    check_stream_store(found, OPTIONS)


def test_the_least_declaration_in_any_order_of_clauses_and_case() -> None:
    found = created("create stream t (K int, At long) delay 5 key (k) time at")
    check_stream_store(found, OPTIONS)
    assert (found.time, found.key, found.delay) == (WrittenName("at"), (WrittenName("k"),), Duration(5, None))
    assert (found.archive, found.retain, found.location, found.options) == (None, None, None, ())


@pytest.mark.parametrize(
    ("columns", "types", "time"),
    [
        ("symbol VARCHAR(8), ts TIMESTAMP, price INT(11)", ["varchar(8)", "timestamp", "int"], "ts"),
        ("symbol CHAR(8), id BIGINT(20), price DOUBLE", ["varchar(8)", "bigint", "double"], "id"),
        ("a SMALLINT(5), b TINYINT(3), at DATE", ["smallint", "tinyint", "date"], "at"),
        ("a INTEGER(11), b CHARACTER(2)", ["int", "varchar(2)"], "a"),
        ("a INT, at TIMESTAMP_NTZ", ["int", "timestamp_ntz"], "at"),
    ],
)
def test_a_declaration_as_the_thesis_prints_it(columns: str, types: list[str], time: str) -> None:
    """CREATE STREAM <name>(<column_name> type(length),...); and one column can be the event time."""
    found = created(f"CREATE STREAM stock({columns});")
    assert ([column.type for column in found.columns], found.time) == (types, None)
    assert check_stream_store(found, OPTIONS).time == WrittenName(time)


def test_kafka_takes_the_connectors_options() -> None:
    text = "CREATE STREAM t (ts DATE) TIME ts USING Kafka OPTIONS ('kafka.bootstrap.servers' = 'h:1', topic \"ticks\")"
    found = created(text)
    check_stream_store(found, OPTIONS)
    options = ((WrittenName("kafka.bootstrap.servers"), "h:1"), (WrittenName("topic"), "ticks"))
    assert (found.using, found.options) == (WrittenName("kafka"), options)


@pytest.mark.parametrize(
    ("text", "table", "columns", "body"),
    [
        ("INSERT INTO s SELECT 1", "s", (), "SELECT 1"),
        ("insert into table `s` (b, `a c`) VALUES (1, 2)", "s", ("b", "a c"), "VALUES (1, 2)"),
        ("INSERT INTO s (SELECT 1)", "s", (), "(SELECT 1)"),
        ("INSERT INTO s FROM t SELECT a", "s", (), "FROM t SELECT a"),
    ],
)
def test_what_is_inserted_and_where(text: str, table: str, columns: tuple[str, ...], body: str) -> None:
    found = insertion(parse_statement(text))
    assert found is not None
    assert (found.table.text, tuple(column.text for column in found.columns)) == (table, columns)
    assert text[found.query.start : found.query.end] == body


@pytest.mark.parametrize("text", ["INSERT INTO db.s SELECT 1", "SELECT 1", "INSERT INTO s PARTITION (a = 1) SELECT 1"])
def test_insertions_that_are_left_to_spark(text: str) -> None:
    assert insertion(parse_statement(text)) is None


def test_the_other_statements() -> None:
    dropped = parse_statement("DROP STREAM IF EXISTS `t`;").streams
    assert isinstance(dropped, DropStream)
    assert (dropped.name, dropped.if_exists) == (WrittenName("t"), True)
    assert isinstance(parse_statement("show streams").streams, ShowStreams)
    described = parse_statement("DESC STREAM t").streams
    assert isinstance(described, DescribeStream)
    assert described.name == WrittenName("t")


@pytest.mark.parametrize(
    "text",
    ["DESCRIBE stream", "SHOW TABLES", "CREATE TABLE stream (a INT)", "DROP TABLE streams", "SELECT 1 AS stream"],
)
def test_what_is_left_to_spark(text: str) -> None:
    assert parse_statement(text).streams is None


def test_columns_with_blanks_and_fields() -> None:
    created = parse_statement("CREATE STREAM s (a INT, `b c` STRUCT<x INT>)").streams
    assert isinstance(created, CreateStream)
    assert [(c.name, c.type) for c in created.columns] == [("a", "int"), ("b c", "struct<x:int>")]
