"""A session of one's own: settings stay as they are, workers find episode, and what is unfit for streams is said."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import episode
from episode import EpisodeAnalysisError, EpisodeDataError, EpisodeWarning, Options, StreamOptions
from episode.spark.errors import translate
from episode.spark.startup.session import PARTITIONS, STATE_STORE, use_this_python

pytestmark = pytest.mark.spark

NANOSECONDS = 1_767_225_600_000_000_000
STEP = 1_000_000_000
PAIRS = "PATTERN A; B WHERE A.v = 1 AND B.v = 2 WITHIN 2000000000 RETURN A.ts AS a, B.ts AS b"


def test_another_thread_has_the_same_session(spark: SparkSession) -> None:
    names = (PARTITIONS, STATE_STORE, "spark.sql.adaptive.enabled", "spark.log.level")
    before = {name: spark.conf.get(name, None) for name in names}
    found: list[Any] = []

    def query() -> None:
        found.append(episode.sql("SELECT 1 AS x"))

    thread = threading.Thread(target=query)
    thread.start()
    thread.join()
    assert found[0].sparkSession is spark
    assert {name: spark.conf.get(name, None) for name in names} == before


def test_workers_on_this_machine_are_this_python(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "python3")
    use_this_python(spark)
    assert context.pythonExec == "python3"  # PYSPARK_PYTHON says which
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(context, "master", "spark://127.0.0.1:7077")
    use_this_python(spark)
    assert context.pythonExec == "python3"
    monkeypatch.setattr(context, "master", "local[2]")
    spark.conf.set("spark.sql.execution.pyspark.python", "/usr/bin/python3")
    use_this_python(spark)
    assert context.pythonExec == "python3"
    spark.conf.unset("spark.sql.execution.pyspark.python")
    use_this_python(spark)
    assert context.pythonExec == sys.executable


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Events whose time is in nanoseconds since 1970."""
    times = [NANOSECONDS + step * STEP for step in range(20)]
    (tmp_path / "events").mkdir()
    pq.write_table(
        pa.table({"ts": times, "v": [1 + step % 2 for step in range(20)]}), tmp_path / "events" / "a.parquet"
    )
    return spark.readStream.schema("ts BIGINT, v BIGINT").parquet(str(tmp_path / "events"))


def run(frame: DataFrame, name: str, tmp_path: Path) -> None:
    query = (
        frame.writeStream.format("memory").queryName(name).outputMode("append").trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    )  # fmt: skip
    query.awaitTermination()


@pytest.mark.usefixtures("rocksdb")
def test_nanoseconds_as_event_time_of_a_stream(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    options = Options(watermark=0, stream=StreamOptions(time_unit="nanoseconds"))
    run(episode.match(stream, PAIRS, time="ts", options=options), "nanoseconds", tmp_path)
    found = sorted((row.a, row.b) for row in spark.table("nanoseconds").collect())
    assert found == [(NANOSECONDS + 2 * at * STEP, NANOSECONDS + (2 * at + 1) * STEP) for at in range(10)]


@pytest.mark.usefixtures("rocksdb")
def test_times_beyond_the_clock_are_an_error_of_the_data(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    matches = episode.match(stream, PAIRS, time="ts", options=Options(watermark=0))
    with pytest.raises(Exception, match="is beyond the clock of a stream") as raised:
        run(matches, "beyond", tmp_path)
    found = translate(raised.value)
    assert isinstance(found, EpisodeDataError)
    assert "StreamOptions(time_unit='nanoseconds')" in str(found)


@pytest.mark.usefixtures("rocksdb")
def test_what_is_unfit_for_streams_is_said(spark: SparkSession, stream: DataFrame) -> None:
    spark.conf.set(PARTITIONS, "200")
    with pytest.warns(EpisodeWarning, match="keeps the state of this stream in 200 partitions"):
        episode.match(stream, PAIRS, time="ts", key="v", options=Options(watermark=0))
    timed = stream.selectExpr("timestamp_micros(ts) AS ts", "v")
    unit = Options(watermark="1 second", stream=StreamOptions(time_unit="nanoseconds"))
    with pytest.raises(EpisodeAnalysisError, match="the event time ts of type timestamp counts nothing"):
        episode.match(timed, PAIRS.replace("2000000000", "2 seconds"), time="ts", options=unit)
