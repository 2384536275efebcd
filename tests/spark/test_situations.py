"""Situation patterns through Spark: the paper's listing in batch and in a stream, values of every type, SQL, errors."""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import YearMonthIntervalType
from tests.reference import situations as oracle
from tests.support.situation_listings import LISTING_1

import episode
from episode import EpisodeAnalysisError, EpisodeWarning, Options, StreamOptions, Tuning

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]

BEGIN = datetime(2026, 3, 2, tzinfo=timezone.utc)
SCHEMA = "car_id int, ts timestamp, accel double, speed double"


def cars(count: int = 8, seconds: int = 160, seed: int = 5) -> list[tuple[int, datetime, float, float]]:
    """Cars that speed up, drive fast and brake, now and then all of it, in seconds from BEGIN."""
    draw = random.Random(seed)
    rows = []
    for car in range(count):
        second = 0
        while second < seconds:
            first = second + draw.randint(2, 8)
            fast = first + draw.randint(0, 8)
            brake = fast + draw.randint(4, 16)
            slow = brake + draw.randint(-1, 6)
            end = brake + draw.randint(2, 8)
            for at in range(second, max(end, slow) + 1):
                accel = 9.0 if first <= at < first + 6 else -10.0 if brake <= at < end else 0.5
                speed = 71.0 + at % 7 if fast <= at < slow else 40.0
                rows.append((car, BEGIN + timedelta(seconds=at), accel, speed))
            second = max(end, slow) + 1
    return rows


def oracle_of_listing() -> list[Any]:
    """Listing 1 by the oracle: (id, average speed, start, detection)."""
    relations = [
        ("A", "B", ("meets", "overlaps", "starts", "during")),
        ("B", "C", ("contains", "finishes", "overlaps", "meets")),
        ("A", "C", ("before",)),
    ]
    pattern = oracle.Pattern(
        (oracle.Definition("A", "a", 5), oracle.Definition("B", "b", 4, 30), oracle.Definition("C", "c", 3)),
        tuple(oracle.Constraint(left, right, frozenset(names)) for left, right, names in relations),
        300,
        (oracle.Value("B", "first", "id"), oracle.Value("B", "avg", "speed")),
    )
    events = []
    for car, at, accel, speed in cars():
        values = {"a": accel > 8, "b": speed > 70, "c": accel < -9, "speed": speed, "id": car}
        events.append(oracle.Event(int((at - BEGIN).total_seconds()), values, car))
    found = []
    for match in oracle.matches(pattern, events):
        start, detected = (BEGIN + timedelta(seconds=int(t)) for t in (min(match.starts.values()), match.detected_at))
        found.append((match.values[0], round(match.values[1], 9), _naive(start), _naive(detected)))
    return sorted(found)


def _naive(time: datetime) -> datetime:
    return time.replace(tzinfo=None)


def rows_of(frame: DataFrame) -> list[Any]:
    return sorted((tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in frame.collect()), key=repr)


@pytest.fixture(scope="module")
def car_events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(cars(), SCHEMA)


def test_the_listing_as_printed(car_events: DataFrame) -> None:
    expected = oracle_of_listing()
    assert len(expected) > 5
    assert sorted(rows_of(episode.match(car_events, LISTING_1, time="ts"))) == expected
    assert sorted(rows_of(episode.sql(LISTING_1, CarSensors=car_events))) == expected


