"""A query of somebody else's hand that may read the given tables, and do nothing else.

Spark SQL can do more than ask: it writes, runs programs, calls Java and reads any file by its path. Where a query comes
in from a page, the text is looked at before Spark sees it, and the plan before it runs.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.lexer import Kind
from episode.lang.source import Source
from episode.lang.statement import Statement
from episode.plan.parameters import SubqueryRows
from episode.queries.origins import patterns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "")
"""How a query begins; the last one: with a bracket."""
CALLS = frozenset({"reflect", "java_method", "try_reflect", "identifier"})
"""Functions that call Java, and the one that makes names of texts."""
CHANGES = frozenset({("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("DELETE", "FROM"), ("MERGE", "INTO")})
ONLY_QUERIES = "Only queries are run here, and only over the tables that were given."


def check_text(statement: Statement) -> None:
    """Before Spark sees it: an error at the word of a statement that does more than ask."""
    source = Source(statement.source)
    first = statement.tokens[0]
    if statement.whole is None and (
        statement.streams is not None or statement.creation is not None or statement.first_word not in QUERIES
    ):
        raise source.error(EpisodeUnsupportedError, f"{first.text} is not a query.", first.span, ONLY_QUERIES)
    for token, following in pairwise(statement.tokens):
        is_call = token.kind is not Kind.STRING and following.is_symbol("(")
        if is_call and token.kind in (Kind.NAME, Kind.QUOTED) and token.identifier.lower() in CALLS:
            raise source.error(
                EpisodeUnsupportedError, f"{token.text} cannot be called here.", token.span, ONLY_QUERIES
            )
        if token.upper == "USING" and following.kind is Kind.STRING:
            raise source.error(EpisodeUnsupportedError, "No programs are run here.", token.span, ONLY_QUERIES)
        changes = (token.upper, following.upper) in CHANGES
        if changes or (token.upper == "UPDATE" and following.kind in (Kind.NAME, Kind.QUOTED)):
            raise source.error(EpisodeUnsupportedError, f"{token.text} changes a table.", token.span, ONLY_QUERIES)


def check_plan(result: DataFrame, tables: Collection[DataFrame]) -> None:
    """Before it runs: an error where a query reads anything but the tables, itself or as the input of a pattern."""
    from episode.spark.reading import foreign_reads

    patterns = patterns_of(result)
    inputs = [events.frame for placed in patterns for events in placed.events]
    values = [value for placed in patterns for value in placed.run.arguments.values()]
    subqueries = [value.frame for value in values if isinstance(value, SubqueryRows)]
    for frame in (result, *inputs, *subqueries):
        found = [] if any(frame is table for table in tables) else foreign_reads(frame, tables)
        if found:
            raise EpisodeUnsupportedError(
                f"This query uses more than the tables that were given: {', '.join(sorted(set(found)))}.",
                hint=ONLY_QUERIES,
            )
