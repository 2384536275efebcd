"""AGGREGATE through Spark: batch, SQL, streams; types, plan-time errors, explain."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.support.streams import Files

import episode
from episode import EpisodeAnalysisError, Options, StreamOptions, Tuning

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

BEGIN = datetime(2024, 1, 1)
SCHEMA = "id long, ts timestamp, type string, symbol string, price decimal(10,2), volume int"
PATTERN = "PATTERN SEQ(A a, B+ b[], C c) WHERE [symbol] AND b[i].price > b[i-1].price WITHIN 40 seconds"
CLAUSE = "AGGREGATE count(*) AS trends, sum(b[].price) AS total, avg(b[].volume) AS mean, max(c.ts) AS latest"


def rows(count: int = 240) -> list[dict[str, Any]]:
    rng = random.Random(3)
    return [
        {
            "id": n,
            "ts": BEGIN + timedelta(seconds=n),
            "type": rng.choice("ABBC"),
            "symbol": rng.choice("xyz"),
            "price": Decimal(rng.randrange(100, 10_000)).scaleb(-2),
            "volume": rng.randrange(50),
        }
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def ticks(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(rows(), SCHEMA)


def by_enumeration(ticks: DataFrame) -> list[Any]:
    """The same from the matches themselves."""
    matches = episode.match(
        ticks, f"{PATTERN} RETURN a.symbol, b[].price AS prices, b[].volume AS volumes, c.ts AS ts", time="ts",
        type_column="type",
    )  # fmt: skip
    matches.createOrReplaceTempView("matches_of_ticks")
    query = """
        SELECT symbol, count(DISTINCT id) AS trends, sum(price) AS total, avg(volume) AS mean, max(ts) AS latest FROM (
            SELECT symbol, id, ts, pair.prices AS price, pair.volumes AS volume FROM (
                SELECT *, monotonically_increasing_id() AS id FROM matches_of_ticks
            ) LATERAL VIEW explode(arrays_zip(prices, volumes)) AS pair
        ) GROUP BY symbol"""
    return sorted(tuple(row) for row in ticks.sparkSession.sql(query).collect())


def test_a_table_equals_its_matches(ticks: DataFrame) -> None:
    found = episode.match(ticks, f"{PATTERN} {CLAUSE} GROUP BY a.symbol", time="ts", type_column="type")
    assert found.dtypes == [
        ("symbol", "string"), ("trends", "decimal(38,0)"), ("total", "decimal(38,2)"), ("mean", "double"),
        ("latest", "timestamp"),
    ]  # fmt: skip
    for row, right in zip(sorted(tuple(row) for row in found.collect()), by_enumeration(ticks), strict=True):
        assert row[:3] == right[:3]
        assert row[3] == pytest.approx(right[3])
        assert row[4] == right[4]


def test_in_sql_with_an_expression_around(ticks: DataFrame) -> None:
    ticks.createOrReplaceTempView("ticks_to_aggregate")
    found = episode.sql(
        f"""SELECT sum(trends) AS n, sum(quotient) AS q FROM EVENTS (
            FROM ticks_to_aggregate ORDER BY ts TYPE BY type {PATTERN}
            AGGREGATE count(*) AS trends, count(b[]) / count(*) AS quotient GROUP BY c.symbol EVERY 1 minute
        ) AS m"""
    ).collect()
    right = by_enumeration(ticks)
    assert found[0]["n"] == sum(row[1] for row in right)
    assert found[0]["q"] > 0


def test_a_stream_equals_a_table(spark: SparkSession, ticks: DataFrame, tmp_path: Path) -> None:
    text = f"{PATTERN} {CLAUSE} GROUP BY a.symbol EVERY 25 seconds"
    table = episode.match(ticks, text, time="ts", type_column="type")
    kinds = [pa.int64(), pa.timestamp("us", "UTC"), pa.string(), pa.string(), pa.decimal128(10, 2), pa.int32()]
    columns = pa.schema(list(zip(rows(1)[0], kinds, strict=True)))
    files = Files(spark, tmp_path, SCHEMA)
    late = rows()
    for n in range(0, len(late) - 3, 7):
        late[n], late[n + 3] = late[n + 3], late[n]
    utc = [{**row, "ts": row["ts"].astimezone()} for row in late]
    files.add_in_pieces(pa.Table.from_pylist(utc, schema=columns), 5)
    end = BEGIN + timedelta(seconds=300)
    last = {**rows(1)[0], "id": -1, "ts": (end + timedelta(seconds=60)).astimezone()}
    files.add(pa.Table.from_pylist([last], schema=columns))
    stream = episode.match(
        files.stream(),
        text,
        time="ts",
        type_column="type",
        options=Options(watermark="10 seconds", tuning=Tuning(shards=3), stream=StreamOptions(end=end)),
    )
    files.run(stream)
    found = sorted(tuple(row) for row in files.matches().collect())
    assert found == sorted(tuple(row) for row in table.collect())
    assert len(found) > 10


def test_a_stream_needs_every(spark: SparkSession, tmp_path: Path) -> None:
    stream = Files(spark, tmp_path, SCHEMA).stream()
    with pytest.raises(EpisodeAnalysisError, match="needs EVERY"):
        episode.match(
            stream, f"{PATTERN} {CLAUSE}", time="ts", type_column="type", options=Options(watermark="1 second")
        )


def test_options_for_matches_are_refused(ticks: DataFrame) -> None:
    for options in (
        Options(tuning=Tuning(step_budget=5)),
        Options(match_times=True),
        Options(tuning=Tuning(closure="runs")),
    ):
        with pytest.raises(EpisodeAnalysisError, match="has no meaning for AGGREGATE"):
            episode.match(ticks, f"{PATTERN} {CLAUSE}", time="ts", type_column="type", options=options)


def test_explain(ticks: DataFrame) -> None:
    text = episode.query(f"{PATTERN} {CLAUSE}", episode.Events(ticks, time="ts", type_column="type")).explain(
        analyze=True
    )
    assert "engine: by start" in text
    assert "b[i].price > b[i-1].price: between neighbours (Fenwick tree, n log n)" in text
    assert "passes over" in text
