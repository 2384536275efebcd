"""A query that is checked as it is written: parsed and planned over the columns of its tables, and not run.

The tables are given without their rows, so that nothing is listed, read or estimated, and patterns are not compiled:
what is left is what can be wrong with a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from episode.lang.statement import Statement, parse_statement
from episode.queries.options import Options
from episode.queries.statement import StatementQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def named_tables(statement: Statement, tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Those of the tables whose names stand in a statement; names are case-insensitive, as Spark's are."""
    words = {token.identifier.lower() for token in statement.tokens if token.text and token.text[0] not in "'0123456789"}
    return {name: table for name, table in tables.items() if name.lower() in words}


def empty_tables(spark: SparkSession, schemas: Mapping[str, StructType]) -> dict[str, DataFrame]:
    """Tables of these columns without rows."""
    from episode.spark.rehearsal import empty_frame

    return {name: empty_frame(spark, schema) for name, schema in schemas.items()}


def checked(
    text: str, spark: SparkSession, tables: Mapping[str, DataFrame], arguments: Mapping[str, object]
) -> DataFrame:
    """The columns of a query's result over empty tables, as a DataFrame without rows; what is wrong is raised."""
    from episode.spark.rehearsal import rehearsed

    statement = parse_statement(text)
    given = named_tables(statement, tables)
    return StatementQuery(statement, spark, Options(), dict(given), arguments, framed=rehearsed).result()
