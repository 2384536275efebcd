"""Direct scans of partitioned and filtered Parquet: what the workers would read is what Spark delivers.

One data set, written once; for most cases the scan is read in this process and compared with Spark's own answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import episode
from episode.matchers.columns import plain
from episode.spark import types as carry
from episode.spark.scan.direct import ParquetScan, choose_scan

pytestmark = pytest.mark.spark

ROWS = 600
COLUMNS = (
    "id long, x double, f float, i int, s string, flag boolean, ts timestamp, ntz timestamp_ntz, d date, "
    "dec decimal(10, 2), bin binary, day string, kind string"
)
KINDS = ["a b", "x%20y", "k=v/w:?#", "é", None]


@pytest.fixture(scope="module")
def data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table partitioned by day and kind; its directories have blanks, signs and nulls in their names."""
    folder = tmp_path_factory.mktemp("a b%20c#") / "data"
    rng = np.random.default_rng(14)

    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(np.array(values, object)[rng.integers(0, len(values), ROWS)].tolist(), kind)

    table = pa.table(
        {
            "id": np.arange(ROWS),
            "x": some([float("nan"), float("inf"), 0.0, -0.0, 1.5, None], pa.float64()),
            "f": some([float("nan"), 0.0, 0.1, None], pa.float32()),
            "i": some([*range(20), None], pa.int32()),
            "s": some(["", "a", "A", "b", "é", None], pa.string()),
            "flag": some([True, False, None], pa.bool_()),
            "ts": some([-1, 0, 1_700_000_000_000_000, None], pa.timestamp("us", "UTC")),
            "ntz": some([-1, 0, 1_700_000_000_000_000, None], pa.timestamp("us")),
            "d": some([-1, 0, 19_000, None], pa.date32()),
            "dec": some([1, 2, None], pa.decimal128(10, 2)),
            "bin": some([b"", b"\x00", b"\xff", None], pa.binary()),
            "day": some(["2024-01-01", "2024-01-02", "2024-02-01"], pa.string()),
            "kind": some(KINDS, pa.string()),
        }
    )
    frame = spark.createDataFrame(table, COLUMNS)
    frame = frame.withColumn("day", F.col("day").cast("date"))
    frame.repartition(1).sortWithinPartitions("id").write.partitionBy("day", "kind").parquet(str(folder))
    return folder


@pytest.fixture
def frame(spark: SparkSession, data: Path) -> DataFrame:
    return spark.read.parquet(str(data))


def chosen(frame: DataFrame) -> tuple[ParquetScan | None, str]:
    return choose_scan(frame.sparkSession, frame, carry.arrow_schema(frame.schema))


def direct(frame: DataFrame) -> pa.Table:
    """What the scan of a frame delivers."""
    scan, reason = chosen(frame)
    assert scan is not None, reason
    schema = carry.arrow_schema(frame.schema)
    tables = [plain(table) for task in scan.tasks(2**14, 2, 2) for table in scan.read(task)]
    assert all(table.schema.types == schema.types for table in tables)
    return pa.concat_tables(tables) if tables else schema.empty_table()


def by_spark(frame: DataFrame) -> pa.Table:
    return frame.toArrow().cast(carry.arrow_schema(frame.schema))


def comparable(table: pa.Table) -> list[str]:
    """Rows as sorted texts, with NaN and the sign of zero in them."""
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


# ---- partition columns ---------------------------------------------------------------------------------------


def test_partition_columns_have_sparks_values_and_types(frame: DataFrame) -> None:
    assert [field.simpleString() for field in frame.schema][-2:] == ["day:date", "kind:string"]
    assert comparable(direct(frame)) == comparable(by_spark(frame))
    assert comparable(direct(frame.select("kind"))) == comparable(by_spark(frame.select("kind")))
    assert "15 files, 600 rows, 13 columns; constant in each file: day, kind" in chosen(frame)[1]
    assert "constant" not in chosen(frame.select("id"))[1]


TYPED = "i tinyint, s smallint, n int, l bigint, f float, x double, b boolean, c decimal(10,2), t timestamp, z timestamp_ntz, d date, y binary, w string"  # noqa: E501
VALUES = [
    ["1", "-2", "3", "9223372036854775807", "0.1", "NaN", "true", "1.50", "2024-03-10 02%3A30%3A00", "2024-01-01", "1582-10-04", "ab", "007"],  # noqa: E501
    ["-128", "7", "0", "-1", "-0.0", "-Infinity", "false", "-99999999.99", "1960-01-01 00%3A00%3A00.000001", "1960-01-01 10%3A00%3A00", "0001-01-01", "z", "x%2Fy"],  # noqa: E501
    ["__HIVE_DEFAULT_PARTITION__"] * 13,
]  # fmt: skip


