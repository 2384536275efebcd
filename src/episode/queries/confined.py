"""Queries of others, who may read the given tables and do nothing else.

Spark SQL can do more than ask: it writes, runs programs, calls Java and reads any file by its path. A statement that is
not a query is refused by its text; every text that Spark is to parse for the query is judged by its parsed plan
(`spark/confinement.py`); and what the result reads is looked at once more before it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.statement import Statement
from episode.lang.syntax import Source
from episode.plan.parameters import SubqueryRows
from episode.queries.origins import patterns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "")
"""How a query begins; the last one: with a bracket."""
ONLY_QUERIES = "Only queries are run here, and only over the tables that were given."


def check_text(statement: Statement) -> None:
    """Raise an error at the first word of a statement that is not a query."""
    first = statement.tokens[0]
    if statement.whole is None and (
        statement.streams is not None or statement.creation is not None or statement.first_word not in QUERIES
    ):
        message = f"{first.text} is not a query."
        raise Source(statement.source).error(EpisodeUnsupportedError, message, first.span, ONLY_QUERIES)


@contextmanager
def confined(spark: SparkSession) -> Iterator[None]:
    """Judge every text that Spark is to parse in this thread."""
    from episode.spark import confinement

    with confinement.confined(spark):
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
            raise EpisodeUnsupportedError(
                f"This query uses more than the tables that were given: {', '.join(sorted(set(found)))}.",
                hint=ONLY_QUERIES,
            )
