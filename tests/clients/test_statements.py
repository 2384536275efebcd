"""Statements of a client of the JVM, planned by a Python process: queries, commands, views, sessions and errors."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import episode
from episode.clients.leaving import LEAVE
from episode.errors import EpisodeSyntaxError
from episode.spark.stores.catalog import catalog_of
from tests.clients.conftest import FALLS

FOUND = [("a", 3.0, 1.0), ("b", 7.0, 6.0)]
QUERY = f"SELECT symbol, top, bottom FROM ticks {FALLS}"


def rows(spark: SparkSession, text: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql(text).collect()), key=repr)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM ticks {FALLS}",
        f"SELECT m.symbol, count(*) AS n FROM ticks {FALLS} AS m GROUP BY ALL ORDER BY n",
        f"WITH t AS (SELECT * FROM ticks WHERE symbol = 'a') SELECT * FROM t {FALLS} m JOIN t ON m.at = t.ts",
        f"SELECT * FROM ({QUERY}) WHERE top IN (SELECT top FROM ticks {FALLS} WHERE bottom < 5)",
        "SELECT * FROM EVENTS (FROM ticks PARTITION BY symbol ORDER BY ts PATTERN SEQ(A a, B b)"
        " WHERE skip-till-next-match AND a.price > b.price WITHIN 10 seconds RETURN a.price AS x, b.price AS y)",
        "SELECT symbol, top OVER w AS highest FROM ticks WINDOW w AS (PARTITION BY symbol ORDER BY ts"
        " MEASURES A.price AS top ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+)"
        " DEFINE B AS B.price < PREV(B.price))",
        "FROM ticks PARTITION BY symbol ORDER BY ts PATTERN A; B WHERE A.price > B.price WITHIN 9 seconds RETURN A.ts",
    ],
    ids=["all", "grouped", "common", "subquery", "events", "window", "whole"],
)
def test_queries_are_those_of_episode_sql(spark: SparkSession, text: str) -> None:
    expected = episode.sql(text, spark=spark)
    assert rows(spark, text) == sorted(map(tuple, expected.collect()), key=repr)
    assert spark.sql(text).columns == expected.columns


def test_statements_without_clauses_are_sparks(spark: SparkSession) -> None:
    assert rows(spark, "SELECT 'MATCH_RECOGNIZE (PATTERN (A))' AS x") == [("MATCH_RECOGNIZE (PATTERN (A))",)]
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        spark.sql("SELECT 1 FROM WHERE AND")


LEAST = QUERY.replace("DEFINE", "DEFINE A AS A.price > {least},") + " WHERE bottom < {most}"


def test_parameters_are_bound_in_patterns_and_around_them(spark: SparkSession) -> None:
    named = spark.sql(LEAST.format(least=":least", most=":most"), {"least": 5, "most": 6.5, "unused": 1})
    assert list(map(tuple, named.collect())) == FOUND[1:]
    asked = spark.sql(LEAST.format(least="?", most="?"), [5, 6.5])
    assert list(map(tuple, asked.collect())) == FOUND[1:]
    assert spark.sql(LEAST.format(least="?", most="?"), [5, 5]).collect() == []
    with pytest.raises(AnalysisException, match="no value for the parameter :least"):
        spark.sql(LEAST.format(least=":least", most="1"))


def test_commands_mean_what_they_mean_in_spark(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE kept USING parquet AS {QUERY}")
    spark.sql(f"INSERT INTO kept (top, symbol, bottom) SELECT top, upper(symbol), 0D FROM ticks {FALLS}")
    assert rows(spark, "SELECT * FROM kept") == sorted([*FOUND, ("A", 3.0, 0.0), ("B", 7.0, 0.0)], key=repr)
    spark.sql(f"INSERT OVERWRITE kept {QUERY} WHERE top > 5")
    assert rows(spark, "SELECT * FROM kept") == FOUND[1:]
    spark.sql(f"CACHE TABLE cached AS {QUERY}")
    assert rows(spark, "SELECT * FROM cached") == FOUND
    plan = rows(spark, f"EXPLAIN {QUERY}")[0][0]
    assert "MapInArrow" in str(plan)
    assert [row[0] for row in spark.sql(f"DESCRIBE QUERY {QUERY}").collect()] == ["symbol", "top", "bottom"]


def test_statements_of_streams_are_run_by_the_planner(spark: SparkSession) -> None:
    spark.sql("CREATE STREAM lows (symbol STRING, ts TIMESTAMP, price DOUBLE) TIME ts KEY symbol")
    assert "lows" in [row.name for row in spark.sql("SHOW STREAMS").collect()]
    spark.sql(f"INSERT INTO lows SELECT symbol, at, bottom FROM ticks {FALLS}")
    assert episode.streams.count("lows", catalog=str(catalog_of(spark).directory)) == 2
    spark.sql("DROP STREAM lows")
    assert "lows" not in [row.name for row in spark.sql("SHOW STREAMS").collect()]


@pytest.mark.parametrize("kind", ["VIEW", "TEMP VIEW", "GLOBAL TEMP VIEW"])
def test_views_keep_their_text_and_are_planned_when_read(spark: SparkSession, kind: str) -> None:
    spark.sql("CREATE TABLE grown USING parquet AS SELECT * FROM ticks")
    name = kind.split()[0].lower() + "_falls"
    spark.sql(f"CREATE {kind} {name} (key, highest) AS SELECT symbol, top FROM grown {FALLS}")
    place = f"global_temp.{name}" if kind.startswith("GLOBAL") else name
    assert rows(spark, f"SELECT * FROM {place}") == [("a", 3.0), ("b", 7.0)]
    spark.sql("INSERT INTO grown VALUES ('c', timestamp'2024-01-02', 9D), ('c', timestamp'2024-01-03', 8D)")
    assert rows(spark, f"SELECT * FROM {place}") == [("a", 3.0), ("b", 7.0), ("c", 9.0)]
    if kind == "VIEW":
        written = str(spark.sql(f"SHOW CREATE TABLE {name}").collect()[0][0])
        assert f"AS SELECT symbol, top FROM grown {FALLS}" in written
    spark.sql(f"DROP VIEW {place}")
    spark.sql("DROP TABLE grown")


def test_a_view_is_planned_in_the_database_and_with_the_settings_of_its_creator(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    other.sql("CREATE DATABASE IF NOT EXISTS place")
    other.sql(f"CREATE VIEW hours AS SELECT symbol, hour(at) AS h FROM ticks {FALLS}")
    other.sql("USE place")
    other.sql("CREATE TEMP VIEW ticks AS SELECT 'z' AS symbol, timestamp'2024-01-01' AS ts, 1D AS price")
    assert rows(other, "SELECT * FROM default.hours") == [("a", 9), ("b", 9)]
    assert rows(spark, "SELECT * FROM hours") == [("a", 9), ("b", 9)]
    spark.sql(
        "CREATE VIEW over_views AS SELECT n FROM hours MATCH_RECOGNIZE "
        "(ORDER BY symbol MEASURES count(*) AS n PATTERN (A+) DEFINE A AS h = 9)"
    )
    assert rows(spark, "SELECT * FROM over_views") == [(2,)]
    spark.sql("DROP VIEW hours")
    spark.sql("DROP VIEW over_views")


def test_sessions_have_their_own_database_views_and_time_zone(spark: SparkSession) -> None:
    one, two = spark.newSession(), spark.newSession()
    one.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
    one.sql("USE elsewhere")
    one.sql("CREATE TABLE ticks USING parquet AS SELECT * FROM default.ticks WHERE symbol = 'b'")
    two.sql("CREATE TEMP VIEW ticks AS SELECT * FROM default.ticks WHERE symbol = 'a'")
    two.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    query = f"SELECT symbol, date_format(at, 'HH:mm:ss') AS at FROM ticks {FALLS}"
    assert rows(one, query) == [("b", "00:00:05")]
    assert rows(two, query) == [("a", "09:00:03")]
    assert rows(spark, query) == [("a", "00:00:03"), ("b", "00:00:05")]
    one.sql("DROP DATABASE elsewhere CASCADE")


@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        (f"SELECT * FROM ticks\n{FALLS.replace('(A B+)', '(A B+')}", ParseException, ["line 5", "not closed"]),
        (f"SELECT *\nFROM ticks {FALLS}\nWHERE AND top > 1", ParseException, ["near 'top'", "line 6, pos 10"]),
        (f"SELECT * FROM ticks {FALLS.replace('B.price <', 'B.prize <')}", AnalysisException, ["no column", "^^^"]),
        (f"SELECT * FROM nowhere {FALLS}", AnalysisException, ["TABLE_OR_VIEW_NOT_FOUND", "line 1, column 15"]),
        (f"SELECT tpo FROM ticks {FALLS}", AnalysisException, ["UNRESOLVED_COLUMN", "line 1 pos 7"]),
        (f"SELECT top FROM ticks {FALLS}\nWHERE tpo > 1", AnalysisException, ["UNRESOLVED_COLUMN", "line 5 pos 6"]),
        (f"EXPLAIN SELECT * FROM ticks {FALLS} ; SELECT 1", ParseException, ["Only one statement"]),
    ],
    ids=["pattern", "around", "condition", "table", "column", "after", "two"],
)
def test_errors_are_sparks_with_their_place(
    spark: SparkSession, text: str, kind: type[Exception], parts: list[str]
) -> None:
    with pytest.raises(kind) as raised:
        spark.sql(text)
    for part in parts:
        assert part in str(raised.value)
    assert "__episode" not in str(raised.value)


def test_what_spark_cannot_do_is_not_left_to_it(spark: SparkSession) -> None:
    """No Spark of today has the clause: the setting changes nothing."""
    spark.conf.set(LEAVE, "true")
    try:
        assert rows(spark, QUERY) == FOUND
        with pytest.raises(ParseException, match="PATERN"):
            spark.sql(QUERY.replace("PATTERN", "PATERN"))
    finally:
        spark.conf.unset(LEAVE)


def test_python_leaves_to_the_extension_what_it_cannot_do(spark: SparkSession) -> None:
    episode.install(spark)
    try:
        spark.sql(f"CREATE OR REPLACE VIEW lasting AS {QUERY}")
        assert rows(spark, "SELECT * FROM lasting") == FOUND
        assert "MapInArrow" in str(rows(spark, f"EXPLAIN {QUERY}"))
        with pytest.raises(EpisodeSyntaxError):
            spark.sql(QUERY.replace("PATTERN", "PATERN"))
    finally:
        episode.uninstall()
        spark.sql("DROP VIEW IF EXISTS lasting")
