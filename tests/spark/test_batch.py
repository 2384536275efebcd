"""The batch runtime with a matcher that only numbers rows: what goes in must come out, in order, in its types."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql.types import YearMonthIntervalType
from tests.support.flat_options import grouped

from episode.errors import EpisodeDataError, EpisodeUnsupportedError
from episode.matchers.protocol import EventBatch, InputOrder, OrderKey
from episode.plan.options import RunOptions
from episode.spark.batch.runtime import Batch, plan_batch, plan_shards
from episode.spark.errors import translate

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Numbering:
    """Hands every row back with its number within its key."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        starts = np.flatnonzero(np.append(True, events.key[1:] != events.key[:-1]))
        lengths = np.diff(np.append(starts, len(events)))
        numbers = np.arange(len(events)) - np.repeat(starts, lengths)
        yield pa.Table.from_arrays([*events.table.columns, pa.array(numbers)], schema=self.schema)

    def finish(self) -> Iterator[pa.Table]:
        yield self.schema.empty_table()


@dataclass
class NumberingSpec:
    input_order: InputOrder
    input_schema: pa.Schema

    @property
    def input_columns(self) -> tuple[str, ...]:
        return tuple(self.input_schema.names)

    @property
    def output_schema(self) -> pa.Schema:
        return self.input_schema.append(pa.field("number", pa.int64()))

    def open(self) -> Numbering:
        return Numbering(self.output_schema)


def plan(frame: DataFrame, keys: tuple[str, ...] = (), order: str | None = None, *, rows: bool = False, **how) -> Batch:
    """A numbering run; `rows` keeps it from reading Parquet directly."""
    input_order = InputOrder(keys, (OrderKey(order),) if order else (), needs_time=how.pop("needs_time", False))
    derived = (("1", "computed"),) if rows else ()
    columns = (*frame.columns, *(name for _, name in derived))
    return plan_batch(
        frame.sparkSession,
        frame,
        columns,
        derived,
        lambda schema: NumberingSpec(input_order, schema),
        grouped(**how).run(),
    )


def result(batch: Batch) -> DataFrame:
    frame = batch.frame()
    return frame.drop("computed")


def comparable(frame: DataFrame) -> list[str]:
    """The rows as sorted texts; PySpark cannot collect year-month intervals, so Spark writes them out."""
    for field in frame.schema:
        if isinstance(field.dataType, YearMonthIntervalType):
            frame = frame.withColumn(field.name, frame[field.name].cast("string"))
    return sorted(map(repr, frame.collect()))


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """Spark settings for a while."""
    before = {}
    for key, value in values.items():
        name = key.replace("__", ".")
        before[name] = spark.conf.get(name)
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


# ---- types -------------------------------------------------------------------------------------------------

STORABLE = {
    "byte": "cast(id - 2 as tinyint)",
    "short": "cast(id * 100 as smallint)",
    "int": "cast(id - 2147483640 as int)",
    "long": "9223372036854775800 - id",
    "float": "cast(id / 3 as float)",
    "double": "if(id = 1, double('NaN'), if(id = 2, double('-Infinity'), id / 7))",
    "decimal": "cast(id / 3 as decimal(10, 2))",
    "wide_decimal": "cast(id as decimal(38, 10)) * -1",
    "string": "concat('é', id)",
    "binary": "cast(concat('b', id) as binary)",
    "boolean": "id % 2 = 0",
    "date": "date_add(date'1900-01-01', cast(id * 10000 as int))",
    "timestamp": "timestamp'1960-02-03 04:05:06.789012' + make_dt_interval(cast(id * 3000 as int))",
    "timestamp_ntz": "timestamp_ntz'2024-02-03 04:05:06.789012' + make_dt_interval(cast(id as int))",
    "day_time": "make_dt_interval(cast(id as int), 2, 3, -4.5)",
    "hours": "cast(make_dt_interval(0, cast(id as int)) as interval hour)",
    "year_month": "make_ym_interval(cast(id as int), 7)",
    "years": "cast(make_ym_interval(cast(id as int), 0) as interval year)",
    "array": "array(id, null)",
    "map": "map('a', id)",
    "struct": "named_struct('x', id, 'y', timestamp'2024-01-01 00:00:00')",
}
PASSING = {
    "calendar": "make_interval(1, cast(id as int), 0, 3, -4, 5, 6.5)",
    "variant": "parse_json(concat('{\"a\": ', id, '}'))",
    **({"time": "time'12:34:56.123456'"} if hasattr(types, "TimeType") else {}),  # from 4.1 on
    "void": "null",
    "collated": "concat('a', id) collate UTF8_LCASE",
    "day_time_array": "array(make_dt_interval(cast(id as int)))",
}


