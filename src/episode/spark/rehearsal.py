"""A planned pattern without its run: no rows in, no rows out, and all that Spark has to say of its columns.

For those who check a query while it is being written: nothing is read, compiled or sent to workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from episode.matchers.protocol import MatcherSpec
from episode.spark import carry
from episode.spark.query import Planned


@dataclass(frozen=True)
class Rehearsal:
    """In the place of a run over a table."""

    spark: SparkSession
    spec: MatcherSpec

    is_stream: ClassVar[bool] = False
    reasons: ClassVar[list[str]] = []

    def frame(self) -> DataFrame:
        """The columns of the matcher's output, without rows."""
        schema = self.spec.output_schema
        return carry.decode(empty_frame(self.spark, carry.travel_schema(schema)), schema)


def rehearsed(planned: Planned) -> DataFrame:
    """The columns of a planned pattern's output, without rows."""
    run = planned.run
    spark = getattr(run, "spark", None)
    if spark is None:  # a stream, or an expansion: planned as they are
        return planned.frame()
    return replace(planned, run=Rehearsal(spark, run.spec)).frame()  # type: ignore[arg-type]  # in the place of a run


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A table of these columns without rows. A classic session makes it of nothing but its schema, which is quick."""
    if not hasattr(spark, "_jsparkSession"):
        return spark.createDataFrame([], schema)
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    session = spark._jsparkSession
    columns = session.parseDataType(schema.json())
    return ClassicFrame(session.createDataFrame(spark._jvm.java.util.ArrayList(), columns), spark)