@pytest.mark.parametrize("given", [True, False], ids=["types given", "types inferred"])
def test_types_of_partition_columns(spark: SparkSession, tmp_path: Path, given: bool) -> None:
    names = [column.split(" ")[0] for column in TYPED.split(", ")]
    for number, values in enumerate(VALUES):
        folder = tmp_path / "/".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), folder / "1.parquet")
    reader = spark.read.schema(f"id bigint, {TYPED}") if given else spark.read
    found = reader.parquet(str(tmp_path))
    assert comparable(direct(found)) == comparable(by_spark(found))


# ---- filters -------------------------------------------------------------------------------------------------

DIRECT = [
    "x > 1.0",
    "x >= double('NaN')",
    "x < double('NaN')",
    "x <= double('NaN')",
    "x = double('NaN')",
    "x = 0.0D",
    "x <= 0.0D",
    "NOT (x > 1.0)",
    "x <=> 0.0D",
    "f < float(0.1)",
    "f >= float(0.1)",
    "s = 'a'",
    "s < 'a'",
    "s > 'b'",
    "'a' <= s",
    "s IN ('a', 'é')",
    "s NOT IN ('a', 'b')",
    "i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)",
    "i IN (1, 2, NULL) OR flag",
    "s IS NULL",
    "s IS NOT NULL AND i BETWEEN 3 AND 7",
    "flag",
    "NOT flag",
    "flag = false OR x IS NULL",
    "NOT (i > 5 OR s = 'a')",
    "d >= date'1970-01-01'",
    "ts > timestamp'1970-01-01 00:00:00'",
    "ntz <= timestamp_ntz'1970-01-01 00:00:00'",
    "dec > cast(1 as decimal(10, 2))",
    "bin > X'00'",
    "day = date'2024-01-02'",
    "day > date'2024-01-01' AND kind = 'a b'",
    "kind IS NULL",
    "kind IS NULL OR x > 1.0",
    "kind = 'k=v/w:?#' OR s = 'a'",
    "upper(kind) = 'A B'",
    "year(day) = 2024 AND month(day) = 2 AND i > 3",
    "day IN (date'2024-01-01', date'2024-02-01') AND NOT (kind <=> 'é')",
]
BY_SPARK = [
    "upper(s) = 'A'",
    "i + 1 > 3",
    "i > id",
    "x IN (1.5D, 0.0D)",
    "s LIKE 'a%'",
    "s COLLATE UTF8_LCASE = 'a'",
    "rand(3) < 0.5",
    "concat(kind, s) = 'a ba'",
    "dec IN (cast(1 as decimal(10, 2)), cast(2 as decimal(10, 2)))",
]


def test_filters_keep_the_rows_that_spark_keeps(frame: DataFrame) -> None:
    """Spark computes all filters as columns, in one job."""
    answers = frame.selectExpr("id", *(f"({text}) AS f{number}" for number, text in enumerate(DIRECT))).toArrow()
    for number, text in enumerate(DIRECT):
        passing = answers.filter(answers.column(f"f{number}").combine_chunks()).column("id").to_pylist()
        found = direct(frame.where(text).select("id")).column("id").to_pylist()
        assert sorted(found) == sorted(passing), text


def test_random_filters(frame: DataFrame) -> None:
    rng = np.random.default_rng(41)
    texts = []
    for _ in range(25):
        one, two, three = (f"({DIRECT[i]})" for i in rng.integers(0, len(DIRECT), 3))
        texts.append(f"{one} AND NOT {two} OR {three}" if rng.random() < 0.5 else f"NOT ({one} OR {two}) AND {three}")
    answers = frame.selectExpr("id", *(f"({text}) AS f{number}" for number, text in enumerate(texts))).toArrow()
    read_directly = 0
    for number, text in enumerate(texts):
        filtered = frame.where(text).select("id")
        if chosen(filtered)[0] is None:
            continue
        read_directly += 1
        passing = answers.filter(answers.column(f"f{number}").combine_chunks()).column("id").to_pylist()
        assert sorted(direct(filtered).column("id").to_pylist()) == sorted(passing), text
    assert read_directly >= 10


def test_other_filters_are_sparks(frame: DataFrame) -> None:
    for text in BY_SPARK:
        scan, reason = chosen(frame.where(text))
        assert scan is None, text
        assert reason.startswith("rows through Spark: only Spark evaluates the filter"), reason