@pytest.mark.parametrize("detect", ["earliest", pytest.param("complete", marks=pytest.mark.slow)])
def test_a_stream_gives_what_a_table_gives(
    spark: SparkSession, car_events: DataFrame, tmp_path: Path, detect: str
) -> None:
    files = tmp_path / "events"
    files.mkdir()
    rows = sorted(cars(), key=lambda row: row[1])
    parts = [rows[i * len(rows) // 3 : (i + 1) * len(rows) // 3] for i in range(3)]
    parts.append([(0, BEGIN.replace(year=2030), 0.0, 0.0)])  # with it the watermark passes the end
    for number, part in enumerate(parts):
        path = files / f"{number}.parquet"
        pq.write_table(spark.createDataFrame(part, SCHEMA).toArrow(), path)
        os.utime(path, (number + 1, number + 1))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(files))
    options = Options(watermark="1 second", tuning=Tuning(shards=2), stream=StreamOptions(end="2026-03-03 00:00:00"))
    matches = episode.match(stream, LISTING_1, time="ts", detect=detect, options=options)
    query = (
        matches.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    query.stop()
    in_batch = rows_of(episode.match(car_events, LISTING_1, time="ts", detect=detect))
    assert rows_of(spark.read.parquet(str(tmp_path / "out"))) == in_batch
    assert in_batch


VALUES = """
    CAST(id % 13 AS TINYINT) - 6 AS tiny, id * 7 % 1000 AS n, CAST(id * 37 % 101 AS DOUBLE) / 4 AS x,
    CAST(id * 37 % 101 AS FLOAT) / 4 AS f, CAST(id * 137 % 1001 AS DECIMAL(9, 2)) / 4 AS narrow,
    CAST(id * 137 % 1001 AS DECIMAL(30, 5)) AS wide, CONCAT('s', id * 7 % 10) AS s,
    CAST(CONCAT('b', id * 7 % 10) AS BINARY) AS b,
    DATE '2026-01-01' + CAST(id * 31 % 17 AS INT) AS day, TIMESTAMP_SECONDS(id * 31 % 1000) AS moment,
    MAKE_DT_INTERVAL(0, 0, id * 31 % 17) AS lapse, MAKE_YM_INTERVAL(0, CAST(id * 31 % 17 AS INT)) AS months,
    id * 31 % 17 > 8 AS flag, NAMED_STRUCT('y', id % 5) AS inner_
"""  # fmt: skip


def every_type(spark: SparkSession) -> DataFrame:
    """Rows of two keys, with runs of a, and nulls in every third row of each value."""
    columns = ["tiny", "n", "x", "f", "narrow", "wide", "s", "b", "day", "moment", "lapse", "months", "flag"]
    keys = "id % 2 AS k, TIMESTAMP_SECONDS(id DIV 2) AS ts, (id DIV 2) * 7 DIV 40 % 2 = 0 AS a, id"
    frame = spark.sql(f"SELECT {keys}, {VALUES} FROM range(400)")
    nulled = [F.expr(f"IF(id % 7 < 2, NULL, {name})").alias(name) for name in columns]
    return frame.select("k", "ts", "a", "id", "inner_", *nulled)


def _at_end(call: str) -> str:
    """first(x) or last(x) by time, null or not, as Spark says it."""
    value = call.partition("(")[2][:-1].format("")
    return f"{'min_by' if call.startswith('first') else 'max_by'}(named_struct('v', {value}), ts).v"


def _collectable(frame: DataFrame) -> DataFrame:
    """Months as text: PySpark does not bring them to Python."""
    months = {field.name for field in frame.schema if isinstance(field.dataType, YearMonthIntervalType)}
    return frame.select([F.col(c).cast("string").alias(c) if c in months else F.col(c) for c in frame.columns])


def test_values_are_those_of_spark(spark: SparkSession) -> None:
    """Aggregates of every type over a situation are Spark's over its rows."""
    frame = every_type(spark).cache()
    calls = [f"{f}({{}}{c})" for c in ("tiny", "n", "x", "f", "narrow") for f in ("sum", "avg", "min", "max", "stddev")]
    calls += [f"{f}({{}}{c})" for c in ("wide", "lapse", "months") for f in ("sum", "avg", "min", "max")]
    calls += [f"{f}({{}}{c})" for c in ("s", "b", "day", "moment", "flag") for f in ("min", "max", "count")]
    calls += ["sum({}n * 2 + 1)", "avg({}x - {}n)", "min({}inner_.y)", "max(upper({}s))"]
    whole = ("n", "x", "wide", "s", "day", "flag", "months", "inner_")
    ends = [f"{f}({{}}{c})" for c in whole for f in ("first", "last")]
    ends += ["first(concat({}s, '!'))"]
    items = ", ".join(f"{call.format(*['A.'] * 2)} AS v{i}" for i, call in enumerate([*calls, *ends]))
    text = f"DEFINE A AS a, B AS NOT a PATTERN A meets B RETURN first(A.k) AS k, A.start AS s0, A.end AS e0, {items}"
    found = episode.match(frame, text, time="ts", key="k").drop("match_start", "detected_at")
    ours = {(row.k, row.s0): row for row in _collectable(found).collect()}
    assert len(ours) > 30
    frame.createOrReplaceTempView("every_type")
    found.select("k", "s0", "e0").createOrReplaceTempView("spans")
    plain = ", ".join(f"{call.format(*[''] * 2)} AS v{i}" for i, call in enumerate(calls))
    outer = ", ".join(f"{_at_end(call)} AS v{len(calls) + i}" for i, call in enumerate(ends))
    sql = f"""SELECT s.k, s0, {plain}, {outer} FROM spans s JOIN every_type t
              ON t.k = s.k AND t.ts >= s0 AND t.ts < e0 GROUP BY s.k, s0"""
    theirs = {(row.k, row.s0): row for row in _collectable(spark.sql(sql)).collect()}
    assert theirs.keys() == ours.keys()
    for key, row in theirs.items():
        for i, call in enumerate([*calls, *ends]):
            mine, wanted = ours[key][f"v{i}"], row[f"v{i}"]
            same = mine == pytest.approx(wanted, rel=1e-12) if isinstance(wanted, float) else mine == wanted
            assert same, (key, call, mine, wanted)
    types = {field.name: field.dataType for field in spark.sql(sql).schema}
    assert {n: t for n, t in types.items() if n[0] == "v"} == {
        field.name: field.dataType for field in found.schema if field.name[0] == "v"
    }


@pytest.mark.parametrize("type_", ["bigint", "int", "date", "timestamp", "timestamp_ntz"])
def test_every_kind_of_time(spark: SparkSession, type_: str) -> None:
    time = {
        "bigint": "CAST(id AS BIGINT)",
        "int": "CAST(id AS INT)",
        "date": "DATE '2026-01-01' + CAST(id AS INT)",
        "timestamp": "TIMESTAMP '2026-01-01' + MAKE_DT_INTERVAL(CAST(id AS INT))",
        "timestamp_ntz": "TIMESTAMP_NTZ '2026-01-01' + MAKE_DT_INTERVAL(CAST(id AS INT))",
    }[type_]
    frame = spark.range(20).selectExpr(f"{time} AS t", "id BETWEEN 3 AND 8 AS a", "id BETWEEN 6 AND 12 AS b")
    within = "20" if "int" in type_ else "20 days"
    items = "A.start AS s, A.end AS e, B.end AS f, A.duration AS d"
    text = f"DEFINE A AS a, B AS b PATTERN A overlaps B WITHIN {within} RETURN {items}"
    (row,) = episode.match(frame, text, time="t").collect()
    times = [row.t for row in frame.orderBy("t").collect()]
    assert (row.s, row.e, row.f, row.match_start, row.detected_at) == (times[3], times[9], None, times[3], times[9])
    assert row.d == times[9] - times[3]
    (row,) = episode.match(frame, text, time="t", detect="complete").collect()
    assert (row.f, row.detected_at) == (times[13], times[13])


def test_inside_sql(spark: SparkSession, car_events: DataFrame) -> None:
    names = spark.createDataFrame([(car, f"car {car}") for car in range(8)], "id int, name string")
    found = episode.sql(
        """WITH late AS (SELECT * FROM CarSensors WHERE ts > TIMESTAMP '2026-03-02 00:01:00')
        SELECT n.name, m.started, m.fast.end AS fast_until
        FROM SITUATIONS (
            FROM late PARTITION BY car_id ORDER BY ts
            DEFINE A AS accel > 8, Fast AS speed > 70 mph
            PATTERN A overlaps Fast OR A meets Fast
            WITHIN 2 minutes
            RETURN first(A.car_id) AS id, A.start AS started, named_struct('start', Fast.start, 'end', Fast.end) AS fast
        ) AS m JOIN names n ON n.id = m.id
        ORDER BY m.started, n.name""",
        CarSensors=car_events,
        names=names,
        options=Options(detect="complete"),
    ).collect()
    assert len(found) > 5
    assert all(row.started >= datetime(2026, 3, 2, 0, 1) and row.fast_until > row.started for row in found)
    assert {row.name.split()[0] for row in found} == {"car"}


def test_without_return_and_with_a_function_of_spark(spark: SparkSession) -> None:
    rows = [(t, f'{{"v": {t % 6}}}') for t in range(12)]
    frame = spark.createDataFrame(rows, "ts long, doc string")
    value = "get_json_object(doc, '$.v')"
    found = episode.match(frame, f"DEFINE A AS {value} < 3, B AS {value} >= 3 PATTERN A meets B", time="ts")
    assert found.columns == ["A", "B", "match_start", "detected_at"]
    assert rows_of(found) == [((0, 3), (3, None), 0, 3), ((6, 9), (9, None), 6, 9)]


def test_matches_are_events_of_the_next_query(car_events: DataFrame) -> None:
    drivers = episode.match(car_events, LISTING_1, time="ts")
    twice = episode.match(
        drivers,
        "PATTERN D1; D2 WHERE [id] WITHIN 10 minutes RETURN D1.id AS id",
        time="detected_at",
        start="match_start",
    )
    assert twice.count() > 0


def test_explain(car_events: DataFrame) -> None:
    reported = episode.query(LISTING_1, episode.Events(car_events, time="ts")).explain(analyze=True)
    for words in (
        "A: (accel > 8.0), at least 5s",
        "B to C: meets; overlaps; finishes; contains",
        "C (start, once it has lasted long enough or end): C -> B -> A",
        "state: the finished situations of one window and those that last, each with its aggregates; no events",
        "searches",
        "records estimated",
    ):
        assert words in reported
    assert episode.explain(LISTING_1, CarSensors=car_events).startswith("SITUATIONS: A meets B;")


def test_what_a_stream_needs(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path))
    options = Options(watermark="0 seconds")
    define = "DEFINE A AS accel > 8, B AS speed > 70, C AS accel < -9, D AS speed < 10"
    with pytest.raises(EpisodeAnalysisError, match=r"not connected \(\{A, B\} and \{C, D\}\)"):
        episode.match(stream, f"{define} PATTERN A before B AND C before D", time="ts", options=options)
    with pytest.warns(EpisodeWarning, match="not bounded"):
        episode.match(stream, "DEFINE A AS accel > 8, B AS speed > 70 PATTERN A before B", time="ts", options=options)
    bounded = "DEFINE A AS accel > 8, B AS speed > 70 PATTERN A before B WITHIN 1 minute"
    inner = episode.match(stream, bounded, time="ts", options=options)
    text = "DEFINE A AS true, B AS true PATTERN A before B WITHIN 1 minute"
    with pytest.raises(EpisodeAnalysisError, match="come with its watermark"):
        episode.match(inner, text, time="detected_at", options=options)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("DEFINE A AS speed > 1, B AS speed < 0 PATTERN A before B", {"strategy": "skip-till-next-match"}, "strategy="),
        ("DEFINE A AS speed > 1, B AS speed < 0 PATTERN A before B", {"detect": "soon"}, "'earliest' or 'complete'"),
        ("DEFINE A AS speed > 1, B AS speed < 0 PATTERN A before B", {"time": "when"}, "There is no column when"),
        ("DEFINE A AS speed > 1, B AS speed < 0 PATTERN A before B", {"key": "x"}, "There is no column x for the key"),
        ("DEFINE A AS speed, B AS speed < 0 PATTERN A before B", {}, "must be true or false"),
        ("DEFINE A AS sped > 1, B AS speed < 0 PATTERN A before B", {}, "There is no column sped"),
        ("DEFINE A AS speed > 1 AT LEAST 5, B AS speed < 0 PATTERN A before B", {}, "a duration needs a unit"),
        ("DEFINE A AS speed > 1, B AS speed < 0 PATTERN A before B WITHIN 5", {}, "a duration needs a unit"),
        ("DEFINE A AS speed > 1, B AS speed < 0 PATTERN A before B RETURN sum(A.ts) AS s", {}, "cannot be applied to"),
        ("DEFINE A AS speed > 1, B AS speed < 0 PATTERN A before B RETURN nosuch(A.start) AS s", {}, "nosuch"),
        ("DEFINE A AS speed > 1, B AS speed < 0 PATTERN A before B", {"options": episode.Options(match_times=True)},
         "Options(match_times=True) has no meaning for a situation pattern"),
        ("PATTERN A; B", {"detect": "complete"}, "detect='complete' has no meaning for an event pattern"),
        ("PATTERN A; B", {"options": episode.Options(detect="complete")},
         "Options(detect='complete') has no meaning for an event pattern"),
    ],
)  # fmt: skip
def test_errors(car_events: DataFrame, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(episode.EpisodeError) as raised:
        episode.match(car_events, text, **{"time": "ts", **options})
    assert message in str(raised.value)


def test_events_are_missing(spark: SparkSession) -> None:
    with pytest.raises(EpisodeAnalysisError, match="The events of the situation pattern are missing"):
        episode.sql("DEFINE A AS x > 1, B AS x < 0 PATTERN A before B", spark=spark)
    with pytest.raises(EpisodeAnalysisError, match="over one DataFrame"):
        episode.match("DEFINE A AS x > 1, B AS x < 0 PATTERN A before B", A=spark.range(1))
