"""Every conformance case through `episode.sql`: over DataFrames, and a part of them over Parquet files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.conformance.cases import LANGUAGES, Case, Table, cases_for, comparable
from tests.conformance.values import YEAR_MONTH

import episode
from episode import errors
from episode.spark.errors import translate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:No event is of the class"),
    pytest.mark.filterwarnings("ignore:MATCH_RECOGNIZE has no ORDER BY"),
]

PARQUET_FILES = ("edge_data", "ordering", "papers", "partitions", "types", "within")
"""Features whose answer may depend on how the data are read."""


SPARK_FILES = ("arrays", "classifier_match_number", "functions", "papers", "statements", "types")
"""Features in which Spark has a part of its own."""

FIRST_CASES = 5
"""Of the other files the first cases run on Spark each time, and all in process; the rest on Spark in the long run."""


def parameters(cases: list[Case], always: tuple[str, ...] = SPARK_FILES) -> list[Any]:
    found = []
    seen: Counter[str] = Counter()
    for case in cases:
        reason = case.fails_on.get("spark")
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        seen[case.file] += 1
        if case.file not in always and seen[case.file] > FIRST_CASES and "process" in case.runs_on:
            marks.append(pytest.mark.slow)
        found.append(pytest.param(case, id=case.id, marks=marks))
    return found


ALL = [case for language in LANGUAGES for case in cases_for("spark", language)]
FROM_PARQUET = [case for case in ALL if case.file in PARQUET_FILES and case.used_tables()]


@pytest.fixture(scope="module", autouse=True)
def utc(spark: SparkSession) -> Iterator[None]:
    """The cases write times in UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def frame_of(spark: SparkSession, table: Table) -> DataFrame:
    """The table as a DataFrame; year-month intervals come in as text."""
    types = {column: "string" if type_ == YEAR_MONTH else type_ for column, type_ in table.types.items()}
    frame = spark.createDataFrame(table.arrow, ", ".join(f"`{column}` {type_}" for column, type_ in types.items()))
    return frame.select(*(frame[f"`{column}`"].cast(type_) for column, type_ in table.types.items()))


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> Callable[[Table], DataFrame]:
    made: dict[str, DataFrame] = {}

    def frame(table: Table) -> DataFrame:
        key = repr(table)
        if key not in made:
            made[key] = frame_of(spark, table)
        return made[key]

    return frame


@pytest.fixture(scope="module")
def paths(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Table], Path]:
    """Parquet of a table, in one file to keep the order of arrival; intervals are Spark's to write."""
    folder = tmp_path_factory.mktemp("conformance")
    made: dict[str, Path] = {}

    def path(table: Table) -> Path:
        key = repr(table)
        if key not in made:
            made[key] = folder / f"{len(made)}.parquet"
            if any("interval" in type_ for type_ in table.types.values()):
                frame_of(spark, table).coalesce(1).write.parquet(str(made[key]))
            else:
                pq.write_table(table.arrow, made[key], row_group_size=3)
        return made[key]

    return path


def check(spark: SparkSession, case: Case, tables: dict[str, Any]) -> None:
    if case.error is not None:
        expect_error(spark, case, tables)
        return
    result = episode.sql(case.query, spark=spark, options=case.options, **tables)
    assert {field.name: field.dataType.simpleString() for field in result.schema} == case.types
    rows = result.toArrow().to_pylist()
    assert comparable(rows, case.types, case.ordered) == case.expected(case.ordered)


def expect_error(spark: SparkSession, case: Case, tables: dict[str, Any]) -> None:
    """Errors of the query come at once; errors of the data with the action, inside Spark's own exception."""
    kind = getattr(errors, case.error)
    if kind is errors.EpisodeDataError:
        result = episode.sql(case.query, spark=spark, options=case.options, **tables)
        with pytest.raises(PySparkException) as raised:
            result.toArrow()
        error = translate(raised.value)
    else:
        with pytest.raises(kind) as raised:
            episode.sql(case.query, spark=spark, options=case.options, **tables)
        error = raised.value
    assert isinstance(error, kind)
    for part in case.message:
        assert part in str(error)


@pytest.mark.parametrize("case", parameters(ALL))
def test_over_dataframes(spark: SparkSession, frames: Callable[[Table], DataFrame], case: Case) -> None:
    check(spark, case, {table.name: frames(table) for table in case.used_tables()})


@pytest.mark.parametrize("case", parameters(FROM_PARQUET, always=()))
def test_over_parquet(spark: SparkSession, paths: Callable[[Table], Path], case: Case) -> None:
    check(spark, case, {table.name: paths(table) for table in case.used_tables()})


def test_over_a_view_of_the_catalog(spark: SparkSession) -> None:
    """Names that are no keyword tables come from Spark's catalog; a keyword table goes before a view of its name."""
    spark.sql("SELECT id FROM range(3)").createOrReplaceTempView("conformance_view")
    query = "SELECT * FROM conformance_view MATCH_RECOGNIZE (ORDER BY id MEASURES sum(id) AS s PATTERN (A+))"
    try:
        assert episode.sql(query, spark=spark).collect()[0].s == 3
        assert episode.sql(query, spark=spark, conformance_view=spark.range(5)).collect()[0].s == 10
    finally:
        spark.catalog.dropTempView("conformance_view")
