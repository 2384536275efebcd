"""In how many partitions a session keeps the state of streams: looked at, never changed."""

from __future__ import annotations

from pyspark.sql import SparkSession

from episode.errors import warn
from episode.spark.classic import parallelism
from episode.spark.session import PARTITIONS

FEW = 16
"""So many state partitions are never too many."""


def warn_of_many_partitions(spark: SparkSession, shards: int) -> None:
    """Every micro-batch opens and commits the state of every partition, also of those that no shard is in."""
    partitions, slots = int(spark.conf.get(PARTITIONS) or 0), parallelism(spark)
    message = many_partitions(partitions, shards, slots)
    if message is not None:
        warn(message)


def many_partitions(partitions: int, shards: int, slots: int | None) -> str | None:
    """What is wrong with so many partitions, where they are far more than shards and slots (None: not known)."""
    if partitions <= 2 * max(shards, slots or 1, FEW):
        return None
    wanted = min(shards, max(2, slots or shards))
    return (
        f"Spark keeps the state of this stream in {partitions} partitions, and its events are in {shards} "
        f"{'shard' if shards == 1 else 'shards'}: every micro-batch waits for the upkeep of empty partitions. "
        f'spark.conf.set("{PARTITIONS}", "{wanted}") before the query is made; '
        "a checkpoint keeps the number that it was begun with."
    )
