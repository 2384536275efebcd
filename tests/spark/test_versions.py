"""Ways around what older versions of Spark lack give the same as the newest."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.spark.versions import by_number, hashed_to, keys_of_partitions


def places(frame: DataFrame) -> dict[int, int]:
    """In which partition each number is."""
    return {row.n: row.place for row in frame.select("n", F.spark_partition_id().alias("place")).collect()}


def test_rows_go_to_the_partition_of_their_number(spark: SparkSession) -> None:
    numbers = spark.range(0, 40).select(F.col("id").cast("int").alias("n"))
    expected = {n: n % 6 for n in range(40)}
    assert places(by_number(numbers, 6, "n")) == expected
    assert places(numbers.repartition(6, hashed_to(6, F.col("n")))) == expected  # as before 4.1


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    keys = spark.createDataFrame([(key, at) for at, key in enumerate(keys_of_partitions(9))], "key int, place int")
    found = keys.selectExpr("place", "pmod(hash(key), 9) AS found").collect()
    assert all(row.found == row.place for row in found)
