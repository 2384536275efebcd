"""Checks of statements before they run: their columns over empty tables, and what an untrusted query may read.

A query is checked as it is written: it is parsed and planned over the columns of its tables, and not run. Tables have
no rows then, so that nothing is listed, read or estimated, and patterns are not compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.statement import Statement
from episode.lang.syntax import Source
from episode.plan.options import Options
from episode.plan.parameters import SubqueryRows
from episode.queries.bound_statement import bind_parsed
from episode.queries.origins import patterns_of, remember
from episode.queries.statement import StatementQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def named_tables(statement: Statement, tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the tables that a statement names; names are case-insensitive, as in Spark."""
    named = [token for token in statement.tokens if token.is_identifier]
    words = {token.identifier.lower() for token in named}
    return {name: table for name, table in tables.items() if name.lower() in words}


def empty_tables(spark: SparkSession, schemas: Mapping[str, StructType]) -> dict[str, DataFrame]:
    from episode.spark.query import empty_frame

    return {name: empty_frame(spark, schema) for name, schema in schemas.items()}


def plan_over_columns(
    statement: Statement, spark: SparkSession, tables: Mapping[str, DataFrame], arguments: Mapping[str, object]
) -> DataFrame:
    """The columns of a query's result over empty tables, as a DataFrame that is not to be run; mistakes are raised."""
    from episode.spark.query import output_columns

    given = named_tables(statement, tables)
    bound = bind_parsed(statement, arguments)
    query = StatementQuery(bound, spark, Options(), dict(given), framed=output_columns, warns=False)
    return remember(query.result(), query.origin)


# ---- untrusted queries -------------------------------------------------------------------------------
#
# Spark SQL can write, run programs, call Java and read any file by its path. A statement that is not a query is refused
# by its text. Every text that Spark parses for the query is checked by its parsed plan (`spark/confinement.py`), and
# the tables that the result reads are checked again before it runs.


QUERY_BEGINNINGS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "")
"""First words of a query; the last one: a bracket."""
ONLY_QUERIES = "Only queries are run here, and only over the tables that were given."


def check_text(statement: Statement) -> None:
    """Raise an error at the first word of a statement that is not a query."""
    first = statement.tokens[0]
    if statement.whole is None and (
        statement.streams is not None or statement.creation is not None or statement.first_word not in QUERY_BEGINNINGS
    ):
        message = f"{first.text} is not a query."
        raise Source(statement.source).error(EpisodeUnsupportedError, message, first.span, ONLY_QUERIES)


@contextmanager
def confine(spark: SparkSession) -> Iterator[None]:
    """Judge every text that Spark is to parse in this thread."""
    from episode.spark import confinement

    with confinement.confine(spark):
        yield


def check_plan(result: DataFrame, tables: Collection[DataFrame]) -> None:
    """Raise an error if a query reads anything but the tables, itself or as the input of a pattern. It has not run."""
    from episode.spark.confinement import Confinement, analysed_plan, foreign_reads

    confinement = Confinement(result.sparkSession)
    patterns = patterns_of(result)
    inputs = [events.frame for placed in patterns for events in placed.events]
    values = [value for placed in patterns for value in placed.run.arguments.values()]
    subqueries = [value.frame for value in values if isinstance(value, SubqueryRows)]
    for frame in (result, *inputs, *subqueries):
        if any(frame is table for table in tables):
            continue
        found = foreign_reads(frame, tables)
        if confinement.uses_variables(analysed_plan(frame)):
            found.append("a variable of the session")
        if found:
            message = f"This query uses more than the tables that were given: {', '.join(sorted(set(found)))}."
            raise EpisodeUnsupportedError(message, hint=ONLY_QUERIES)
