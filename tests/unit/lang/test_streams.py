"""Statements of stream stores: what is read, and what is left to Spark."""

from __future__ import annotations

import pytest

from episode.lang.statement import parse_statement
from episode.lang.streams import CreateStream, DescribeStream, DropStream, Named, ShowStreams, parse_columns
from episode.plan.streams import StreamPlan, plan_stream_store

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
    assert found.if_not_exists
    assert plan_stream_store(found) == StreamPlan(
        name="StockLive",
        columns=(
            ("symbol", "string"),
            ("ts", "timestamp"),
            ("price", "decimal(10,2)"),
            ("tags", "map<string,array<int>>"),
            ("place", "struct<lat:double,`lon gitude`:double>"),
        ),
        time="ts",
        key=("symbol",),
        delay=10_000_000,
        archive="StockArchive",
        retain=30 * 86_400_000_000,
        location="/data/it's",
        using="episode",
        options=(("lanes", "4"), ("log_retain", "2 hours")),
    )


def test_the_least_declaration_in_any_order_of_clauses_and_case() -> None:
    found = plan_stream_store(created("create stream t (K int, At long) delay 5 key (k) time at"))
    assert (found.time, found.key, found.delay, found.using) == ("At", ("K",), 5, "episode")
    assert (found.archive, found.retain, found.location, found.options) == (None, None, None, ())


def test_kafka_takes_the_connectors_options() -> None:
    text = "CREATE STREAM t (ts DATE) TIME ts USING Kafka OPTIONS ('kafka.bootstrap.servers' = 'h:1', topic \"ticks\")"
    found = plan_stream_store(created(text))
    assert (found.using, dict(found.options)) == ("kafka", {"kafka.bootstrap.servers": "h:1", "topic": "ticks"})


def test_the_other_statements() -> None:
    dropped = parse_statement("DROP STREAM IF EXISTS `t`;").streams
    assert isinstance(dropped, DropStream)
    assert (dropped.name, dropped.if_exists) == (Named("t"), True)
    assert isinstance(parse_statement("show streams").streams, ShowStreams)
    described = parse_statement("DESC STREAM t").streams
    assert isinstance(described, DescribeStream)
    assert described.name == Named("t")


@pytest.mark.parametrize(
    "text",
    ["DESCRIBE stream", "SHOW TABLES", "CREATE TABLE stream (a INT)", "DROP TABLE streams", "SELECT 1 AS stream"],
)
def test_what_is_left_to_spark(text: str) -> None:
    assert parse_statement(text).streams is None


def test_columns_of_a_text() -> None:
    assert [(c.name, c.type) for c in parse_columns("a INT, `b c` STRUCT<x INT>")] == [
        ("a", "int"),
        ("b c", "struct<x:int>"),
    ]
