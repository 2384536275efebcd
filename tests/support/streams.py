"""Streams of Parquet files, for tests: one file is one micro-batch, and matches are appended to files."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery


class Files:
    """A stream, where its matches go, and its checkpoint."""

    def __init__(self, spark: SparkSession, place: Path, schema: str) -> None:
        self.spark, self.place, self.schema, self.count = spark, place, schema, 0
        (place / "in").mkdir(parents=True)

    def add(self, table: pa.Table) -> None:
        self.count += 1
        path = self.place / "in" / f"{self.count:05}.parquet"
        pq.write_table(table, path)
        os.utime(path, (self.count, self.count))  # Spark takes files in the order of their times

    def add_in_pieces(self, table: pa.Table, pieces: int) -> None:
        """Micro-batches of about the same size; none of them is empty."""
        bounds = sorted({table.num_rows * i // pieces for i in range(pieces + 1)})
        for begin, end in itertools.pairwise(bounds):
            self.add(table.slice(begin, end - begin))

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.place / "in"))

    def start(self, matches: DataFrame) -> StreamingQuery:
        """Runs until all files are taken."""
        return (
            matches.writeStream.format("parquet")
            .option("path", str(self.place / "out"))
            .option("checkpointLocation", str(self.place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    def run(self, matches: DataFrame) -> StreamingQuery:
        query = self.start(matches)
        query.awaitTermination()
        return query

    def matches(self) -> DataFrame:
        return self.spark.read.parquet(str(self.place / "out"))


def counters(query: StreamingQuery, name: str = "episode") -> dict[str, Any]:
    """Sums over the micro-batches."""
    observed = [progress.observedMetrics[name].asDict() for progress in query.recentProgress]
    return {counter: sum(row[counter] for row in observed) for counter in observed[0]}
