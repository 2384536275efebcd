"""Stream stores on Spark: statements, the data source, patterns over streams and archives by their names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader
from tests.support.streams import counters

import episode
from episode.api import Options
from episode.plan.options import StreamOptions, Tuning
from episode.spark.versions import HAS_READ_LIMITS
from episode.store.catalog import Catalog
from episode.store.stream import StreamStore, open_store

RISES = """
SELECT * FROM {table} MATCH_RECOGNIZE (
  PARTITION BY k {order} MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n
  PATTERN (A B+) WITHIN 400 DEFINE B AS v > PREV(v))
"""
END = 1_000_000


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    return Catalog(tmp_path / "catalog")


@pytest.fixture
def ticks(spark: SparkSession, catalog: Catalog) -> StreamStore:
    """A declared stream without events."""
    episode.sql(
        "CREATE STREAM Ticks (k INT, ts BIGINT, v INT) TIME ts KEY k DELAY 100 ARCHIVE AS TicksArchive "
        + ("OPTIONS (maxEventsPerTrigger 200)" if HAS_READ_LIMITS else ""),
        spark=spark,
    )
    return open_store(catalog.find("ticks"))


def events(first: int = 0, count: int = 300) -> pa.Table:
    """Events a little out of order, of seven keys."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array([n * n % 7 for n in numbers], pa.int32()),
            "ts": [10 * n + n * 37 % 50 for n in numbers],
            "v": pa.array([n * 31 % 5 for n in numbers], pa.int32()),
        }
    )


def limited(spark: SparkSession, events: int) -> DataStreamReader:
    """A reader of streams, with so many events in a micro-batch where Spark asks for a limit."""
    reader = spark.readStream.format("episode")
    return reader.option("maxEventsPerTrigger", events) if HAS_READ_LIMITS else reader


def rows(frame: DataFrame) -> Counter[tuple]:
    return Counter(tuple(row) for row in frame.collect())