def test_partitions_and_row_groups_are_pruned(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    scan, reason = chosen(frame.where("day = date'2024-01-02' AND i > 3").select("id", "kind"))
    assert scan is not None
    assert scan.files == 5
    assert reason.endswith("2 columns; constant in each file: kind; where i IS NOT NULL AND i > 3"), reason
    pq.write_table(pa.table({"id": np.arange(1000)}), tmp_path / "1.parquet", row_group_size=100)
    scan, reason = chosen(spark.read.parquet(str(tmp_path)).where("id >= 950"))
    assert reason == (
        "Parquet read directly: 1 file, 100 rows, 1 column; where id IS NOT NULL AND id >= 950; "
        "9 row groups left out by statistics"
    )
    assert chosen(frame.where("day > date'2030-01-01'"))[1] == "rows through Spark: there are no files"


# ---- projections and other shapes ----------------------------------------------------------------------------


def test_renamed_and_chosen_columns(spark: SparkSession, frame: DataFrame) -> None:
    frame.createOrReplaceTempView("direct_scans")
    query = (
        "SELECT kind AS class, x AS y, y2 AS x, i FROM (SELECT *, f AS y2 FROM direct_scans WHERE day > '2024-01-01')"
    )
    for found in (
        spark.sql(f"{query} WHERE i > 3"),
        frame.withColumnRenamed("kind", "id2")
        .where("id2 = 'a b' AND s IS NOT NULL")
        .select("id2", F.col("s").alias("id")),
        frame.select("id", F.col("id").alias("again"), F.col("day").alias("date")).where("again < 300"),
    ):
        assert comparable(direct(found)) == comparable(by_spark(found))


def test_shapes_that_spark_must_read(spark: SparkSession, frame: DataFrame, data: Path) -> None:
    reasons = {
        "the input computes columns": frame.select("id", F.year("day").alias("year")),
        "its plan has Aggregate": frame.groupBy("kind").count(),
        "its plan has Union": frame.union(frame),
        "its plan has GlobalLimit": frame.limit(3),
        "the option ignoreMissingFiles is true": spark.read.option("ignoreMissingFiles", True).parquet(str(data)),
    }
    for reason, other in reasons.items():
        assert reason in chosen(other)[1]
    for other in (frame.select("id", "_metadata.file_name"), frame.where("_metadata.file_size > 1").select("id")):
        assert chosen(other)[0] is None


def test_tables_of_the_catalog(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    spark.sql("DROP TABLE IF EXISTS direct_scans_table")
    some = frame.select("id", "s", "kind", "day").coalesce(1)
    some.write.partitionBy("kind", "day").option("path", str(tmp_path / "t")).saveAsTable("direct_scans_table")
    try:
        whole = spark.table("direct_scans_table")
        assert comparable(direct(whole)) == comparable(by_spark(whole))
        part = whole.where("kind = 'x%20y' AND day < date'2024-01-15' AND s <> 'a'")
        assert comparable(direct(part)) == comparable(by_spark(part))
        assert chosen(part)[0].files == 2
    finally:
        spark.sql("DROP TABLE direct_scans_table")


# ---- queries -------------------------------------------------------------------------------------------------

QUERY = """
SELECT kind, day, first_id, last_id, days, rows
FROM (SELECT kind, day, id, i, x FROM t WHERE day >= date'2024-01-02' AND (x > 0 OR x IS NULL)) MATCH_RECOGNIZE (
  PARTITION BY kind ORDER BY day, id
  MEASURES FIRST(day) AS day, FIRST(id) AS first_id, LAST(id) AS last_id, LAST(day) - FIRST(day) AS days,
           count(*) AS rows
  PATTERN (A B+)
  DEFINE B AS B.i > PREV(B.i) OR B.day > PREV(B.day)
)"""


@pytest.fixture
def rows_of(spark: SparkSession, frame: DataFrame) -> DataFrame:
    return spark.createDataFrame(frame.toArrow())


def test_patterns_over_partition_columns(spark: SparkSession, data: Path, rows_of: DataFrame) -> None:
    """Keys, order, conditions and measures that are partition columns; on the workers."""
    assert "scan: Parquet read directly: 10 files" in episode.explain(QUERY, spark=spark, t=str(data))
    assert "scan: rows through Spark" in episode.explain(QUERY, spark=spark, t=rows_of)
    found = episode.sql(QUERY, spark=spark, t=str(data)).toArrow()
    expected = episode.sql(QUERY, spark=spark, t=rows_of).toArrow()
    assert found.num_rows > 20
    assert found.schema == expected.schema
    assert comparable(found) == comparable(expected)