def frame_of(spark: SparkSession, columns: dict[str, str]) -> DataFrame:
    """Five rows of values and one of nulls for each type."""
    values = [f"if(id = 5, null, {text}) as `{name}`" for name, text in columns.items()]
    return spark.range(6).selectExpr("id", "id % 2 as k", *values)


@pytest.mark.parametrize("shards", [None, 3])
def test_every_type_is_carried_through_rows(spark: SparkSession, shards: int | None) -> None:
    frame = frame_of(spark, STORABLE | PASSING)
    with settings(spark, spark__sql__session__timeZone="America/New_York"):
        output = result(plan(frame, ("k",), "id", shards=shards))
        assert output.drop("number").schema.simpleString() == frame.schema.simpleString()
        text = [f"to_json(struct(`{name}`))" for name in PASSING if name != "void"]
        assert comparable(output.drop(*PASSING, "number")) == comparable(frame.drop(*PASSING))
        assert comparable(output.selectExpr("id", *text)) == comparable(frame.selectExpr("id", *text))
        assert [row.number for row in output.select("id", "number").orderBy("id").collect()] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("kind", ["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
def test_every_type_in_parquet_is_read_as_spark_reads_it(spark: SparkSession, tmp_path, kind: str) -> None:
    nested = ("array", "map", "struct")
    with settings(spark, spark__sql__parquet__outputTimestampType=kind):
        frame_of(spark, STORABLE).drop(*nested).write.parquet(str(tmp_path / "data"))
    frame = spark.read.parquet(str(tmp_path / "data"))
    direct = plan(frame, ("k",), "id", shards=1)
    assert direct.scan is not None, direct.scan_reason
    output = result(direct).drop("number")
    assert output.schema.simpleString() == frame.schema.simpleString()
    assert comparable(output) == comparable(frame)


def test_files_of_other_writers_are_read_as_spark_reads_them(spark: SparkSession, tmp_path) -> None:
    table = pa.table(
        {
            "u8": pa.array([1, None, 255], pa.uint8()),
            "u32": pa.array([1, None, 2**32 - 1], pa.uint32()),
            "text": pa.array(["a", None, "b"], pa.large_string()),
            "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
            "millis": pa.array([1, None, -1], pa.timestamp("ms")),
            "zoned": pa.array([1, None, -1], pa.timestamp("us", "Europe/Berlin")),
            "small": pa.array([Decimal("1.5"), None, Decimal("-2.5")], pa.decimal128(4, 1)),
        }
    )
    pq.write_table(table, tmp_path / "a b%20#.parquet", row_group_size=2)
    frame = spark.read.parquet(str(tmp_path))
    direct = plan(frame)
    assert direct.scan is not None, direct.scan_reason
    assert comparable(result(direct)) == comparable(result(plan(frame, rows=True)))


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("array(make_ym_interval(1, 1)) as v", "v.element"),
        ("named_struct('i', make_interval(1)) as v", "v.i"),
        ("named_struct('a', 1, 'a', 2) as v", "v"),
    ],
)
def test_types_that_cannot_be_carried_are_refused_when_planned(spark: SparkSession, text: str, column: str) -> None:
    with pytest.raises(EpisodeUnsupportedError, match=f"column {column} of type"):
        plan(spark.range(1).selectExpr("id", text))


