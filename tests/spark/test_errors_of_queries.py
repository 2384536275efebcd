"""Errors while a query runs, and errors in the text around a pattern: ours and Spark's at the same time."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.streams import Files, counters

import episode
from episode import EpisodeAnalysisError, EpisodeDataError, EpisodeError, EpisodeSyntaxError
from episode.api import Options
from episode.plan.options import StreamOptions

pytestmark = pytest.mark.spark

SCHEMA = "k int, ts long, v int"
ARROW = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.int32())])
PATTERN = (
    "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first AFTER MATCH SKIP TO FIRST B "
    "PATTERN (A B* C) DEFINE A AS v = 0, B AS v = 1, C AS v = 2)"
)
FAILS = f"SELECT * FROM events {PATTERN}"
MESSAGE = "AFTER MATCH SKIP TO FIRST B is not possible for the match that starts at k = 1, ts = 10"


@pytest.fixture
def failing(spark: SparkSession) -> DataFrame:
    """A query whose data raise an error in a worker."""
    events = spark.createDataFrame([(1, 10, 0), (1, 20, 2)], SCHEMA)
    return episode.sql(FAILS, events=events)


ACTIONS: dict[str, Callable[[DataFrame, Path], Any]] = {
    "collect": lambda frame, _: frame.collect(),
    "count": lambda frame, _: frame.count(),
    "show": lambda frame, _: frame.show(),
    "toPandas": lambda frame, _: frame.toPandas(),
    "toLocalIterator": lambda frame, _: list(frame.toLocalIterator()),
    "write": lambda frame, path: frame.write.parquet(str(path / "out")),
    "later steps": lambda frame, _: frame.groupBy("k").agg(F.max("first")).orderBy("k").collect(),
}


@pytest.mark.filterwarnings("ignore:toPandas attempted Arrow optimization")
@pytest.mark.parametrize("action", ACTIONS)
def test_an_error_of_a_worker_is_ours_and_sparks(failing: DataFrame, tmp_path: Path, action: str) -> None:
    with pytest.raises(EpisodeDataError) as raised:
        ACTIONS[action](failing, tmp_path)
    error = raised.value
    assert isinstance(error, (PySparkException, Py4JJavaError))
    assert error.message.startswith(MESSAGE)
    lines = str(error).splitlines()
    assert lines[1] == f"  at line 1, column {FAILS.index('SKIP TO') + 1}:"
    assert lines[3].strip("^ ") == ""
    assert lines[4].startswith("  Skip to a label")
    assert len(lines) == 5
    assert type(error).__name__ == "EpisodeDataError"
    assert error.__cause__ is not None
    assert not isinstance(error.__cause__, EpisodeError)
    assert "Traceback" in str(error.__cause__)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (EpisodeDataError, str(error))


def test_methods_of_sparks_exception_go_on_working(failing: DataFrame) -> None:
    with pytest.raises(PySparkException) as raised:
        failing.collect()
    error = raised.value
    assert isinstance(error.getQueryContext(), list)
    assert error.getMessage() is not None
    assert error.getSqlState() is None or isinstance(error.getSqlState(), str)


def test_errors_of_others_stay_as_they_are(spark: SparkSession) -> None:
    frame = spark.range(1).select(F.udf(lambda value: 1 // value, "long")("id"))
    with pytest.raises(PySparkException) as raised:
        frame.collect()
    assert not isinstance(raised.value, EpisodeError)
    assert type(raised.value).__module__.startswith("pyspark")
    with pytest.raises(AnalysisException) as unresolved:
        spark.range(1).select("nothing")
    assert not isinstance(unresolved.value, EpisodeError)


@pytest.mark.usefixtures("rocksdb")
def test_an_error_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    for rows in ([(1, 10, 0), (1, 20, 2)], [(1, 90, 0)], [(1, 190, 0)]):
        files.add(pa.Table.from_pylist([dict(zip(["k", "ts", "v"], row, strict=True)) for row in rows], schema=ARROW))
    matches = episode.sql(FAILS, events=files.stream(), options=Options(watermark=5))
    writer = matches.writeStream.format("memory").queryName("failing").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(EpisodeDataError) as raised:
        query.awaitTermination()
    assert isinstance(raised.value, StreamingQueryException)
    assert raised.value.message.startswith(MESSAGE)
    assert len(str(raised.value).splitlines()) == 5
    reported = query.exception()
    assert isinstance(reported, EpisodeDataError)
    assert isinstance(reported, StreamingQueryException)
    assert str(reported) == str(raised.value)
    with pytest.raises(EpisodeDataError):
        spark.streams.awaitAnyTermination()
    spark.streams.resetTerminated()


# ---- the text around a pattern ---------------------------------------------------------------------------------------

AROUND = [
    (
        f"SELECT first,\n       frist\nFROM events {PATTERN}",
        EpisodeAnalysisError,
        2,
        8,
        "frist",
        "cannot be resolved",
    ),
    (
        f"SELECT k, count(*) AS n FROM events {PATTERN} GROUP BY k HAVING m > 1",
        EpisodeAnalysisError,
        1,
        None,
        "m",
        "`m` cannot be resolved",
    ),
    (
        f"WITH calm AS (SELECT * FROM events WHERE vv < 9)\nSELECT * FROM calm {PATTERN}",
        EpisodeAnalysisError,
        1,
        42,
        "vv",
        "`vv` cannot be resolved",
    ),
    (
        f"SELECT * FROM (SELECT k, ts, v + 'x' AS {{v FROM events) {PATTERN}",
        EpisodeSyntaxError,
        1,
        41,
        None,
        "Syntax error",
    ),
    (
        f"SELECT * FORM events {PATTERN}",
        EpisodeSyntaxError,
        1,
        None,
        None,
        "",
    ),
    (
        f"SELECT upperr(k) FROM events {PATTERN} WHERE '{{' < 'a' AND first > 0",
        EpisodeAnalysisError,
        1,
        8,
        "upperr(k)",
        "upperr",
    ),
    (
        f"SELECT a.first FROM events {PATTERN} a JOIN nowhere b ON a.k = b.k",
        EpisodeAnalysisError,
        1,
        None,
        "nowhere",
        "nowhere",
    ),
]


@pytest.mark.parametrize(("text", "kind", "line", "column", "pointed_at", "said"), AROUND)
def test_the_text_around_a_pattern_has_places(
    spark: SparkSession, text: str, kind: type, line: int, column: int | None, pointed_at: str | None, said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    events = spark.createDataFrame([(1, 10, 0)], SCHEMA)
    with pytest.raises(kind) as raised:
        episode.sql(text, events=events)
    error = raised.value
    assert said in error.message
    assert "_pyspark_" not in str(error)
    assert error.position is not None, str(error)
    if column is not None:
        assert error.line_and_column == (line, column), str(error)
    if pointed_at is not None:
        assert text[error.position : error.position + error.length] == pointed_at, str(error)
    assert capfd.readouterr().err == "", "nothing is logged besides"


def test_errors_around_a_pattern_are_sparks_too(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, 10, 0)], SCHEMA)
    with pytest.raises(AnalysisException) as raised:
        episode.sql(f"SELECT frist FROM events {PATTERN}", events=events)
    assert raised.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    with pytest.raises(ParseException):
        episode.sql(f"SELECT first second third FROM events {PATTERN}", events=events)


# ---- keys that are set aside -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("rocksdb")
def test_a_key_is_skipped_and_the_others_go_on_through_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    options = Options(watermark=5, stream=StreamOptions(on_error="skip key", late_path=str(tmp_path / "aside")))

    def add(*rows: tuple[int, int, int]) -> None:
        files.add(pa.Table.from_pylist([dict(zip(["k", "ts", "v"], row, strict=True)) for row in rows], schema=ARROW))

    def run() -> dict[str, int]:
        return counters(files.run(episode.sql(FAILS, events=files.stream(), options=options)))

    add((1, 10, 0), (2, 10, 0), (1, 20, 2), (2, 20, 1), (2, 30, 2), (1, 40, 0))
    add((3, 90, 0))
    totals = run()
    assert (totals["skipped"], totals["late"]) == (2, 0)  # at 20 matching raises
    add((1, 100, 0), (1, 110, 1), (1, 120, 2), (2, 100, 0), (2, 110, 1), (2, 120, 2))
    add((3, 190, 0))
    totals = run()
    assert totals["skipped"] == 3
    assert sorted(tuple(row) for row in files.matches().collect()) == [(2, 10), (2, 100)]
    aside = spark.read.parquet(str(tmp_path / "aside")).orderBy("ts").collect()
    assert [(row.k, row.ts) for row in aside] == [(1, 20), (1, 40), (1, 100), (1, 110), (1, 120)]


@pytest.mark.usefixtures("rocksdb")
def test_what_cannot_skip_keys(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    options = Options(watermark=5, stream=StreamOptions(on_error="skip key"))
    with pytest.raises(EpisodeAnalysisError, match="the pattern has no partition keys"):
        episode.sql(FAILS.replace("PARTITION BY k ", ""), events=files.stream(), options=options)
    with pytest.raises(EpisodeAnalysisError, match=r"Options\(on_error='skip key'\): for patterns over streams"):
        episode.sql(
            FAILS,
            events=spark.createDataFrame([(1, 10, 0)], SCHEMA),
            options=Options(stream=StreamOptions(on_error="skip key")),
        )
