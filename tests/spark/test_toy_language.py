"""The language of `tests.support.toy_language` on Spark: matched, explained, and asked why there is no match."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from tests.support.toy_language import matcher
from tests.support.toy_language.language import EveryLanguage
from tests.unit.test_toy_language import FOUND, TABLE

import episode
from episode.queries.languages import register, unregister


@pytest.fixture(autouse=True)
def every_rows() -> Iterator[None]:
    cloudpickle.register_pickle_by_value(matcher)  # workers do not find the tests
    language = EveryLanguage()
    register(language)
    yield
    unregister(language)
    cloudpickle.unregister_pickle_by_value(matcher)


def test_it_runs_explains_itself_and_tells_why_not(spark: SparkSession) -> None:
    events = spark.createDataFrame(TABLE.to_pandas())
    query = episode.query("EVERY 2 ROWS", episode.Events(events, time="ts", key="k"))
    matches = query.run()
    assert sorted((row.asDict() for row in matches.collect()), key=str) == sorted(FOUND, key=str)
    assert query.explain().startswith("EVERY 2 ROWS\n  counts: the rows of each key")
    assert "The key has 2 rows, and each 2th is a match." in str(query.why_not(of="b"))
