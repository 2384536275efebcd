"""The inputs of a query: the session that it runs in, and the tables that are given to it."""

from __future__ import annotations

from os import PathLike, fspath
from os.path import abspath, exists
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Table = Union["DataFrame", str, "PathLike[str]"]


def session_of(spark: SparkSession | None, tables: dict[str, Table]) -> SparkSession:
    """The given session, that of a given DataFrame, the active one, or a local one."""
    from episode.spark.session import session

    if spark is None:
        frames = [table for table in tables.values() if hasattr(table, "sparkSession")]
        if frames:
            return frames[0].sparkSession
    return session(spark)


def keyword_tables(spark: SparkSession, tables: dict[str, Table]) -> dict[str, DataFrame]:
    """Tables given by keyword, or paths of Parquet files."""
    from episode.spark.tables import keyword_table

    return {
        name: keyword_table(spark, name, _path(table) if isinstance(table, (str, PathLike)) else table)
        for name, table in tables.items()
    }


def _path(table: str | PathLike[str]) -> str:
    """A local path as seen from here: the JVM resolves relative ones against the directory it was started in."""
    path = fspath(table)
    return abspath(path) if exists(path) else path


def one_table(spark: SparkSession | None, events: DataFrame | str) -> tuple[SparkSession, DataFrame]:
    session = session_of(spark, {"events": events})
    return session, keyword_tables(session, {"events": events})["events"]
