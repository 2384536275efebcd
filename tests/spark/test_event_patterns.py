"""Event patterns through Spark: the papers' listings in batch and in streams, a table per class, SQL, chains."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.reference import event_patterns as oracle
from tests.support.event_listings import DATA, LISTINGS, Listing

import episode
from episode import Options, StreamOptions, Tuning
from episode.lang.events.parser import parse_event_query

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]


def frame_of(spark: SparkSession, data: str) -> DataFrame:
    make, schema = DATA[data]
    return spark.createDataFrame(make(), schema)


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: plain(part) for name, part in value.asDict().items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return round(value, 9) if isinstance(value, float) else value


def rows_of(frame: DataFrame) -> list[Any]:
    return sorted((tuple(plain(value) for value in row) for row in frame.collect()), key=repr)


def oracle_rows(text: str, rows: list[dict[str, Any]], *, type_column: str | None = None) -> list[Any]:
    """What the oracle returns; time is the column ts, an integer."""
    query = parse_event_query(text)
    events = [oracle.Event(i, row["ts"], row["ts"], row) for i, row in enumerate(rows)]
    found = oracle.matches(
        query, events, member=lambda place, event: type_column is None or event.values[type_column] == place.name
    )
    return sorted((tuple(plain(value) for value in oracle.returned(query, match)) for match in found), key=repr)


@pytest.fixture(scope="module")
def in_batch(spark: SparkSession) -> dict[str, list[Any]]:
    return {
        name: rows_of(episode.match(frame_of(spark, listing.data), listing.text, **listing.options))
        for name, listing in LISTINGS.items()
    }


def test_every_listing_finds_something(in_batch: dict[str, list[Any]]) -> None:
    assert [name for name, rows in in_batch.items() if not rows] == []


FEW = ["ZStream 7", "ZStream 8", "SASE++ 4", "SASE++ 6, option 1"]
OTHERS = [name for name in LISTINGS if name not in FEW]


@pytest.mark.parametrize("names", [FEW, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["few", "others"])
def test_listings_give_in_a_stream_what_they_give_in_batch(
    spark: SparkSession, tmp_path: Path, in_batch: dict[str, list[Any]], names: list[str]
) -> None:
    sources = {data: _files(spark, tmp_path / data, data, pieces=2) for data in DATA}
    for number, name in enumerate(names):
        listing = LISTINGS[name]
        stream = spark.readStream.schema(sources[listing.data][1]).option("maxFilesPerTrigger", 1)
        events = stream.parquet(str(sources[listing.data][0]))
        # The last events' windows pass with the end of input.
        options = Options(
            watermark=0 if listing.data == "stocks" else "0 seconds",
            tuning=Tuning(shards=2),
            stream=StreamOptions(end=_end(listing)),
        )
        matches = episode.match(events, listing.text, options=options, **listing.options)
        place = tmp_path / f"out-{number}"
        query = (
            matches.writeStream.format("parquet")
            .option("path", str(place))
            .option("checkpointLocation", str(tmp_path / f"checkpoint-{number}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert rows_of(spark.read.parquet(str(place))) == in_batch[name], name


def _files(spark: SparkSession, place: Path, data: str, pieces: int) -> tuple[Path, str]:
    """The events in files of their order, and one event after the end."""
    make, schema = DATA[data]
    rows = make()
    frame = spark.createDataFrame(rows, schema)
    place.mkdir()
    parts = [rows[len(rows) * i // pieces : len(rows) * (i + 1) // pieces] for i in range(pieces)]
    names = frame.columns
    last = dict.fromkeys(names)
    last["ts"] = 2 * 10**9 if data == "stocks" else rows[-1][names.index("ts")].replace(year=2030)
    parts.append([tuple(last[name] for name in names)])
    for number, part in enumerate(parts):
        path = place / f"{number:03}.parquet"
        pq.write_table(spark.createDataFrame(part, schema).toArrow(), path)
        os.utime(path, (number + 1, number + 1))
    return place, schema


def _end(listing: Listing) -> Any:
    return 10**9 if listing.data == "stocks" else "2029-01-01 00:00:00"


GROUPED = {
    "an aggregate over a group": "PATTERN A; B*; C WHERE sum(B.x) > 3 WITHIN 9 RETURN A.id, B.id AS b, C.id AS c",
    "count of a group": "PATTERN A; B+; C WHERE count(B) >= 2 AND B.x > A.x RETURN A.id, sum(B.x) AS s, C.id AS c",
    "each event and the one before it": "PATTERN A; B+ b; C WHERE b[i].x >= b[i-1].x WITHIN 9 RETURN A.id, b.x AS xs",
    "each event and the greatest before it": (
        "PATTERN A; B^3 b; C WHERE b[i].x >= max(b[..i-1].x) RETURN A.id, b.id AS ids, avg(b.x) AS mean"
    ),
    "the first and the last of a group": (
        "PATTERN A; B+ b; C WHERE b[1].x < C.x AND b[last].x > A.x "
        "RETURN A.id, b[1].id AS f, b[last].id AS l, C.id AS c"
    ),
    "whole events": "PATTERN (A & B); C* WITHIN 5",
    "alternatives": "PATTERN A; (B | C c); D WHERE B.x > A.x AND c.x < A.x WITHIN 8 RETURN A, B, c, D.id",
}


def grouped_rows(seed: str) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    rows = [
        {"id": i, "type": draw.choice("ABBBCCD"), "x": draw.choice([None, 1, 2, 3, 4]), "ts": i + draw.randrange(2)}
        for i in range(18)
    ]
    return sorted(rows, key=lambda row: row["ts"])


def found_in(spark: SparkSession, rows: list[dict[str, Any]], text: str) -> list[Any]:
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], "id int, type string, x int, ts int")
    return rows_of(episode.match(frame, text, time="ts", type_column="type"))


@pytest.mark.parametrize("name", GROUPED)
def test_conditions_on_groups_equal_the_oracle(spark: SparkSession, name: str) -> None:
    drawn = (grouped_rows(f"{name} {number}") for number in range(50))
    rows, expected = next(
        (rows, expected) for rows in drawn if len(expected := oracle_rows(GROUPED[name], rows, type_column="type")) > 1
    )
    assert found_in(spark, rows, GROUPED[name]) == expected


def test_functions_across_events_that_only_spark_knows(spark: SparkSession) -> None:
    rows = grouped_rows("hash 2")
    text = "PATTERN A; C WHERE concat(A.type, C.type) LIKE 'A%' AND hash(A.x) <> hash(C.x) RETURN A.id, C.id AS c"
    expected = [
        (a["id"], c["id"], a["ts"], c["ts"])
        for a in rows
        for c in rows
        if a["type"] == "A" and c["type"] == "C" and a["ts"] < c["ts"] and a["x"] != c["x"]
    ]
    assert expected
    assert found_in(spark, rows, text) == sorted(expected, key=repr)


def test_a_table_per_class(spark: SparkSession) -> None:
    orders = spark.createDataFrame([(1, "a", 10), (2, "b", 20)], "id int, customer string, ts int")
    payments = spark.createDataFrame([(1.5, "a", 12), (9.0, "b", 99)], "amount double, customer string, ts int")
    cancels = spark.createDataFrame([("b", 50, "x")], "customer string, ts int, id string")
    text = "PATTERN orders o; !cancels c; payments p WHERE [customer] RETURN o.id, p.amount, p"
    found = episode.match(text, time="ts", orders=orders, payments=payments, cancels=cancels)
    assert found.columns == ["id", "amount", "p", "match_start", "match_end"]
    assert rows_of(found) == [(1, 1.5, {"amount": 1.5, "customer": "a", "ts": 12}, 10, 12)]
    same = episode.sql(
        f"SELECT id, amount FROM EVENTS (ORDER BY ts {text}) AS m WHERE amount > 1",
        orders=orders, payments=payments, cancels=cancels,
    )  # fmt: skip
    assert rows_of(same) == [(1, 1.5)]


def test_a_table_per_class_whose_columns_differ_in_type_and_in_case(spark: SparkSession) -> None:
    one = spark.createDataFrame([(1, "n", 7, "p"), (5, "s", 7, "q")], "ts int, host string, K int, X string")
    other = spark.createDataFrame([(3, "n", 7, 30), (9, "s", 8, 31)], "ts bigint, HOST string, k smallint, x int")
    text = "PATTERN A; D WHERE A.host = D.host WITHIN 20 RETURN A.X AS a, D.x AS x, D.K AS k, D AS whole"
    found = episode.match(text, time="ts", key="k", A=one, D=other)
    assert found.schema["match_start"].dataType.simpleString() == "bigint"
    assert rows_of(found) == [("p", 30, 7, {"ts": 3, "HOST": "n", "k": 7, "x": 30}, 1, 3)]
    same = episode.sql(f"SELECT * FROM EVENTS (PARTITION BY k ORDER BY ts {text})", A=one, D=other)
    assert rows_of(same) == rows_of(found)


def test_what_every_table_of_a_class_needs(spark: SparkSession) -> None:
    one = spark.createDataFrame([(1, "n")], "ts int, host string")
    other = spark.createDataFrame([(3,)], "ts int")
    text = "PATTERN A; D WITHIN 20"
    with pytest.raises(episode.EpisodeAnalysisError, match="The table D has no column host for the key"):
        episode.match(text, time="ts", key="host", A=one, D=other)
    with pytest.raises(episode.EpisodeAnalysisError, match="The table D has no column host for the key"):
        episode.sql(f"PARTITION BY host ORDER BY ts {text}", A=one, D=other)
    with pytest.raises(episode.EpisodeAnalysisError, match="The table D has no column at for the event time"):
        episode.match(text, time="at", A=one.withColumnRenamed("ts", "at"), D=other)
    with pytest.raises(episode.EpisodeAnalysisError, match="type column host has no meaning where each class has its"):
        episode.match(text, time="ts", type_column="host", A=one, D=other)
    with pytest.raises(episode.EpisodeAnalysisError, match="type column host has no meaning") as raised:
        episode.sql(f"ORDER BY ts TYPE BY host {text}", A=one, D=other)
    assert raised.value.line_and_column == (1, 21)
    twice = one.select("ts", "host", "ts")
    with pytest.raises(episode.EpisodeAnalysisError, match="The input of the class A has two columns named ts"):
        episode.match(text, time="ts", A=twice, D=other)


def test_events_that_last_start_before_they_end(spark: SparkSession) -> None:
    text = "PATTERN a; b WITHIN 20 RETURN a.te AS a, b.te AS b"

    def over(*times: tuple[int | None, int]) -> list[Any]:
        frame = spark.createDataFrame(times, "ts int, te int")
        return rows_of(episode.match(frame, text, time="te", start="ts"))

    assert over((1, 2), (3, 3), (2, 4)) == [(2, 3, 1, 3)]
    with pytest.raises(Exception, match="have no start: column ts is null"):
        over((1, 2), (None, 4))
    with pytest.raises(Exception, match="start after their end, one of them with ts 9 and te 4"):
        over((1, 2), (9, 4))


def test_sql_knows_events_as_a_table_and_as_a_statement(spark: SparkSession) -> None:
    frame_of(spark, "stocks").createOrReplaceTempView("stocks_of_events")
    query = (
        "FROM stocks_of_events ORDER BY ts TYPE BY name "
        "PATTERN IBM i; Oracle o WITHIN 2 units RETURN i.id AS a, o.id AS b"
    )
    direct = rows_of(episode.sql(query))
    assert direct
    joined = episode.sql(
        f"WITH dear AS (SELECT id FROM stocks_of_events WHERE price > 20) "
        f"SELECT m.a, m.b, m.match_start, m.match_end FROM EVENTS ({query}) AS m JOIN dear ON dear.id = m.a"
    )
    dear = {row.id for row in frame_of(spark, "stocks").where("price > 20").collect()}
    assert rows_of(joined) == [row for row in direct if row[0] in dear]
    assert "EVENTS: IBM i; Oracle o" in episode.explain(query)


def test_matches_are_events_of_the_next_query(spark: SparkSession) -> None:
    stocks = frame_of(spark, "stocks")
    pairs = episode.match(stocks, "PATTERN IBM; Sun WITHIN 3 units RETURN IBM.id AS a", time="ts", type_column="name")
    events = pairs.withColumn("kind", F.lit("Pair")).unionByName(
        stocks.where("name = 'Google'").select(
            F.lit(None).cast("int").alias("a"), F.col("ts").alias("match_start"), F.col("ts").alias("match_end"),
            F.lit("Google").alias("kind"),
        )
    )  # fmt: skip
    found = episode.match(
        events, "PATTERN Pair p; Google g WITHIN 4 units RETURN p.a, g.match_end AS at",
        time="match_end", start="match_start", type_column="kind",
    )  # fmt: skip
    expected = [
        (p.a, g.ts, p.match_start, g.ts)
        for p in pairs.collect()
        for g in stocks.where("name = 'Google'").collect()
        if p.match_end < g.ts and g.ts - p.match_start <= 4
    ]
    assert expected
    assert rows_of(found) == sorted(expected, key=repr)
    in_sql = episode.sql(
        "FROM events ORDER BY match_end START BY match_start TYPE BY kind "
        "PATTERN Pair p; Google g WITHIN 4 units RETURN p.a, g.match_end AS at",
        events=events,
    )
    assert rows_of(in_sql) == rows_of(found)


def test_a_stream_without_a_window_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().withColumn("type", F.lit("A"))
    with pytest.raises(episode.EpisodeAnalysisError, match="needs WITHIN"):
        episode.match(stream, "PATTERN A a; A b", time="timestamp", type_column="type")


def test_explain_says_what_the_plans_did(spark: SparkSession) -> None:
    listing = LISTINGS["ZStream 6"]
    text = episode.query(listing.text, episode.Events(frame_of(spark, "stocks"), **listing.options)).explain(
        analyze=True
    )
    assert "SEQ" in text
    assert "matches" in text
