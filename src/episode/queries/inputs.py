"""The inputs of a query: the session that it runs in, and the tables that are given to it."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from os.path import abspath, exists
from typing import TYPE_CHECKING, Union

from episode.errors import EpisodeAnalysisError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Table = Union["DataFrame", str, "PathLike[str]"]

NOT_IN_NAMES = ".[]{}:!"
"""What is no part of a name where DataFrames stand in a text in braces."""


def session_of(spark: SparkSession | None, tables: dict[str, Table]) -> SparkSession:
    """The given session, that of a given DataFrame, the active one, or a local one."""
    from episode.spark.session import session
    from episode.spark.stores import register_if_declared
    from episode.spark.warming import warm

    frames = [table for table in tables.values() if hasattr(table, "sparkSession")]
    found = frames[0].sparkSession if spark is None and frames else session(spark)
    warm(found)
    register_if_declared(found)
    return found


def text_of(text: object) -> str:
    """The text of a query."""
    if not isinstance(text, str):
        raise EpisodeAnalysisError(f"A query is a text, not a {type(text).__name__}.")
    return text


def arguments_of(args: Mapping[str, object] | None) -> Mapping[str, object]:
    """The values of parameters, by name."""
    if args is not None and not isinstance(args, Mapping):
        raise EpisodeAnalysisError(
            f"args={args!r}: the values of parameters are given by their names.",
            hint="Write :x in the query and args={'x': 5}.",
        )
    return args or {}


def keyword_tables(spark: SparkSession, tables: dict[str, Table]) -> dict[str, DataFrame]:
    """Tables given by keyword: DataFrames, names of streams and archives, or paths of Parquet files."""
    from episode.spark.tables import keyword_table

    wrong = next((name for name in tables if not name or any(sign in name for sign in NOT_IN_NAMES)), None)
    if wrong is not None:
        raise EpisodeAnalysisError(
            f"{wrong!r} is no name for a keyword table.",
            hint="Use a name of one part, of letters, digits and underscores.",
        )

    return {
        name: keyword_table(spark, name, table if not isinstance(table, (str, PathLike)) else _named(spark, table))
        for name, table in tables.items()
    }


def _named(spark: SparkSession, table: str | PathLike[str]) -> DataFrame | str:
    """A stream or an archive of this name, or else a path."""
    from episode.spark.stores import store_table

    stream = store_table(spark, table) if isinstance(table, str) and table.isidentifier() else None
    return _path(table) if stream is None else stream


def _path(table: str | PathLike[str]) -> str:
    """A local path as seen from here: the JVM resolves relative ones against the directory it was started in."""
    path = fspath(table)
    return abspath(path) if exists(path) else path


def one_table(spark: SparkSession | None, events: DataFrame | str) -> tuple[SparkSession, DataFrame]:
    session = session_of(spark, {"events": events})
    return session, keyword_tables(session, {"events": events})["events"]
