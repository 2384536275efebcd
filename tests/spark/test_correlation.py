"""Correlation by recency on Spark: Figure 2 and Table 1 of the PCQ paper, over tables, streams, and both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.streams import Files

import episode
from episode.api import Options

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

STREAM = Options(watermark="1 second", end="1970-01-02")


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
