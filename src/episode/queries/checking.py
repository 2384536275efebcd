"""A query that is checked as it is written: parsed and planned over the columns of its tables, and not run.

The tables are given without their rows, so that nothing is listed, read or estimated, and patterns are not compiled:
what is left is what can be wrong with a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from episode.lang.lexer import Kind
from episode.lang.statement import Statement
from episode.queries.bound_statement import bind_parsed
from episode.queries.options import Options
from episode.queries.origins import remember
from episode.queries.statement import StatementQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def named_tables(statement: Statement, tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Those of the tables whose names stand in a statement; names are case-insensitive, as Spark's are."""
    named = [token for token in statement.tokens if token.kind in (Kind.NAME, Kind.QUOTED) or token.is_double_quoted]
    words = {token.identifier.lower() for token in named}
    return {name: table for name, table in tables.items() if name.lower() in words}


def empty_tables(spark: SparkSession, schemas: Mapping[str, StructType]) -> dict[str, DataFrame]:
    """Tables of these columns without rows."""
    from episode.spark.query import empty_frame

    return {name: empty_frame(spark, schema) for name, schema in schemas.items()}


def checked(
    statement: Statement, spark: SparkSession, tables: Mapping[str, DataFrame], arguments: Mapping[str, object]
) -> DataFrame:
    """The columns of a query's result over empty tables, as a DataFrame that is not to be run; mistakes are raised."""
    from episode.spark.query import rehearsed

    given = named_tables(statement, tables)
    bound = bind_parsed(statement, arguments)
    query = StatementQuery(bound, spark, Options(), dict(given), framed=rehearsed, warns=False)
    return remember(query.result(), query.origin)