def test_collated_keys_are_refused_when_planned(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("id", "'a' collate UTF8_LCASE as k", "parse_json('1') as v")
    with pytest.raises(EpisodeUnsupportedError, match="partitioned by column k: its collation is UTF8_LCASE"):
        plan(frame, ("k",))
    with pytest.raises(EpisodeUnsupportedError, match="ordered by column v of type variant"):
        plan(frame, (), "v")


# ---- scans -------------------------------------------------------------------------------------------------


def test_only_parquet_that_is_chosen_from_is_read_directly(spark: SparkSession, tmp_path) -> None:
    plain = str(tmp_path / "plain")
    spark.range(10).selectExpr("id", "id % 2 as p", "array(id) as list").write.parquet(plain)
    frame = spark.read.parquet(plain).select("p", "id")
    reasons = {
        "not just files: its plan has Range": spark.range(3),
        "only Spark evaluates the filter ((id % 3L) = 1L)": frame.where("id % 3 = 1"),
        "the input computes columns": frame.selectExpr("id + 1 as id"),
        "column list is list": spark.read.parquet(plain),
        "not Parquet": spark.read.text(plain),
    }
    for reason, other in reasons.items():
        batch = plan(other)
        assert batch.scan is None
        assert reason in batch.scan_reason
    assert plan(frame, ("p",), "id").scan_reason == "Parquet read directly: 2 files, 10 rows, 2 columns"
    with settings(spark, spark__sql__files__ignoreCorruptFiles="true"):
        assert "ignoreCorruptFiles" in plan(frame).scan_reason
    frame.createOrReplaceTempView("plain_view")
    assert plan(spark.table("plain_view")).scan is not None


def test_legacy_calendar_files_go_through_spark(spark: SparkSession, tmp_path) -> None:
    with settings(spark, spark__sql__parquet__datetimeRebaseModeInWrite="LEGACY"):
        spark.sql("select date'1000-01-01' as d, 1 as id").write.parquet(str(tmp_path / "old"))
    frame = spark.read.parquet(str(tmp_path / "old"))
    batch = plan(frame)
    assert "legacy calendar" in batch.scan_reason
    assert comparable(result(batch).drop("number")) == comparable(frame)
    assert plan(frame.select("id")).scan is not None


def test_missing_columns_are_null_and_names_match_whatever_their_case(spark: SparkSession, tmp_path) -> None:
    pq.write_table(pa.table({"ID": [1, 2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": [3], "extra": ["x"]}), tmp_path / "2.parquet")
    frame = spark.read.schema("id long, extra string").parquet(str(tmp_path))
    batch = plan(frame, order="id")
    assert batch.scan is not None, batch.scan_reason
    rows = result(batch).orderBy("id").collect()
    assert [(row.id, row.extra) for row in rows] == [(1, None), (2, None), (3, "x")]


def test_a_file_with_another_type_goes_through_spark(spark: SparkSession, tmp_path) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "1.parquet")
    batch = plan(spark.read.schema("id long").parquet(str(tmp_path)))
    assert "column id is int32, Spark's is int64" in batch.scan_reason
    assert [row.id for row in result(batch).collect()] == [1]


# ---- rows and order ----------------------------------------------------------------------------------------


def ticks(n: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(5)
    key = rng.integers(0, keys, n)
    columns = {"k": pa.array(key, mask=key == 0), "t": rng.permutation(n), "v": rng.random(n)}
    return pa.table({**columns, "s": columns["k"].cast(pa.string())})


def test_both_paths_number_every_key_in_order(spark: SparkSession, tmp_path) -> None:
    table = ticks(20_000, 50)
    for i in range(4):
        pq.write_table(table.slice(i * 5000, 5000), tmp_path / f"{i}.parquet", row_group_size=1000)
    frame = spark.read.parquet(str(tmp_path))
    expected, counts = [], {}
    for row in sorted(table.to_pylist(), key=lambda row: row["t"]):
        number = counts[row["k"]] = counts.get(row["k"], -1) + 1
        expected.append((row["k"], row["t"], row["v"], row["s"], number))
    direct = plan(frame, ("s",), "t", shards=3)
    assert direct.scan is not None
    assert direct.scan.dictionaries == ("s",)
    by_one_task = [plan(frame, ("k",), "t", rows=rows) for rows in (False, True)]
    assert all(batch.shards.together for batch in by_one_task)
    for batch in (direct, plan(frame, ("k",), "t", rows=True, shards=5), *by_one_task):
        found = [tuple(row) for row in result(batch).select("k", "t", "v", "s", "number").collect()]
        assert sorted(found, key=lambda row: row[1]) == expected


def test_without_keys_and_order_rows_keep_their_arrival(spark: SparkSession, tmp_path) -> None:
    for i in range(3):
        pq.write_table(
            pa.table({"at": np.arange(i * 1000, (i + 1) * 1000)}), tmp_path / f"{i}.parquet", row_group_size=99
        )
    batch = plan(spark.read.parquet(str(tmp_path)))
    assert batch.shards.reason.startswith("1 (no PARTITION BY")
    rows = result(batch).collect()
    assert [row.at for row in rows] == [row.number for row in rows] == list(range(3000))
    frame = spark.range(0, 3000, 1, 3).withColumnRenamed("id", "at")
    assert [row.at for row in result(plan(frame)).collect()] == list(range(3000))


def test_a_shard_over_its_budget_is_split_or_streamed(spark: SparkSession, tmp_path) -> None:
    pq.write_table(ticks(20_000, 3), tmp_path / "1.parquet", row_group_size=1000)
    frame = spark.read.parquet(str(tmp_path))
    small = plan(frame, ("k",), "t", shard_bytes=50_000)
    counts = {row.k: row["count"] for row in result(small).groupBy("k").count().collect()}
    assert counts == {row.k: row["count"] for row in frame.groupBy("k").count().collect()}


def test_a_hundred_thousand_keys_of_one_row(spark: SparkSession, tmp_path) -> None:
    table = pa.table({"k": pa.array(np.arange(100_000)).cast(pa.string()), "t": np.arange(100_000)})
    pq.write_table(table, tmp_path / "1.parquet")
    output = result(plan(spark.read.parquet(str(tmp_path)), ("k",), "t"))
    assert output.selectExpr("count(*)", "count(distinct k)", "max(number)").collect()[0][:] == (100_000, 100_000, 0)


@pytest.mark.parametrize("rows", [True, False])
def test_no_rows_give_no_rows_of_the_right_schema(spark: SparkSession, tmp_path, rows: bool) -> None:
    spark.range(0).selectExpr("id", "'a' as k").write.parquet(str(tmp_path / "empty"))
    output = result(plan(spark.read.parquet(str(tmp_path / "empty")), ("k",), "id", rows=rows))
    assert output.columns == ["id", "k", "number"]
    assert output.collect() == []


def test_planning_runs_no_job(spark: SparkSession, tmp_path) -> None:
    spark.range(10).write.parquet(str(tmp_path / "data"))
    frame = spark.read.parquet(str(tmp_path / "data"))
    spark.sparkContext.setJobGroup("planning", "planning")
    plan(frame, ("id",)).frame()
    plan(frame, ("id",), rows=True).frame()
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("planning")) == []


def test_few_events_need_one_task_and_no_shuffle(spark: SparkSession, tmp_path) -> None:
    """Many do not: here by Spark's estimate, and by what the files say."""
    few = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 7 as k")
    batch = plan(few, ("k",), "id")
    assert batch.shards.reason == "1 (few events: one task reads and matches them)"
    assert "Exchange" not in batch.frame()._jdf.queryExecution().executedPlan().toString()
    assert sorted(row.number for row in result(batch).where("k = 3").collect()) == list(range(143))
    assert not plan(few, ("k",), "id", shards=2).shards.together
    assert not plan(spark.range(0, 1_000_000, 1, 4).selectExpr("id", "id % 7 as k"), ("k",), "id").shards.together
    pq.write_table(pa.table({"id": np.arange(100_000), "k": np.zeros(100_000, np.int64)}), tmp_path / "1.parquet")
    assert not plan(spark.read.parquet(str(tmp_path)), ("k",), "id").shards.together


def test_a_spec_is_taken_as_it_is(spark: SparkSession) -> None:
    spec = NumberingSpec(InputOrder((), (OrderKey("id"),)), pa.schema([("id", pa.int64())]))
    frame = spark.range(3).selectExpr("id", "'not read' as other")
    batch = plan_batch(spark, frame, spec.input_columns, (), lambda _: spec, RunOptions())
    assert [tuple(row) for row in batch.frame().collect()] == [(0, 0), (1, 1), (2, 2)]


# ---- errors and shards -------------------------------------------------------------------------------------


def test_errors_of_workers_come_back_as_ours(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id", "if(id = 1, null, id) as ts")
    output = result(plan(frame, (), "ts", needs_time=True))
    with pytest.raises(Exception, match="column ts is null") as raised:
        output.collect()
    ours = translate(raised.value)
    assert isinstance(ours, EpisodeDataError)
    assert ours.message.startswith(
        "1 of the 3 rows of a shard have no event time: column ts is null\n  Leave such rows out"
    )
    assert "Traceback" not in str(ours)
    assert str(ours).endswith("WHERE ts IS NOT NULL.")
    assert translate(ValueError("something else")) is None
    assert translate(ours) is ours


@pytest.mark.parametrize(
    ("size", "cores", "wanted", "count", "partitions"),
    [
        (None, None, None, 64, 16),
        (None, 2, None, 64, 4),
        (0, 2, None, 1, 1),
        (1000, 2, None, 1, 1),
        (10 * 2**20, 2, None, 2, 2),
        (400 * 2**20, 2, None, 28, 4),
        (100 * 2**30, 2, None, 800, 800),
        (10 * 2**40, 2, None, 4096, 4096),
        (592 * 2**20, 2, None, 42, 6),
        (400 * 2**20, 100, None, 100, 100),
        (400 * 2**20, 2, 5, 5, 4),
    ],
)
def test_shards_are_many_more_than_cores_and_fit_their_budget(size, cores, wanted, count, partitions) -> None:
    order = InputOrder(("k",), ())
    shards = plan_shards(order, size, cores, 256 * 2**20, wanted)
    assert (shards.count, shards.partitions) == (count, partitions)
    assert shards.reason.startswith(f"{count:,} (")
