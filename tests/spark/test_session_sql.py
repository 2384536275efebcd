"""`spark.sql` with episode's clauses in a classic session: the results of `episode.sql`, and errors with places."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import episode
from episode.clients.leaving import LEAVE
from episode.errors import EpisodeError, EpisodeSyntaxError
from episode.methods import install_everywhere

ROWS = [("a", 1, 10), ("a", 2, 12), ("a", 3, 11), ("b", 1, 5), ("b", 2, 7), ("b", 3, 9), ("b", 4, 1)]
RISES = """
    SELECT * FROM {input} MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts MEASURES last(B.ts) AS until, count(*) AS n
      PATTERN (A B+) DEFINE B AS x > PREV(x) + {least})
"""
FOUND = [("a", 2, 2), ("b", 3, 3)]


@pytest.fixture(autouse=True)
def ticks(spark: SparkSession) -> Iterator[DataFrame]:
    frame = spark.createDataFrame(ROWS, "k string, ts bigint, x int")
    frame.createOrReplaceTempView("ticks")
    episode.install(spark)
    yield frame
    episode.uninstall()
    spark.catalog.dropTempView("ticks")


def found(frame: DataFrame) -> list[Any]:
    return sorted(map(tuple, frame.collect()))


def rises(input: str = "ticks", least: str = "0") -> str:
    return RISES.replace("{input}", input).replace("{least}", least)


def ticks_of(session: SparkSession) -> DataFrame:
    frame = session.createDataFrame(ROWS, "k string, ts bigint, x int")
    frame.createOrReplaceTempView("copy")
    return frame


def test_a_statement(spark: SparkSession) -> None:
    assert found(spark.sql(rises())) == found(episode.sql(rises(), spark=spark)) == FOUND
    assert found(ticks_of(spark.newSession()).sparkSession.sql(rises("copy"))) == FOUND


def test_other_statements_are_sparks(spark: SparkSession) -> None:
    assert spark.sql("SELECT {x} + :y AS z", {"y": 2}, x=1).collect()[0].z == 3
    assert spark.sql("SELECT ? AS match_recognize", [2]).collect()[0][0] == 2
    with pytest.raises(ParseException) as error:
        spark.sql("SELEC 1")
    assert not isinstance(error.value, EpisodeError)
    spark.sql("SELECT 1 AS a, 2 AS b").createOrReplaceTempView("two")
    assert spark.sql("SELECT match_recognize.x FROM two match_recognize (x, y)").collect()[0].x == 1


def test_parameters(spark: SparkSession) -> None:
    few = [("b", 3, 3)]
    assert found(spark.sql(rises(least=":least"), {"least": 1, "unused": 2})) == [("a", 2, 2), ("b", 3, 3)]
    assert found(spark.sql(rises(least="?") + " WHERE n > ?", [1, 2])) == few
    assert found(spark.sql(rises(least=":least") + " WHERE k = :k", {"least": F.lit(1), "k": F.lit("b")})) == few


def test_tables_by_keyword(spark: SparkSession, ticks: DataFrame) -> None:
    b = ticks.where("k = 'b'")
    assert found(spark.sql(rises("{input}", "{least}"), input=b, least=0)) == [("b", 3, 3)]
    both = f"{rises('{input}')} UNION ALL SELECT k, ts, {{x}} FROM {{input}} WHERE {{input[x]}} = 9 AND k <> {{name}}"
    assert found(spark.sql(both, input=b, x=7, name="it's")) == [("b", 3, 3), ("b", 3, 7)]
    braces = "SELECT n FROM {t} MATCH_RECOGNIZE (ORDER BY k, ts MEASURES count(*) AS n PATTERN (A{2} {- B{1,3} -}))"
    assert found(spark.sql(braces, t=ticks)) == [(5,)]


def test_views_of_matches_are_tables(spark: SparkSession) -> None:
    spark.sql(rises()).createOrReplaceTempView("rises")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW rises_too AS {rises()}")
    try:
        assert found(spark.table("rises")) == found(spark.table("rises_too")) == FOUND
        assert found(spark.sql("SELECT n FROM rises WHERE k = 'b'")) == [(3,)]
    finally:
        spark.catalog.dropTempView("rises")
        spark.catalog.dropTempView("rises_too")


def test_other_languages(spark: SparkSession) -> None:
    text = (
        "FROM ticks PARTITION BY k ORDER BY ts PATTERN SEQ(A a, B b) WHERE a.x > b.x WITHIN 1 RETURN a.x AS x, b.x AS y"
    )
    assert found(spark.sql(text).select("x", "y")) == [(9, 1), (12, 11)]
    assert found(spark.sql(f"SELECT y FROM EVENTS ({text}) WHERE x > 9")) == [(11,)]


def test_errors_show_the_place(spark: SparkSession) -> None:
    with pytest.raises(EpisodeSyntaxError, match="line 4") as error:
        spark.sql(rises(least="?").replace("DEFINE B AS", "DEFINE B IS"), [1])
    assert error.value.source is not None
    assert "?" in error.value.source


def test_what_spark_cannot_do_is_not_left_to_it(spark: SparkSession) -> None:
    """No Spark of today has the clause: the setting changes nothing."""
    spark.conf.set(LEAVE, "true")
    try:
        assert found(spark.sql(rises())) == FOUND
        with pytest.raises(EpisodeSyntaxError):
            spark.sql(rises().replace("PATTERN", "PATERN"))
    finally:
        spark.conf.unset(LEAVE)


def test_it_is_taken_back(spark: SparkSession) -> None:
    episode.uninstall()
    assert not hasattr(DataFrame, "match_recognize")
    with pytest.raises(ParseException):
        spark.sql(rises())
    import_module("episode.auto")
    install_everywhere()  # what the module does when it is loaded first
    assert found(spark.sql(rises())) == FOUND
