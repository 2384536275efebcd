"""Correlation by recency on Spark: Figure 2 and Table 1 of the PCQ paper, over tables, streams, and both."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support.streams import Files

import episode
from episode.api import Options
from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.plan.options import StreamOptions, Tuning
from episode.spark.versions import HAS_READ_LIMITS

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

FIGURE_2 = """
SELECT symbolL, initPriceL, minPriceL,
       initPriceA, maxPriceA
FROM StockLive MATCH_RECOGNIZE (
  PARTITION BY symbol {order}
  MEASURES A.symbol AS symbolL,
           A.price AS initPriceL,
           LAST(B.price) AS minPriceL
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  INCREMENTAL MATCH
  PATTERN (A B+)
  DEFINE /* A matches any row */
        B AS (B.price < PREV (B.price))
),
StockArchive MATCH_RECOGNIZE (
  PARTITION BY symbol {order}
  MEASURES A.symbol AS symbolA,
           A.price AS initPriceA,
           LAST(D.price) AS maxPriceA
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  MAXIMAL MATCH
  PATTERN (A B+ C* D+)
  DEFINE /* A matches any row */
        B AS (B.price < PREV(B.price))
        C AS (C.price >= PREV(C.price)
              AND C.price <= A.price)
        D AS (D.price > PREV(D.price)
              AND D.price > A.price)
)
WHERE symbolA = symbolL
RECENCY = 7 seconds;
"""
"""As printed, with its names made consistent."""

PRICES = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
SECOND = 1_000_000
TABLE_1 = [
    (2, 5, 7.0, 6.0, 6.0, 7.0),
    (2, 7, 11.0, 8.0, 6.0, 7.0),
    (2, 9, 8.0, 3.0, 6.0, 7.0),
    (4, 7, 11.0, 8.0, 7.0, 11.0),
    (4, 9, 8.0, 3.0, 7.0, 11.0),
]
"""(start, end, initial and least price of the fall, initial and greatest price of the tick), in seconds after 02:00."""

STREAM = Options(watermark="1 second", stream=StreamOptions(end="1970-01-02"))


def figure_2(order: str = "ORDER BY ts", times: bool = False) -> str:
    """With the times of the pairs: in seconds, before the other columns."""
    text = FIGURE_2.replace("{order}", order)
    if not times:
        return text
    seconds = "CAST(unix_micros(match_start) / 1000000 AS INT) AS s, CAST(unix_micros(match_end) / 1000000 AS INT) AS e"
    return text.replace("SELECT symbolL", f"SELECT {seconds}").replace("\n       initPriceA", " initPriceA")


def ticks(prices: list[float] = PRICES, symbol: str = "X", start: int = 0) -> pa.Table:
    times = pa.array([(start + at) * SECOND for at in range(len(prices))], pa.timestamp("us", "UTC"))
    values = pa.array([float(price) for price in prices], pa.float64())
    return pa.table({"symbol": [symbol] * len(prices), "ts": times, "price": values})


def both() -> pa.Table:
    """Two symbols; the second one has the prices of the first a day earlier, and no pair of its own."""
    return pa.concat_tables([ticks(), ticks([5, 6, 7, 8], "Y", 2)])


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)


def rows(found: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in found.collect())


MARKER = ticks([0.0], "marker", 2 * 86_400)
SCHEMA = "symbol string, ts timestamp, price double"


@pytest.mark.parametrize("one_table", [True, False])
def test_table_1_over_tables(spark: SparkSession, one_table: bool) -> None:
    live = frame(spark, both())
    archive = live if one_table else frame(spark, both())
    found = episode.sql(figure_2(times=True), StockLive=live, StockArchive=archive)
    assert found.columns == ["s", "e", "initPriceL", "minPriceL", "initPriceA", "maxPriceA"]
    assert rows(found) == TABLE_1


def test_figure_2_as_it_is_printed(spark: SparkSession) -> None:
    found = episode.sql(figure_2(), StockLive=frame(spark, both()), StockArchive=frame(spark, both()))
    assert found.columns == ["symbolL", "initPriceL", "minPriceL", "initPriceA", "maxPriceA"]
    assert rows(found) == sorted(("X", *values) for _, _, *values in TABLE_1)


@pytest.mark.filterwarnings("ignore:The state of this stream")
@pytest.mark.parametrize("one_stream", [True, False])
def test_table_1_as_a_stream(spark: SparkSession, tmp_path: Path, one_stream: bool) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    files.add_in_pieces(both().sort_by("ts"), 4)
    files.add(MARKER)
    live = files.stream()
    archive = live if one_stream else files.stream()
    files.run(episode.sql(figure_2(times=True), StockLive=live, StockArchive=archive, options=STREAM))
    assert rows(files.matches()) == TABLE_1


FALL = """MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.price AS price, LAST(B.price) AS low
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH
  PATTERN (A B+) DEFINE B AS B.price < PREV(B.price))"""
TICK = """MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.price AS price, LAST(D.price) AS high
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH
  PATTERN (A B+ C* D+)
  DEFINE B AS B.price < PREV(B.price), C AS C.price >= PREV(C.price) AND C.price <= A.price,
    D AS D.price > PREV(D.price) AND D.price > A.price)"""


def test_a_join_with_names_and_all_columns(spark: SparkSession) -> None:
    """The archive pattern may stand first; `*` means the columns of both, and not those of the pairs themselves."""
    text = f"""
        SELECT *, l.low - a.price AS d FROM t {TICK} AS a
        JOIN t {FALL} AS l ON l.symbol = a.symbol AND l.low < 8 RECENCY INTERVAL '7' SECOND ORDERED
        WHERE a.high > :least ORDER BY d"""
    found = episode.sql(text, {"least": 6}, t=frame(spark, both()))
    assert found.columns == ["symbol", "price", "high", "symbol", "price", "low", "d"]
    assert [tuple(row) for row in found.collect()] == [
        ("X", 7.0, 11.0, "X", 8.0, 3.0, -4.0),
        ("X", 6.0, 7.0, "X", 8.0, 3.0, -3.0),
        ("X", 6.0, 7.0, "X", 7.0, 6.0, 0.0),
    ]


def test_inside_a_larger_statement(spark: SparkSession) -> None:
    """In a common table, with new names of columns, an expression that only Spark knows, and EXCEPT."""
    text = f"""
        WITH pairs AS (
          SELECT * EXCEPT (s2) FROM t {FALL} AS l (s, p, low), t {TICK} AS a (s2, p2, high)
          WHERE s = s2 AND soundex(s) = 'X000' AND RECENCY = 7 seconds)
        SELECT s, count(*) AS n, max(high) AS most FROM pairs GROUP BY s"""
    found = episode.sql(text, t=frame(spark, both()))
    assert [tuple(row) for row in found.collect()] == [("X", 5, 11.0)]


def test_correlate(spark: SparkSession) -> None:
    table = frame(spark, both())
    live, archive = episode.query(FALL, episode.Events(table)), episode.query(TICK, episode.Events(table))
    found = live.correlate(archive, {"least": 3}, recency="7 seconds", on="symbol", where="low > :least").run()
    assert found.columns == [
        "live_symbol", "live_price", "low", "archive_symbol", "archive_price", "high", "match_start", "match_end",
    ]  # fmt: skip
    times = [(int(row.match_start.timestamp()), int(row.match_end.timestamp())) for row in found.collect()]
    assert sorted(times) == [(2, 5), (2, 7), (4, 7)]
    assert live.run().count() == 5


def test_patterns_of_other_languages(spark: SparkSession) -> None:
    """An event pattern is the live one, a situation pattern the archive, over tables with other names of columns."""
    renamed = frame(spark, both()).withColumnsRenamed({"symbol": "s", "ts": "at"})
    events = "PATTERN A; B WHERE A.price > B.price AND B.price < 7 WITHIN 2 seconds RETURN A.symbol, B.price AS low"
    situations = "DEFINE H AS price > 6, L AS price <= 6 PATTERN L meets H WITHIN 9 seconds RETURN first(L.s) AS s"
    live = episode.query(events, episode.Events(frame(spark, both()), time="ts", key="symbol"))
    archive = episode.query(situations, episode.Events(renamed, time="at", key="s"))
    found = live.correlate(archive, recency=timedelta(seconds=6), on={"symbol": "s"}).run()
    assert found.columns == [
        "symbol", "low", "live_match_start", "live_match_end", "s", "archive_match_start", "detected_at", "match_start",
        "match_end",
    ]  # fmt: skip
    expected = [
        (row.live_match_end, one.match_start)
        for row in episode.match(frame(spark, both()), events, time="ts", key="symbol")
        .withColumnsRenamed({"match_start": "live_match_start", "match_end": "live_match_end"})
        .collect()
        for one in episode.match(renamed, situations, time="at", key="s").collect()
        if row.symbol == one.s
        and one.match_start < row.live_match_start
        and one.detected_at < row.live_match_end
        and row.live_match_end - one.match_start <= timedelta(seconds=6)
    ]
    assert expected
    assert sorted((row.match_end, row.match_start) for row in found.collect()) == sorted(expected)


def test_explain_of_a_run(spark: SparkSession) -> None:
    """With the factors that were measured, estimates and what it took."""
    table = frame(spark, both())
    live, archive = episode.query(FALL, episode.Events(table)), episode.query(TICK, episode.Events(table))
    shown = live.correlate(archive, recency="7 seconds", on="symbol").explain(analyze=True)
    assert "strategy: chosen by cost while running" in shown
    for part in ("what the matchers did:", "factors over", "M_l = ", "estimated eager", "actual, last round"):
        assert part in shown


def test_explain(spark: SparkSession) -> None:
    text = figure_2()
    table = frame(spark, both())
    shown = episode.explain(
        text, StockLive=table, StockArchive=table, options=Options(tuning=Tuning(correlation="live first"))
    )
    assert "Correlation: RECENCY 7 seconds" in shown
    assert "every row is an event of both patterns; event time ts" in shown
    assert "equal in both: symbol" in shown
    assert "strategy: live first" in shown
    assert shown.count("MATCH_RECOGNIZE") == 2


@pytest.mark.filterwarnings("ignore:The state of this stream")
def test_two_streams_with_watermarks_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """The columns of the second have other names; either stream has a watermark."""
    files = Files(spark, tmp_path / "live", SCHEMA)
    others = Files(spark, tmp_path / "archive", "at timestamp, sym string, price double")
    for one, table in ((files, both()), (others, both().rename_columns(["sym", "at", "price"]))):
        one.add_in_pieces(table.sort_by(table.column_names[1]), 3)
        one.add(MARKER.rename_columns(table.column_names))
    head, tail = figure_2(times=True).split("StockArchive")
    text = head + "other" + tail.replace("symbol ORDER BY ts", "sym ORDER BY at").replace("A.symbol", "A.sym")
    live = files.stream().withWatermark("ts", "1 second")
    archive = others.stream().withWatermark("at", "1 second")
    files.run(episode.sql(text, StockLive=live, other=archive, options=Options(stream=StreamOptions(end="1970-01-02"))))
    assert rows(files.matches()) == TABLE_1


def test_a_stream_with_a_watermark_and_one_without(spark: SparkSession, tmp_path: Path) -> None:
    files, others = Files(spark, tmp_path / "live", SCHEMA), Files(spark, tmp_path / "archive", SCHEMA)
    live, archive = files.stream().withWatermark("ts", "1 second"), others.stream()
    for frames in ((live, archive), (archive, live)):
        with pytest.raises(EpisodeAnalysisError, match="has a watermark, and the"):
            episode.sql(figure_2(), StockLive=frames[0], StockArchive=frames[1])


def test_a_live_table_and_an_archive_that_is_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    with pytest.raises(EpisodeAnalysisError, match="The live pattern is over a table, and the archive pattern over a"):
        episode.sql(figure_2(), StockLive=frame(spark, both()), StockArchive=files.stream())


@pytest.mark.parametrize("change", [lambda table: table.where("price > 0"), lambda table: table.limit(5)])
def test_a_table_that_is_not_files_under_a_stream(spark: SparkSession, tmp_path: Path, change: Any) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    table = change(frame(spark, both()))
    with pytest.raises(EpisodeUnsupportedError, match="read from Parquet files as live matches ask for it"):
        episode.sql(figure_2(), StockLive=files.stream(), StockArchive=table, options=STREAM)


@pytest.fixture
def stock(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream of the paper, with its events; some of them are archived."""
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    episode.sql(
        "CREATE STREAM StockLive (symbol STRING, ts TIMESTAMP, price DOUBLE) TIME ts KEY symbol DELAY 1 second "
        "ARCHIVE AS StockArchive",
        spark=spark,
    )
    table = both().sort_by("ts")
    episode.streams.append("StockLive", table.slice(0, 6))
    episode.streams.archive("StockLive")
    episode.streams.append("StockLive", table.slice(6))


