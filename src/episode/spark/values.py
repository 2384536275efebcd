"""Tables given as values: Arrow tables as DataFrames.

On one machine they become Parquet files among Spark's temporary ones, which the direct scan reads: several times as
fast as `createDataFrame`, whose rows go through the JVM. A lazy DataFrame may be used at any later time, so the files
stay until Spark ends; so that they cannot fill the disk, there is a limit to what all of them take. Beyond it, for
types that files do not have as Spark has them, and on a cluster, whose workers do not see the driver's files, it is
`createDataFrame`.
"""

from __future__ import annotations

import os
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from episode.errors import EpisodeUnsupportedError
from episode.spark.tables import first_line

MOST_BYTES = 4 * 2**30
"""What all files of one Spark may take, as Arrow tables."""

_ROW_GROUP = 1 << 18
_IN_FILES = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)
_written: dict[str, int] = {}
"""Bytes by directory."""


def frame_of_value(spark: SparkSession, name: str, table: pa.Table) -> DataFrame:
    """An Arrow table, in types of Spark, as a DataFrame. Timestamps without a zone are timestamp_ntz. name: of the
    table, in errors."""
    directory = _directory(spark)
    try:
        schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        if directory is None or not _fits(table, directory):
            return spark.createDataFrame(table, schema)
        return spark.read.schema(schema).parquet(_write(table, directory))
    except PySparkException as error:
        raise EpisodeUnsupportedError(f"Spark cannot take the table {name}: {first_line(error)}") from None


def _directory(spark: SparkSession) -> str | None:
    """Where Spark's temporary files of this process are, if its workers see them; they are gone when Spark ends."""
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return None
    directory = getattr(context, "_temp_dir", None)
    return directory if isinstance(directory, str) and os.path.isdir(directory) else None


def _fits(table: pa.Table, directory: str) -> bool:
    plain = all(any(test(field.type) for test in _IN_FILES) for field in table.schema)
    return plain and bool(table.schema) and _written.get(directory, 0) + table.nbytes <= MOST_BYTES


def _write(table: pa.Table, directory: str) -> str:
    path = os.path.join(directory, f"episode-{uuid.uuid4().hex}.parquet")
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    pq.write_table(table, path, row_group_size=_ROW_GROUP, use_dictionary=texts)
    _written[directory] = _written.get(directory, 0) + table.nbytes
    return path