class Results:
    """What a stream gives, in files."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark, self.place = spark, place

    def run(self, frame: DataFrame) -> StreamingQuery:
        """Until all that is there has been taken."""
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.place / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(self.place / "out"))
        query.awaitTermination()
        return query

    def rows(self) -> Counter[tuple]:
        return rows(self.spark.read.parquet(str(self.place / "out")))


@pytest.fixture
def results(spark: SparkSession, tmp_path: Path, rocksdb: None) -> Results:
    return Results(spark, tmp_path / "results")


def test_statements(spark: SparkSession, ticks: StreamStore) -> None:
    shown = episode.sql("SHOW STREAMS", spark=spark).collect()
    assert [(row.name, row.archive, row.store, row.time, row.key) for row in shown] == [
        ("Ticks", "TicksArchive", "episode", "ts", "k")
    ]
    described = {row.col_name: (row.data_type, row.comment) for row in episode.sql("DESCRIBE STREAM ticks").collect()}
    assert described["ts"] == ("bigint", "event time")
    assert described["k"] == ("int", "key")
    assert described["Delay"] == ("100", "")
    episode.sql("CREATE STREAM IF NOT EXISTS ticks (ts BIGINT) TIME ts", spark=spark)
    with pytest.raises(episode.EpisodeAnalysisError, match="There is a stream called Ticks already") as raised:
        episode.sql("CREATE STREAM Ticks (ts BIGINT) TIME ts", spark=spark)
    assert raised.value.position == len("CREATE STREAM ")
    spark.range(1).createOrReplaceTempView("taken")
    with pytest.raises(episode.EpisodeAnalysisError, match="table called taken"):
        episode.sql("CREATE STREAM taken (ts BIGINT) TIME ts", spark=spark)
    spark.catalog.dropTempView("taken")
    episode.sql("DROP STREAM Ticks", spark=spark)
    with pytest.raises(episode.EpisodeAnalysisError, match="There is no stream Ticks"):
        episode.sql("DROP STREAM Ticks", spark=spark)
    episode.sql("DROP STREAM IF EXISTS Ticks", spark=spark)
    assert episode.sql("SHOW STREAMS", spark=spark).collect() == []


def test_explain_changes_nothing(spark: SparkSession, ticks: StreamStore) -> None:
    text = "CREATE STREAM other (ts BIGINT) TIME ts"
    assert episode.explain(text, spark=spark) == "No pattern in this statement: it is about streams."
    inserted = f"INSERT INTO Ticks SELECT k, first, n FROM ({RISES.format(table='TicksArchive', order='')})"
    assert "envelopes of the stream store" in episode.explain(inserted, spark=spark)
    assert ticks.count() == 0
    assert [row.name for row in episode.sql("SHOW STREAMS", spark=spark).collect()] == ["Ticks"]


def test_a_pattern_over_a_stream_by_its_name(spark: SparkSession, ticks: StreamStore, results: Results) -> None:
    """No ORDER BY, no watermark: both are declared. Restarted, it goes on; in the end it is as over the table."""
    options = Options(tuning=Tuning(shards=4), stream=StreamOptions(end=END))
    query = RISES.format(table="Ticks", order="")
    assert "envelopes of the stream store Ticks" in episode.explain(query, spark=spark, options=options)
    classes = episode.query("PATTERN SEQ(B b, S s) WITHIN 20", spark=spark, B="Ticks", S="Ticks").explain()
    assert "101 ms behind ts (as its stream declares)" in classes
    ticks.append(events(0, 200))
    first = results.run(episode.sql(query, spark=spark, options=options))
    for start in range(200, 500, 50):
        ticks.append(events(start, 50))
    ticks.append(pa.table({"k": pa.array([-1], pa.int32()), "ts": [2 * END], "v": pa.array([0], pa.int32())}))
    second = results.run(episode.sql(query, spark=spark, options=options))
    table = spark.createDataFrame(events(0, 500).to_pandas())
    expected = rows(episode.sql(RISES.format(table="t", order="ORDER BY ts"), t=table))
    assert sum(expected.values()) > 50
    assert results.rows() == expected
    assert counters(first)["events"] + counters(second)["events"] == 501
    taken = [progress.numInputRows for progress in second.recentProgress]
    assert len([count for count in taken if count]) == (2 if HAS_READ_LIMITS else 1)  # 200 and 101 events, in envelopes
    assert counters(first)["late"] + counters(second)["late"] == 0


def test_a_pattern_over_an_archive_by_its_name(spark: SparkSession, ticks: StreamStore) -> None:
    ticks.append(events())
    query = RISES.format(table="TicksArchive", order="")
    assert "envelopes of the stream store TicksArchive" in episode.explain(query, spark=spark)
    table = spark.createDataFrame(events().to_pandas())
    expected = rows(episode.sql(RISES.format(table="t", order="ORDER BY ts"), t=table))
    assert rows(episode.sql(query, spark=spark)) == expected
    through_rows = RISES.format(table="(SELECT k, ts, v + 0 AS v FROM ticksarchive WHERE v >= 0)", order="")
    assert "rows through Spark" in episode.explain(through_rows, spark=spark)
    assert rows(episode.sql(through_rows, spark=spark)) == expected
    found = episode.match("TicksArchive", "PATTERN SEQ(A a, B b) WHERE [k] AND b.v > a.v WITHIN 20", spark=spark)
    given = episode.match(table, "PATTERN SEQ(A a, B b) WHERE [k] AND b.v > a.v WITHIN 20", time="ts")
    assert rows(found.select("match_start", "match_end")) == rows(given.select("match_start", "match_end"))
    pairs = "PATTERN SEQ(B b, S s) WHERE b.k = s.k WITHIN 20 RETURN b.ts, s.ts"
    by_class = episode.match(pairs, spark=spark, B="TicksArchive", S="TicksArchive")
    assert rows(by_class) == rows(episode.match(pairs, time="ts", B=table, S=table))
    plain = episode.sql("WITH t AS (SELECT 1 AS one) SELECT count(*), sum(v) FROM TicksArchive, t", spark=spark)
    assert plain.collect()[0][0] == 300


def test_a_table_made_of_an_archive(spark: SparkSession, ticks: StreamStore) -> None:
    ticks.append(events())
    matches = RISES.format(table="TicksArchive", order="")
    try:
        episode.sql("CREATE TABLE copied_ticks USING parquet AS SELECT * FROM TicksArchive", spark=spark)
        episode.sql(f"CREATE TABLE copied_rises USING parquet AS {matches}", spark=spark)
        assert rows(spark.table("copied_ticks")) == Counter(zip(*events().to_pydict().values(), strict=True))
        assert rows(spark.table("copied_rises")) == rows(episode.sql(matches, spark=spark)) != Counter()
    finally:
        spark.sql("DROP TABLE IF EXISTS copied_ticks")
        spark.sql("DROP TABLE IF EXISTS copied_rises")


def test_what_is_archived_or_not_is_read_once(spark: SparkSession, ticks: StreamStore, results: Results) -> None:
    """As a table, and as a stream that begins when the log no longer has the first events."""
    ticks.append(events(0, 100))
    ticks.append(events(100, 100))
    ticks.archive()
    ticks.append(events(200, 100))
    ticks.log.path(1).unlink()
    expected = Counter(zip(*events().to_pydict().values(), strict=True))
    table = spark.read.format("episode").load("TicksArchive")
    assert rows(table) == expected
    assert table.schema["ts"].metadata == {"episode.time": 101}
    query = results.run(limited(spark, 100).load("Ticks"))
    assert results.rows() == expected
    taken = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    assert taken == ([200, 100] if HAS_READ_LIMITS else [300])  # commits that were archived together come together


def test_writing(spark: SparkSession, ticks: StreamStore, tmp_path: Path, rocksdb: None) -> None:
    """By INSERT, as a table, and as a stream whose last micro-batch is run again."""
    spark.createDataFrame(events(0, 50).to_pandas()).createOrReplaceTempView("given_events")
    episode.sql("INSERT INTO Ticks SELECT k, ts, v FROM given_events WHERE ts >= 0", spark=spark)
    episode.sql("INSERT INTO ticks (ts, k) VALUES (5, 1)", spark=spark)
    episode.sql("INSERT INTO Ticks WITH t AS (SELECT 1 AS k, 6L AS ts, 2 AS v) SELECT * FROM t", spark=spark)
    frame = spark.createDataFrame(events(50, 50).to_pandas()).selectExpr("ts", "cast(k as int) k", "cast(v as int) v")
    frame.write.format("episode").mode("append").save("Ticks")
    expected = Counter(zip(*events(0, 100).to_pydict().values(), strict=True)) + Counter([(1, 5, None), (1, 6, 2)])
    assert Counter(zip(*ticks.table().to_pydict().values(), strict=True)) == expected
    episode.sql("CREATE STREAM copies (k INT, ts BIGINT, v INT) TIME ts", spark=spark)
    copies = open_store(Catalog(ticks.log.directory.parents[1]).find("copies"))

    def copy() -> None:
        live = limited(spark, 60).load("Ticks")
        writer = live.writeStream.format("episode").option("checkpointLocation", str(tmp_path / "copying"))
        writer.trigger(availableNow=True).start("copies").awaitTermination()

    copy()
    commits = tmp_path / "copying" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):  # as if the query had been killed before it knew that the batch was stored
        (commits / name).unlink()
    copy()
    assert Counter(zip(*copies.table().to_pydict().values(), strict=True)) == expected
    spark.catalog.dropTempView("given_events")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO Ticks SELECT 1, 2", "The query has 2 columns; 3 go into Ticks"),
        ("INSERT INTO Ticks SELECT 1, 'x', 3", "The column ts of Ticks is of type BIGINT, but string was given"),
        ("INSERT INTO Ticks SELECT 1, CAST(NULL AS BIGINT), 3", "Row 1 has no event time: ts is null"),
        ("INSERT INTO Ticks (k, tss) SELECT 1, 2L", "There is no column tss in the stream Ticks"),
        ("INSERT INTO TicksArchive SELECT 1, 2L, 3", "TicksArchive is an archive"),
        ("INSERT OVERWRITE Ticks SELECT 1, 2L, 3", "never overwritten"),
        ("INSERT INTO Ticks SELECT * FROM Ticks", "is a stream, which does not end"),
        ("CREATE VIEW v AS SELECT * FROM TicksArchive", "Spark keeps a permanent view as its text"),
        ("DROP TABLE Ticks", "a table of queries and INSERT, not of DROP"),
    ],
)
def test_what_cannot_be_inserted(spark: SparkSession, ticks: StreamStore, text: str, message: str) -> None:
    with pytest.raises(episode.EpisodeError, match=message):
        episode.sql(text, spark=spark)
    assert ticks.count() == 0


def test_what_the_data_source_refuses(spark: SparkSession, ticks: StreamStore) -> None:
    with pytest.raises(PySparkException, match="There is no stream nothing"):
        spark.read.format("episode").load("nothing")
    with pytest.raises(PySparkException, match="There is no option maxrows"):
        spark.read.format("episode").option("maxRows", 5).load("Ticks").count()
    archive = spark.readStream.format("episode").load("TicksArchive").writeStream.format("noop").start()
    with pytest.raises(PySparkException, match="TicksArchive is an archive: a table, not a stream"):
        archive.awaitTermination()
