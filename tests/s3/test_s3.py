"""Direct scans from S3: a partitioned table that Spark has written through Hadoop is read by pyarrow in the workers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import episode
from episode.spark import types as carry
from episode.spark.scan.direct import choose_scan
from tests.s3.conftest import BUCKET

PATH = f"s3a://{BUCKET}/some dir/ticks"
QUERY = """
SELECT kind, k, first_id, last_id
FROM (SELECT * FROM t WHERE day > date'2024-01-01' AND x > 3.0) MATCH_RECOGNIZE (
  PARTITION BY kind, k ORDER BY day, id
  MEASURES FIRST(id) AS first_id, LAST(id) AS last_id
  PATTERN (A B+)
  DEFINE B AS B.x > PREV(B.x)
)"""


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> str:
    rows = spark.range(3000).selectExpr(
        "id",
        "id % 7 AS k",
        "cast(id % 13 AS double) AS x",
        "date_add(date'2024-01-01', cast(id % 3 AS int)) AS day",
        "element_at(array('a b', 'x%y', 'k=v/w:?#+é', NULL), cast(id % 4 AS int) + 1) AS kind",
    )
    rows.coalesce(1).write.partitionBy("day", "kind").parquet(PATH)
    return PATH


def scan(frame: DataFrame) -> str:
    return choose_scan(frame.sparkSession, frame, carry.arrow_schema(frame.schema))[1]


def comparable(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_a_partitioned_table_on_s3(spark: SparkSession, table: str) -> None:
    through_spark = spark.read.option("ignoreMissingFiles", True).parquet(table)
    assert "scan: rows through Spark" in episode.explain(QUERY, spark=spark, t=through_spark)
    assert (
        f"scan: Parquet read directly: 8 files, 2,000 rows, 5 columns; from S3 ({BUCKET}); constant in each file: "
        "day, kind; where x IS NOT NULL AND x > 3.0"
    ) in episode.explain(QUERY, spark=spark, t=table)
    found = episode.sql(QUERY, spark=spark, t=table).toArrow()
    assert found.num_rows > 100
    assert comparable(found) == comparable(episode.sql(QUERY, spark=spark, t=through_spark).toArrow())


def test_settings_that_pyarrow_cannot_follow(spark: SparkSession, table: str) -> None:
    schema = spark.read.parquet(table).schema
    provider = "org.apache.hadoop.fs.s3a.{}AWSCredentialsProvider"
    given = {
        "fs.s3a.requester.pays.enabled is set": {"fs.s3a.requester.pays.enabled": "true"},
        "a footer cannot be read": {"fs.s3a.aws.credentials.provider": provider.format("Anonymous")},
        "Parquet read directly": {"fs.s3a.aws.credentials.provider": provider.format("Simple")},
    }
    for words, options in given.items():
        assert words in scan(spark.read.options(**options).schema(schema).parquet(table))
