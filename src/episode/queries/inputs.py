"""The inputs of a query: the session that it runs in, and the tables that are given to it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.queries.given_tables import Table, checked_path, checked_table, checked_tables, every_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Table",
    "arguments_of",
    "checked_tables",
    "every_table",
    "keyword_tables",
    "one_table",
    "session_of",
    "text_of",
]


def session_of(spark: SparkSession | None, tables: Mapping[str, Any]) -> SparkSession:
    """The given session, that of a given DataFrame, the one that there is, or a local one."""
    from episode.spark.startup.session import session
    from episode.spark.startup.workers import warm

    if spark is not None and not hasattr(spark, "createDataFrame"):
        shown = repr(spark) if isinstance(spark, str) else type(spark).__name__
        raise EpisodeAnalysisError(
            f"spark={shown}: a SparkSession is needed.",
            hint="A table of this name is given as tables={'spark': …}.",
        )
    frames = [table for table in tables.values() if hasattr(table, "sparkSession")]
    found = session(frames[0].sparkSession if spark is None and frames else spark)
    warm(found)
    # Loaded after that: what a plan needs takes half a second, in which a worker can begin.
    from episode.spark.errors import install
    from episode.spark.stores.catalog import register_if_declared

    install(found)
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
        if hasattr(args, "__arrow_c_stream__") or hasattr(args, "sparkSession"):
            raise EpisodeAnalysisError(
                f"A {type(args).__name__} is given as args, which are values of parameters.",
                hint="Give tables by the names that they have in the query: t=df, or tables={'t': df}.",
            )
        raise EpisodeAnalysisError(
            f"args={reprlib.repr(args)}: the values of parameters are given by their names.",
            hint="Write :x in the query and args={'x': 5}.",
        )
    return args or {}


def keyword_tables(spark: SparkSession, tables: Mapping[str, Any]) -> dict[str, DataFrame]:
    """Tables given to a query, which are checked, as DataFrames."""
    return {name: _opened(spark, name, table) for name, table in tables.items()}


def _opened(spark: SparkSession, name: str, table: Any) -> DataFrame:
    """A DataFrame is itself; a text is the name of a stream or an archive, or a path; all else is an Arrow table."""
    from episode.spark.tables import frame_of_value, keyword_table

    if isinstance(table, str):
        return keyword_table(spark, name, _named(spark, name, table))
    return frame_of_value(spark, name, table) if isinstance(table, pa.Table) else table


def _named(spark: SparkSession, name: str, table: str) -> DataFrame | str:
    """A stream or an archive of this name, or else a path."""
    from episode.spark.stores.catalog import store_table

    if not table.isidentifier():
        return table
    stream = store_table(spark, table)
    return checked_path(name, table) if stream is None else stream


def one_table(spark: SparkSession | None, events: Table) -> tuple[SparkSession, DataFrame]:
    tables = {"events": checked_table("events", events)}
    session = session_of(spark, tables)
    return session, keyword_tables(session, tables)["events"]