@pytest.mark.usefixtures("stock")
@pytest.mark.filterwarnings("ignore:The state of this stream")
def test_figure_2_as_it_is_printed_over_declared_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Without ORDER BY: the time of a stream is its order. The archive of the stream grows with it."""
    episode.streams.append("StockLive", MARKER)
    text = figure_2(order="", times=True)
    assert "envelopes of the stream store StockLive" in episode.explain(text, spark=spark)
    files = Files(spark, tmp_path, SCHEMA)
    files.run(episode.sql(text, spark=spark, options=Options(stream=StreamOptions(end="1970-01-02"))))
    assert rows(files.matches()) == TABLE_1


@pytest.mark.usefixtures("stock")
def test_figure_2_over_the_archive_as_a_table(spark: SparkSession) -> None:
    text = figure_2(order="", times=True).replace("StockLive", "StockArchive")
    assert rows(episode.sql(text, spark=spark)) == TABLE_1


@pytest.mark.filterwarnings("ignore:The state of this stream")
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_stream_and_a_table_of_parquet_files(spark: SparkSession, tmp_path: Path, partitioned: bool) -> None:
    """The archive reaches back to before the stream: only what is recent is read, by key and time."""
    files = Files(spark, tmp_path / "stream", SCHEMA)
    live = pa.concat_tables([ticks([9, 8, 3, 3], start=8), ticks([5, 1], "Y", 8), ticks([5, 1], "Z", 8)])
    files.add_in_pieces(live.sort_by("ts"), 3)
    files.add(MARKER)
    archive = str(tmp_path / "table")
    long_ago = ticks([9, 8, 7, 11, 8, 4], start=-1000)
    table = frame(spark, pa.concat_tables([long_ago, ticks(), ticks([6, 5, 7, 3], "Y", 3)]))
    table = table.repartition(3)
    if partitioned:
        table.withColumn("day", F.to_date("ts")).write.partitionBy("day").parquet(archive)
    else:
        table.write.parquet(archive)
    text = figure_2(times=True).replace("minPriceL, initPriceA", "minPriceL, symbolL, initPriceA")
    expected = rows(episode.sql(text, StockLive=frame(spark, live), StockArchive=archive))
    assert len(expected) > 3
    files.run(episode.sql(text, StockLive=files.stream(), StockArchive=archive, options=STREAM))
    assert rows(files.matches()) == expected


def test_a_pattern_over_pairs_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """WITHIN bounds how long after its times a pair is reported; so a further pattern knows when all are there."""
    fall, tick = (one.replace("DEFINE", "WITHIN 5 seconds DEFINE") for one in (FALL, TICK))
    pairs = (
        f"(SELECT l.symbol, match_start, match_end, low FROM t {fall} AS l, t {tick} AS a "
        "WHERE l.symbol = a.symbol AND RECENCY = 7 seconds)"
    )
    text = (
        f"SELECT * FROM {pairs} MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY match_end, match_start "
        "MEASURES first(match_start) AS s, last(match_end) AS e, count(*) AS n, min(low) AS low PATTERN (A B))"
    )
    files = Files(spark, tmp_path, SCHEMA)
    files.add_in_pieces(both().sort_by("ts"), 3)
    files.add(MARKER)
    files.run(episode.sql(text, t=files.stream(), options=STREAM))
    expected = rows(episode.sql(text, t=frame(spark, both())))
    assert len(expected) == 2
    assert rows(files.matches()) == expected


@pytest.mark.usefixtures("stock")
@pytest.mark.filterwarnings("ignore:The state of this stream")
def test_a_stream_that_is_read_from_a_later_position_on(spark: SparkSession, tmp_path: Path) -> None:
    """What came before it is read from the archive by the workers."""
    episode.streams.append("StockLive", MARKER)
    live = spark.readStream.format("episode").option("startingPosition", "1").load("StockLive")
    text = figure_2(order="", times=True)
    files = Files(spark, tmp_path, SCHEMA)
    files.run(episode.sql(text, spark=spark, StockLive=live, options=Options(stream=StreamOptions(end="1970-01-02"))))
    assert rows(files.matches()) == TABLE_1


@pytest.mark.usefixtures("stock")
@pytest.mark.filterwarnings("ignore:The state of this stream")
def test_a_recent_buffer_that_is_too_small(spark: SparkSession, tmp_path: Path) -> None:
    """What it does not hold is read from the archive of the stream."""
    episode.streams.append("StockLive", MARKER)
    text = figure_2(order="", times=True)
    files = Files(spark, tmp_path, SCHEMA)
    options = Options(
        tuning=Tuning(correlation="live first", result_cache=False, recent_buffer=2),
        stream=StreamOptions(end="1970-01-02"),
    )
    reader = spark.readStream.format("episode")
    live = (reader.option("maxEventsPerTrigger", "1") if HAS_READ_LIMITS else reader).load("StockLive")
    files.run(episode.sql(text, spark=spark, StockLive=live, options=options))
    assert rows(files.matches()) == TABLE_1


@pytest.mark.usefixtures("stock")
@pytest.mark.filterwarnings("ignore:The state of this stream")
def test_a_stream_and_the_archive_of_another_one(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, SCHEMA)
    files.add_in_pieces(both().sort_by("ts"), 2)
    files.add(MARKER)
    episode.streams.append("StockLive", MARKER)
    text = figure_2(order="ORDER BY ts", times=True).replace("StockLive", "live")
    files.run(episode.sql(text, spark=spark, live=files.stream(), options=STREAM))
    assert rows(files.matches()) == TABLE_1


def test_a_pattern_over_a_table_for_each_class(spark: SparkSession) -> None:
    table = frame(spark, both())
    text = f"""
        SELECT l.low, l.top, a.high FROM EVENTS (
          PARTITION BY symbol ORDER BY ts PATTERN Top; Low WHERE Top.price > Low.price WITHIN 1 second
          RETURN Low.symbol AS symbol, Top.price AS top, Low.price AS low) AS l
        JOIN t {TICK} AS a ON l.symbol = a.symbol RECENCY 5 seconds"""
    found = episode.sql(text, t=table, Top=table.where("price > 6"), Low=table.where("price <= 6"))
    assert rows(found) == [(3.0, 8.0, 11.0), (6.0, 7.0, 7.0)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on": "symbl"}, "the live pattern has no column symbl"),
        ({"on": {"symbol": "low"}}, "the archive pattern has no column low"),
        ({"on": 5}, "names of columns are needed"),
        ({"where": "low > :least"}, "no value for the parameter :least"),
        ({"where": "price > 1"}, "price"),
        ({"recency": 7}, "RECENCY needs a unit"),
        ({"recency": "soon"}, "duration"),
        ({"ordered": "yes"}, "True or False is needed"),
        ({"options": Options(watermark="1 second")}, "no pattern of this query is over a stream"),
        ({"options": Options(tuning=Tuning(recent_buffer=5))}, "there is none here"),
    ],
)
def test_what_correlate_refuses(spark: SparkSession, given: dict[str, Any], message: str) -> None:
    table = frame(spark, both())
    live, archive = episode.query(FALL, episode.Events(table)), episode.query(TICK, episode.Events(table))
    with pytest.raises(EpisodeError, match=message):
        live.correlate(archive, **{"recency": "7 seconds", "on": "symbol", **given}).run()


def test_correlate_takes_patterns_in_their_roles(spark: SparkSession) -> None:
    table = frame(spark, both())
    live, archive = episode.query(FALL, episode.Events(table)), episode.query(TICK, episode.Events(table))
    with pytest.raises(EpisodeAnalysisError, match="The live pattern of a correlation must be INCREMENTAL MATCH"):
        archive.correlate(live, recency="7 seconds").run()
    with pytest.raises(EpisodeAnalysisError, match="The archive side of a correlation is not a pattern"):
        live.correlate(table, recency="7 seconds")


def test_columns_that_nobody_asks_for_are_not_built(spark: SparkSession) -> None:
    stock = spark.createDataFrame(ticks())
    whole = figure_2().replace("symbolL, initPriceL, minPriceL,\n       initPriceA, maxPriceA", "*")
    assert "SELECT *" in whole
    every = episode.sql(whole, StockLive=stock, StockArchive=stock).toPandas()
    for names in (["maxPriceA"], ["minPriceL", "initPriceA"], ["match_end", "initPriceL"]):
        text = whole.replace("SELECT *", f"SELECT {', '.join(names)}")
        found = episode.sql(text, StockLive=stock, StockArchive=stock)
        expected = len(TABLE_1) if "match_end" in names else every[names].sort_values(names).values.tolist()
        got = found.count() if "match_end" in names else found.toPandas().sort_values(names).values.tolist()
        assert got == expected
    counted = whole.replace("SELECT *", "SELECT COUNT(*) AS n")
    assert episode.sql(counted, StockLive=stock, StockArchive=stock).first().n == len(TABLE_1)
